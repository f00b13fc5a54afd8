"""Instructions of threads: special registers, and exchanges between the lanes of a warp."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from operator import and_, or_, xor
from typing import TYPE_CHECKING, Any, TypeAlias

from nvbackend.dry_run.seam import RANK_SHIFT, Launch
from nvbackend.dry_run.values.lanes import ALL, LANE, LANES, among, bits, lanes_in, numbers_of, tidy
from nvbackend.dry_run.values.unknown import UNKNOWN, Unknown
from nvbackend.dry_run.values.vectors import Lanes
from nvbackend.intrinsics.arithmetic.relations import RELATIONS
from nvbackend.isel.machine.clusters import needs_cluster
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.signature import Shape

if TYPE_CHECKING:
    from nvbackend.dry_run.machine.fiber import Fiber

Inputs: TypeAlias = Callable[..., Any]
Own: TypeAlias = "Callable[[Fiber, Launch, Inputs, int], dict[str, Any]]"
"""Executes an instruction in the lanes of a mask: its outputs by name."""
_AXES = ("x", "y", "z")
_OFFSET = (1 << RANK_SHIFT) - 1


def own(instr: MachineInstr) -> Own | None:
    """What executes an instruction here; None where it is one of a protocol."""
    row = instr.row
    if row is None:
        return None
    if row.family == "special_registers":
        return _special(str(row.axes["register"]))
    name = row.opcode.split(".")[0]
    made = _MADE.get(name)
    return None if made is None else made(dict(row.axes))


# -- special registers ------------------------------------------------------------------------------------------------


def _special(name: str) -> Own:
    register, _, letter = name.partition(".")
    if letter:
        axis = _AXES.index(letter)
        return lambda fiber, launch, _inputs, _mask: {"value": _along(register, axis, fiber, launch)}
    known = _REGISTERS.get(register)
    if known is None:
        return lambda _fiber, _launch, _inputs, _mask: {"value": UNKNOWN}
    return lambda fiber, launch, _inputs, _mask: {"value": known(fiber, launch)}


def _along(register: str, axis: int, fiber: Fiber, launch: Launch) -> Any:
    """What a special register is along an axis."""
    if register == "tid":
        return _threads(fiber.warp.index, launch.shape, axis)
    return along(register, axis, launch, fiber.warp.cta)


def along(register: str, axis: int, launch: Launch, cta: int = 0) -> int:
    """What a special register is along an axis in the first thread of a CTA: clusters run beside each other along x."""
    extent = launch.cluster_shape[axis]
    rank = cta % launch.cluster // math.prod(launch.cluster_shape[:axis]) % extent
    place = launch.row if axis else launch.first + cta // launch.cluster
    count = launch.row + 1 + launch.after if axis else launch.grid
    return {
        "tid": 0,
        "ntid": launch.shape[axis],
        "ctaid": place * extent + rank,
        "nctaid": count * extent,
        "clusterid": place,
        "nclusterid": count,
        "cluster_ctaid": rank,
        "cluster_nctaid": extent,
    }[register]


@lru_cache(maxsize=len(RELATIONS))
def _lane_mask(relation: str) -> Any:
    """For each lane a bit for each other that is in `relation` to it."""
    is_in = RELATIONS[relation]
    return Lanes([sum(1 << other for other in range(LANES) if is_in(other, lane)) for lane in range(LANES)])


@lru_cache(maxsize=256)
def _threads(warp: int, shape: Shape, axis: int) -> Any:
    """The index of each thread of a warp along an axis."""
    number, before = LANE + warp * LANES, math.prod(shape[:axis])
    if math.prod(shape[1:]) == 1 and not axis:
        return number
    return tidy(Lanes([one // before % shape[axis] for one in number.numbers]))


def _rank(fiber: Fiber, launch: Launch) -> int:
    return fiber.warp.cta % launch.cluster


def _is_explicit(_: Fiber, launch: Launch) -> int:
    """A cluster of one CTA is explicit where an instruction needs it."""
    return int(launch.cluster > 1 or (launch.function is not None and needs_cluster(launch.function)))


_REGISTERS: dict[str, Callable[[Fiber, Launch], Any]] = {
    "cluster_ctarank": _rank,
    "cluster_nctarank": lambda _, launch: launch.cluster,
    "is_explicit_cluster": _is_explicit,
    "laneid": lambda _fiber, _launch: LANE,
    "warpid": lambda fiber, _: fiber.warp.index,
    "lanemask_eq": lambda _fiber, _launch: _lane_mask("eq"),
    "lanemask_le": lambda _fiber, _launch: _lane_mask("le"),
    "lanemask_lt": lambda _fiber, _launch: _lane_mask("lt"),
    "lanemask_ge": lambda _fiber, _launch: _lane_mask("ge"),
    "lanemask_gt": lambda _fiber, _launch: _lane_mask("gt"),
}


# -- exchanges between lanes ---------------------------------------------------------------------------------------


def _elect(_axes: dict[str, object]) -> Own:
    def run(_fiber: Fiber, _launch: Launch, inputs: Inputs, mask: int) -> dict[str, Any]:
        members = inputs("mask")
        there = members & mask if type(members) is int and members & mask else mask
        # Any lane may be elected (PTX ISA 9.7.13.9): the last one is not the lane 0 that programs may take it for.
        leader = there.bit_length() - 1
        return {"leader": leader, "elected": _only(leader)}

    return run


@lru_cache(maxsize=LANES)
def _only(leader: int) -> Any:
    """1 in one lane, 0 in the others."""
    return Lanes([int(lane == leader) for lane in range(LANES)])


def _shuffle(axes: dict[str, object]) -> Own:
    mode = axes["mode"]
    is_plain = mode == "idx" and not axes.get("in_range")

    def run(_fiber: Fiber, _launch: Launch, inputs: Inputs, mask: int) -> dict[str, Any]:
        value, lane, clamp = inputs("value"), inputs("lane"), inputs("clamp")
        if isinstance(value, Unknown) or isinstance(lane, Unknown) or isinstance(clamp, Unknown):
            same = mode == "idx" and type(lane) is int and type(clamp) is int
            return {"result": value if same else UNKNOWN, "in_range": UNKNOWN}
        if is_plain and type(lane) is int and clamp == LANES - 1 and mask >> (lane & 31) & 1:
            return {"result": value if type(value) is int else value.numbers[lane & 31]}
        sources = [
            _source(str(mode), *each) for each in zip(range(LANES), *map(numbers_of, (lane, clamp)), strict=True)
        ]
        if any(not mask >> source & 1 for source in (sources[lane][0] for lane in lanes_in(mask))):
            return {"result": UNKNOWN, "in_range": UNKNOWN}
        numbers = numbers_of(value)
        result = tidy(Lanes([numbers[source] for source, _ in sources]))
        return {"result": result, "in_range": tidy(Lanes([int(within) for _, within in sources]))}

    return run


def _source(mode: str, own: int, by: int, bound: int) -> tuple[int, bool]:
    """The lane whose value a lane gets, itself where that is none of its segment, and whether it is one."""
    by, segment = by & 31, bound >> 8 & 31
    first = own & segment
    last = first | (bound & ~segment & 31)
    if mode == "up":
        within, other = by + last <= own, own - by
    else:
        other = {"down": own + by, "bfly": own ^ by, "idx": first | (by & ~segment & 31)}[mode]
        within = other <= last
    return (other, True) if within else (own, False)


def _vote(axes: dict[str, object]) -> Own:
    mode = axes["mode"]

    def run(_fiber: Fiber, _launch: Launch, inputs: Inputs, mask: int) -> dict[str, Any]:
        members, predicate = inputs("members"), inputs("predicate")
        if type(members) is not int or isinstance(predicate, Unknown):
            return {"result": predicate if isinstance(predicate, Unknown) and mode in ("all", "any") else UNKNOWN}
        there = members & mask
        holding = (ALL if predicate else 0) if type(predicate) is int else bits(predicate)
        holding &= there
        result = {
            "all": int(holding == there),
            "any": int(holding != 0),
            "uni": int(holding in (0, there)),
            "ballot": holding,
        }
        return {"result": result[str(mode)]}

    return run


def _match(axes: dict[str, object]) -> Own:
    def run(_fiber: Fiber, _launch: Launch, inputs: Inputs, mask: int) -> dict[str, Any]:
        members, value = inputs("members"), inputs("value")
        if type(members) is not int or isinstance(value, Unknown):
            return {"lanes": UNKNOWN, "equal": UNKNOWN}
        there, numbers = members & mask, numbers_of(value)
        if axes["mode"] == "all":
            equal = type(among(value, there)) is int
            return {"lanes": there if equal else 0, "equal": int(equal)}
        return {"lanes": tidy(Lanes([_equal(numbers, one) & there for one in numbers]))}

    return run


def _equal(numbers: Sequence[int], number: int) -> int:
    """The lanes that have the number, a bit each."""
    return sum(1 << lane for lane, one in enumerate(numbers) if one == number)


_REDUCED: dict[str, Callable[[list[int]], int]] = {
    "add": lambda given: sum(given) & ALL,
    "min": min,
    "max": max,
    "and": lambda given: reduce(and_, given),
    "or": lambda given: reduce(or_, given),
    "xor": lambda given: reduce(xor, given),
}


def _reduce(axes: dict[str, object]) -> Own:
    operation, element = str(axes.get("operation")), str(axes.get("element"))

    def run(_fiber: Fiber, _launch: Launch, inputs: Inputs, mask: int) -> dict[str, Any]:
        members, value = inputs("members"), inputs("value")
        if type(members) is not int or isinstance(value, Unknown) or element == "f32" or operation not in _REDUCED:
            return {"result": UNKNOWN}
        given = [numbers_of(value)[lane] for lane in lanes_in(members & mask)]
        if operation in ("min", "max") and element == "s32":
            given = [(one ^ 1 << 31) - (1 << 31) for one in given]
        return {"result": _REDUCED[operation](given) & ALL}

    return run


def _active(_axes: dict[str, object]) -> Own:
    return lambda _fiber, _launch, _inputs, mask: {"lanes": mask}


def _mapa(_axes: dict[str, object]) -> Own:
    def run(_fiber: Fiber, _launch: Launch, inputs: Inputs, _mask: int) -> dict[str, Any]:
        address, rank = inputs("address"), inputs("rank")
        if isinstance(address, Unknown) or isinstance(rank, Unknown):
            return {"mapped": UNKNOWN}
        mapped = (address & _OFFSET) | (rank << RANK_SHIFT)
        return {"mapped": mapped if type(mapped) is int else tidy(mapped)}

    return run


def _rank_of(_axes: dict[str, object]) -> Own:
    def run(_fiber: Fiber, _launch: Launch, inputs: Inputs, _mask: int) -> dict[str, Any]:
        address = inputs("address")
        if isinstance(address, Unknown):
            return {"rank": UNKNOWN}
        return {"rank": address >> RANK_SHIFT if type(address) is int else tidy(address >> RANK_SHIFT)}

    return run


def _answer(axes: dict[str, object]) -> Own | None:
    """The answer of try_cancel: which `Taking` writes."""
    query = str(axes.get("query", ""))
    if not query:
        return None

    def run(_fiber: Fiber, launch: Launch, inputs: Inputs, _mask: int) -> dict[str, Any]:
        canceled, first = inputs("answer", 0), inputs("answer", 1)
        if query.startswith("is_canceled"):
            return {"canceled": canceled}
        axis = _AXES.index(query[-5:-4]) if query[-5:-4] in _AXES else 0
        return {"ctaid": launch.row * launch.cluster_shape[axis] if axis else first}

    return run


_MADE: dict[str, Callable[[dict[str, object]], Own | None]] = {
    "clusterlaunchcontrol": _answer,
    "elect": _elect,
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": _reduce,
    "activemask": _active,
    "mapa": _mapa,
    "getctarank": _rank_of,
}
