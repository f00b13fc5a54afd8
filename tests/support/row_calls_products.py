"""The builder calls of matrix products and of tensor memory, from a row's axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvbackend.builder.core.memory import Address
from nvbackend.builder.ops.matrix.wmma import register_type
from nvbackend.builder.values.values import Value
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, f32, pred, s32, tf32, u32
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor
from nvbackend.isel.select.mma import request as mma_request
from nvbackend.isel.select.tcgen05 import request as tcgen05_request
from nvbackend.isel.select.tcgen05 import shapes as tcgen05_shapes
from nvbackend.isel.select.wgmma import request as wgmma_request
from nvbackend.isel.select.wmma import request as wmma_request
from tests.support.row_bench import Bench


def wgmma(u: Bench, row: Row) -> None:
    request = wgmma_request.request_of(row)
    accumulator = u.k.wgmma.accumulator(request.n, request.d)
    a = u.k.wgmma.fragment(u.of(row, "a"), request.a) if request.a_in_registers else u.wide
    metadata = {"metadata": u.word} if request.sparse else {}
    u.k.wgmma.mma_async(accumulator, a, u.wide, request, **metadata)


def mma(u: Bench, row: Row) -> None:
    optional = {one.name: u.word for one in row.inputs if one.name in ("metadata", "scale_a", "scale_b")}
    given = [[_as_held(u, row, name, one) for one in u.of(row, name)] for name in ("a", "b", "c")]
    u.k.mma.sync(mma_request.request_of(row), *given, **optional)


def _as_held(u: Bench, row: Row, name: str, value: Value) -> Value:
    """s32 and tf32 registers have their own type in the builder, though PTX holds them in b32."""
    element = mma_request.request_of(row).instruction
    own = {"a": element.a, "b": element.b, "c": element.c}[name]
    return u.values[s32] if own is s32 else u.values[f32] if own is tf32 else value


def _shape(row: Row) -> str:
    return "".join(f"{letter}{extent}" for letter, extent in zip("mnk", row.axes["shape"], strict=True))  # type: ignore[call-overload]


def _wmma_fragment(u: Bench, fragment: str, shape: str, element: ElementType, count: int, layout: str) -> Any:
    return u.k.wmma.fragment(fragment, shape, element, [u.values[register_type(element)]] * count, layout=layout)


def wmma(u: Bench, row: Row) -> None:
    request = wmma_request.request_of(row)
    shape = _shape(row)
    if isinstance(request, wmma_request.WmmaRequest):
        kinds = {"a": request.a, "b": request.b, "c": request.c}
        layouts = {"a": request.a_layout, "b": request.b_layout, "c": "row"}
        given = [
            _wmma_fragment(u, name, shape, element, row.operand(name).count, layouts[name])
            for name, element in kinds.items()
        ]
        u.k.wmma.mma(*given, request.d, satfinite=request.satfinite, rounding=request.rounding, popc=request.popc)
        return
    place = u.place(request.space)
    address = place.cast(request.element) if isinstance(place, Address) else place
    options = {"layout": request.layout, **({"stride": 128} if request.strided else {})}
    if request.operation == "load":
        u.k.wmma.load(request.fragment, shape, request.element, address, **options)
    else:
        count = row.operand("fragment").count
        u.k.wmma.store(address, _wmma_fragment(u, "c", shape, request.element, count, "row"), **options)


def _descriptor(request: Any) -> InstructionDescriptor:
    """A descriptor that the instruction takes: its first legal shape of the kind's first types."""
    m, n = tcgen05_shapes.legal_m(request)[-1], max(tcgen05_shapes.legal_n(request))
    types = {
        "f16": ("f16", "f16", "f32", None),
        "tf32": ("tf32", "tf32", "f32", None),
        "i8": ("s8", "s8", "s32", None),
        "f8f6f4": ("e4m3", "e4m3", "f32", None),
        "mxf8f6f4": ("e4m3", "e4m3", "f32", "ue8m0"),
        "mxf4": ("e2m1", "e2m1", "f32", "ue8m0"),
        "mxf4nvf4": ("e2m1", "e2m1", "f32", "ue8m0"),
    }[request.kind]
    a, b, d, scale = (BY_NAME[one] if one else None for one in types)
    assert a is not None
    assert b is not None
    assert d is not None
    return InstructionDescriptor(kind=request.kind, m=m, n=n, a=a, b=b, d=d, scale=scale, sparse=request.sparse)


def tcgen05(u: Bench, row: Row) -> None:
    request = tcgen05_request.request_of(row)
    counts = {one.name: one.count for one in row.operands}
    named = {"metadata": u.word, "scale_a": u.word, "scale_b": u.word}
    optional: dict[str, Any] = {name: value for name, value in named.items() if name in counts}
    optional |= {"output_lanes": [u.word] * counts["lanes"]} if "lanes" in counts else {}
    optional |= {"scale_input_d": 1} if "scale_d" in counts else {}
    optional |= {"zero_column_mask": u.wide} if "zero_mask" in counts else {}
    a = u.word if request.a_in_tmem else u.wide
    u.k.tcgen05.mma(request, u.word, a, u.wide, _descriptor(request), accumulate=u.values[pred], **optional)


def tmem(call: str) -> Callable[[Bench, Row], None]:
    def emit(u: Bench, row: Row) -> None:
        axes: dict[str, Any] = dict(row.axes)
        if call == "tcgen05_commit":
            mask = {"multicast_mask": 3} if axes["multicast"] else {}
            if axes["space"] is None:
                u.k.tcgen05.commit(u.wide, cta_group=axes["cta_group"], **mask)
            else:
                u.k.tcgen05.commit(u.barrier, cta_group=axes["cta_group"], **mask)
        elif call == "tcgen05_alloc" and axes["space"] is None:
            u.k.tcgen05.alloc(u.wide, 32, cta_group=axes["cta_group"])
        elif call == "tcgen05_alloc":
            u.k.tcgen05.alloc(u.shared.cast(u32), 32, cta_group=axes["cta_group"])
        elif call == "tcgen05_dealloc":
            u.k.tcgen05.dealloc(u.word, 32, cta_group=axes["cta_group"])
        elif call == "tcgen05_cp":
            shape, repeat = axes.pop("shape"), axes.pop("repeat")
            u.k.tcgen05.cp(u.word, u.wide, shape, repeat, **axes)
        elif call == "tcgen05_ld":
            u.k.tcgen05.ld(u.word, axes["shape"], axes["count"], pack=axes["pack"])
        elif call == "tcgen05_st":
            u.k.tcgen05.st(u.word, axes["shape"], u.of(row, "values"), unpack=axes["unpack"])
        else:
            shape, count, operation = axes.pop("shape"), axes.pop("count"), axes.pop("operation")
            kind = BY_NAME[str(axes.pop("type"))]
            u.k.tcgen05.ld(u.word, shape, count, red=operation, type=kind, **axes)

    return emit


def tmem_fence(u: Bench, row: Row) -> None:
    if row.axes["side"] == "before":
        u.k.tcgen05.fence_before_thread_sync()
    else:
        u.k.tcgen05.fence_after_thread_sync()
