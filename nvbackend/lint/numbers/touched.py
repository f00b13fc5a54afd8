"""Which words of shared memory an instruction reads and writes, all threads of a CTA together: a bit for each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import NOTHING, Completion, Semantics
from nvbackend.lint.lifted.lift import Line
from nvbackend.lint.numbers.by_thread import CtaValues, Unknown, in_shared
from nvbackend.ptx.syntax import Integer, Name

if TYPE_CHECKING:
    from nvbackend.lint.numbers.by_thread import Value

ANYWHERE = -1
"""All words: what is written where it is not known."""
_WORD, _MEMORY, _FIELD, _UNIT = 4, 1 << 18, 0x3FFF, 4
_MATRIX_ROW = 16
"""Bytes of a row of a matrix in shared memory: what a lane's address of ldmatrix and stmatrix points to."""
_OPERAND = 16
"""Bytes that are certainly read of an operand at its start, whatever its layout."""
_MEMORY_OPERATIONS = ("atom", "red", "multimem")
_NEVER_SHARED = ("global", "local", "param", "param::func", "const", "shared::cluster")
_TYPE = re.compile(r"[subf](\d+)|[bf](\d+)x2")


@dataclass(frozen=True, slots=True)
class SharedWords:
    """What an instruction does at once with shared memory: words that it certainly reads, and that it may write."""

    reads: int = 0
    writes: int = 0


class Touched:
    """The questions of one function, by positions."""

    def __init__(self, lines: list[Line], values: CtaValues) -> None:
        self._lines = lines
        self._values = values

    def written_by(self, threads: int, place: int) -> int:
        """The words that a store writes where these threads alone, a bit each, execute it, as far as they are known."""
        size = _MATRIX_ROW if self._lines[place].instruction.parts[0] == "stmatrix" else self._size(place)
        return _words(_of_threads(self._values.address(place), threads), size)

    def sources_of(self, threads: int, place: int) -> int:
        """The first words that a bulk store reads where these threads alone execute it."""
        return _words(_of_threads(in_shared(self._values.at(place, 1)), threads), _OPERAND)

    def _size(self, place: int) -> int | None:
        return _accessed(self._lines[place].instruction.parts)

    def of(self, place: int) -> SharedWords:
        """What the instruction touches; of what is not known it reads nothing and writes anywhere."""
        line = self._lines[place]
        parts, issues = line.instruction.parts, said(line).issues
        if parts[0] in ("st", "ld", "stmatrix", "ldmatrix", *_MEMORY_OPERATIONS):
            return self._plain(place, line)
        if issues is Completion.COPY_GROUP:
            return SharedWords(writes=self._written(self._values.at(place, 0), _copied(line)))
        if issues is Completion.BYTES:
            return self._filled(place, line)
        if issues is Completion.BULK_GROUP:
            return SharedWords(reads=self._source(place, line))
        if issues is Completion.MMA_GROUP or said(line).multiplies:
            return SharedWords(reads=self._operands(place, line))
        return SharedWords(writes=ANYWHERE) if parts[0] == "call" else SharedWords()

    def _plain(self, place: int, line: Line) -> SharedWords:
        parts = line.instruction.parts
        if any(part in _NEVER_SHARED for part in parts) or "async" in parts:
            return SharedWords()
        size = _MATRIX_ROW if parts[0].endswith("matrix") else _accessed(parts)
        address = self._values.address(place)
        is_shared = any(part in ("shared", "shared::cta") for part in parts)
        if parts[0] in ("ld", "ldmatrix"):
            return SharedWords(reads=_words(address, size) if is_shared else 0)
        return SharedWords(writes=self._written(address, size))

    def _written(self, address: Value, size: int | None) -> int:
        return ANYWHERE if isinstance(address, Unknown) or size is None else _words(address, size)

    def _filled(self, place: int, line: Line) -> SharedWords:
        """A bulk copy to shared memory; one of a tensor brings as much as its box has."""
        if "shared::cluster" not in line.instruction.parts and "shared::cta" not in line.instruction.parts:
            return SharedWords()
        count = self._values.at(place, 2)
        size = count if isinstance(count, int) and "tensor" not in line.instruction.parts else None
        return SharedWords(writes=self._written(self._values.at(place, 0), size))

    def starts(self, place: int) -> int:
        """Where a copy certainly writes: the first bytes of its destination."""
        return _words(self._values.at(place, 0), _OPERAND)

    def _source(self, place: int, line: Line) -> int:
        operands = line.instruction.operands
        if "global" not in line.instruction.parts[:5] or len(operands) < 2:
            return 0
        count = self._values.at(place, 2) if "tensor" not in line.instruction.parts else None
        return _words(in_shared(self._values.at(place, 1)), count if isinstance(count, int) else _OPERAND)

    def _operands(self, place: int, line: Line) -> int:
        """The first bytes of each operand that a descriptor gives."""
        words = 0
        for index in (1, 2):
            operands = line.instruction.operands
            if index < len(operands) and isinstance(operands[index], Name):
                value = self._values.at(place, index)
                if isinstance(value, int):
                    words |= _words((value & _FIELD) << _UNIT, _OPERAND)
        return words


def _of_threads(address: Value, threads: int) -> Value:
    """The addresses of some threads."""
    if isinstance(address, int | Unknown):
        return address
    import numpy as np

    bits = np.frombuffer(threads.to_bytes(-(-threads.bit_length() // 8), "little"), np.uint8)
    chosen = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    return address.take(chosen[chosen < len(address)])


def said(line: Line) -> Semantics:
    """What the instruction is to the analyses."""
    return line.row.semantics if line.row is not None else NOTHING


def _copied(line: Line) -> int | None:
    """The bytes that cp.async writes."""
    operands = line.instruction.operands
    size = operands[2] if len(operands) > 2 else None
    return size.value if isinstance(size, Integer) else None


def _accessed(parts: tuple[str, ...]) -> int | None:
    kind = _TYPE.fullmatch(parts[-1])
    if kind is None:
        return None
    each = int(kind[1]) // 8 if kind[1] else int(kind[2]) // 4
    vectors = [int(part[1:]) for part in parts if re.fullmatch(r"v\d", part)]
    return each * (vectors[0] if vectors else 1)


def _words(address: Value, size: int | None) -> int:
    """The words from each address on; nothing where an address is not known."""
    if isinstance(address, Unknown) or not size:
        return 0
    if isinstance(address, int):
        first, last = address % _MEMORY // _WORD, (address % _MEMORY + size - 1) // _WORD
        return ((1 << last - first + 1) - 1) << first
    import numpy as np

    starts = address % _MEMORY
    bits = np.zeros(_MEMORY // _WORD + size, np.uint8)
    for offset in range(0, size + _WORD - 1, _WORD):
        bits[(starts + min(offset, size - 1)) // _WORD] = 1
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")
