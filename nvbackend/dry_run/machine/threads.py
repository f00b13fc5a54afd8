"""Instructions of threads: special registers, and exchanges between the lanes of a warp."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nvbackend.dry_run.seam import RANK_SHIFT, Launch
from nvbackend.dry_run.values.lanes import ALL, LANE, LANES, among, bits, tidy
from nvbackend.dry_run.values.unknown import UNKNOWN, Unknown
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
    return np.array(
        [sum(1 << other for other in range(LANES) if is_in(other, lane)) for lane in range(LANES)], np.uint64
    )


@lru_cache(maxsize=256)
def _threads(warp: int, shape: Shape, axis: int) -> Any:
    """The index of each thread of a warp along an axis."""
    number = LANE + np.uint64(warp * LANES)
    before = math.prod(shape[:axis])
    return tidy(number // np.uint64(before) % np.uint64(shape[axis])) if math.prod(shape[1:]) > 1 or axis else number


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


def _spread(value: Any) -> Any:
    return np.full(LANES, value, np.uint64) if type(value) is int else value


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
    return np.equal(LANE, leader).astype(np.uint64)


def _shuffle(axes: dict[str, object]) -> Own:
    mode = axes["mode"]
    is_plain = mode == "idx" and not axes.get("in_range")

    def run(_fiber: Fiber, _launch: Launch, inputs: Inputs, mask: int) -> dict[str, Any]:
        value, lane, clamp = inputs("value"), inputs("lane"), inputs("clamp")
        if isinstance(value, Unknown) or isinstance(lane, Unknown) or isinstance(clamp, Unknown):
            same = mode == "idx" and type(lane) is int and type(clamp) is int
            return {"result": value if same else UNKNOWN, "in_range": UNKNOWN}
        if is_plain and type(lane) is int and clamp == LANES - 1 and mask >> (lane & 31) & 1:
            return {"result": value if type(value) is int else int(value[lane & 31])}
        by, bound = _spread(lane) & np.uint64(31), _spread(clamp)
        segment = bound >> np.uint64(8) & np.uint64(31)
        first = LANE & segment
        last = first | (bound & ~segment & np.uint64(31))
        if mode == "up":
            within, other = by + last <= LANE, LANE - by
        else:
            inside = first | (by & ~segment & np.uint64(31))
            other = {"down": LANE + by, "bfly": LANE ^ by, "idx": inside}[str(mode)]
            within = other <= last
        source = np.where(within, other, LANE).astype(np.int64)
        asked = int(np.bitwise_or.reduce(np.left_shift(np.uint64(1), source.astype(np.uint64))[_lanes(mask)]))
        if asked & ~mask:
            return {"result": UNKNOWN, "in_range": UNKNOWN}
        return {"result": tidy(_spread(value)[source]), "in_range": tidy(within.astype(np.uint64))}

    return run


def _lanes(mask: int) -> list[int]:
    return [lane for lane in range(LANES) if mask >> lane & 1]


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
        there, numbers = members & mask, _spread(value)
        if axes["mode"] == "all":
            equal = type(among(value, there)) is int
            return {"lanes": there if equal else 0, "equal": int(equal)}
        return {"lanes": tidy(np.array([bits(numbers == one) & there for one in numbers], np.uint64))}

    return run


_REDUCED: dict[str, Callable[[list[int]], int]] = {
    "add": lambda given: sum(given) & ALL,
    "min": min,
    "max": max,
    "and": lambda given: int(np.bitwise_and.reduce(given)),
    "or": lambda given: int(np.bitwise_or.reduce(given)),
    "xor": lambda given: int(np.bitwise_xor.reduce(given)),
}


def _reduce(axes: dict[str, object]) -> Own:
    operation, element = str(axes.get("operation")), str(axes.get("element"))

    def run(_fiber: Fiber, _launch: Launch, inputs: Inputs, mask: int) -> dict[str, Any]:
        members, value = inputs("members"), inputs("value")
        if type(members) is not int or isinstance(value, Unknown) or element == "f32" or operation not in _REDUCED:
            return {"result": UNKNOWN}
        given = [int(one) for one in _spread(value)[_lanes(members & mask)]]
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
        mapped = (address & _OFFSET) | (rank << RANK_SHIFT if type(rank) is int else rank << np.uint64(RANK_SHIFT))
        return {"mapped": mapped if type(mapped) is int else tidy(mapped)}

    return run


def _rank_of(_axes: dict[str, object]) -> Own:
    def run(_fiber: Fiber, _launch: Launch, inputs: Inputs, _mask: int) -> dict[str, Any]:
        address = inputs("address")
        if isinstance(address, Unknown):
            return {"rank": UNKNOWN}
        return {"rank": address >> RANK_SHIFT if type(address) is int else tidy(address >> np.uint64(RANK_SHIFT))}

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
