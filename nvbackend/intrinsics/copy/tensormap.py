"""Rows on the tensor map itself: change its fields on the GPU, publish it, fence it, prefetch it.

PTX ISA 9.7.9 (tensormap.replace, prefetch.tensormap), 9.7.13 (tensormap.cp_fenceproxy, fence.proxy.tensormap). A map is
128 bytes; it is changed in shared or global memory, and copies that use it come after an acquiring fence.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy.map_elements import ELEMENT_TYPES, PACKED_TYPES
from nvbackend.intrinsics.copy.tma import BULK_PTX, FAMILY, TENSOR_MAP
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    Intrinsic,
    PtxVersion,
    RegisterClass,
    Row,
    RowOperand,
    chosen,
    immediate,
    operand,
    spelled,
)
from nvbackend.intrinsics.row.semantics import SCOPES as REACHED
from nvbackend.intrinsics.row.semantics import FenceOf, FenceSemantics, Scope, Semantics, TensorMapUse, reads, writes
from nvbackend.intrinsics.row.types import s64

TENSOR_MAP_BYTES = 128
SCOPES = ("cta", "cluster", "gpu", "sys")
SPACES: dict[str, RegisterClass] = {"global": RegisterClass.GLOBAL, "shared::cta": RegisterClass.SHARED}
"""Where a map can be changed."""
ORDINALS = tuple(range(5))
"""The dimensions of a map, innermost first."""

_PTX: PtxVersion = (8, 3)


@dataclass(frozen=True, slots=True)
class MapField:
    """A field of a map: its new value in a register (`register`), or one of `values`; `ordinal` where it is a list.

    `in_llvm`: whether LLVM selects its intrinsic from `ptx_version` on.
    """

    name: str
    register: RegisterClass = RegisterClass.B32
    ordinal: bool = False
    values: tuple[int, ...] = ()
    requires: Feature = Feature.NONE
    ptx_version: PtxVersion = _PTX
    in_llvm: bool = True


FIELDS: dict[str, MapField] = {
    "global_address": MapField("global_address", RegisterClass.B64),
    "rank": MapField("rank"),
    "box_dim": MapField("box_dim", ordinal=True),
    "global_dim": MapField("global_dim", ordinal=True),
    "global_stride": MapField("global_stride", RegisterClass.B64, ordinal=True),
    "element_stride": MapField("element_stride", ordinal=True),
    "elemtype": MapField("elemtype", values=tuple(range(len(ELEMENT_TYPES)))[:-PACKED_TYPES]),
    "packed_elemtype": MapField(
        "elemtype",
        values=tuple(range(len(ELEMENT_TYPES)))[-PACKED_TYPES:],
        requires=Feature.SM_100,
        ptx_version=(8, 7),
    ),
    "interleave_layout": MapField("interleave_layout", values=(0, 1, 2)),
    "swizzle_mode": MapField("swizzle_mode", values=(0, 1, 2, 3)),
    "wide_swizzle_mode": MapField(
        "swizzle_mode", values=(4,), requires=Feature.SM_100 | Feature.TMA_SWIZZLE_96, ptx_version=(8, 8), in_llvm=False
    ),
    "swizzle_atomicity": MapField(
        "swizzle_atomicity", values=(0, 1, 2, 3), requires=Feature.SM_100, ptx_version=(8, 6), in_llvm=False
    ),
    "fill_mode": MapField("fill_mode", values=(0, 1)),
}
"""The fields by name.

Later values, which fewer chips have, are fields of their own: `packed_elemtype` for packed 4- and 6-bit types,
`wide_swizzle_mode` for 96 bytes.
"""


@cache
def replace(field: str, space: str = "shared::cta") -> Row:
    """tensormap.replace: set `field` of the map at `tensor_map`, in `space`, to `value`.

    Fields in lists take the `ordinal` of the dimension; `rank` is the rank less one, dimensions are in elements,
    strides in bytes. Raises NoSuchRow for another field or space.
    """
    entry = FIELDS[chosen("field", field, FIELDS)]
    register = SPACES[chosen("space", space, SPACES)]
    held = s64 if entry.register is RegisterClass.B64 else None
    value = immediate(_value(field), entry.values) if entry.values else operand("value", entry.register, element=held)
    ordinal = (immediate("ordinal", ORDINALS, meaning="dimension, innermost first"),) if entry.ordinal else ()
    width = entry.register.llvm[1:]
    suffix = f"{entry.name.replace('_', '.')}.p{register.addrspace}"
    return Row(
        family=FAMILY,
        opcode="tensormap.replace",
        ptx=f"tensormap.replace.tile.{entry.name}.{space}.b1024.b{width}",
        operands=(operand("tensor_map", register, meaning="address of the map"), *ordinal, value),
        lowering=Intrinsic(
            f"llvm.nvvm.tensormap.replace.{suffix}", ("tensor_map", *(number.name for number in ordinal), value.name)
        )
        if entry.in_llvm
        else Asm(f"{{ptx}} [{{tensor_map}}], {{{value.name}}};"),
        requires=Feature.SM_90 | Feature.FAMILY_CONDITIONAL | entry.requires,
        ptx_version=entry.ptx_version,
        effects=Effect.READS_MEMORY | Effect.WRITES_MEMORY,
        semantics=Semantics(
            memory=(writes("tensor_map", TENSOR_MAP_BYTES), reads("tensor_map", TENSOR_MAP_BYTES)),
            tensor_map=TensorMapUse.CHANGE,
        ),
        section="9.7.9 (tensormap.replace)",
        summary="Changes a field of a tensor map.",
        axes={"field": field, "space": space},
    )


def _value(field: str) -> str:
    kind, _, rest = field.partition("_")
    return f"{kind}_value" if field != FIELDS[field].name and rest else "value"


@cache
def copy_and_publish(scope: str) -> Row:
    """tensormap.cp_fenceproxy: copy the map from shared memory to `destination` in global memory and release it.

    The whole warp executes it. The user of the map acquires it at the same `scope` (`fence`). By asm.
    """
    chosen("scope", scope, SCOPES)
    destination = operand("destination", RegisterClass.GLOBAL, meaning="the map in global memory, 128-byte aligned")
    source = operand("source", RegisterClass.SHARED, meaning="the map in shared memory, 128-byte aligned")
    return Row(
        family=FAMILY,
        opcode="tensormap.cp_fenceproxy",
        ptx=f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{scope}.sync.aligned",
        operands=(destination, source),
        lowering=Asm(f"{{ptx}} [{{destination}}], [{{source}}], {TENSOR_MAP_BYTES};"),
        requires=Feature.SM_90,
        ptx_version=_PTX,
        effects=Effect.CONVERGENT | Effect.READS_MEMORY | Effect.WRITES_MEMORY | Effect.ORDERS,
        semantics=Semantics(
            releases=REACHED[scope],
            memory=(reads(source.name, TENSOR_MAP_BYTES), writes(destination.name, TENSOR_MAP_BYTES)),
            tensor_map=TensorMapUse.PUBLISH,
        ),
        section="9.7.13 (tensormap.cp_fenceproxy)",
        summary="Copies a tensor map to global memory and releases it to the tensor map proxy.",
        axes={"scope": scope},
    )


FENCE_SEMANTICS = ("acquire", "release")


@cache
def fence(semantics: str, scope: str) -> Row:
    """fence.proxy.tensormap::generic: release this thread's writes of a map, or acquire the map at `tensor_map`.

    An acquire lowers by asm: LLVM takes its intrinsic for one that touches the map alone, and moves copies across.
    """
    acquires = chosen("semantics", semantics, FENCE_SEMANTICS) == "acquire"
    chosen("scope", scope, SCOPES)
    operands: tuple[RowOperand, ...] = (TENSOR_MAP,) if acquires else ()
    return Row(
        family=FAMILY,
        opcode="fence.proxy.tensormap",
        ptx=f"fence.proxy.tensormap::generic.{semantics}.{scope}",
        operands=operands,
        lowering=Asm(f"{{ptx}} [{{tensor_map}}], {TENSOR_MAP_BYTES};")
        if acquires
        else Intrinsic(f"llvm.nvvm.fence.proxy.tensormap_generic.{semantics}.{scope}"),
        requires=Feature.SM_90,
        ptx_version=_PTX,
        effects=Effect.ORDERS,
        semantics=Semantics(
            fence=FenceSemantics(FenceOf.OTHER_PROXY),
            acquires=REACHED[scope] if acquires else Scope.THREAD,
            releases=Scope.THREAD if acquires else REACHED[scope],
            tensor_map=TensorMapUse.ACQUIRE if acquires else TensorMapUse.RELEASE,
        ),
        section="9.7.13 (fence.proxy)",
        summary="Orders accesses to a tensor map by the generic and the tensor map proxy.",
        axes={"semantics": semantics, "scope": scope},
    )


PREFETCH_SPACES: dict[str | None, int] = {None: 0, "const": 4, "param": 101}
"""State space of the map that is prefetched (None: a generic address), and LLVM's number for it."""


@cache
def prefetch(space: str | None = None) -> Row:
    """prefetch.tensormap: bring the tensor map itself near before the first copy uses it."""
    number = PREFETCH_SPACES[chosen("space", space, PREFETCH_SPACES)]
    register = RegisterClass.GENERIC if space is None else RegisterClass.B64
    tensor_map = TENSOR_MAP if space is None else operand("tensor_map", register, meaning=f"address in {space} memory")
    ptx = spelled("prefetch", space, "tensormap")
    return Row(
        family=FAMILY,
        opcode="prefetch.tensormap",
        ptx=ptx,
        operands=(tensor_map,),
        lowering=Intrinsic(f"llvm.nvvm.prefetch.tensormap.p{number}", ("tensor_map",))
        if space is None
        else Asm("{ptx} [{tensor_map}];"),
        requires=Feature.SM_90,
        ptx_version=BULK_PTX,
        effects=Effect.READS_MEMORY,
        section="9.7.9 (prefetch)",
        summary="Prefetches a tensor map.",
        axes={"space": space},
    )


def rows() -> Iterator[Row]:
    """Every row on tensor maps."""
    yield from (replace(field, space) for field in FIELDS for space in SPACES)
    for scope in SCOPES:
        yield copy_and_publish(scope)
        yield from (fence(semantics, scope) for semantics in FENCE_SEMANTICS)
    yield from (prefetch(space) for space in PREFETCH_SPACES)
