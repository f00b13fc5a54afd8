"""Atoms of tcgen05.mma: D in tensor memory, B in shared memory, A in either. sm_100a to sm_110a."""

from __future__ import annotations

import re
from functools import partial

from nvbackend.atoms.atom import BlockScale, MmaAtom, Residency
from nvbackend.atoms.cpp_types import cpp_type
from nvbackend.diagnostics import raise_all
from nvbackend.intrinsics import tcgen05
from nvbackend.intrinsics.mma_block_scale import DEFAULT_SCALE_VEC
from nvbackend.intrinsics.mma_form import SP
from nvbackend.intrinsics.smem_layout import Major
from nvbackend.intrinsics.tcgen05_descriptor import InstructionDescriptor
from nvbackend.isel.tcgen05_request import Tcgen05Request
from nvbackend.isel.tcgen05_shapes import shape_faults

_TIER = 100
KIND_NAMES = {
    "f16": "F16BF16",
    "tf32": "TF32",
    "f8f6f4": "F8F6F4",
    "i8": "S8",
    "mxf8f6f4": "MXF8F6F4",
    "mxf4": "MXF4",
    "mxf4nvf4": "MXF4",
}
"""CuTe's name of each kind; it has one for both kinds of 4-bit elements, told apart by the vector size."""
_USUAL_VECTORS = {"mxf8f6f4": "block32", "mxf4": "block32", "mxf4nvf4": "block16"}
"""The scale vector that an atom has if none is asked for; what only mxf4nvf4 has is what it is taken for."""
_SHORT_BLOCKS = "block16"
_MOST_FACTORS = 4
_NUMBERED = re.compile(r"scale_vec::(\d)X")


def factors(kind: str, scale_vector: str | None = None) -> int:
    """Scale factors of a row of A for one instruction of an mx kind. PTX ISA 9.7.16.10.7."""
    vector = scale_vector or _USUAL_VECTORS[kind]
    if numbered := _NUMBERED.fullmatch(vector):
        return int(numbered[1])
    return _MOST_FACTORS if vector == _SHORT_BLOCKS else DEFAULT_SCALE_VEC.get(kind, DEFAULT_SCALE_VEC["mxf4"])


def umma_atom(
    descriptor: InstructionDescriptor, *, cta_group: int = 1, a_in_tmem: bool = False, scale_vector: str | None = None
) -> MmaAtom:
    """The atom of a `tcgen05.mma` of this instruction descriptor, by one CTA or a pair.

    Raises tcgen05.m and tcgen05.n for a shape that there is not, block-scale.atom for scale factors that its blocks do
    not have, row.axis for another scale vector than the kind's.
    """
    scaled = tcgen05.KINDS[descriptor.kind].block_scale
    request = Tcgen05Request(
        descriptor.kind, cta_group, a_in_tmem, descriptor.sparse, block_scale=scaled, scale_vector=scale_vector
    )
    raise_all(shape_faults(request, descriptor))
    a_major, b_major = (
        Major.MN if transposed else Major.K for transposed in (descriptor.transpose_a, descriptor.transpose_b)
    )
    scale = _block_scale(descriptor, scale_vector)
    residency = Residency.TENSOR_MEMORY if a_in_tmem else Residency.SHARED_DESCRIPTOR
    return MmaAtom(
        name=_name(descriptor, cta_group, a_in_tmem, scale, (a_major, b_major)),
        tier=_TIER,
        shape=(descriptor.m, descriptor.n, descriptor.k),
        d=descriptor.d,
        a=descriptor.a,
        b=descriptor.b,
        c=descriptor.d,
        a_residency=residency,
        b_residency=Residency.SHARED_DESCRIPTOR,
        d_residency=Residency.TENSOR_MEMORY,
        threads=cta_group,
        bits=descriptor.a.bits,
        a_major=a_major,
        b_major=b_major,
        make_row=partial(
            tcgen05.mma,
            descriptor.kind,
            cta_group=cta_group,
            a_in_tmem=a_in_tmem,
            sparse=descriptor.sparse,
            scale_vector=scale_vector or _USUAL_VECTORS.get(descriptor.kind),
        ),
        sparsity=SP if descriptor.sparse else None,
        block_scale=scale,
    )


def _block_scale(descriptor: InstructionDescriptor, scale_vector: str | None) -> BlockScale | None:
    if descriptor.scale is None:
        return None
    return BlockScale(descriptor.scale, descriptor.k // factors(descriptor.kind, scale_vector))


def _name(
    one: InstructionDescriptor, cta_group: int, a_in_tmem: bool, scale: BlockScale | None, majors: tuple[Major, Major]
) -> str:
    group, operands = ("_2x1SM" if cta_group > 1 else ""), ("TS" if a_in_tmem else "SS")
    types = [one.a, one.b, one.d] if one.scale is None else [one.a, one.b, one.d, one.scale]
    parts = [*map(cpp_type, types), str(one.m), str(one.n)]
    name = KIND_NAMES[one.kind]
    if scale is not None and list(KIND_NAMES.values()).count(name) > 1:
        parts.append(str(scale.vec_size))
    parts += (f"Major::{major.value}" for major in majors)
    sparse = "_SPARSE" if one.sparse else ""
    return f"SM{_TIER}_MMA_{name}{group}_{operands}{sparse}<{', '.join(parts)}>"
