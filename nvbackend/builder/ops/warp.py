"""What the lanes of a warp do together: shuffles, votes, reductions."""

from __future__ import annotations

from typing import Literal, overload

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.types import f32, pred, s32, u32
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import warp
from nvbackend.isel.select.memory_rules import check_exchange, check_members
from nvbackend.isel.target.variants import variant

_UP = "up"


@user_facing
class Warp(Noun):
    """What the lanes of a warp do together: shuffles, votes, reductions (PTX ISA 9.7.9 and 9.7.13)."""

    __noun__ = "warp"

    def __init__(self, k: Core) -> None:
        self._k = k

    # -- barriers of warp and cluster (PTX ISA 9.7.13.2 and 9.7.13.3) ------------------------------------------------

    def sync(self, members: Operand = warp.ALL_LANES) -> None:
        """bar.warp.sync: wait for the lanes of the mask `members`, and order their accesses. PTX ISA 9.7.13.2."""
        self._k.emit(sync.warp_sync(), {"mask": as_value(self._k, members, u32).ir})

    @overload
    def shuffle(
        self,
        value: Value,
        mode: str,
        lane: Operand,
        *,
        members: Operand = warp.ALL_LANES,
        width: int = 32,
        in_range: Literal[False] = False,
    ) -> Value: ...

    @overload
    def shuffle(
        self,
        value: Value,
        mode: str,
        lane: Operand,
        *,
        members: Operand = warp.ALL_LANES,
        width: int = 32,
        in_range: Literal[True],
    ) -> tuple[Value, Value]: ...

    def shuffle(
        self,
        value: Value,
        mode: str,
        lane: Operand,
        *,
        members: Operand = warp.ALL_LANES,
        width: int = 32,
        in_range: bool = False,
    ) -> Value | tuple[Value, Value]:
        """shfl.sync: the 32-bit `value` of another lane, by `mode`: idx, up, down or bfly.

        `lane` is its number (idx), a distance (up, down) or a mask (bfly), within segments of `width` lanes. A lane
        that would read beyond its segment keeps its own value; with `in_range` there is also a predicate that says
        whether the lane that was read is one of the segment. Raises shuffle.lanes, instruction.variant. PTX ISA 9.7.9
        (shfl.sync).
        """
        row = variant("shfl.sync", warp.shuffle, mode, in_range)
        results = self._k.emit(row, self._exchange(value, mode, lane, members, width))
        exchanged = self._exchanged(results["result"][0], value)
        return (exchanged, self._k.wrap(results["in_range"][0], pred)) if in_range else exchanged

    def _exchanged(self, result: ir.Value, value: Value) -> Value:
        """What the instruction gives, as the type of what it was given: f32 rides in a 32-bit register."""
        return self._k.wrap(result, s32).bitcast(f32) if value.type is f32 else self._k.wrap(result, value.type)

    def _exchange(
        self, value: Value, mode: str, lane: Operand, members: Operand, width: int
    ) -> dict[str, ir.Value | int]:
        if value.type.bits != s32.bits:
            problem = f"shfl.sync exchanges values of 32 bits, and this {value.type} has {value.type.bits}"
            narrow, wide = "convert it, .to(f32) or .to(i32), and back after", "exchange its halves one by one"
            rules.TYPE_MISMATCH.fail(problem=problem, advice=narrow if value.type.bits < s32.bits else wide)
        named, other = as_value(self._k, members, u32), as_value(self._k, lane, s32)
        check_exchange(mode, other.constant if isinstance(other.constant, int) else None, width)
        here = self._k.execution.here()
        if isinstance(named.constant, int) and here is not None and here.is_exact:
            check_members(mode, named.constant, here.lanes)
        return {
            "members": named.ir,
            "value": value.bitcast(s32).ir if value.type is f32 else value.ir,
            "lane": other.ir,
            "clamp": (0 if mode == _UP else warp.WHOLE_WARP) | (warp.WHOLE_WARP + 1 - width) << 8,
        }

    def vote(self, mode: str, predicate: Operand, *, members: Operand = warp.ALL_LANES) -> Value:
        """vote.sync: a predicate that says whether `predicate` holds in all or any lanes, or is the same in them (uni).

        Mode ballot gives a u32 with a bit for each lane where it holds.
        """
        row = variant("vote.sync", warp.vote, mode)
        operands = {"members": as_value(self._k, members, u32).ir, "predicate": as_value(self._k, predicate, pred).ir}
        return self._k.wrap(self._k.emit(row, operands)["result"][0], u32 if mode == "ballot" else pred)

    @overload
    def match(
        self, mode: str, value: Value, *, members: Operand = warp.ALL_LANES, equal: Literal[False] = False
    ) -> Value: ...

    @overload
    def match(
        self, mode: str, value: Value, *, members: Operand = warp.ALL_LANES, equal: Literal[True]
    ) -> tuple[Value, Value]: ...

    def match(
        self, mode: str, value: Value, *, members: Operand = warp.ALL_LANES, equal: bool = False
    ) -> Value | tuple[Value, Value]:
        """match.sync: a u32 mask of the lanes with this lane's `value` (any), or of all if all are equal, else 0 (all).

        `value` is an integer of 32 or 64 bits. With `equal`, mode all also gives the predicate that all values are
        equal. Raises instruction.variant. PTX ISA 9.7.13 (match.sync).
        """
        row = variant("match.sync", warp.match, mode, value.type.bits, equal)
        results = self._k.emit(row, {"members": as_value(self._k, members, u32).ir, "value": value.ir})
        lanes = self._k.wrap(results["lanes"][0], u32)
        return (lanes, self._k.wrap(results["equal"][0], pred)) if equal else lanes

    def active_lanes(self) -> Value:
        """activemask: a u32 mask of the lanes that happen to be here; never a substitute for known `members`."""
        return self._k.wrap(self._k.emit(warp.activemask(), {})["lanes"][0], u32)

    def reduce(
        self,
        operation: str,
        value: Value,
        *,
        members: Operand = warp.ALL_LANES,
        absolute: bool = False,
        nan: bool = False,
    ) -> Value:
        """redux.sync: `value` of all `members` combined, in each of them: add, min, max on s32 and u32; and, or, xor.

        f32 has min and max, on chips that have them, of the values or of their magnitudes; with `nan` a NaN wins.
        """
        bitwise = operation in warp.REDUCTIONS and warp.REDUCTIONS[operation] == ("b32",)
        element = "b32" if bitwise and value.type in (s32, u32) else str(value.type)
        row = variant("redux.sync", warp.reduce, operation, element, absolute=absolute, nan=nan)
        operands = {"members": as_value(self._k, members, u32).ir, "value": value.ir}
        return self._k.wrap(self._k.emit(row, operands)["result"][0], value.type)
