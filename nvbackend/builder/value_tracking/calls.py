"""What is known of the result of a call: special registers, exchange between lanes, elections, pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np
from llvmlite import ir

from nvbackend.builder.thread_tables.arithmetic import Numbers, constant
from nvbackend.builder.thread_tables.cta import AXES, Cta
from nvbackend.builder.value_tracking import exchange
from nvbackend.builder.value_tracking.exchange import Found
from nvbackend.builder.value_tracking.known import Known
from nvbackend.intrinsics.row.hierarchy import WARP_SIZE
from nvbackend.intrinsics.row.row import Asm, Row
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import cluster, special_registers, warp
from nvbackend.isel.machine.function import Scope

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
    Scope.GRID: tuple(f"{name}.{axis}" for name in ("nctaid", "nclusterid", "cluster_nctaid") for axis in AXES),
    Scope.CLUSTER: tuple(f"clusterid.{axis}" for axis in AXES),
    Scope.CTA: tuple(f"{name}.{axis}" for name in ("ctaid", "cluster_ctaid") for axis in AXES),
}
"""Special registers that are certainly the same over a scope, and differ between such."""
_APPARENT = {"warpid": Scope.WARP, "smid": Scope.CTA}
"""Those that may change while the kernel runs."""
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
    apparent = min((one.apparent for one in operands), default=Scope.GRID)
    if name == _name_of(cluster.mapa()):
        return Known(certain=min(one.certain for one in operands), apparent=apparent)
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
        **dict.fromkeys(("cluster_ctarank", "cluster_ctaid.x"), _rank),
        **dict.fromkeys(("cluster_nctarank", "cluster_nctaid.x"), _ranks),
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
        rules[_name_of(warp.vote(mode))] = partial(_collected, f"vote {mode}", 1, False)
    for bits in warp.MATCH_REGISTERS:
        rules[_name_of(warp.match("any", bits))] = partial(_collected, "match any", bits, False)
        rules[_name_of(warp.match("all", bits))] = partial(_collected, "match all", bits, False)
        rules[_name_of(warp.match("all", bits, all_equal=True))] = partial(_collected, "match all", bits, True)
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


# -- who the thread is ------------------------------------------------------------------------------------------------


def _index(axis: int, cta: Cta) -> Known:
    return Known(cta.along(axis), apparent=Scope.THREAD)


def _extent(axis: int, cta: Cta) -> Known:
    return Known(None if cta.shape is None else constant(cta.shape[axis], _REGISTER), certain=Scope.GRID)


def _same(certain: Scope, apparent: Scope, _: Cta) -> Known:
    return Known(certain=certain, apparent=apparent)


def _rank(cta: Cta) -> Known:
    """The CTA's rank, which is its index along x: clusters lie along that axis."""
    return Known(cta.rank, certain=Scope.CTA, apparent=Scope.CTA)


def _ranks(cta: Cta) -> Known:
    return Known(None if cta.rank is None else constant(cta.cluster, _REGISTER), certain=Scope.GRID)


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
    result, within = exchange.shuffled(cta, mode, members, value, lane, clamp)
    certain = value.certain if value.certain >= Scope.WARP else Scope.THREAD
    apparent = min(one.apparent for one in operands)
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


def _collected(operation: str, width: int, aggregate: bool, cta: Cta, operands: _Operands) -> Known:
    members, value = operands
    certain, apparent = (min(one) for one in zip(*((one.certain, one.apparent) for one in operands), strict=True))
    if operation != "match any":
        apparent = max(apparent, Scope.WARP)
        certain = max(certain, Scope.WARP) if _is_all(members) else certain
    if operation not in exchange.COLLECTIONS:
        return Known(certain=certain, apparent=apparent)
    found = exchange.collected(cta, operation, members, value, width)
    parts = tuple(_known(one, certain, apparent) for one in found)
    return Known(parts=parts) if aggregate else parts[0]


def _reduced(operation: str, cta: Cta, operands: _Operands) -> Known:
    return _collected(operation, _REGISTER, False, cta, operands[::-1])


def _known(found: Found, certain: Scope, apparent: Scope) -> Known:
    if found is None:
        return Known(certain=certain, apparent=apparent)
    numbers, where = found
    return Known(numbers, None if where.all() else where, certain=certain, apparent=apparent)
