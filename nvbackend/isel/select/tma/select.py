"""The selector of a TMA tensor copy: from a request and the exact target to the row, or to every reason against one.

The legal values are in the tables of `intrinsics.copy.tma_tensor`; nothing here repeats one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nvbackend.diagnostics import Rule, misspelt, raise_all, user_facing
from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.select.tma import rules
from nvbackend.isel.select.tma.request import DIRECTIONS, TmaRequest
from nvbackend.isel.target.target import Gate, Target, Values, dotted, targets_with, why_not


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
    near = [mode for mode in modes if mode.startswith(str(request.mode))] or misspelt(str(request.mode), modes)
    return {
        "direction": request.direction,
        "directions": _words(DIRECTIONS),
        "mode": request.mode,
        "modes": _words(modes),
        "meant": f"; did you mean {near[0]}?" if near else "",
        "rank": request.rank,
        "destination": request.destination,
        "operation": request.operation,
        "operations": _words(tma_tensor.REDUCTIONS),
        "group": request.cta_group,
        "target": target,
        "instruction": f"cp.async.bulk.tensor {request.direction} in mode {request.mode}",
    }


TARGET = _gate(rules.TARGET, lambda _, target: not target.has(Feature.SM_90))

DIRECTION = _gate(rules.DIRECTION, lambda request, _: _modes(request) is None)

MODE = _gate(rules.MODE, lambda request, _: _modes(request) is not None and request.found_mode is None)

RANK = _gate(rules.RANK, lambda request, _: not _has_rank(request))

IM2COL_RANK = _gate(rules.IM2COL_RANK, lambda request, _: _other_rank(request, im2col=True))

ROWS_RANK = _gate(rules.ROWS_RANK, lambda request, _: _other_rank(request, im2col=False))

DESTINATION = _gate(
    rules.DESTINATION, lambda request, _: _is_load(request) and request.destination not in tma_tensor.DESTINATIONS
)

MULTICAST = _gate(
    rules.MULTICAST, lambda request, _: request.multicast and not (_is_load(request) and request.destination != "cta")
)

CTA_GROUP = _gate(
    rules.CTA_GROUP,
    lambda request, _: (
        request.cta_group is not None and not (_is_load(request) and request.cta_group in tma_tensor.CTA_GROUPS)
    ),
)

REDUCTION = _gate(
    rules.REDUCTION,
    lambda request, _: request.operation not in (tma_tensor.REDUCTIONS if request.direction == "reduce" else (None,)),
)

FORM_GATES = (DIRECTION, MODE, RANK, IM2COL_RANK, ROWS_RANK, DESTINATION, MULTICAST, CTA_GROUP, REDUCTION)
"""What no target has. A request that breaks none has a row."""

MULTICAST_TARGET = _gate(
    rules.MULTICAST_TARGET,
    lambda request, target: request.multicast and not target.has(Feature.CLUSTER_MULTICAST),
    lambda _: Feature.CLUSTER_MULTICAST,
)

WIDE_TARGET = _gate(
    rules.WIDE_TARGET,
    lambda request, target: _lacks_mode(request, target, im2col=True),
    lambda request: request.mode_needs,
)

ROWS_TARGET = _gate(
    rules.ROWS_TARGET,
    lambda request, target: _lacks_mode(request, target, im2col=False),
    lambda request: request.mode_needs,
)

TWO_CTA_TARGET = _gate(
    rules.TWO_CTA_TARGET,
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


PTX_VERSION = Gate(rules.PTX_VERSION, _old_ptx)

GATES = (TARGET, *FORM_GATES, MULTICAST_TARGET, WIDE_TARGET, ROWS_TARGET, TWO_CTA_TARGET, PTX_VERSION)
"""Every gate. A request that breaks none has a row that ptxas takes for the target."""


def check_multicast_target(target: Target) -> None:
    """Raises tma.multicast-target unless `target` can load one box into several CTAs of a cluster."""
    raise_all(why_not((MULTICAST_TARGET,), TmaRequest(rank=1, multicast=True), target))


def row_of(request: TmaRequest) -> Row:
    """The row of a request that breaks no rule."""
    if request.direction == "load":
        return tma_tensor.load_tensor(
            request.rank,
            request.mode,
            request.destination,
            multicast=request.multicast,
            cta_group=request.cta_group,
            cache_hint=request.cache_hint,
        )
    if request.direction == "reduce":
        operation = str(request.operation)
        return tma_tensor.reduce_tensor(request.rank, operation, request.mode, cache_hint=request.cache_hint)
    factory = tma_tensor.store_tensor if request.direction == "store" else tma_tensor.prefetch_tensor
    return factory(request.rank, request.mode, cache_hint=request.cache_hint)


@user_facing
def select_tma(request: TmaRequest, target: Target) -> Row:
    """The row of the tensor copy that does `request` on `target`.

    Raises every broken rule of the request together (ids `tma.*`), at the caller's line.
    """
    raise_all(why_not(GATES, request, target))
    return row_of(request)
