"""Evaluation of calls: special registers, elections, and exchanges between the lanes of a warp.

A lane that is not among the members of a shuffle, vote, match or reduction (PTX ISA 9.7.9, 9.7.13) has no result. The
convergence rules check that the members execute it together.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from nvbackend.builder.thread_tables.tables import AXES, Cta, Mask, Numbers, constant, signed, wrapped
from nvbackend.builder.value_tracking.known import Known
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.arithmetic import integers
from nvbackend.intrinsics.row.row import Asm, Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE, Scope
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import cluster, special_registers, warp

Found: TypeAlias = "tuple[Numbers, Mask] | None"
"""A result and the threads in which it is known; None if it is unknown."""

_OWN = np.arange(WARP_SIZE, dtype=np.uint64)
_LANE = np.uint64(WARP_SIZE - 1)
_SEGMENT_SHIFT = np.uint64(8)
"""Where the mask of the segments is in shfl's operand `clamp`."""
_BITS = 32
_ONE = np.uint64(1)


def _by_lane(cta: Cta, operands: Sequence[Known]) -> list[tuple[Numbers, Mask]]:
    """The operands, and where they are known, by elected lane, rank, warp and lane."""
    tables = [(np.uint64() if operand.numbers is None else operand.numbers, _where(operand)) for operand in operands]
    # Where numbers are known may differ by more than the numbers do.
    outer = np.broadcast_shapes(*(np.shape(table)[:2] for pair in tables for table in pair))

    def spread(table: Any) -> Any:
        return np.broadcast_to(table, (*outer, cta.threads)).reshape(*outer, cta.warps, WARP_SIZE)

    return [(spread(numbers), spread(where)) for numbers, where in tables]


def _where(known: Known) -> Any:
    if known.numbers is None:
        return np.False_
    return np.True_ if known.where is None else known.where


def _by_thread(table: Any) -> Any:
    return table.reshape(*table.shape[:2], -1)


def shuffled(cta: Cta, mode: str, members: Known, value: Known, lane: Known, clamp: Known) -> tuple[Found, Found]:
    """shfl.sync: the value of another lane, and whether that lane is one of the segment."""
    if members.numbers is None or lane.numbers is None or clamp.numbers is None:
        return None, None
    (there, named), (numbers, known), (by, aimed), (bound, cut) = _by_lane(cta, (members, value, lane, clamp))
    by, segment = by & _LANE, bound >> _SEGMENT_SHIFT & _LANE
    first = _OWN & segment
    last = first | (bound & ~segment & _LANE)
    if mode == "up":
        within, other = by + last <= _OWN, _OWN - by
    else:
        other = {"down": _OWN + by, "bfly": _OWN ^ by, "idx": first | (by & ~segment & _LANE)}[mode]
        within = other <= last
    source = np.where(within, other, _OWN)
    present = (there >> _OWN & _ONE).astype(bool) & named & aimed & cut
    index = source.astype(np.int64)
    taken = np.take_along_axis(known, index, -1) & (there >> source & _ONE).astype(bool) & present
    result = None if value.numbers is None else (_by_thread(np.take_along_axis(numbers, index, -1)), _by_thread(taken))
    return result, (_by_thread(within.astype(np.uint64)), _by_thread(present))


def collected(cta: Cta, operation: str, members: Known, value: Known) -> tuple[Found, ...]:
    """vote, match and redux by their names in `COLLECTIONS`: what comes of the `value` of all members."""
    if members.numbers is None or value.numbers is None:
        return None, None
    (there, named), (numbers, known) = _by_lane(cta, (members, value))
    member = (there[..., np.newaxis] >> _OWN & _ONE).astype(bool)
    present = (there >> _OWN & _ONE).astype(bool) & named
    seen = _Seen(member, numbers[..., np.newaxis, :], known[..., np.newaxis, :], numbers[..., np.newaxis])
    results = COLLECTIONS[operation](seen)
    everybody = (seen.sure | ~member).all(-1)
    return tuple(
        (_by_thread(result), _by_thread(present & (everybody if where is None else where))) for result, where in results
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What each lane sees, on one more axis: which lanes are members, their numbers, and which of them are known."""

    member: Mask
    others: Numbers
    sure: Mask
    own: Numbers

    @property
    def holding(self) -> Mask:
        """The members that certainly have another number than 0."""
        holding: Mask = self.member & self.sure & (self.others != 0)
        return holding

    @property
    def failing(self) -> Mask:
        """The members that certainly have 0."""
        failing: Mask = self.member & self.sure & (self.others == 0)
        return failing


_Collected: TypeAlias = tuple[tuple[Any, Any], ...]
"""Results, and where they are known; None for where all members' numbers are."""


def _any(seen: _Seen) -> _Collected:
    holds = seen.holding.any(-1)
    return ((holds.astype(np.uint64), holds | (~seen.member | seen.failing).all(-1)),)


def _all(seen: _Seen) -> _Collected:
    fails = seen.failing.any(-1)
    return (((~fails).astype(np.uint64), fails | (~seen.member | seen.holding).all(-1)),)


def _uniform(seen: _Seen) -> _Collected:
    mixed = seen.holding.any(-1) & seen.failing.any(-1)
    return (((~mixed).astype(np.uint64), mixed | (~seen.member | seen.sure).all(-1)),)


def _ballot(seen: _Seen) -> _Collected:
    return ((_bits(seen.member & (seen.others != 0)), None),)


def _match_any(seen: _Seen) -> _Collected:
    return ((_bits(seen.member & (seen.others == seen.own)), None),)


def _match_all(seen: _Seen) -> _Collected:
    equal = (~seen.member | (seen.others == seen.own)).all(-1)
    return (np.where(equal, _bits(seen.member), np.uint64(0)), None), (equal.astype(np.uint64), None)


def _bits(lanes: Mask) -> Numbers:
    """A bit for each lane."""
    bits: Numbers = np.where(lanes, _ONE << _OWN, np.uint64(0)).sum(-1)
    return bits


def _reduction(function: Callable[..., Any], neutral: int, *, with_sign: bool = False) -> Callable[..., _Collected]:
    def reduced(seen: _Seen) -> _Collected:
        numbers = signed(seen.others, _BITS) if with_sign else seen.others
        result = function(np.where(seen.member, numbers, numbers.dtype.type(neutral)), axis=-1)
        return ((wrapped(result.astype(np.uint64), _BITS), None),)

    return reduced


_UNSIGNED, _SIGNED = np.iinfo(np.uint32), np.iinfo(np.int32)
COLLECTIONS: dict[str, Callable[..., _Collected]] = {
    "vote any": _any,
    "vote all": _all,
    "vote uni": _uniform,
    "vote ballot": _ballot,
    "match any": _match_any,
    "match all": _match_all,
    "add": _reduction(np.add.reduce, 0),
    "and": _reduction(np.bitwise_and.reduce, _UNSIGNED.max),
    "or": _reduction(np.bitwise_or.reduce, 0),
    "xor": _reduction(np.bitwise_xor.reduce, 0),
    "min u32": _reduction(np.minimum.reduce, _UNSIGNED.max),
    "max u32": _reduction(np.maximum.reduce, 0),
    "min s32": _reduction(np.minimum.reduce, _SIGNED.max, with_sign=True),
    "max s32": _reduction(np.maximum.reduce, _SIGNED.min, with_sign=True),
}


_Operands = Sequence[Known]
_Rule = Callable[[Cta, _Operands], Known]

_MASKS: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "eq": np.equal,
    "le": np.less_equal,
    "lt": np.less,
    "ge": np.greater_equal,
    "gt": np.greater,
}
_SAME: dict[Scope, tuple[str, ...]] = {
    Scope.GRID: tuple(f"{name}.{axis}" for name in ("nctaid", "nclusterid") for axis in AXES),
    Scope.CLUSTER: tuple(f"clusterid.{axis}" for axis in AXES),
    Scope.CTA: tuple(f"ctaid.{axis}" for axis in AXES),
}
"""Special registers that are certainly the same over a scope, and differ between such."""
_APPARENT = {"warpid": Scope.WARP, "smid": Scope.CTA, **dict.fromkeys(special_registers.COUNTERS, Scope.WARP)}
"""Those that may change while the kernel runs. The lanes of a warp read them at once."""
_REGISTER = 32
PURE = tuple(f"llvm.{name}." for name in ("umin", "umax", "smin", "smax"))


def called(cta: Cta, call: ir.CallInstr, operands: _Operands) -> Known:
    """What is known of a call's result, given what is known of its arguments."""
    name = _name(call)
    register, rule = _registers().get(name), _rules().get(name)
    if register is not None:
        return register(cta)
    if rule is not None:
        return rule(cta, operands)
    apparent = min((operand.apparent for operand in operands), default=Scope.GRID)
    if name == _name_of(cluster.mapa()):
        return Known(certain=min(operand.certain for operand in operands), apparent=apparent)
    return Known(apparent=apparent if name.startswith("llvm.") and not name.startswith("llvm.nvvm.") else Scope.GRID)


@cache
def _registers() -> dict[str, Callable[[Cta], Known]]:
    """What is known of special registers, by what reads them."""
    registers: dict[str, Callable[[Cta], Known]] = {
        **{name: partial(_same, scope, scope) for scope, names in _SAME.items() for name in names},
        **{name: partial(_same, Scope.THREAD, scope) for name, scope in _APPARENT.items()},
        **{f"tid.{axis}": partial(_index, number) for number, axis in enumerate(AXES)},
        **{f"ntid.{axis}": partial(_extent, number) for number, axis in enumerate(AXES)},
        "laneid": lambda cta: Known(cta.lane),
        **{f"cluster_ctaid.{axis}": partial(_rank_along, number) for number, axis in enumerate(AXES)},
        **{f"cluster_nctaid.{axis}": partial(_ranks_along, number) for number, axis in enumerate(AXES)},
        "cluster_ctarank": _rank,
        "cluster_nctarank": _ranks,
        **{f"lanemask_{which}": partial(_lane_mask, which) for which in _MASKS},
    }
    return {_name_of(special_registers.special_register(name)): rule for name, rule in registers.items()}


@cache
def _rules() -> dict[str, _Rule]:
    """What is known of the rows' calls, by what is called."""
    rules: dict[str, _Rule] = {_name_of(sync.elect()): _elected}
    for mode in warp.SHUFFLE_MODES:
        for in_range in (False, True):
            rules[_name_of(warp.shuffle(mode, in_range))] = partial(_shuffled, mode, in_range)
    for mode in warp.VOTES:
        rules[_name_of(warp.vote(mode))] = partial(_collected, f"vote {mode}", False)
    for bits in warp.MATCH_REGISTERS:
        rules[_name_of(warp.match("any", bits))] = partial(_collected, "match any", False)
        rules[_name_of(warp.match("all", bits))] = partial(_collected, "match all", False)
        rules[_name_of(warp.match("all", bits, all_equal=True))] = partial(_collected, "match all", True)
    for operation, elements in warp.REDUCTIONS.items():
        for element in elements:
            name = f"{operation} {element}" if operation in ("min", "max") else operation
            rules[_name_of(warp.reduce(operation, element))] = partial(_reduced, name)
    rules |= {asm: partial(_computed, function) for asm, function in integers.computing().items()}
    return rules


def _name(call: ir.CallInstr) -> str:
    callee = call.callee
    return str(callee.asm) if isinstance(callee, ir.InlineAsm) else str(callee.name)


def _name_of(row: Row) -> str:
    return row.asm if isinstance(row.lowering, Asm) else row.lowering.name


def _computed(function: Callable[..., int], _: Cta, operands: _Operands) -> Known:
    """What an instruction gives that only computes: thread by thread, where all its operands are known."""
    certain, apparent = (
        min(scopes) for scopes in zip(*((operand.certain, operand.apparent) for operand in operands), strict=True)
    )
    tables = [operand.numbers for operand in operands]
    if any(table is None for table in tables):
        return Known(certain=certain, apparent=apparent)
    numbers = np.frompyfunc(function, len(tables), 1)(*(table.astype(object) for table in tables if table is not None))
    # A table of one number may be known to some of the threads only
    known = np.broadcast_arrays(
        numbers.astype(np.uint64), reduce(operator.and_, (_where(operand) for operand in operands))
    )
    return _known((known[0], known[1]), certain, apparent)


# -- who the thread is ------------------------------------------------------------------------------------------------


def _index(axis: int, cta: Cta) -> Known:
    return Known(cta.along(axis), apparent=Scope.THREAD)


def _extent(axis: int, cta: Cta) -> Known:
    return Known(None if cta.shape is None else constant(cta.shape[axis], _REGISTER), certain=Scope.GRID)


def _same(certain: Scope, apparent: Scope, _: Cta) -> Known:
    return Known(certain=certain, apparent=apparent)


def _rank(cta: Cta) -> Known:
    return Known(cta.rank, certain=Scope.CTA, apparent=Scope.CTA)


def _rank_along(axis: int, cta: Cta) -> Known:
    return Known(cta.rank_along(axis), certain=Scope.CTA, apparent=Scope.CTA)


def _ranks(cta: Cta) -> Known:
    return Known(None if cta.rank is None else constant(cta.cluster, _REGISTER), certain=Scope.GRID)


def _ranks_along(axis: int, cta: Cta) -> Known:
    return Known(None if cta.rank is None else constant(cta.cluster_shape[axis], _REGISTER), certain=Scope.GRID)


def _lane_mask(which: str, cta: Cta) -> Known:
    lanes = np.arange(WARP_SIZE, dtype=np.uint64)
    bits = np.where(_MASKS[which](lanes, cta.lane[..., np.newaxis]), np.uint64(1) << lanes, np.uint64(0))
    return Known(bits.sum(-1, dtype=np.uint64))


# -- what lanes get from one another ----------------------------------------------------------------------------------


def _elected(cta: Cta, operands: _Operands) -> Known:
    """elect.sync: the same lane each time that all lanes are asked (PTX ISA 9.7.13)."""
    if not _is_all(operands[0]):
        return Known(parts=(Known(apparent=Scope.WARP), Known(apparent=Scope.THREAD)))
    return Known(parts=(Known(cta.leader), Known(cta.elected)))


def _is_all(members: Known) -> bool:
    return members.is_whole and members.numbers is not None and bool((members.numbers == warp.ALL_LANES).all())


def _shuffled(mode: str, in_range: bool, cta: Cta, operands: _Operands) -> Known:
    members, value, lane, clamp = operands
    result, within = shuffled(cta, mode, members, value, lane, clamp)
    certain = value.certain if value.certain >= Scope.WARP else Scope.THREAD
    apparent = min(operand.apparent for operand in operands)
    if mode == "idx" and _is_one_segment(clamp):
        if lane.apparent >= Scope.WARP:
            apparent = max(apparent, Scope.WARP)
        if lane.certain >= Scope.WARP and _is_all(members):
            certain = max(certain, Scope.WARP)
    known = _known(result, certain, apparent)
    if not in_range:
        return known
    return Known(parts=(known, _known(within, Scope.THREAD, apparent)))


def _is_one_segment(clamp: Known) -> bool:
    return clamp.numbers is None or not (clamp.numbers >> np.uint64(8)).any()


def _collected(operation: str, aggregate: bool, cta: Cta, operands: _Operands) -> Known:
    members, value = operands
    certain, apparent = (
        min(scopes) for scopes in zip(*((operand.certain, operand.apparent) for operand in operands), strict=True)
    )
    if operation != "match any":
        apparent = max(apparent, Scope.WARP)
        certain = max(certain, Scope.WARP) if _is_all(members) else certain
    if operation not in COLLECTIONS:
        return Known(certain=certain, apparent=apparent)
    results = collected(cta, operation, members, value)
    parts = tuple(_known(result, certain, apparent) for result in results)
    return Known(parts=parts) if aggregate else parts[0]


def _reduced(operation: str, cta: Cta, operands: _Operands) -> Known:
    return _collected(operation, False, cta, operands[::-1])


def _known(result: Found, certain: Scope, apparent: Scope) -> Known:
    if result is None:
        return Known(certain=certain, apparent=apparent)
    numbers, where = result
    return Known(numbers, None if where.all() else where, certain=certain, apparent=apparent)
