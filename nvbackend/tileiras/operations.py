"""The operations that carry the atoms of a tier in the dialect that the seed on the MMA atoms describes."""

from __future__ import annotations

from nvbackend.atoms.atom import MmaAtom, Residency
from nvbackend.diagnostics import user_facing

_DIALECT = "cute_nvgpu."


@user_facing
def seed_operation(atom: MmaAtom) -> str | None:
    """The operation that carries the atom in the seed's dialect, such as `cute_nvgpu.sm100.mma_bs_sp`.

    None for what the seed has no operation of: sm_70 and sm_75, which take another way, and what its tiers leave out
    (a sparse A of sm_89 and sm_90, mma.sync of f64 on sm_90, sm_120 without scale factors).
    """
    scaled, sparse = atom.block_scale is not None, atom.sparsity is not None
    if atom.d_residency is Residency.TENSOR_MEMORY:
        return f"{_DIALECT}sm100.mma{'_bs' if scaled else ''}{'_sp' if sparse else ''}"
    if atom.tier == 80:
        return f"{_DIALECT}sm80.{'sparse_' if sparse else ''}mma"
    if sparse:
        return None
    if atom.tier == 120:
        return f"{_DIALECT}SM120.mma_bs" if scaled else None
    of_tier = {89: "sm89.mma", 90: "sm90.mma"}.get(atom.tier)
    if of_tier is None or (atom.tier == 90 and atom.b_residency is Residency.REGISTERS):
        return None
    return _DIALECT + of_tier
