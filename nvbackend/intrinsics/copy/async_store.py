"""Rows that write or combine single values asynchronously: st.async and red.async. PTX ISA 9.7.9, 9.7.13.

Into the shared memory of another CTA of the cluster they complete their bytes on an mbarrier of the same CTA.
By asm: LLVM has no intrinsic for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Asm, Effect, PtxVersion, RegisterClass, Row, chosen, operand, spelled
from nvbackend.intrinsics.row.semantics import SCOPES, Completion, MbarrierUse, Proxy, Scope, Semantics, writes

STORED: dict[str, RegisterClass] = {
    **dict.fromkeys(("b32", "u32", "s32"), RegisterClass.B32),
    **dict.fromkeys(("b64", "u64", "s64"), RegisterClass.B64),
    "f32": RegisterClass.F32,
    "f64": RegisterClass.F64,
}
"""Types of a value that st.async writes to shared memory."""
VECTOR_BYTES = 16
"""The most bytes of one st.async."""
VECTORS = (1, 2, 4)
BYTES = ("b8", "u8", "s8")
"""Types whose registers have 8 bits, which inline asm does not have: their rows take the lower half of 16."""
GLOBAL_STORED: dict[str, RegisterClass] = {
    **dict.fromkeys((*BYTES, "b16", "u16", "s16"), RegisterClass.B16),
    **STORED,
}
"""Types of a value that st.async writes to global memory."""
GLOBAL_SCOPES: dict[bool, tuple[str, ...]] = {False: ("gpu", "sys"), True: ("sys",)}
"""Scopes of a store to global memory, for ordinary memory and for that of devices (mmio)."""
REDUCED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("min", "max"), ("u32", "s32")),
    "add": ("u32", "s32", "u64", "s64"),
    **dict.fromkeys(("and", "or", "xor"), ("b32",)),
}
"""Operation of red.async and the types it has."""

GLOBAL_ADDED = ("u32", "s32", "u64", "s64")
"""Types of a value that red.async adds to global memory."""

CLUSTER_COPY = "llvm.nvvm.cp.async.bulk.shared.cta.to.cluster"
"""LLVM's one intrinsic for an instruction that stops a kernel without a cluster."""
_PTX: PtxVersion = (8, 1)
_GLOBAL_PTX: PtxVersion = (8, 7)
_COMPLETES = "mbarrier::complete_tx::bytes"
_DESTINATION = operand("destination", RegisterClass.SHARED_CLUSTER, meaning="shared memory of a CTA of the cluster")
_BARRIER = operand("barrier", RegisterClass.SHARED_CLUSTER, meaning="mbarrier in the CTA of the destination")
_EFFECTS = Effect.WRITES_MEMORY
_BYTE_STATEMENT = "{{ .reg .b8 byte; cvt.u8.u16 byte, {value}; {ptx} [{destination}], byte; }}"


def stops_without_cluster(parts: Sequence[str]) -> bool:
    """Whether an instruction of these `parts` is as one whose row is `in_cluster`, by its semantics.

    Those are st.async and red.async that complete on an mbarrier (the others release to global memory), and bulk copies
    from shared memory to that of the cluster, wherever their addresses are. Measured on an H200: docs/divergences.md.
    """
    if parts[0] in ("st", "red"):
        return "async" in parts and "release" not in parts
    return parts[0] == "cp" and "bulk" in parts and "shared::cluster" in parts and "shared::cta" in parts


def _into_cluster(bytes: int) -> Semantics:
    return Semantics(
        mbarrier=MbarrierUse.COMPLETE,
        issues=Completion.BYTES,
        releases=Scope.CLUSTER,
        memory=(writes(_DESTINATION.name, bytes),),
        proxy=Proxy.ASYNC,
        in_cluster=True,
    )


def _to_global(element: str, scope: str) -> Semantics:
    return Semantics(
        issues=Completion.NOTHING,
        releases=SCOPES[scope],
        memory=(writes("destination", int(element[1:]) // 8),),
        proxy=Proxy.ASYNC,
    )


@cache
def store(element: str, count: int = 1) -> Row:
    """st.async: write `count` values to shared memory of the cluster; their bytes complete on `barrier`.

    At most 16 bytes. Raises NoSuchRow for types and counts that the instruction does not have.
    """
    register = STORED[chosen("element", element, STORED)]
    bits = int(element[1:])
    chosen("count", count, tuple(each for each in VECTORS if each * bits <= 8 * VECTOR_BYTES))
    values = "{{{values}}}" if count > 1 else "{values}"
    return Row(
        family="async_store",
        opcode="st.async",
        ptx=spelled("st.async.shared::cluster", _COMPLETES, f"v{count}" if count > 1 else None, element),
        operands=(_DESTINATION, operand("values", register, count), _BARRIER),
        lowering=Asm("{ptx} [{destination}], " + values + ", [{barrier}];"),
        requires=Feature.SM_90,
        ptx_version=_PTX,
        effects=_EFFECTS,
        semantics=_into_cluster(count * bits // 8),
        section="9.7.9 (st.async)",
        summary="Writes values to shared memory of the cluster without waiting.",
        axes={"space": "shared::cluster", "element": element, "count": count},
    )


@cache
def store_global(element: str, scope: str, *, mmio: bool = False) -> Row:
    """st.async to global memory, releasing at `scope`; `mmio` for memory of devices, at system scope only."""
    register = GLOBAL_STORED[chosen("element", element, GLOBAL_STORED)]
    chosen("scope", scope, GLOBAL_SCOPES[chosen("mmio", mmio, GLOBAL_SCOPES)])
    destination = operand("destination", RegisterClass.GLOBAL, meaning="global memory, aligned to the type")
    meaning = "8 bits, in the lower half of the register" if element in BYTES else ""
    return Row(
        family="async_store",
        opcode="st.async",
        ptx=spelled("st.async", "mmio" if mmio else None, f"release.{scope}.global", element),
        operands=(destination, operand("value", register, meaning=meaning)),
        lowering=Asm(_BYTE_STATEMENT if element in BYTES else "{ptx} [{destination}], {value};"),
        requires=Feature.SM_100,
        ptx_version=_GLOBAL_PTX,
        effects=_EFFECTS,
        semantics=_to_global(element, scope),
        section="9.7.9 (st.async)",
        summary="Writes a value to global memory without waiting.",
        axes={"space": "global", "element": element, "scope": scope, "mmio": mmio},
    )


@cache
def reduce(operation: str, element: str) -> Row:
    """red.async: combine `value` with shared memory of the cluster; its bytes complete on `barrier`."""
    operations = REDUCED[chosen("operation", operation, REDUCED)]
    register = STORED[chosen("element", element, operations)]
    return Row(
        family="async_store",
        opcode="red.async",
        ptx=f"red.async.relaxed.cluster.shared::cluster.{_COMPLETES}.{operation}.{element}",
        operands=(_DESTINATION, operand("value", register), _BARRIER),
        lowering=Asm("{ptx} [{destination}], {value}, [{barrier}];"),
        requires=Feature.SM_90,
        ptx_version=_PTX,
        effects=_EFFECTS | Effect.READS_MEMORY,
        semantics=_into_cluster(int(element[1:]) // 8),
        section="9.7.13 (red.async)",
        summary="Combines a value with shared memory of the cluster without waiting.",
        axes={"operation": operation, "element": element},
    )


@cache
def add_global(element: str, scope: str, *, mmio: bool = False) -> Row:
    """red.async: add `value` to global memory, releasing at `scope`; `mmio` for memory of devices, at system scope."""
    register = STORED[chosen("element", element, GLOBAL_ADDED)]
    chosen("scope", scope, GLOBAL_SCOPES[chosen("mmio", mmio, GLOBAL_SCOPES)])
    destination = operand("destination", RegisterClass.GLOBAL, meaning="global memory, aligned to the type")
    return Row(
        family="async_store",
        opcode="red.async",
        ptx=spelled("red.async", "mmio" if mmio else None, f"release.{scope}.global.add", element),
        operands=(destination, operand("value", register)),
        lowering=Asm("{ptx} [{destination}], {value};"),
        requires=Feature.SM_100,
        ptx_version=_GLOBAL_PTX,
        effects=_EFFECTS | Effect.READS_MEMORY,
        semantics=_to_global(element, scope),
        section="9.7.13 (red.async)",
        summary="Adds a value to global memory without waiting.",
        axes={"space": "global", "operation": "add", "element": element, "scope": scope, "mmio": mmio},
    )


def rows() -> Iterator[Row]:
    """Every row of st.async and red.async."""
    for element in STORED:
        bits = int(element[1:])
        yield from (store(element, count) for count in VECTORS if count * bits <= 8 * VECTOR_BYTES)
    for element in GLOBAL_STORED:
        for mmio, scopes in GLOBAL_SCOPES.items():
            yield from (store_global(element, scope, mmio=mmio) for scope in scopes)
    for element in GLOBAL_ADDED:
        for mmio, scopes in GLOBAL_SCOPES.items():
            yield from (add_global(element, scope, mmio=mmio) for scope in scopes)
    for operation, elements in REDUCED.items():
        yield from (reduce(operation, element) for element in elements)
