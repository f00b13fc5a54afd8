"""What a TMA tensor copy may be: every rule and its predicate, and the selector.

The legal values are in the tables of `intrinsics.copy.tma_tensor`; nothing here repeats one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from nvbackend.diagnostics import Diagnostic, Location, Rule, raise_all, user_facing
from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.select.family_rules import TMA_MULTICAST_TARGET, TMA_RANK, is_tma_rank
from nvbackend.isel.select.tma.request import DIRECTIONS, TmaRequest
from nvbackend.isel.target.gates import RequestGate, Values, broken_gates
from nvbackend.isel.target.target import Target, dotted, target_names

TILEIRAS = "tileiras documents: TMA and im2col validation"


def _words(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


@cache
def _targets(features: Feature) -> str:
    return f"one of {_words(name for name in target_names() if Target.parse(name).has(features))}"


def _values(request: TmaRequest, target: Target) -> Values:
    """The values that the texts of the rules name."""
    modes = DIRECTIONS.get(request.direction) if isinstance(request.direction, str) else None
    near = difflib.get_close_matches(str(request.mode), modes or (), n=1, cutoff=0.4)
    return {
        "direction": request.direction,
        "directions": _words(DIRECTIONS),
        "mode": request.mode,
        "modes": _words(modes or ()),
        "nearest": near[0] if near else "tile",
        "rank": request.rank,
        "destination": request.destination,
        "operation": request.operation,
        "operations": _words(tma_tensor.REDUCTIONS),
        "group": request.cta_group,
        "target": target,
        "instruction": f"cp.async.bulk.tensor {request.direction} in mode {request.mode}",
    }


TARGET = Rule(
    id="tma.target",
    message="{target} has no TMA: {instruction} needs compute capability 9.0",
    fix="copy with cp.async and ordinary stores, or compile for sm_90a",
    why="LLVM ends the process where it cannot select the instruction.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; ptxas 13.5",
)
DIRECTION = Rule(
    id="tma.direction",
    message="a tensor copy has no direction {direction!r}",
    fix="use one of {directions}",
    why="Nothing can be selected for it.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor)",
)
MODE = Rule(
    id="tma.mode",
    message="a tensor {direction} has no mode {mode!r}",
    fix="use {nearest}; there are {modes}",
    why="ptxas refuses the qualifier, or takes it and documents nothing.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .load_mode; ptxas 13.5",
)
IM2COL_RANK = Rule(
    id="tma.im2col-rank",
    message="im2col tensor copies require at least three dimensions",
    fix="use a tensor map of 3 to 5 dimensions (channels, space, batch) in mode {mode}; this one has {rank}",
    why="A patch lies along the dimensions between channels and batch.",
    reference=f"PTX ISA 5.5.4 (im2col mode); {TILEIRAS}",
)
ROWS_RANK = Rule(
    id="tma.rows-rank",
    message="{mode} copies four rows of a tensor of two dimensions, not of {rank}",
    fix="use a tensor map of two dimensions: one column and four rows are the coordinates",
    why="The instruction exists for two dimensions only, with five coordinates.",
    reference="PTX ISA 5.5.3 (tile::gather4 and tile::scatter4); ptxas 13.5",
)
DESTINATION = Rule(
    id="tma.destination",
    message="a load writes to shared memory of the cluster or of the cta, not of {destination!r}",
    fix='use "cluster", or "cta" where the kernel has no cluster',
    why="The destination is part of the instruction's spelling.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .dst",
)
MULTICAST = Rule(
    id="tma.multicast-form",
    message="multicast belongs to a load into shared::cluster, not to a {direction} with destination {destination!r}",
    fix='load with destination "cluster", or leave multicast out',
    why="No other form has a mask of CTAs, and every CTA would have to copy for itself.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .multicast",
)
CTA_GROUP = Rule(
    id="tma.cta-group",
    message="a tensor {direction} has no cta_group {group!r}",
    fix="use 1 or 2 for a load, and leave it out elsewhere",
    why="ptxas refuses the qualifier.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .cta_group",
)
REDUCTION = Rule(
    id="tma.reduction",
    message="a tensor {direction} has no operation {operation!r}",
    fix="reduce with one of {operations}; other directions take none",
    why="The operation is part of the instruction's spelling.",
    reference="PTX ISA 9.7.9 (cp.reduce.async.bulk.tensor), .redOp",
)
WIDE_TARGET = Rule(
    id="tma.wide-im2col-target",
    message="wide im2col tensor copies are not supported on this architecture",
    fix="use mode im2col, or compile for {instead}; {target} has no {mode} with this destination",
    why="LLVM ends the process where it cannot select the instruction.",
    reference=f"PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; ptxas 13.5; {TILEIRAS}",
)
ROWS_TARGET = Rule(
    id="tma.rows-target",
    message="{target} has no {mode} with this destination",
    fix="copy row by row in mode tile, or compile for {instead}",
    why="LLVM ends the process where it cannot select the instruction.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; ptxas 13.5",
)
TWO_CTA_TARGET = Rule(
    id="tma.two-cta-target",
    message="two-CTA TMA tensor copies are not supported on this architecture",
    fix="leave cta_group out, or compile for {instead}; {target} has no pairs of CTAs",
    why="LLVM ends the process where it cannot select the instruction.",
    reference=f"PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; {TILEIRAS}",
)
PTX_VERSION = Rule(
    id="tma.ptx-version",
    message="{instruction} needs PTX {needed} or later; {target} is compiled with PTX {given}",
    fix="leave the PTX version of the target out, or give {needed} or later",
    why="ptxas refuses the instruction, or LLVM ends the process.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), PTX ISA Notes; ptxas 13.5",
)


def _is_load(request: TmaRequest) -> bool:
    return request.direction == "load"


def _direction_holds(request: TmaRequest, _: Target) -> bool:
    return isinstance(request.direction, str) and request.direction in DIRECTIONS


def _mode_holds(request: TmaRequest, target: Target) -> bool:
    return not _direction_holds(request, target) or request.found_mode is not None


def _rank_holds(request: TmaRequest, _: Target) -> bool:
    return isinstance(request.rank, int) and is_tma_rank(request.rank)


def _im2col_rank_holds(request: TmaRequest, target: Target) -> bool:
    mode = request.found_mode
    return mode is None or not mode.is_im2col or not _rank_holds(request, target) or request.rank in mode.ranks


def _rows_rank_holds(request: TmaRequest, target: Target) -> bool:
    mode = request.found_mode
    return mode is None or mode.is_im2col or not _rank_holds(request, target) or request.rank in mode.ranks


def _destination_holds(request: TmaRequest, _: Target) -> bool:
    return not _is_load(request) or request.destination in tma_tensor.DESTINATIONS


def _multicast_holds(request: TmaRequest, _: Target) -> bool:
    return not request.multicast or (_is_load(request) and request.destination != "cta")


def _cta_group_holds(request: TmaRequest, _: Target) -> bool:
    return request.cta_group is None or (_is_load(request) and request.cta_group in tma_tensor.CTA_GROUPS)


def _reduction_holds(request: TmaRequest, _: Target) -> bool:
    if request.direction == "reduce":
        return request.operation in tma_tensor.REDUCTIONS
    return request.operation is None


def _target_holds(_: TmaRequest, target: Target) -> bool:
    return target.has(Feature.SM_90)


def _multicast_target_holds(request: TmaRequest, target: Target) -> bool:
    return not request.multicast or target.has(Feature.CLUSTER_MULTICAST)


def _wide_target_holds(request: TmaRequest, target: Target) -> bool:
    mode = request.found_mode
    return mode is None or not mode.is_wide or target.has(request.mode_needs)


def _rows_target_holds(request: TmaRequest, target: Target) -> bool:
    mode = request.found_mode
    return mode is None or mode.is_im2col or target.has(request.mode_needs)


def _two_cta_target_holds(request: TmaRequest, target: Target) -> bool:
    return request.cta_group is None or target.has(Feature.TWO_CTA_TMA)


def _mode_target_values(request: TmaRequest, target: Target) -> Values:
    return {**_values(request, target), "instead": _targets(request.mode_needs)}


def _two_cta_values(request: TmaRequest, target: Target) -> Values:
    return {**_values(request, target), "instead": _targets(Feature.TWO_CTA_TMA)}


def _multicast_target_values(request: TmaRequest, target: Target) -> Values:
    return {**_values(request, target), "instead": _targets(Feature.CLUSTER_MULTICAST)}


FORM_GATES: tuple[RequestGate[TmaRequest], ...] = (
    RequestGate(DIRECTION, _direction_holds, _values),
    RequestGate(MODE, _mode_holds, _values),
    RequestGate(TMA_RANK, _rank_holds, _values),
    RequestGate(IM2COL_RANK, _im2col_rank_holds, _values),
    RequestGate(ROWS_RANK, _rows_rank_holds, _values),
    RequestGate(DESTINATION, _destination_holds, _values),
    RequestGate(MULTICAST, _multicast_holds, _values),
    RequestGate(CTA_GROUP, _cta_group_holds, _values),
    RequestGate(REDUCTION, _reduction_holds, _values),
)
"""What no target has. A request that keeps them has a row."""


def _ptx_holds(request: TmaRequest, target: Target) -> bool:
    return bool(broken_gates(FORM_GATES, request, target)) or target.ptx_version >= request.row().ptx_version


def _ptx_values(request: TmaRequest, target: Target) -> Values:
    needed = dotted(request.row().ptx_version)
    return {**_values(request, target), "needed": needed, "given": dotted(target.ptx_version)}


GATES: tuple[RequestGate[TmaRequest], ...] = (
    RequestGate(TARGET, _target_holds, _values),
    *FORM_GATES,
    RequestGate(TMA_MULTICAST_TARGET, _multicast_target_holds, _multicast_target_values),
    RequestGate(WIDE_TARGET, _wide_target_holds, _mode_target_values),
    RequestGate(ROWS_TARGET, _rows_target_holds, _mode_target_values),
    RequestGate(TWO_CTA_TARGET, _two_cta_target_holds, _two_cta_values),
    RequestGate(PTX_VERSION, _ptx_holds, _ptx_values),
)
"""Every gate. A request with no broken one has a row that ptxas takes for the target."""
RULES: tuple[Rule, ...] = tuple(gate.rule for gate in GATES)


def violations(request: TmaRequest, target: Target, at: Location | None = None) -> list[Diagnostic]:
    """Every rule that `request` breaks on `target`, in the order of GATES, at `at` or else at the caller's line."""
    return broken_gates(GATES, request, target, at)


@user_facing
def select_tma(request: TmaRequest, target: Target) -> Row:
    """The row of the tensor copy that does `request` on `target`.

    Raises every broken rule of the request together (ids `tma.*`), at the caller's line.
    """
    raise_all(violations(request, target))
    return request.row()
