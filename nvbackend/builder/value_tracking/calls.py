"""Evaluation of calls: special registers, elections, and exchanges between the lanes of a warp.

A lane that is not among the members of a shuffle, vote, match or reduction (PTX ISA 9.7.9, 9.7.13) has no result. The
convergence rules check that the members execute it together.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from typing import TypeAlias

from llvmlite import ir

from nvbackend.builder.thread_tables.table import Shape, Table, bits_of, shape_of
from nvbackend.builder.thread_tables.tables import AXES, Cta, Mask, Numbers, constant
from nvbackend.builder.value_tracking.known import Known
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.arithmetic import integers
from nvbackend.intrinsics.arithmetic.relations import RELATIONS
from nvbackend.intrinsics.row.row import Asm, Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE, Scope
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import cluster, special_registers, warp

Found: TypeAlias = "tuple[Numbers, Mask] | None"
"""A result and the threads in which it is known; None if it is unknown."""

_LANE = WARP_SIZE - 1
_SEGMENT_SHIFT = 8
"""Where the mask of the segments is in shfl's operand `clamp`."""
_BITS = 32
_ALL = (1 << _BITS) - 1


@dataclass(frozen=True, slots=True)
class _Row:
    """An operand in each thread, and where it is known, a bit each."""

    numbers: Sequence[int]
    known: int


def _by_row(cta: Cta, operands: Sequence[Known]) -> tuple[Shape, list[list[_Row]]]:
    """The operands by elected lane and rank: the shape of results, and for each row of it what each operand is."""
    tables = [Table.of(0) if operand.numbers is None else operand.numbers for operand in operands]
    masks = [_where(operand) for operand in operands]
    leaders, ranks, _ = shape_of(*tables, *masks)  # where numbers are known may differ by more than the numbers do
    wide = [(table.wide(cta.threads), mask.wide(cta.threads)) for table, mask in zip(tables, masks, strict=True)]
    places = [(leader, rank) for leader in range(leaders) for rank in range(ranks)]
    rows = [
        [_Row(table.rows[table.row(*place)], mask.bits[mask.row(*place)]) for table, mask in wide] for place in places
    ]
    return (leaders, ranks, cta.threads), rows


def _where(known: Known) -> Mask:
    if known.numbers is None:
        return ~Table.where_all()
    return Table.where_all() if known.where is None else known.where


def shuffled(cta: Cta, mode: str, members: Known, value: Known, lane: Known, clamp: Known) -> tuple[Found, Found]:
    """shfl.sync: the value of another lane, and whether that lane is one of the segment."""
    if members.numbers is None or lane.numbers is None or clamp.numbers is None:
        return None, None
    shape, rows = _by_row(cta, (members, value, lane, clamp))
    made = [_shuffled_row(mode, *row) for row in rows]
    results, taken, within, present = (list(each) for each in zip(*made, strict=True))
    result = None if value.numbers is None else (Table(shape, results), Table(shape, bits=taken))
    return result, (Table(shape, bits=within), Table(shape, bits=present))


def _shuffled_row(mode: str, members: _Row, value: _Row, lane: _Row, clamp: _Row) -> tuple[list[int], int, int, int]:
    """What the threads of one CTA get, who gets something, whose lane is of the segment, and who is there."""
    sources, within = zip(*_sources(mode, lane.numbers, clamp.numbers), strict=True)
    others = [thread - (thread & _LANE) + source for thread, source in enumerate(sources)]
    present = members.known & lane.known & clamp.known
    taken = (1 << len(others)) - 1
    if value.known != taken:
        taken = bits_of([value.known >> other & 1 for other in others])
    if {*members.numbers} != {_ALL}:
        present &= bits_of([there >> (thread & _LANE) & 1 for thread, there in enumerate(members.numbers)])
        taken &= bits_of([there >> source & 1 for there, source in zip(members.numbers, sources, strict=True)])
    return [value.numbers[other] for other in others], present & taken, bits_of(within), present


def _sources(mode: str, lanes: Sequence[int], bounds: Sequence[int]) -> list[tuple[int, bool]]:
    """The `_source` of each thread."""
    if len({*lanes}) == len({*bounds}) == 1:  # of most shuffles: all warps do the same
        warp = [_source(mode, own, lanes[0] & _LANE, bounds[0]) for own in range(WARP_SIZE)]
        return [*itertools.islice(itertools.cycle(warp), len(lanes))]
    pairs = zip(lanes, bounds, strict=True)
    return [_source(mode, thread & _LANE, by & _LANE, bound) for thread, (by, bound) in enumerate(pairs)]


def _source(mode: str, own: int, by: int, bound: int) -> tuple[int, bool]:
    """The lane whose value a lane gets, itself outside its segment; and whether it is inside."""
    segment = bound >> _SEGMENT_SHIFT & _LANE
    first = own & segment
    last = first | (bound & ~segment & _LANE)
    if mode == "up":
        within, other = by + last <= own, own - by
    else:
        other = {"down": own + by, "bfly": own ^ by, "idx": first | (by & ~segment & _LANE)}[mode]
        within = other <= last
    return (other, True) if within else (own, False)


def collected(cta: Cta, operation: str, members: Known, value: Known) -> tuple[Found, ...]:
    """vote, match and redux by their names in `COLLECTIONS`: what comes of the `value` of all members."""
    if members.numbers is None or value.numbers is None:
        return None, None
    shape, rows = _by_row(cta, (members, value))
    made = [_collected_row(operation, *row) for row in rows]
    count = len(made[0])
    return tuple(
        (Table(shape, [row[place][0] for row in made]), Table(shape, bits=[row[place][1] for row in made]))
        for place in range(count)
    )


def _collected_row(operation: str, members: _Row, value: _Row) -> list[tuple[list[int], int]]:
    """Each result in the threads of one CTA, and where it is known."""
    made: list[tuple[list[int], int]] = []
    for start in range(0, len(members.numbers), WARP_SIZE):
        numbers, known = value.numbers[start : start + WARP_SIZE], value.known >> start & _ALL
        holding = sum([1 << lane for lane, number in enumerate(numbers) if number])
        seen: dict[tuple[int, int], _Collected] = {}
        for lane, member in enumerate(members.numbers[start : start + WARP_SIZE]):
            key = member & _ALL, numbers[lane] if operation in _BY_OWN else 0
            if key not in seen:
                seen[key] = COLLECTIONS[operation](_Seen(key[0], numbers, known, holding, numbers[lane]))
            is_there = member >> lane & 1 and members.known >> start + lane & 1
            everybody = not key[0] & ~known
            for place, (result, where) in enumerate(seen[key]):
                if place == len(made):
                    made.append(([], 0))
                results, certain = made[place]
                results.append(result)
                is_sure = is_there and (everybody if where is None else where)
                made[place] = results, certain | bool(is_sure) << start + lane
    return made


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a lane sees: which lanes are members, all numbers, which are known and which are not 0, and its own."""

    member: int
    others: Sequence[int]
    sure: int
    nonzero: int
    own: int

    @property
    def holding(self) -> int:
        """The members that certainly have another number than 0."""
        return self.member & self.sure & self.nonzero

    @property
    def failing(self) -> int:
        """The members that certainly have 0."""
        return self.member & self.sure & ~self.nonzero

    @property
    def numbers(self) -> list[int]:
        """Those of the members."""
        return [number for lane, number in enumerate(self.others) if self.member >> lane & 1]


_Collected: TypeAlias = tuple[tuple[int, bool | None], ...]
"""Results, and whether they are known; None for whether all members' numbers are."""


def _any(seen: _Seen) -> _Collected:
    holds = seen.holding != 0
    return ((int(holds), holds or seen.member == seen.failing),)


def _all(seen: _Seen) -> _Collected:
    fails = seen.failing != 0
    return ((int(not fails), fails or seen.member == seen.holding),)


def _uniform(seen: _Seen) -> _Collected:
    mixed = seen.holding != 0 and seen.failing != 0
    return ((int(not mixed), mixed or not seen.member & ~seen.sure),)


def _ballot(seen: _Seen) -> _Collected:
    return ((seen.member & seen.nonzero, None),)


def _match_any(seen: _Seen) -> _Collected:
    equal = sum([1 << lane for lane, number in enumerate(seen.others) if number == seen.own])
    return ((seen.member & equal, None),)


def _match_all(seen: _Seen) -> _Collected:
    equal = all(number == seen.own for number in seen.numbers)
    return (seen.member if equal else 0, None), (int(equal), None)


def _reduction(
    function: Callable[[int, int], int], neutral: int, *, with_sign: bool = False
) -> Callable[..., _Collected]:
    half = 1 << _BITS - 1 if with_sign else 0

    def reduced(seen: _Seen) -> _Collected:
        return ((reduce(function, [(number ^ half) - half for number in seen.numbers], neutral) & _ALL, None),)

    return reduced


COLLECTIONS: dict[str, Callable[..., _Collected]] = {
    "vote any": _any,
    "vote all": _all,
    "vote uni": _uniform,
    "vote ballot": _ballot,
    "match any": _match_any,
    "match all": _match_all,
    "add": _reduction(operator.add, 0),
    "and": _reduction(operator.and_, _ALL),
    "or": _reduction(operator.or_, 0),
    "xor": _reduction(operator.xor, 0),
    "min u32": _reduction(min, _ALL),
    "max u32": _reduction(max, 0),
    "min s32": _reduction(min, _ALL >> 1, with_sign=True),
    "max s32": _reduction(max, -1 << _BITS - 1, with_sign=True),
}
_BY_OWN = ("match any", "match all")
"""Those that depend on the lane's own number."""


_Operands = Sequence[Known]
_Rule = Callable[[Cta, _Operands], Known]

_MASKS = ("eq", "le", "lt", "ge", "gt")
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
    function = None if rule is not None else integers.function_of(name)
    if register is not None:
        return register(cta)
    if rule is not None:
        return rule(cta, operands)
    if function is not None:
        return _computed(function, operands)
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
    return rules


def _name(call: ir.CallInstr) -> str:
    callee = call.callee
    return str(callee.asm) if isinstance(callee, ir.InlineAsm) else str(callee.name)


def _name_of(row: Row) -> str:
    return row.asm if isinstance(row.lowering, Asm) else row.lowering.name


def _computed(function: Callable[..., int], operands: _Operands) -> Known:
    """What an instruction gives that only computes: thread by thread, where all its operands are known."""
    certain, apparent = (
        min(scopes) for scopes in zip(*((operand.certain, operand.apparent) for operand in operands), strict=True)
    )
    tables = [operand.numbers for operand in operands]
    if any(table is None for table in tables):
        return Known(certain=certain, apparent=apparent)
    known = reduce(operator.and_, (_where(operand) for operand in operands))
    several = [table for table in tables if table is not None]
    shape = leaders, ranks, threads = shape_of(*several, known)
    wide = [table.wide(threads) for table in several]
    rows = [
        [*map(function, *(table.rows[table.row(leader, rank)] for table in wide))]
        for leader in range(leaders)
        for rank in range(ranks)
    ]
    return _known((Table(shape, rows), known), certain, apparent)


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
    is_in, lanes = RELATIONS[which], range(WARP_SIZE)
    masks = [sum(1 << other for other in lanes if is_in(other, lane)) for lane in lanes]
    return Known(cta.lane.map(masks.__getitem__))


# -- what lanes get from one another ----------------------------------------------------------------------------------


def _elected(cta: Cta, operands: _Operands) -> Known:
    """elect.sync: the same lane each time that all lanes are asked (PTX ISA 9.7.13)."""
    if not _is_all(operands[0]):
        return Known(parts=(Known(apparent=Scope.WARP), Known(apparent=Scope.THREAD)))
    return Known(parts=(Known(cta.leader), Known(cta.elected)))


def _is_all(members: Known) -> bool:
    return (
        members.is_whole
        and members.numbers is not None
        and all(number == warp.ALL_LANES for number in members.numbers.numbers())
    )


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
    return clamp.numbers is None or not any(number >> _SEGMENT_SHIFT for number in clamp.numbers.numbers())


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
