"""CuTe's text of layouts, read."""

from __future__ import annotations

from typing import NoReturn

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.late_pattern import late_pattern
from nvbackend.layout.algebra.inttuple import MOST_DEPTH, MOST_INTEGERS, Dynamic, IntTuple, is_congruent
from nvbackend.layout.algebra.layout import Layout
from nvbackend.layout.algebra.rules import PARSE
from nvbackend.layout.algebra.swizzle import AnyLayout, ComposedLayout, SmemPtr, Swizzle

_SPACE = late_pattern(r"\s*")
_NUMBER = late_pattern(r"_?-?[0-9]+")
_DIGITS = 20
"""More than any integer of 64 bits has."""
_SMEM = late_pattern(r"smem_ptr(?:\[([0-9]{1,4})b\])?(?:\(unset\))?")
_SHOWN = 60
"""Characters that are quoted before and after the place of an error."""


@user_facing
def parse(text: str) -> AnyLayout:
    """The layout that CuTe prints as `text`, such as `((_64,_2),_8):((_1,_512),_64)`.

    Numbers with an underscore are static (Python integers), others dynamic (`Dynamic`). Spaces are allowed between the
    symbols. Swizzled ones are `Sw<3,4,3> o smem_ptr o (_8,_64):(_64,_1)`, with a number or with `smem_ptr[16b](unset)`,
    which says how wide the elements are, in the middle. Raises layout-algebra.parse, with a mark at the character where
    the text ends to be a layout.
    """
    reader = _Reader(text)
    layout = reader.composed() if reader.skips("Sw") else reader.layout()
    reader.end()
    return layout


class _Reader:
    """A text, and how far it is read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def fail(self, expected: str, place: int | None = None) -> NoReturn:
        place = self.place if place is None else place
        first, last = max(0, place - _SHOWN), place + _SHOWN
        line = self.text[first:last].replace("\n", " ")
        before, after = "... " if first else "", " ..." if last < len(self.text) else ""
        mark = " " * (len(before) + place - first) + "^"
        PARSE.fail(expected=expected, position=place, text=before + line + after, mark=mark)

    def space(self) -> None:
        match = _SPACE.match(self.text, self.place)
        assert match is not None
        self.place = match.end()

    def skips(self, symbol: str) -> bool:
        """Whether `symbol` is next; it is read then."""
        self.space()
        if not self.text.startswith(symbol, self.place):
            return False
        self.place += len(symbol)
        return True

    def must(self, symbol: str, expected: str | None = None) -> None:
        if not self.skips(symbol):
            self.fail(expected or repr(symbol))

    def end(self) -> None:
        self.space()
        if self.place != len(self.text):
            self.fail("the end")

    def number(self, least: int | None = None) -> int:
        self.space()
        match = _NUMBER.match(self.text, self.place)
        if match is None:
            self.fail("a number" if least is None else "a positive number")
        digits = match[0].removeprefix("_")
        if len(digits) > _DIGITS:
            self.fail("an integer of at most 64 bits")
        if least is not None and int(digits) < least:
            self.fail("a positive number")
        self.place = match.end()
        return Dynamic(digits) if digits == match[0] else int(digits)

    def tuple(self, least: int | None = None, depth: int = 0) -> IntTuple:
        """A number or a tuple."""
        if not self.skips("("):
            return self.number(least)
        if depth == MOST_DEPTH:
            self.fail(f"at most {MOST_DEPTH} levels of parentheses")
        entries = [self.tuple(least, depth + 1)]
        while self.skips(","):
            if len(entries) == MOST_INTEGERS:
                self.fail(f"at most {MOST_INTEGERS} integers")
            entries.append(self.tuple(least, depth + 1))
        self.must(")", "',' or ')'")
        return tuple(entries)

    def layout(self) -> Layout:
        shape = self.tuple(1)
        self.must(":", "':' and a stride")
        self.space()
        start = self.place
        stride = self.tuple()
        if not is_congruent(shape, stride):
            self.fail("a stride nested as the shape is", start)
        return Layout(shape, stride)

    def composed(self) -> ComposedLayout:
        """What follows `Sw`."""
        self.must("<")
        numbers = [int(self.number())]
        for _ in range(2):
            self.must(",")
            numbers.append(int(self.number()))
        self.must(">")
        self.must("o", "'o' and an offset")
        self.space()
        match = _SMEM.match(self.text, self.place)
        offset: int | SmemPtr
        if match is None:
            offset = self.number()
        else:
            self.place = match.end()
            offset = SmemPtr(None if match[1] is None else int(match[1]))
        self.must("o", "'o' and a layout")
        return ComposedLayout(Swizzle(*numbers), offset, self.layout())
