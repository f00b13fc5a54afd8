"""Which columns of tensor memory an address has: a register that is set once, and a number that is added to it."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.lint.lifted.lift import Lifted, Line, Register
from nvbackend.ptx.syntax import Address, Integer, Name, Operand, Sum

Columns = tuple[Register, int]
_LANE_BIT = 16
"""Lanes are counted from this bit of an address on (PTX ISA 9.7.16.1.1)."""
_COLUMN_MASK = (1 << _LANE_BIT) - 1
_MOST_STEPS = 32


class TensorColumns:
    """The columns of the addresses of one function."""

    def __init__(self, lifted: Lifted) -> None:
        self._lifted = lifted
        self._setters: dict[Register, list[Line]] = {}
        for line in lifted.lines:
            for register in line.writes:
                self._setters.setdefault(register, []).append(line)
        self._repeated = frozenset(_repeated(lifted))

    def of(self, address: Operand) -> Columns | None:
        """The columns of an operand; None where what they are counted from is set again, or by a condition."""
        base = address.base if isinstance(address, Address) else address
        more = address.offset if isinstance(address, Address) else 0
        place = self._sum(base, _MOST_STEPS)
        return None if place is None else (place[0], place[1] + more)

    def _sum(self, operand: Operand, steps: int) -> Columns | None:
        if isinstance(operand, Sum):
            place = self._sum(operand.name, steps)
            return None if place is None else (place[0], place[1] + operand.offset)
        register = self._lifted.register(operand) if isinstance(operand, Name) else None
        if register is None or not steps:
            return None
        line = self._setter(register)
        if line is None:
            return None if register in self._setters else (register, 0)
        head, sources = line.instruction.parts[0], line.instruction.operands[1:]
        if head == "mov" and len(sources) == 1:
            return self._sum(sources[0], steps - 1) or (register, 0)
        if head in ("add", "or") and len(sources) == 2:
            for base, other in (sources, sources[::-1]):
                more = other.value if isinstance(other, Integer) and head == "add" else None
                if more is None and self._has_lanes_alone(other, steps - 1):
                    more = 0
                place = None if more is None else self._sum(base, steps - 1)
                if place is not None and more is not None:
                    return place[0], place[1] + more
        return register, 0

    def _setter(self, register: Register) -> Line | None:
        """The only instruction that sets the register, once and in any case."""
        setters = self._setters.get(register, [])
        if len(setters) != 1 or setters[0].instruction.guard is not None or register in self._repeated:
            return None
        return setters[0]

    def _has_lanes_alone(self, operand: Operand, steps: int) -> bool:
        """Whether the bits of the columns are zeros."""
        if isinstance(operand, Integer):
            return not operand.value & _COLUMN_MASK
        register = self._lifted.register(operand) if isinstance(operand, Name) else None
        line = None if register is None or not steps else self._setter(register)
        if line is None:
            return False
        head, sources = line.instruction.parts[0], line.instruction.operands[1:]
        if head == "shl":
            return isinstance(sources[1], Integer) and sources[1].value >= _LANE_BIT
        alone = [self._has_lanes_alone(source, steps - 1) for source in sources]
        return any(alone) if head == "and" else all(alone) if head in ("add", "or", "mov") else False


def _repeated(lifted: Lifted) -> Iterator[Register]:
    """What is set in a block from which control comes there again."""
    blocks = lifted.function.blocks
    position = 0
    for name, block in blocks.items():
        seen: set[str] = set()
        waiting = list(block.successors)
        while waiting and name not in seen:
            following = waiting.pop()
            if following not in seen:
                seen.add(following)
                waiting += blocks[following].successors
        for line in lifted.lines[position : position + len(block.instructions)]:
            yield from line.writes if name in seen else ()
        position += len(block.instructions)
