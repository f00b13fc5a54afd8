"""Integers over an index, each evaluated at all of its values: the thread in its CTA, or the CTA in its cluster.

What is computed from anything else than the index and constants is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from nvbackend.intrinsics.hierarchy import WARP_SIZE

_THREAD_INDEX = "llvm.nvvm.read.ptx.sreg.tid.x"
_SHUFFLE = "llvm.nvvm.shfl.sync.idx.i32"
Lanes = tuple[int, ...]
"""A value at every index."""

_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "lshr": lambda a, b: a >> b,
    "ashr": lambda a, b: a >> b,
    **dict.fromkeys(("sdiv", "udiv"), lambda a, b: a // b),
    **dict.fromkeys(("srem", "urem"), lambda a, b: a % b),
}
_RINGS = ("add", "sub", "mul")
"""Operations that are the same for numbers with and without a sign."""
_SHIFTS = ("shl", "lshr", "ashr")
_DIVISIONS = ("sdiv", "udiv", "srem", "urem")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    **dict.fromkeys(("slt", "ult"), lambda a, b: a < b),
    **dict.fromkeys(("sle", "ule"), lambda a, b: a <= b),
    **dict.fromkeys(("sgt", "ugt"), lambda a, b: a > b),
    **dict.fromkeys(("sge", "uge"), lambda a, b: a >= b),
}
_LARGEST = 1 << 31
"""Values are taken for non-negative numbers of 31 bits: there, signed and unsigned operations agree."""


class LaneValues:
    """The values of one function over the special register that `index` reads, which is below `total`."""

    def __init__(self, index: str, total: int) -> None:
        self._index = index
        self.total = total
        self._found: dict[int, tuple[ir.Value, Lanes | None]] = {}

    def lanes(self, value: ir.Value) -> Lanes | None:
        """The value at each index; what it is computed from comes first, without recursion: chains are long."""
        waiting = [value]
        while waiting:
            one = waiting[-1]
            if id(one) not in self._found:
                source = next((each for each in _sources(one) if id(each) not in self._found), None)
                if source is not None:
                    waiting.append(source)
                    continue
                self._found[id(one)] = one, self._evaluate(one)
            waiting.pop()
        return self._found[id(value)][1]

    def _evaluate(self, value: ir.Value) -> Lanes | None:
        if isinstance(value, ir.Constant):
            number = value.constant
            return (int(number),) * self.total if isinstance(number, int) else None
        if isinstance(value, ir.CallInstr):
            return self._call(value)
        if not isinstance(value, ir.Instruction):
            return None
        if isinstance(value, ir.CastInstr):
            return self._cast(value)
        if isinstance(value, ir.CompareInstr):
            return self._elementwise(value, _COMPARE.get(value.op))
        return self._elementwise(value, _BINARY.get(value.opname))

    def _elementwise(self, value: ir.Instruction, function: Callable[[int, int], int] | None) -> Lanes | None:
        if function is None:
            return None
        if len(value.operands) != 2:
            return None
        left, right = (self.lanes(one) for one in value.operands)
        if left is None or right is None:
            return None
        least = -_LARGEST if value.opname in _RINGS else 0
        if any(not least <= one < _LARGEST for one in (*left, *right)):
            return None
        if (value.opname in _DIVISIONS and 0 in right) or (value.opname in _SHIFTS and max(right) >= value.type.width):
            return None
        return tuple(map(function, left, right))

    def _cast(self, value: ir.Instruction) -> Lanes | None:
        """To a wider or a narrower integer that holds the number as well."""
        if value.opname not in ("zext", "sext", "trunc"):
            return None
        lanes = self.lanes(value.operands[0])
        narrow = value.operands[0].type.width if value.opname == "sext" else value.type.width
        limit = min(_LARGEST, 1 << narrow - 1)
        return lanes if lanes is not None and all(0 <= one < limit for one in lanes) else None

    def _call(self, call: ir.CallInstr) -> Lanes | None:
        name = getattr(call.callee, "name", "")
        if name == self._index:
            return tuple(range(self.total))
        if name != _SHUFFLE:
            return None
        value, lane = self.lanes(call.args[1]), call.args[2]
        if value is None or not isinstance(lane, ir.Constant) or lane.constant != 0:
            return None
        if self._index != _THREAD_INDEX:
            return value
        return tuple(value[index - index % WARP_SIZE] for index in range(self.total))


def _sources(value: ir.Value) -> Sequence[ir.Value]:
    """The values whose lanes those of `value` are computed from."""
    if isinstance(value, ir.CallInstr):
        return value.args[1:2] if getattr(value.callee, "name", "") == _SHUFFLE else ()
    if isinstance(value, ir.CompareInstr) or (isinstance(value, ir.Instruction) and value.opname in _BINARY):
        return tuple(value.operands)
    return tuple(value.operands[:1]) if isinstance(value, ir.CastInstr) else ()
