"""What the lanes of a warp do together: shuffles, votes, reductions."""

from __future__ import annotations

from typing import Any, Literal, overload

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import issue, result
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.ops.combine import (
    Operation,
    Several,
    brought,
    check_initial,
    combining,
    extreme_of_pairs,
    first_of,
    result_of,
)
from nvbackend.builder.ops.warp_reductions import reduced, scanned, shifted
from nvbackend.builder.ops.words import value_of, words_of
from nvbackend.builder.values.uncalled import told_apart
from nvbackend.builder.values.values import Operand, Value, as_index, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.row.types import f32, pred, s32, u32
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import warp
from nvbackend.isel.operands.memory import check_exchange, check_members, check_sender
from nvbackend.isel.select.rows import general_faults
from nvbackend.isel.target.target import VARIANT, variant

_UP = "up"


@user_facing
class Warp(Noun):
    """What the lanes of a warp do together: shuffles, votes, reductions (PTX ISA 9.7.9 and 9.7.13)."""

    __noun__ = "warp"
    __usual__ = "shuffle"

    def __init__(self, k: Core) -> None:
        super().__init__(k)
        told_apart(self, "k.warp", ("active_lanes",))

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
            check_members(row.ptx, dict.fromkeys(here.exact, named.constant))
        elif named.constant is None:
            check_members(row.ptx, self._k.execution.numbers_here(named.ir))
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
        """shfl.sync: `value` of another lane, by `mode`: idx, up, down or bfly.

        `lane` is its number (idx), a distance (up, down) or a mask (bfly), within segments of `width` lanes. A lane
        that would read beyond its segment keeps its own value; with `in_range` it also returns a predicate: whether the
        lane that was read is in the segment. A value may have any type: of 64 bits both halves are exchanged, one of
        less than 32 bits, or a predicate, in a register. Raises shuffle.lanes, warp.members, instruction.variant. PTX
        ISA 9.7.9 (shfl.sync).
        """
        row = variant("shfl.sync", warp.shuffle, mode, in_range)
        own, other, named = as_value(self._k, value), as_value(self._k, lane, s32), self._members(row, members)
        _check_exchange(row, mode, other.constant, width, named.constant)
        clamp = (0 if mode == _UP else warp.WHOLE_WARP) | (warp.WHOLE_WARP + 1 - width) << 8
        words, results = [], {}
        for sent in words_of(self._k, own):
            results = issue(self._k, row, members=named, value=sent.ir, lane=other, clamp=clamp)
            words.append(self._k.wrap(results["result"][0], sent.type))
        exchanged = value_of(words, own.type)
        return (exchanged, self._k.wrap(results["in_range"][0], pred)) if in_range else exchanged

    def broadcast(
        self, value: Operand, lane: Operand = 0, *, members: Operand = warp.ALL_LANES, width: int = 32
    ) -> Value:
        """`value` of lane number `lane` of each segment of `width` lanes, in all of them: `shuffle` by idx."""
        return self.shuffle(value, "idx", lane, members=members, width=width)

    def vote(self, mode: str, predicate: Operand, *, members: Operand = warp.ALL_LANES) -> Value:
        """vote.sync: a predicate, whether `predicate` holds in all or any lanes or is equal (uni); or a ballot of them.

        Mode ballot gives a u32 with a bit for each lane where it holds. Raises warp.members, instruction.variant.
        """
        row = variant("vote.sync", warp.vote, mode)
        return result(self._k, row, members=self._members(row, members), predicate=predicate)

    def ballot(self, predicate: Operand, *, members: Operand = warp.ALL_LANES) -> Value:
        """A u32 with a bit for each of the `members` in which `predicate` holds: `vote` by ballot."""
        return self.vote("ballot", predicate, members=members)

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
        operation: Operation,
        value: Any,
        *,
        members: Operand = warp.ALL_LANES,
        width: int = 32,
        absolute: bool = False,
        nan: bool = False,
    ) -> Any:
        """`value` of the lanes of each segment of `width` combined, in each of them.

        `operation` is add, mul, min, max, and, or, xor, or a function of two values that is associative and commutes;
        `value` of any type, or a tuple of values: a name combines each with its own, a function takes two tuples and
        gives one. It is redux.sync where the target has that: s32 and u32 of whole warps, f32 min and max on some
        chips. Elsewhere it takes log2(width) shuffles, which need all lanes of a segment. With `nan` a NaN wins over
        numbers; `absolute` compares magnitudes of f32, by redux.sync alone. Raises reduce.operation, shuffle.lanes,
        warp.members, instruction.variant, value.operation for bits of floats, value.type. PTX ISA 9.7.13 (redux.sync),
        9.7.9 (shfl.sync).
        """
        values = brought(self._k, value)
        row = self._redux(operation, values, absolute=absolute, nan=nan)
        if row is not None and width == WARP_SIZE:
            own = values[0]
            got = result(self._k, row, own.type, members=self._members(row, members), value=own.ir)
            return result_of((got,), value)
        if absolute:
            reason = "magnitudes are compared by redux.sync, of f32 of a whole warp"
            VARIANT.fail(instruction="k.warp.reduce with absolute", reason=reason)
        combine = combining(self._k, "k.warp.reduce", operation, values, nan=nan)
        check_exchange("bfly", None, width)
        return result_of(reduced(self.shuffle, combine, values, width, members=members), value)

    def _redux(self, operation: Operation, values: Several, *, absolute: bool, nan: bool) -> Row | None:
        """The instruction that combines these, where the target has one. Raises instruction.variant, target.feature."""
        if len(values) > 1 or not isinstance(operation, str) or operation not in warp.REDUCTIONS:
            return None
        kind = values[0].type
        element = "b32" if warp.REDUCTIONS[operation] == ("b32",) and kind in (s32, u32) else str(kind)
        if absolute:
            return variant("redux.sync", warp.reduce, operation, element, absolute=absolute, nan=nan)
        if element not in warp.REDUCTIONS[operation] or (nan and kind is not f32):
            return None
        row = warp.reduce(operation, element, nan=nan)
        return None if general_faults(row, self._k.target, {}) else row

    def scan(
        self,
        operation: Operation,
        value: Any,
        *,
        exclusive: bool = False,
        initial: Any = None,
        members: Operand = warp.ALL_LANES,
        width: int = 32,
        nan: bool = False,
    ) -> Any:
        """`value` of the lanes of a segment up to this one combined, in order; without this lane's if `exclusive`.

        `initial` is what an exclusive scan begins with, and so what the first lane gets; by default what changes
        nothing (reduce.initial for a function). It takes log2(width) shuffles, and one more if exclusive. Otherwise as
        `reduce`; a function need not commute.
        """
        call = "k.warp.scan"
        check_initial(call, initial, exclusive=exclusive)
        values = brought(self._k, value)
        combine = combining(self._k, call, operation, values, nan=nan)
        check_exchange("up", None, width)
        first = first_of(self._k, call, operation, values, initial) if exclusive else ()
        own = scanned(self._k, self.shuffle, combine, values, width, members=members)
        if exclusive:
            then = None if initial is None else combine
            own = shifted(self._k, self.shuffle, own, first, width, then, members=members)
        return result_of(own, value)

    def argmax(
        self, value: Operand, index: Operand, *, members: Operand = warp.ALL_LANES, width: int = 32
    ) -> tuple[Value, Value]:
        """The greatest value of a segment and its `index`, in each of its lanes: of equal ones the least index.

        NaN is greatest only where there is nothing else. Raises what `reduce` raises.
        """
        best = (as_value(self._k, value), as_index(self._k, index))
        greatest, at = self.reduce(extreme_of_pairs(self._k, "max"), best, members=members, width=width)
        return greatest, at

    def argmin(
        self, value: Operand, index: Operand, *, members: Operand = warp.ALL_LANES, width: int = 32
    ) -> tuple[Value, Value]:
        """The least value of a segment and its `index`, like `argmax`."""
        best = (as_value(self._k, value), as_index(self._k, index))
        least, at = self.reduce(extreme_of_pairs(self._k, "min"), best, members=members, width=width)
        return least, at


def _check_exchange(row: Row, mode: str, lane: object, width: int, members: object) -> None:
    """Raises shuffle.lanes and warp.members for what is read from no lane."""
    known = lane if isinstance(lane, int) else None
    check_exchange(mode, known, width)
    if known is not None and isinstance(members, int):
        check_sender(row.ptx, mode, known, width, members)
