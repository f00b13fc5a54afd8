"""What the lanes of a warp do together: shuffles, votes, reductions."""

from __future__ import annotations

from typing import Literal, overload

from nvbackend.builder.core.instructions import issue, result
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import f32, pred, s32, u32
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import warp
from nvbackend.isel.operands.memory import check_exchange, check_members, check_sender
from nvbackend.isel.target.target import variant

_UP = "up"
_SUM_OF_LANES = 'add by shuffles: for mask in (16, 8, 4, 2, 1): value = value + k.warp.shuffle(value, "bfly", mask)'


@user_facing
class Warp(Noun):
    """What the lanes of a warp do together: shuffles, votes, reductions (PTX ISA 9.7.9 and 9.7.13)."""

    __noun__ = "warp"
    __usual__ = "shuffle"

    def sync(self, members: Operand = warp.ALL_LANES) -> None:
        """bar.warp.sync: wait for the lanes of the mask `members`, and order their accesses.

        Raises warp.members where those that come here certainly are others. PTX ISA 9.7.13.2.
        """
        row = sync.warp_sync()
        issue(self._k, row, mask=self._members(row, members))

    def _members(self, row: Row, members: Operand) -> Value:
        """The mask of the lanes that execute `row`. Raises warp.members where those certainly are others."""
        named = as_value(self._k, members, u32)
        here = self._k.execution.here()
        if isinstance(named.constant, int) and here is not None and here.is_exact:
            check_members(row.ptx, named.constant, here.exact)
        return named

    @overload
    def shuffle(
        self,
        value: Operand,
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
        value: Operand,
        mode: str,
        lane: Operand,
        *,
        members: Operand = warp.ALL_LANES,
        width: int = 32,
        in_range: Literal[True],
    ) -> tuple[Value, Value]: ...

    def shuffle(
        self,
        value: Operand,
        mode: str,
        lane: Operand,
        *,
        members: Operand = warp.ALL_LANES,
        width: int = 32,
        in_range: bool = False,
    ) -> Value | tuple[Value, Value]:
        """shfl.sync: the 32-bit `value` of another lane, by `mode`: idx, up, down or bfly.

        `lane` is its number (idx), a distance (up, down) or a mask (bfly), within segments of `width` lanes. A lane
        that would read beyond its segment keeps its own value; with `in_range` it also returns a predicate: whether the
        lane that was read is in the segment. Raises shuffle.lanes, warp.members, instruction.variant. PTX ISA 9.7.9
        (shfl.sync).
        """
        row = variant("shfl.sync", warp.shuffle, mode, in_range)
        own, other, named = as_value(self._k, value), as_value(self._k, lane, s32), self._members(row, members)
        _check_exchange(row, mode, own, other.constant, width, named.constant)
        sent = own.bitcast(s32) if own.type is f32 else own  # f32 rides in a 32-bit register
        clamp = (0 if mode == _UP else warp.WHOLE_WARP) | (warp.WHOLE_WARP + 1 - width) << 8
        results = issue(self._k, row, members=named, value=sent.ir, lane=other, clamp=clamp)
        got = self._k.wrap(results["result"][0], sent.type)
        exchanged = got.bitcast(f32) if own.type is f32 else got
        return (exchanged, self._k.wrap(results["in_range"][0], pred)) if in_range else exchanged

    def vote(self, mode: str, predicate: Operand, *, members: Operand = warp.ALL_LANES) -> Value:
        """vote.sync: a predicate, whether `predicate` holds in all or any lanes or is equal (uni); or a ballot of them.

        Mode ballot gives a u32 with a bit for each lane where it holds. Raises warp.members, instruction.variant.
        """
        row = variant("vote.sync", warp.vote, mode)
        return result(self._k, row, members=self._members(row, members), predicate=predicate)

    @overload
    def match(
        self, mode: str, value: Operand, *, members: Operand = warp.ALL_LANES, equal: Literal[False] = False
    ) -> Value: ...

    @overload
    def match(
        self, mode: str, value: Operand, *, members: Operand = warp.ALL_LANES, equal: Literal[True]
    ) -> tuple[Value, Value]: ...

    def match(
        self, mode: str, value: Operand, *, members: Operand = warp.ALL_LANES, equal: bool = False
    ) -> Value | tuple[Value, Value]:
        """match.sync: a u32 mask of the lanes with this lane's `value` (any), or of all if all are equal, else 0 (all).

        `value` is an integer of 32 or 64 bits. With `equal`, mode all also gives the predicate that all values are
        equal. Raises warp.members, instruction.variant. PTX ISA 9.7.13 (match.sync).
        """
        own = as_value(self._k, value)
        row = variant("match.sync", warp.match, mode, own.type.bits, equal)
        results = issue(self._k, row, members=self._members(row, members), value=own.ir)
        lanes = self._k.wrap(results["lanes"][0], u32)
        return (lanes, self._k.wrap(results["equal"][0], pred)) if equal else lanes

    def active_lanes(self) -> Value:
        """activemask: a u32 mask of the lanes that happen to be here; never a substitute for known `members`."""
        return result(self._k, warp.activemask())

    def reduce(
        self,
        operation: str,
        value: Operand,
        *,
        members: Operand = warp.ALL_LANES,
        absolute: bool = False,
        nan: bool = False,
    ) -> Value:
        """redux.sync: `value` of all `members` combined, in each of them: add, min, max on s32 and u32; and, or, xor.

        f32 has min and max, on chips that have them, of the values or of their magnitudes; with `nan` a NaN wins.
        Raises warp.members, instruction.variant, value.operation for a sum of floats.
        """
        own = as_value(self._k, value)
        if own.type.is_float and operation == "add":
            rules.UNSUPPORTED_OPERATION.fail(operation="redux.sync add", element=own.type, advice=_SUM_OF_LANES)
        bitwise = operation in warp.REDUCTIONS and warp.REDUCTIONS[operation] == ("b32",)
        element = "b32" if bitwise and own.type in (s32, u32) else str(own.type)
        row = variant("redux.sync", warp.reduce, operation, element, absolute=absolute, nan=nan)
        return result(self._k, row, own.type, members=self._members(row, members), value=own.ir)


def _check_exchange(row: Row, mode: str, sent: Value, lane: object, width: int, members: object) -> None:
    """Raises value.type, shuffle.lanes and warp.members for what no lane can send, or from no lane."""
    if sent.type.bits != s32.bits:
        problem = f"shfl.sync exchanges values of 32 bits, and this {sent.type} has {sent.type.bits}"
        narrow, wide = "convert it, .to(f32) or .to(i32), and back after", "exchange its halves one by one"
        rules.TYPE_MISMATCH.fail(problem=problem, advice=narrow if sent.type.bits < s32.bits else wide)
    known = lane if isinstance(lane, int) else None
    check_exchange(mode, known, width)
    if known is not None and isinstance(members, int):
        check_sender(row.ptx, mode, known, width, members)
