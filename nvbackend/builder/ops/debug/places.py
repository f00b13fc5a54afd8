"""The places of another language's source that a compiler gives for what it emits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from os import PathLike

from nvbackend.builder.core.noun import Noun
from nvbackend.builder.scopes.blocks import with_block
from nvbackend.diagnostics import Rule, printed, user_facing
from nvbackend.diagnostics.location import Location, StatedLocation, placed, stated_places

PLACE = Rule(
    id="location.place",
    message="k.location: {what} is {given}, and it must be {wanted}",
    fix="{advice}",
    why="Every message, line table and report about these instructions would name a place that does not exist.",
    reference="LLVM Language Reference, DILocation; PTX ISA, .loc",
)
_MOST_LINES = 2**31 - 1
_MOST_COLUMNS = 2**16 - 1
"""LLVM keeps no more of a column."""


@user_facing
class SourceLocation(Noun):
    """`with k.location(file, line, column=0, name=None)`: what the block emits is of this place of your language.

    `with k.location(nvb.user_line())` is of a line of Python that was kept.
    """

    __noun__ = "location"
    __usual__ = "__call__"

    def __call__(
        self, file: str | Location, line: int = 0, column: int = 0, name: str | None = None
    ) -> AbstractContextManager[None]:
        """The source of what is emitted in the block: line `line`, from 1, of `file`, and column `column`, 0 for none.

        A `nvb.Location` is file, line and column in one.
        `name` is what your language calls the code there, such as a function. The machine form, diagnostics, the
        `.loc` of the PTX, line tables, reports and pages name this place instead of a line of Python. Inside another
        `k.location` the outer place is a caller of the inner one: diagnostics list both, and the lines of Python after
        them. An attached function's `.loc` are its owner's. Raises location.place.
        """
        self._k.check_live()
        if isinstance(file, Location):
            _check_alone(line=line, column=column)
            line, column, file = file.line, file.column, file.file
        _check_text("file", file, "my_kernel.dsl")
        _check_number("line", line, 1, _MOST_LINES, "lines are counted from 1")
        _check_number("column", column, 0, _MOST_COLUMNS, "leave it out where it is not known")
        if name is not None:
            _check_text("name", name, "softmax")
        return location(self, StatedLocation(file, line, name or "", column=column))


@with_block
def location(noun: Noun, place: StatedLocation) -> Iterator[None]:  # noqa: ARG001 (its builder notes an unused block)
    """Inside, everything comes from `place`, which the places around it call; a place does not call itself.

    Of one line the inner column is the closer one, such as that of an expression in a statement.
    """
    around = stated_places()
    if around[:1] != (place,):
        around = place, *around
    elif place.column:
        around = place, *around[1:]
    with placed(*around):
        yield


def _check_alone(**numbers: int) -> None:
    for what, value in numbers.items():
        if value:
            wanted = "left out beside a Location, which has its own"
            PLACE.fail(what=what, given=printed(value), wanted=wanted, advice="pass the Location alone")


def _check_text(what: str, value: object, example: str) -> None:
    if not isinstance(value, str) or not value or not value.isprintable():
        wanted = "a text of printable characters, which is not empty"
        advice = "pass str(path)" if isinstance(value, PathLike) else f"write a text such as {example!r}"
        PLACE.fail(what=what, given=printed(value), wanted=wanted, advice=advice)


def _check_number(what: str, value: object, least: int, most: int, advice: str) -> None:
    if type(value) is not int or not least <= value <= most:
        wanted = f"an integer from {least} to {most}"
        PLACE.fail(what=what, given=printed(value), wanted=wanted, advice=f"pass such a number; {advice}")
