"""Assertions that are decided when the kernel is built."""

from __future__ import annotations

from numbers import Number

from nvbackend.builder.core.noun import Noun
from nvbackend.builder.ops.debug.rules import FORMAT
from nvbackend.builder.scopes.rules import NOT_A_VALUE
from nvbackend.builder.values.values import Arithmetic, as_value
from nvbackend.diagnostics import Rule, printed, user_facing
from nvbackend.diagnostics.annotations import NUMPY
from nvbackend.intrinsics.row.types import pred

FAILED = Rule(
    id="static-assert.failed",
    message="{text}",
    fix="build the kernel with other constants, or change what it asserts",
    why="The author of the kernel says that it is wrong if this does not hold.",
    reference="docs/guide.md, Debugging",
)
UNKNOWN = Rule(
    id="static-assert.unknown",
    message="whether {condition} holds is not known when the kernel is built",
    fix="assert it when the kernel runs, k.assert_(condition, ...), or assert something of constants of the build",
    why="An assertion that cannot be decided would be ignored.",
    reference="docs/guide.md, Debugging",
)


@user_facing
class StaticAssert(Noun):
    """`k.static_assert(condition, text, *values)`: an assertion that is decided when the kernel is built."""

    __noun__ = "static_assert"
    __usual__ = "__call__"

    def __call__(self, condition: object, text: str = "", *values: object) -> None:
        """End the build unless `condition` holds, with `text` and `values` in place of its `{}`.

        The condition is Python's, of constants of the build: `k.static_assert(rows % 16 == 0, "{} rows", rows)`. A
        predicate of the kernel counts where it is known in every thread that comes here. Raises static-assert.failed at
        the caller's line, static-assert.unknown, debug.format.
        """
        self._k.check_live()
        if not isinstance(text, str):
            raise TypeError("texts are strings")  # the boundary knows which argument of the call it is
        try:
            shown = text.format(*map(_shown, values))
        except (IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
            advice = "give a value for each {}, in a form that Python has for it; {{ and }} are braces"
            problem = f"it takes more than {len(values)} value(s)" if isinstance(error, IndexError) else str(error)
            FORMAT.fail(call="k.static_assert", text=text, problem=problem, advice=advice)
        if not isinstance(condition, (Arithmetic, Number)) and type(condition).__module__ != NUMPY:
            advice = "assert a comparison: k.static_assert(rows % 16 == 0)"
            NOT_A_VALUE.fail(given=condition, kind="a condition", advice=advice)
        holds = self._holds(condition) if isinstance(condition, Arithmetic) else bool(condition)
        if holds is None:
            UNKNOWN.fail(condition=printed(condition))
        if not holds:
            FAILED.fail(text=shown or f"the condition is {printed(condition)}")

    def _holds(self, condition: Arithmetic) -> bool | None:
        """Whether a predicate holds in every thread that comes here; None where that is not known."""
        test = as_value(self._k, condition, pred)
        constant = test.constant
        return self._k.execution.decided(test.ir) if constant is None else bool(constant)


def _shown(value: object) -> object:
    """A constant of the kernel as its number, so that forms of numbers apply; another value by its name."""
    if not isinstance(value, Arithmetic):
        return value
    constant = value._value().constant
    return repr(value) if constant is None else constant
