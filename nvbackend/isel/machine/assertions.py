"""Where a kernel ends its launch itself: assertions and traps, and the record that a failing thread leaves of it.

The record is `WORDS` words of 64 bits in the global variable `{kernel}__failure`, or where the variable
`{kernel}__failure_at` says: the driver ends the context with the launch, so a loader lets that be memory of the host.
The first thread that fails takes it.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, f32, f64, tf32

CLAIM, DONE, NUMBER, CTA, THREAD, VALUES = 0, 1, 2, 3, 6, 9
"""The words: who was first, whether all is there, which assertion, the CTA and the thread as x, y, z, and values."""
MOST_VALUES = 8
WORDS = VALUES + MOST_VALUES
_ENOUGH = {f32: ".9g", tf32: ".9g", f64: ""}
"""How Python prints all digits that tell numbers of a type apart, where that is not C's `%g`."""


class Kind(enum.Enum):
    """A kind of value that is not an element type."""

    ADDRESS = "address"


ADDRESS = Kind.ADDRESS


def record_name(kernel: str) -> str:
    """The variable that holds the record of a kernel, by its name in the PTX."""
    return f"{kernel}__failure"


def place_name(kernel: str) -> str:
    """The variable that holds the generic address of the record."""
    return f"{kernel}__failure_at"


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place where a kernel may end its launch: `what` it is, its text of Python's form, and the kinds of its values.

    A kind is an element type, `ADDRESS`, or a value that was known when the kernel was built.
    """

    what: str
    text: str
    kinds: tuple[object, ...]
    location: Location | None

    def shown(self, words: Sequence[int]) -> str:
        """The text with the values of the words that a thread recorded."""
        waiting = iter(words)
        values = [
            _number(next(waiting), kind) if isinstance(kind, ElementType) or kind is ADDRESS else kind
            for kind in self.kinds
        ]
        return self.text.format(*values)


class _Hexadecimal(int):
    def __format__(self, spec: str) -> str:
        return super().__format__(spec or "#x")


class _Digits(float):
    """A number of fewer digits than Python's own."""

    enough = "g"

    def __format__(self, spec: str) -> str:
        return super().__format__(spec or self.enough)


def _number(word: int, kind: object) -> int | float:
    if not isinstance(kind, ElementType):
        return _Hexadecimal(word)
    if kind.is_integer or kind.bits == 1:
        return word - (1 << 64) if kind.is_signed and word >> 63 else word
    number = _Digits(struct.unpack("<d", struct.pack("<Q", word))[0])
    number.enough = _ENOUGH.get(kind, "g")
    return number
