"""Atoms of mma.sync: one warp, all operands in registers. From sm_70 to sm_121."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from nvbackend.atoms.atom import BlockScale, MmaAtom, Residency
from nvbackend.atoms.spellings import blas_letters, cpp_type, upper
from nvbackend.intrinsics.fragments.mma import FOUR_MATRICES
from nvbackend.intrinsics.mma import mma
from nvbackend.intrinsics.mma.block_scale import scale_vector
from nvbackend.intrinsics.mma.form import ORDERED, Form, MmaInstruction, narrow
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.row.types import f16
from nvbackend.intrinsics.words.smem_descriptor import Major

_TIERS = (
    (Feature.BLOCK_SCALED_MMA, 120),
    (Feature.SM_90, 90),
    (Feature.SM_89, 89),
    (Feature.SM_80, 80),
    (Feature.SM_75, 75),
    (Feature.NONE, 70),
)
"""The first chip with each feature that forms need, the newest first."""
_TYPES_BEHIND = 120
"""From this tier on, CuTe's names have the types as template parameters."""
_FOUR_MATRICES_THREADS = 8
_MAJORS = {"a": {"row": Major.K, "col": Major.MN}, "b": {"row": Major.MN, "col": Major.K}}


def warp_atoms() -> Iterator[MmaAtom]:
    """Every atom of mma.sync, mma.sp and block-scaled mma."""
    return (warp_atom(one, form) for form in mma.FORMS for one in mma.instructions(form))


def warp_atom(one: MmaInstruction, form: Form | None = None) -> MmaAtom:
    """The atom of an instruction; `form` is the instruction's form, found from the row by default."""
    form = form or narrow(mma.FORMS, one).forms[0]
    tier = next(tier for feature, tier in _TIERS if feature in form.requires)
    majors = _MAJORS["a"][one.a_layout], _MAJORS["b"][one.b_layout]
    scale = _block_scale(one)
    return MmaAtom(
        name=_name(one, tier, blas_letters(*majors), scale),
        tier=tier,
        shape=one.shape,
        d=one.d,
        a=one.a,
        b=one.b,
        c=one.c,
        a_residency=Residency.REGISTERS,
        b_residency=Residency.REGISTERS,
        d_residency=Residency.REGISTERS,
        threads=_FOUR_MATRICES_THREADS if one.shape == FOUR_MATRICES and one.a is f16 else WARP_SIZE,
        bits=form.bits,
        a_major=majors[0],
        b_major=majors[1],
        make_row=partial(mma.mma, one),
        sparsity=one.sparsity,
        block_scale=scale,
    )


def _block_scale(one: MmaInstruction) -> BlockScale | None:
    if one.scale is None or one.kind is None:
        return None
    return BlockScale(one.scale, one.shape[2] // scale_vector(one.kind, one.scale_vec))


def _name(one: MmaInstruction, tier: int, letters: str, scale: BlockScale | None) -> str:
    """CuTe's name. CuTe names no sparse A before sm_120; such atoms are spelled like those of sm_120."""
    shape = "x".join(map(str, one.shape))
    if tier >= _TYPES_BEHIND:
        parts = [*map(cpp_type, (one.a, one.b, one.d))]
        if scale is not None:
            parts += cpp_type(scale.scale), str(scale.vec_size)
        sparse = "_SPARSE" if one.sparsity else ""
        return f"SM{tier}{sparse}_{shape}_{letters}{'_VS' if scale else ''}<{', '.join(parts)}>"
    sparse = "" if one.sparsity is None else "_SPARSE_ORDERED" if one.sparsity == ORDERED else "_SPARSE"
    types = "".join(map(upper, (one.d, one.a, one.b, one.c)))
    operation = f"_{one.operation.upper()}POPC" if one.operation else ""
    return f"SM{tier}{sparse}_{shape}_{types}_{letters}{operation}{'_SATURATE' if one.satfinite else ''}"
