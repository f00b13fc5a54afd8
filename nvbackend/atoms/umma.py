"""Atoms of tcgen05.mma: D in tensor memory, B in shared memory, A in either. sm_100a to sm_110a."""

from __future__ import annotations

from functools import partial
from typing import Any

from nvbackend.atoms.atom import BlockScale, MmaAtom, Residency
from nvbackend.atoms.rules import ROW
from nvbackend.atoms.spellings import cpp_type
from nvbackend.diagnostics import raise_all
from nvbackend.intrinsics.maps.tcgen05 import factors
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.mma.form import SP
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.words.smem_descriptor import Major
from nvbackend.intrinsics.words.tcgen05_descriptor import FORMS, K96, InstructionDescriptor
from nvbackend.isel.select.tcgen05.request import Tcgen05Request, request_of
from nvbackend.isel.select.tcgen05.select import select_tcgen05
from nvbackend.isel.select.tcgen05.shapes import shape_faults
from nvbackend.isel.target.target import Target

_TIER = 100
_ULTRA_TIER = 103
KIND_NAMES = {
    "f16": "F16BF16",
    "tf32": "TF32",
    "f8f6f4": "F8F6F4",
    "i8": "S8",
    "mxf8f6f4": "MXF8F6F4",
    "mxf4": "MXF4",
    "mxf4nvf4": "MXF4",
}
"""CuTe's name of each kind; both kinds of 4-bit elements share one, and differ by the vector size."""
SPARSE_FP4 = "MXF4NVF4"
"""CuTe's name for both kinds of 4-bit elements with a sparse A."""
ULTRA = "MXF4_ULTRA"
"""CuTe's name for both with K = 96."""
_USUAL_VECTORS = {"mxf8f6f4": "block32", "mxf4": "block32", "mxf4nvf4": "block16"}
"""The scale vector that an atom has if none is asked for; what only mxf4nvf4 has is what it is taken for."""


def vector_size(kind: str, sparse: bool, scale_vector: str | None = None) -> int:
    """The elements along K that share a scale factor; of a sparse A, unpacked ones. PTX ISA 9.7.16.10.7."""
    k = FORMS[kind].k * (2 if sparse else 1)
    return k // factors(kind, scale_vector or _USUAL_VECTORS[kind])


def umma_atom(
    descriptor: InstructionDescriptor,
    *,
    cta_group: int,
    a_in_tmem: bool,
    weight_stationary: bool,
    scale_vector: str | None = None,
) -> MmaAtom:
    """The atom of a `tcgen05.mma` of this instruction descriptor, by one CTA or a pair; or of a `tcgen05.mma.ws`.

    Raises tcgen05.m and tcgen05.n for a shape that there is not, block-scale.atom for scale factors that its blocks do
    not have, row.axis for another scale vector than the kind's and for a kind that is not weight-stationary.
    """
    row: dict[str, Any] = {"a_in_tmem": a_in_tmem, "sparse": descriptor.sparse}
    if not weight_stationary:
        vector = scale_vector or _USUAL_VECTORS.get(descriptor.kind)
        row |= {"cta_group": cta_group, "scale_vector": vector}
    make_row = partial(tcgen05.mma_ws if weight_stationary else tcgen05.mma, descriptor.kind, **row)
    make_row()
    scaled = tcgen05.KINDS[descriptor.kind].block_scale
    request = Tcgen05Request(
        descriptor.kind,
        cta_group,
        a_in_tmem,
        descriptor.sparse,
        weight_stationary,
        block_scale=scaled,
        scale_vector=scale_vector,
    )
    raise_all(shape_faults(request, descriptor))
    a_major, b_major = (
        Major.MN if transposed else Major.K for transposed in (descriptor.transpose_a, descriptor.transpose_b)
    )
    scale = None
    if descriptor.scale is not None:
        scale = BlockScale(descriptor.scale, vector_size(descriptor.kind, descriptor.sparse, scale_vector))
    return MmaAtom(
        name=_name(request, descriptor, scale, (a_major, b_major)),
        tier=_ULTRA_TIER if descriptor.k96 else _TIER,
        shape=(descriptor.m, descriptor.n, descriptor.k),
        d=descriptor.d,
        a=descriptor.a,
        b=descriptor.b,
        c=descriptor.d,
        a_residency=Residency.TENSOR_MEMORY if a_in_tmem else Residency.SHARED_DESCRIPTOR,
        b_residency=Residency.SHARED_DESCRIPTOR,
        d_residency=Residency.TENSOR_MEMORY,
        threads=cta_group,
        bits=descriptor.a.bits,
        a_major=a_major,
        b_major=b_major,
        make_row=make_row,
        sparsity=SP if descriptor.sparse else None,
        block_scale=scale,
        weight_stationary=weight_stationary,
        shape_requires=Feature.TMEM_K96 if descriptor.k96 else Feature.NONE,
    )


def _name(
    request: Tcgen05Request, descriptor: InstructionDescriptor, scale: BlockScale | None, majors: tuple[Major, Major]
) -> str:
    """CuTe's name. CuTe does not name weight-stationary atoms: they are spelled like the others."""
    group = "_2x1SM" if request.cta_group > 1 else "_WS" if request.weight_stationary else ""
    operands = "TS" if request.a_in_tmem else "SS"
    types = (
        [descriptor.a, descriptor.b, descriptor.d]
        if descriptor.scale is None
        else [descriptor.a, descriptor.b, descriptor.d, descriptor.scale]
    )
    parts = [*map(cpp_type, types), str(descriptor.m), str(descriptor.n)]
    name, named = KIND_NAMES[descriptor.kind], KIND_NAMES[descriptor.kind]
    if scale is not None and list(KIND_NAMES.values()).count(name) > 1:
        parts.append(str(scale.vec_size))
        named = SPARSE_FP4 if descriptor.sparse else name
    parts += (f"Major::{major.value}" for major in majors)
    if descriptor.k96:
        return f"SM{_ULTRA_TIER}_{ULTRA}{group}_{operands}_VS<{', '.join(parts)}>"
    sparse = "_SPARSE" if descriptor.sparse else ""
    return f"SM{_TIER}_MMA_{named}{group}_{operands}{sparse}<{', '.join(parts)}>"


def atom_of_row(row: Row, descriptor: InstructionDescriptor | None) -> MmaAtom:
    """The atom of a row and its instruction descriptor. Raises atom.row without one of the row's kind."""
    axes: dict[str, Any] = dict(row.axes)
    if descriptor is None or (descriptor.kind, descriptor.sparse) != (axes["kind"], axes["sparse"]):
        problem = "its shape and types are in an instruction descriptor of its kind, sparse or dense as it is"
        ROW.fail(row=row.ptx, problem=problem, instead="give that as descriptor=InstructionDescriptor(...)")
    return umma_atom(
        descriptor,
        cta_group=axes["cta_group"],
        a_in_tmem=axes["a_in_tmem"],
        weight_stationary=axes["weight_stationary"],
        scale_vector=axes.get("scale_vector"),
    )


def atom_of_request(request: Tcgen05Request, descriptor: InstructionDescriptor | None, target: Target) -> MmaAtom:
    """The atom of a request and its instruction descriptor. Raises every broken rule of them; atom.row without one."""
    return atom_of_row(select_tcgen05(request, target), descriptor)


def request_of_atom(atom: MmaAtom) -> tuple[Tcgen05Request, InstructionDescriptor]:
    """The request and instruction descriptor that `atom` is."""
    request = request_of(atom.row)
    m, n, _ = atom.shape
    return request, InstructionDescriptor(
        kind=request.kind,
        m=m,
        n=n,
        a=atom.a,
        b=atom.b,
        d=atom.d,
        scale=None if atom.block_scale is None else atom.block_scale.scale,
        sparse=request.sparse,
        transpose_a=atom.a_major is Major.MN,
        transpose_b=atom.b_major is Major.MN,
        k96=atom.shape[2] == K96,
    )
