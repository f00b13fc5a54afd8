"""A cursor over the tokens of a PTX text, used by every part of the parser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from nvbackend.ptx.lexer import END, Text, Token
from nvbackend.ptx.rules import UNKNOWN_DIRECTIVE
from nvbackend.ptx.syntax import Position

DEEPEST = 50
"""The most levels of nested brackets: compilers print three, and a text of brackets alone ends here."""


class Reader:
    """The tokens of `text`, and the one that is next."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self._tokens = text.tokens
        self._place = 0
        self._depth = 0
        self.next: Token = self._tokens[0]
        """The token to be read next; of kind `end` after the last one."""

    @property
    def after_next(self) -> Token:
        """The token after the next one."""
        return self._tokens[min(self._place + 1, len(self._tokens) - 1)]

    @property
    def at_end(self) -> bool:
        """Whether everything is read."""
        return self.next.kind == END

    @property
    def position(self) -> Position:
        """Where the next token is."""
        return self.text.position(self.next.offset)

    def take(self) -> Token:
        """Reads the next token."""
        token = self.next
        if token.kind != END:
            self._place += 1
            self.next = self._tokens[self._place]
        return token

    def sees(self, text: str) -> bool:
        """Whether the next token is `text`."""
        return self.next.text == text and self.next.kind != "string"

    def skips(self, text: str) -> bool:
        """Reads `text` if it is next; says whether it was."""
        if not self.sees(text):
            return False
        self.take()
        return True

    def must(self, text: str) -> Token:
        """Reads `text`. Raises ptx.syntax where something else is next."""
        if not self.sees(text):
            self.fail(f"{text!r}")
        return self.take()

    def must_be(self, kind: str, expected: str) -> Token:
        """Reads a token of `kind`. Raises ptx.syntax where the next one is of another."""
        if self.next.kind != kind:
            self.fail(expected)
        return self.take()

    def name(self, expected: str = "a name") -> str:
        """Reads a name."""
        return self.must_be("name", expected).text

    def integer(self, expected: str = "an integer") -> int:
        """Reads an integer constant without a sign."""
        return integer_value(self.must_be("integer", expected).text)

    def string(self) -> str:
        """Reads a text in quotes, and gives what is between them, escapes unchanged."""
        return self.must_be("string", "a text in quotes").text[1:-1]

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Reading inside is one level deeper. Raises ptx.syntax below the deepest level."""
        self._depth += 1
        if self._depth > DEEPEST:
            self.fail(f"at most {DEEPEST} levels of brackets")
        yield
        self._depth -= 1

    def fail(self, expected: str) -> NoReturn:
        """Raises ptx.syntax at the next token."""
        token = self.next
        self.text.fail(token.offset, token.text if token.kind == END else repr(token.text), expected)

    def unknown_directive(self, known: tuple[str, ...]) -> NoReturn:
        """Raises ptx.directive at the next token, a directive that is not among `known`."""
        position = self.position
        UNKNOWN_DIRECTIVE.fail(
            at=self.text.location(position),
            column=position.column,
            name=self.next.text.lstrip("."),
            known=", ".join(f".{name}" for name in known),
            text=self.text.line(position),
        )


def integer_value(text: str) -> int:
    """The value of an integer constant: decimal, 0x hexadecimal, 0 octal or 0b binary, with or without U."""
    digits = text.rstrip("U")
    if digits[:2] in ("0x", "0X", "0b", "0B"):
        return int(digits, 0)
    return int(digits, 8 if len(digits) > 1 and digits[0] == "0" and digits.isdigit() else 10)
