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
    return (warp_atom(instruction, form) for form in mma.FORMS for instruction in mma.instructions(form))


def warp_atom(instruction: MmaInstruction, form: Form | None = None) -> MmaAtom:
    """The atom of an instruction; `form` is the instruction's form, found from the row by default."""
    form = form or narrow(mma.FORMS, instruction).forms[0]
    tier = next(tier for feature, tier in _TIERS if feature in form.requires)
    majors = _MAJORS["a"][instruction.a_layout], _MAJORS["b"][instruction.b_layout]
    scale = _block_scale(instruction)
    return MmaAtom(
        name=_name(instruction, tier, blas_letters(*majors), scale),
        tier=tier,
        shape=instruction.shape,
        d=instruction.d,
        a=instruction.a,
        b=instruction.b,
        c=instruction.c,
        a_residency=Residency.REGISTERS,
        b_residency=Residency.REGISTERS,
        d_residency=Residency.REGISTERS,
        threads=_FOUR_MATRICES_THREADS if instruction.shape == FOUR_MATRICES and instruction.a is f16 else WARP_SIZE,
        bits=form.bits,
        a_major=majors[0],
        b_major=majors[1],
        make_row=partial(mma.mma, instruction),
        sparsity=instruction.sparsity,
        block_scale=scale,
    )


def _block_scale(instruction: MmaInstruction) -> BlockScale | None:
    if instruction.scale is None or instruction.kind is None:
        return None
    return BlockScale(instruction.scale, instruction.shape[2] // scale_vector(instruction.kind, instruction.scale_vec))


def _name(instruction: MmaInstruction, tier: int, letters: str, scale: BlockScale | None) -> str:
    """CuTe's name. CuTe names no sparse A before sm_120; such atoms are spelled like those of sm_120."""
    shape = "x".join(map(str, instruction.shape))
    if tier >= _TYPES_BEHIND:
        parts = [*map(cpp_type, (instruction.a, instruction.b, instruction.d))]
        if scale is not None:
            parts += cpp_type(scale.scale), str(scale.vec_size)
        sparse = "_SPARSE" if instruction.sparsity else ""
        return f"SM{tier}{sparse}_{shape}_{letters}{'_VS' if scale else ''}<{', '.join(parts)}>"
    sparse = "" if instruction.sparsity is None else "_SPARSE_ORDERED" if instruction.sparsity == ORDERED else "_SPARSE"
    types = "".join(map(upper, (instruction.d, instruction.a, instruction.b, instruction.c)))
    operation = f"_{instruction.operation.upper()}POPC" if instruction.operation else ""
    return f"SM{tier}{sparse}_{shape}_{types}_{letters}{operation}{'_SATURATE' if instruction.satfinite else ''}"
