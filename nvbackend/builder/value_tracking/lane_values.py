"""Integers over an index, each evaluated at all of its values: the thread in its CTA, the CTA in its cluster, or both.

What is computed from anything else than the index and constants is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from llvmlite import ir

from nvbackend.intrinsics.row.hierarchy import WARP_SIZE

_THREAD_INDEX = "llvm.nvvm.read.ptx.sreg.tid.x"
_SHUFFLE = "llvm.nvvm.shfl.sync.idx.i32"
Lanes = tuple[int, ...]
"""A value at every index. Numbers have a sign, predicates are 0 or 1."""


def _toward_zero(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


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
    "udiv": lambda a, b: a // b,
    "urem": lambda a, b: a % b,
    "sdiv": _toward_zero,
    "srem": lambda a, b: a - b * _toward_zero(a, b),
}
_UNSIGNED = ("lshr", "udiv", "urem", "ult", "ule", "ugt", "uge")
"""Operations that read numbers without a sign; all others read them with one, or do the same with either."""
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


def _unsigned(lanes: Lanes, width: int) -> Lanes:
    mask = (1 << width) - 1
    return tuple(one & mask for one in lanes)


def _signed(lanes: Lanes, width: int) -> Lanes:
    half = 1 << width - 1
    mask = 2 * half - 1
    return tuple(((one + half) & mask) - half for one in lanes)


def _kept(lanes: Lanes, width: int) -> Lanes:
    """The numbers as they are kept: wrapped around at their bits, with a sign; 0 and 1 for predicates."""
    return _signed(lanes, width) if width > 1 else _unsigned(lanes, width)


class LaneValues:
    """The values of one function over the special register that `index` reads, which counts up to `total`.

    `known` are the lanes of other special registers, and of `index` itself where it counts otherwise.
    """

    def __init__(self, index: str, total: int, known: Mapping[str, Lanes] | None = None) -> None:
        self._index = index
        self._known = {index: tuple(range(total)), **(known or {})}
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
            number, known = value.constant, isinstance(value.type, ir.IntType) and isinstance(value.constant, int)
            return _kept((int(number),) * self.total, value.type.width) if known else None
        if isinstance(value, ir.CallInstr):
            return self._call(value)
        if not isinstance(value, ir.Instruction) or not isinstance(value.type, ir.IntType):
            return None
        if isinstance(value, (ir.CastInstr, ir.SelectInstr)):
            return self._cast(value) if isinstance(value, ir.CastInstr) else self._select(value)
        if isinstance(value, ir.CompareInstr):
            return self._elementwise(value, value.op, _COMPARE.get(value.op))
        return self._elementwise(value, value.opname, _BINARY.get(value.opname))

    def _elementwise(
        self, value: ir.Instruction, name: str, function: Callable[[int, int], int] | None
    ) -> Lanes | None:
        if function is None or len(value.operands) != 2:
            return None
        found = [self.lanes(one) for one in value.operands]
        if found[0] is None or found[1] is None:
            return None
        width = value.operands[0].type.width
        left, right = ((_unsigned if name in _UNSIGNED else _signed)(one, width) for one in (found[0], found[1]))
        if name in _SHIFTS:
            right = _unsigned(right, width)
        if (name in _SHIFTS and max(right) >= width) or (name in _DIVISIONS and not _divides(left, right, width)):
            return None
        result = tuple(map(function, left, right))
        return None if _overflows(value, result, width) else _kept(result, value.type.width)

    def _cast(self, value: ir.Instruction) -> Lanes | None:
        if value.opname not in ("zext", "sext", "trunc"):
            return None
        lanes, width = self.lanes(value.operands[0]), value.operands[0].type.width
        if lanes is None:
            return None
        return _kept(_signed(lanes, width) if value.opname == "sext" else _unsigned(lanes, width), value.type.width)

    def _select(self, value: ir.Instruction) -> Lanes | None:
        chosen, yes, no = (self.lanes(one) for one in value.operands)
        if chosen is None or yes is None or no is None:
            return None
        return tuple(one if holds else other for holds, one, other in zip(chosen, yes, no, strict=True))

    def _call(self, call: ir.CallInstr) -> Lanes | None:
        name = getattr(call.callee, "name", "")
        if name != _SHUFFLE:
            return self._known.get(name)
        value, lane = self.lanes(call.args[1]), call.args[2]
        if value is None or not isinstance(lane, ir.Constant) or lane.constant != 0:
            return None
        if self._index != _THREAD_INDEX:
            return value
        return tuple(value[index - index % WARP_SIZE] for index in range(self.total))


def _divides(left: Lanes, right: Lanes, width: int) -> bool:
    """Whether every quotient is defined: that by 0 is not, nor is the least number by -1."""
    least = -(1 << width - 1)
    return all(b != 0 and (b != -1 or a != least) for a, b in zip(left, right, strict=True))


def _overflows(value: ir.Instruction, result: Lanes, width: int) -> bool:
    """Whether a result may be undefined: the instruction promises something that it does not keep, or may not keep."""
    flags = tuple(getattr(value, "flags", ()))
    if "nuw" in flags or "exact" in flags:
        return True
    return "nsw" in flags and _signed(result, width) != result


def _sources(value: ir.Value) -> Sequence[ir.Value]:
    """The values whose lanes those of `value` are computed from."""
    if isinstance(value, ir.CallInstr):
        return value.args[1:2] if getattr(value.callee, "name", "") == _SHUFFLE else ()
    if isinstance(value, (ir.CompareInstr, ir.SelectInstr)):
        return tuple(value.operands)
    if isinstance(value, ir.Instruction) and value.opname in _BINARY:
        return tuple(value.operands)
    return tuple(value.operands[:1]) if isinstance(value, ir.CastInstr) else ()


def conjuncts(condition: ir.Value) -> Iterator[ir.Value]:
    """The conditions that all hold where `condition` does, each once."""
    waiting, seen = [condition], {id(condition)}
    while waiting:
        one = waiting.pop()
        if isinstance(one, ir.Instruction) and one.opname == "and":
            parts = [each for each in reversed(one.operands) if id(each) not in seen]
            seen.update(map(id, parts))
            waiting += parts
        else:
            yield one
