"""What a TMA tensor copy may be: every rule and its gate, for selector and verifier alike.

The legal values are in the tables of `intrinsics.copy.tma_tensor`; nothing here repeats one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from nvbackend.diagnostics import Rule, raise_all
from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.row.features import Feature
from nvbackend.isel.select.tma.request import DIRECTIONS, TmaRequest, row_of
from nvbackend.isel.target.target import Gate, Target, Values, dotted, targets_with, why_not

TILEIRAS = "tileiras documents: TMA and im2col validation"


def _words(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def _modes(request: TmaRequest) -> Iterable[str] | None:
    return DIRECTIONS.get(request.direction) if isinstance(request.direction, str) else None


def _is_load(request: TmaRequest) -> bool:
    return request.direction == "load"


def _has_rank(request: TmaRequest) -> bool:
    return isinstance(request.rank, int) and request.rank in tma_tensor.RANKS


def _other_rank(request: TmaRequest, *, im2col: bool) -> bool:
    mode = request.found_mode
    return mode is not None and mode.is_im2col is im2col and _has_rank(request) and request.rank not in mode.ranks


def _lacks_mode(request: TmaRequest, target: Target, *, im2col: bool) -> bool:
    mode = request.found_mode
    return mode is not None and mode.is_im2col is im2col and not target.has(request.mode_needs)


def _gate(
    rule: Rule, broken: Callable[[TmaRequest, Target], bool], needs: Callable[[TmaRequest], Feature] | None = None
) -> Gate[TmaRequest]:
    """A gate whose texts take any of the request's values; `needs` are the features of the targets that they name."""

    def breach(request: TmaRequest, target: Target) -> Values | None:
        if not broken(request, target):
            return None
        values = _values(request, target)
        return values | {"instead": targets_with(needs(request))} if needs else values

    return Gate(rule, breach)


def _values(request: TmaRequest, target: Target) -> Values:
    modes = _modes(request) or ()
    near = difflib.get_close_matches(str(request.mode), modes, n=1, cutoff=0.4)
    return {
        "direction": request.direction,
        "directions": _words(DIRECTIONS),
        "mode": request.mode,
        "modes": _words(modes),
        "nearest": near[0] if near else "tile",
        "rank": request.rank,
        "destination": request.destination,
        "operation": request.operation,
        "operations": _words(tma_tensor.REDUCTIONS),
        "group": request.cta_group,
        "target": target,
        "instruction": f"cp.async.bulk.tensor {request.direction} in mode {request.mode}",
    }


TARGET = _gate(
    Rule(
        id="tma.target",
        message="{target} has no TMA: {instruction} needs compute capability 9.0",
        fix="copy with cp.async and ordinary stores, or compile for sm_90a",
        why="LLVM ends the process where it cannot select the instruction.",
        reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; ptxas 13.5",
    ),
    lambda _, target: not target.has(Feature.SM_90),
)
DIRECTION = _gate(
    Rule(
        id="tma.direction",
        message="a tensor copy has no direction {direction!r}",
        fix="use one of {directions}",
        why="Nothing can be selected for it.",
        reference="PTX ISA 9.7.9 (cp.async.bulk.tensor)",
    ),
    lambda request, _: _modes(request) is None,
)
MODE = _gate(
    Rule(
        id="tma.mode",
        message="a tensor {direction} has no mode {mode!r}",
        fix="use {nearest}; there are {modes}",
        why="ptxas refuses the qualifier, or takes it and documents nothing.",
        reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .load_mode; ptxas 13.5",
    ),
    lambda request, _: _modes(request) is not None and request.found_mode is None,
)
RANK = _gate(
    Rule(
        id="tma.rank",
        message="TMA rank must be in the range 1..5",
        fix="give a tensor map of 1 to 5 dimensions and one coordinate for each; {rank} were given",
        why="The instruction exists for these ranks only, and the rank is part of its spelling.",
        reference=f"PTX ISA 9.7.9 (cp.async.bulk.tensor); {TILEIRAS}",
    ),
    lambda request, _: not _has_rank(request),
)
IM2COL_RANK = _gate(
    Rule(
        id="tma.im2col-rank",
        message="im2col tensor copies require at least three dimensions",
        fix="use a tensor map of 3 to 5 dimensions (channels, space, batch) in mode {mode}; this one has {rank}",
        why="A patch lies along the dimensions between channels and batch.",
        reference=f"PTX ISA 5.5.4 (im2col mode); {TILEIRAS}",
    ),
    lambda request, _: _other_rank(request, im2col=True),
)
ROWS_RANK = _gate(
    Rule(
        id="tma.rows-rank",
        message="{mode} copies four rows of a tensor of two dimensions, not of {rank}",
        fix="use a tensor map of two dimensions: one column and four rows are the coordinates",
        why="The instruction exists for two dimensions only, with five coordinates.",
        reference="PTX ISA 5.5.3 (tile::gather4 and tile::scatter4); ptxas 13.5",
    ),
    lambda request, _: _other_rank(request, im2col=False),
)
DESTINATION = _gate(
    Rule(
        id="tma.destination",
        message="a load writes to shared memory of the cluster or of the cta, not of {destination!r}",
        fix='use "cluster", or "cta" where the kernel has no cluster',
        why="The destination is part of the instruction's spelling.",
        reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .dst",
    ),
    lambda request, _: _is_load(request) and request.destination not in tma_tensor.DESTINATIONS,
)
MULTICAST = _gate(
    Rule(
        id="tma.multicast-form",
        message="multicast belongs to a load into shared::cluster, "
        "not to a {direction} with destination {destination!r}",
        fix='load with destination "cluster", or leave multicast out',
        why="No other form has a mask of CTAs, and every CTA would have to copy for itself.",
        reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .multicast",
    ),
    lambda request, _: request.multicast and not (_is_load(request) and request.destination != "cta"),
)
CTA_GROUP = _gate(
    Rule(
        id="tma.cta-group",
        message="a tensor {direction} has no cta_group {group!r}",
        fix="use 1 or 2 for a load, and leave it out elsewhere",
        why="ptxas refuses the qualifier.",
        reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .cta_group",
    ),
    lambda request, _: (
        request.cta_group is not None and not (_is_load(request) and request.cta_group in tma_tensor.CTA_GROUPS)
    ),
)
REDUCTION = _gate(
    Rule(
        id="tma.reduction",
        message="a tensor {direction} has no operation {operation!r}",
        fix="reduce with one of {operations}; other directions take none",
        why="The operation is part of the instruction's spelling.",
        reference="PTX ISA 9.7.9 (cp.reduce.async.bulk.tensor), .redOp",
    ),
    lambda request, _: request.operation not in (tma_tensor.REDUCTIONS if request.direction == "reduce" else (None,)),
)
FORM_GATES = (DIRECTION, MODE, RANK, IM2COL_RANK, ROWS_RANK, DESTINATION, MULTICAST, CTA_GROUP, REDUCTION)
"""What no target has. A request that breaks none has a row."""
MULTICAST_TARGET = _gate(
    Rule(
        id="tma.multicast-target",
        message="cluster multicast TMA requires a compatible SM target",
        fix="load without multicast, or compile for {instead}; {target} has no clusters",
        why="LLVM ends the process where it cannot select the instruction.",
        reference=f"PTX ISA 9.7.9 (cp.async.bulk.tensor); {TILEIRAS}",
    ),
    lambda request, target: request.multicast and not target.has(Feature.CLUSTER_MULTICAST),
    lambda _: Feature.CLUSTER_MULTICAST,
)
WIDE_TARGET = _gate(
    Rule(
        id="tma.wide-im2col-target",
        message="wide im2col tensor copies are not supported on this architecture",
        fix="use mode im2col, or compile for {instead}; {target} has no {mode} with this destination",
        why="LLVM ends the process where it cannot select the instruction.",
        reference=f"PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; ptxas 13.5; {TILEIRAS}",
    ),
    lambda request, target: _lacks_mode(request, target, im2col=True),
    lambda request: request.mode_needs,
)
ROWS_TARGET = _gate(
    Rule(
        id="tma.rows-target",
        message="{target} has no {mode} with this destination",
        fix="copy row by row in mode tile, or compile for {instead}",
        why="LLVM ends the process where it cannot select the instruction.",
        reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; ptxas 13.5",
    ),
    lambda request, target: _lacks_mode(request, target, im2col=False),
    lambda request: request.mode_needs,
)
TWO_CTA_TARGET = _gate(
    Rule(
        id="tma.two-cta-target",
        message="two-CTA TMA tensor copies are not supported on this architecture",
        fix="leave cta_group out, or compile for {instead}; {target} has no pairs of CTAs",
        why="LLVM ends the process where it cannot select the instruction.",
        reference=f"PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; {TILEIRAS}",
    ),
    lambda request, target: request.cta_group is not None and not target.has(Feature.TWO_CTA_TMA),
    lambda _: Feature.TWO_CTA_TMA,
)


def _old_ptx(request: TmaRequest, target: Target) -> Values | None:
    if why_not(FORM_GATES, request, target):
        return None
    needed = row_of(request).ptx_version
    if target.ptx_version >= needed:
        return None
    return _values(request, target) | {"needed": dotted(needed), "given": dotted(target.ptx_version)}


PTX_VERSION = Gate(
    Rule(
        id="tma.ptx-version",
        message="{instruction} needs PTX {needed} or later; {target} is compiled with PTX {given}",
        fix="leave the PTX version of the target out, or give {needed} or later",
        why="ptxas refuses the instruction, or LLVM ends the process.",
        reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), PTX ISA Notes; ptxas 13.5",
    ),
    _old_ptx,
)
GATES = (TARGET, *FORM_GATES, MULTICAST_TARGET, WIDE_TARGET, ROWS_TARGET, TWO_CTA_TARGET, PTX_VERSION)
"""Every gate. A request that breaks none has a row that ptxas takes for the target."""


def check_multicast_target(target: Target) -> None:
    """Raises tma.multicast-target unless `target` can load one box into several CTAs of a cluster."""
    raise_all(why_not((MULTICAST_TARGET,), TmaRequest(rank=1, multicast=True), target))
