"""The selector of tcgen05.mma: from a request and the exact target to the row, or to every reason against one.

The legal values are in the tables of `intrinsics.mma.tcgen05`. Messages that one document gives word for word are the
tileiras's (tcgen05 machine validation), with its spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nvbackend.diagnostics import Rule, raise_all, user_facing
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.mma import tcgen05 as table
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import PtxVersion, Row
from nvbackend.isel.select.tcgen05 import rules
from nvbackend.isel.select.tcgen05.request import Tcgen05Request
from nvbackend.isel.target.target import Gate, Target, Values, dotted, targets_with, why_not


def _words(values: Iterable[object]) -> str:
    return " or ".join(str(value) for value in values if value is not None)


def _gate(
    rule: Rule,
    broken: Callable[[Tcgen05Request, Target], bool],
    more: Callable[[Tcgen05Request], Values] = lambda _: {},
) -> Gate[Tcgen05Request]:
    """A gate whose texts take what the request says, the kinds without scale factors, and `more`."""

    def breach(request: Tcgen05Request, target: Target) -> Values | None:
        if not broken(request, target):
            return None
        return {
            "kind": request.kind,
            "target": target,
            "given": dotted(target.ptx_version),
            "cta_group": request.cta_group,
            "scale_vector": request.scale_vector,
            "collector": request.collector,
            "dense": ", ".join(tcgen05.DENSE_KINDS),
            **more(request),
        }

    return Gate(rule, breach)


def _of(features: Feature) -> Callable[[Tcgen05Request], Values]:
    return lambda _: {"instead": targets_with(features)}


def _is_scaled(request: Tcgen05Request) -> bool:
    """Whether the kind is one whose A and B have scale factors."""
    return request.of is not None and request.of.block_scale


TARGET = _gate(rules.TARGET, lambda _, target: not target.has_tmem, _of(Feature.TMEM))

KIND = _gate(rules.KIND, lambda request, _: request.of is None, lambda _: {"legal": ", ".join(tcgen05.KINDS)})

CTA_GROUP = _gate(
    rules.CTA_GROUP,
    lambda request, _: request.cta_group not in tcgen05.CTA_GROUPS or isinstance(request.cta_group, bool),
    lambda _: {"legal": _words(tcgen05.CTA_GROUPS)},
)


def _needed_ptx(request: Tcgen05Request) -> PtxVersion:
    return request.of.first_ptx(request.scale_vector) if request.of else tcgen05.PTX


PTX_VERSION = _gate(
    rules.PTX_VERSION,
    lambda request, target: target.has_tmem and target.ptx_version < _needed_ptx(request),
    lambda request: {
        "vector": f" with {request.scale_vector}" if request.scale_vector else "",
        "needed": dotted(_needed_ptx(request)),
    },
)

INT8 = _gate(
    rules.INT8,
    lambda request, target: target.has_tmem and request.of is not None and not target.has(request.of.requires),
    _of(Feature.TMEM_INT8),
)

SPARSE_FP4 = _gate(
    rules.SPARSE_FP4,
    lambda request, target: (
        target.has_tmem and request.sparse and request.of is not None and not target.has(request.of.sparse_requires)
    ),
    _of(Feature.TMEM | Feature.ARCH_CONDITIONAL),
)

SCALE_VECTOR_TARGET = _gate(
    rules.SCALE_VECTOR_TARGET,
    lambda request, target: (
        target.has_tmem and tcgen05.is_explicit(request.scale_vector) and not target.has_arch_conditional
    ),
    _of(Feature.TMEM | Feature.ARCH_CONDITIONAL),
)

SCALE_INPUT_TARGET = _gate(
    rules.SCALE_INPUT_TARGET,
    lambda request, target: target.has_tmem and request.scale_input_d and not target.has_scale_input_accumulator,
    _of(Feature.SCALE_INPUT_ACCUMULATOR),
)

SCALE_INPUT_KIND = _gate(
    rules.SCALE_INPUT_KIND,
    lambda request, _: request.scale_input_d and request.of is not None and not request.of.scales_input_d,
)

BLOCK_SCALE_KIND = _gate(
    rules.BLOCK_SCALE_KIND,
    lambda request, _: request.block_scale and request.of is not None and not _is_scaled(request),
    lambda _: {"legal": ", ".join(tcgen05.BLOCK_SCALED_KINDS)},
)

BLOCK_SCALE_NEEDED = _gate(rules.BLOCK_SCALE_NEEDED, lambda request, _: not request.block_scale and _is_scaled(request))

SCALE_VECTOR = _gate(
    rules.SCALE_VECTOR,
    lambda request, _: (
        request.of is not None
        and request.scale_vector is not None
        and request.scale_vector not in request.of.scale_vectors
    ),
    lambda request: {"legal": _words(request.of.scale_vectors if request.of else ()) or "none"},
)

SCALE_VECTOR_NEEDED = _gate(
    rules.SCALE_VECTOR_NEEDED,
    lambda request, _: (
        request.of is not None
        and request.of.block_scale
        and request.scale_vector is None
        and None not in request.of.scale_vectors
    ),
    lambda request: {"legal": _words(request.of.scale_vectors if request.of else ())},
)

ASHIFT_BLOCK_SCALE = _gate(
    rules.ASHIFT_BLOCK_SCALE, lambda request, _: request.ashift and (request.block_scale or _is_scaled(request))
)

ASHIFT_COLLECTOR = _gate(
    rules.ASHIFT_COLLECTOR,
    lambda request, _: request.ashift and request.collector in _unshifted(),
    lambda _: {"legal": _words(tcgen05.ASHIFT_COLLECTORS)},
)

ASHIFT_SHARED = _gate(rules.ASHIFT_SHARED, lambda request, _: request.ashift and not request.a_in_tmem)

WS_CTA_GROUP = _gate(
    rules.WS_CTA_GROUP, lambda request, _: request.weight_stationary and request.cta_group == tcgen05.CTA_GROUPS[-1]
)

WS_KIND = _gate(rules.WS_KIND, lambda request, _: request.weight_stationary and _is_scaled(request))

WS_OPERANDS = _gate(
    rules.WS_OPERANDS,
    lambda request, _: request.weight_stationary and bool(_not_stationary(request)),
    lambda request: {"given": " and no ".join(_not_stationary(request))},
)

ZERO_COLUMN_MASK = _gate(
    rules.ZERO_COLUMN_MASK, lambda request, _: request.zero_column_mask and not request.weight_stationary
)

OUTPUT_LANES = _gate(rules.OUTPUT_LANES, lambda request, _: request.disable_output_lane and _is_scaled(request))

COLLECTOR = _gate(
    rules.COLLECTOR,
    lambda request, _: request.collector not in _collectors(request),
    lambda request: {
        "form": "tcgen05.mma.ws" if request.weight_stationary else "tcgen05.mma",
        "legal": _words(_collectors(request)),
    },
)


def _unshifted() -> list[str | None]:
    return [collector for collector in tcgen05.COLLECTORS if collector not in tcgen05.ASHIFT_COLLECTORS]


def _collectors(request: Tcgen05Request) -> tuple[str | None, ...]:
    return tcgen05.WS_COLLECTORS if request.weight_stationary else tcgen05.COLLECTORS


def _not_stationary(request: Tcgen05Request) -> list[str]:
    return [name for name in ("ashift", "scale_input_d", "disable_output_lane") if getattr(request, name)]


GATES = (
    *(TARGET, KIND, CTA_GROUP, PTX_VERSION),
    *(INT8, SPARSE_FP4, SCALE_VECTOR_TARGET, SCALE_INPUT_TARGET, SCALE_INPUT_KIND),
    *(BLOCK_SCALE_KIND, BLOCK_SCALE_NEEDED, SCALE_VECTOR, SCALE_VECTOR_NEEDED),
    *(ASHIFT_BLOCK_SCALE, ASHIFT_COLLECTOR, ASHIFT_SHARED),
    *(WS_CTA_GROUP, WS_KIND, WS_OPERANDS, ZERO_COLUMN_MASK, OUTPUT_LANES, COLLECTOR),
)
"""Every gate. A request that breaks none has a row that ptxas takes for the target."""


def row_of(request: Tcgen05Request) -> Row:
    """The row of a request that breaks no rule."""
    if request.weight_stationary:
        return table.mma_ws(
            request.kind,
            a_in_tmem=request.a_in_tmem,
            sparse=request.sparse,
            collector=request.collector,
            zero_column_mask=request.zero_column_mask,
        )
    return table.mma(
        request.kind,
        cta_group=request.cta_group,
        a_in_tmem=request.a_in_tmem,
        sparse=request.sparse,
        scale_vector=request.scale_vector,
        collector=request.collector,
        ashift=request.ashift,
        scale_input_d=request.scale_input_d,
        disable_output_lane=request.disable_output_lane,
    )


@user_facing
def select_tcgen05(request: Tcgen05Request, target: Target) -> Row:
    """The row of `tcgen05.mma` or `tcgen05.mma.ws` that does `request` on `target`.

    Raises every broken rule of the request together (ids `tcgen05.*`), at the caller's line.
    """
    raise_all(why_not(GATES, request, target))
    return row_of(request)
