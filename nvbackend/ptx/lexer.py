"""PTX text to tokens. PTX ISA 4.2 to 4.5."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple, NoReturn

from nvbackend.diagnostics import Location
from nvbackend.ptx.rules import SYNTAX
from nvbackend.ptx.syntax import Position

_SPACE = r"(?: \s+ | //[^\n]* | /\*.*?\*/ )*+"
"""Possessive: where no token follows, no other way to divide the spaces is tried."""
_TOKEN = re.compile(
    _SPACE
    + r"""
    (?:
      (?P<float>   0[fF][0-9a-fA-F]{8}\b | 0[dD][0-9a-fA-F]{16}\b
                 | (?: \d+\.\d* | \.\d+ ) (?: [eE][+-]?\d+ )? | \d+[eE][+-]?\d+ )
    | (?P<integer> (?: 0[xX][0-9a-fA-F]+ | 0[bB][01]+ | \d+ ) U? \b )
    | (?P<name>    [%$_]?[A-Za-z0-9_$]+ (?: (?: \. | :: ) [A-Za-z0-9_$]+ )* | % )
    | (?P<dotted>  \.[A-Za-z_][A-Za-z0-9_]* (?: :: [A-Za-z0-9_]+ )* )
    | (?P<string>  "(?:[^"\\\n]|\\.)*" )
    | (?P<symbol>  << | >> | [-+*/~!&^@,;:|(){}\[\]<>=] )
    | (?P<end>     \Z )
    )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_LONGEST_LINE = 120
_OF_PYTHON = re.compile(r"# \S+:\d+  ")
"""The begin of a line of Python among those of PTX, as the command line shows a kernel."""
_PLAIN = ": nvbackend build FILE.py --show ptx --plain prints it without the lines of Python"
_LONGEST_NUMBER = 400
"""The most characters of a number: more than 64 bits take in binary, or an f64 in decimal."""
END = "end"
"""The kind of the token after the last one."""


class Token(NamedTuple):
    """A piece of the text: its kind (`name`, `dotted`, `integer`, `float`, `string`, `symbol`, `end`) and its place."""

    kind: str
    text: str
    offset: int


class Text:
    """A PTX text, its tokens, and the places in it."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.tokens = self._tokens()

    def _tokens(self) -> list[Token]:
        tokens: list[Token] = []
        kind, place, match_at = "", 0, _TOKEN.match
        while kind != END:
            match = match_at(self.text, place)
            if match is None:
                self._fail_after_spaces(place)
            kind, place = match.lastgroup or END, match.end()
            first = match.start(kind)
            if place - first > _LONGEST_NUMBER and kind in ("integer", "float"):
                self.fail(first, f"a number of {place - first} characters", "a number of at most 64 bits")
            tokens.append(Token(kind, match[kind] or "the end of the text", first))
        return tokens

    def _fail_after_spaces(self, place: int) -> NoReturn:
        """Raises ptx.syntax at the character that begins no token."""
        spaces = re.compile(_SPACE, re.VERBOSE | re.DOTALL | re.ASCII).match(self.text, place)
        place = spaces.end() if spaces else place
        self.fail(place, "the character " + repr(self.text[place]), "a name, a number or a symbol of PTX")

    def position(self, offset: int) -> Position:
        """The line and column of a character."""
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)

    def location(self, position: Position) -> Location:
        """The place as diagnostics show it."""
        return Location(self.source, position.line, "")

    def line(self, position: Position) -> str:
        """The text of the line, shortened for people."""
        start = self._starts[position.line - 1]
        end = self.text.find("\n", start)
        line = self.text[start : end if end >= 0 else len(self.text)].strip()
        return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " ..."

    def fail(self, offset: int, found: str, expected: str) -> NoReturn:
        """Raises ptx.syntax at a character."""
        position = self.position(offset)
        line = self.line(position)
        SYNTAX.fail(
            at=self.location(position),
            column=position.column,
            found=found,
            expected=expected,
            text=f": {line}" if line else "",
            printed=_PLAIN if _OF_PYTHON.match(line) else "",
        )
