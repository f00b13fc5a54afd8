"""The names that the seeds have for atoms: of wgmma in lower case, and the operation that carries an atom of a tier.

`sm90_wgmma_m64n128k16_f32_f16_f16` (D, A, B, as PTX orders them) and `sm90_64x128x16_F16F16F32_SS` (A, B, D) say shape
and types alone. What they leave out is what PTX has without saying so: K-major operands, and A in shared memory.
"""

from __future__ import annotations

import re

from nvbackend.atoms.atom import MmaAtom, Residency
from nvbackend.atoms.cpp_types import upper
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.types import BY_NAME, ElementType

_SHAPE = r"(?P<m>[0-9]{{1,9}}){}(?P<n>[0-9]{{1,9}}){}(?P<k>[0-9]{{1,9}})"
_TYPES = r"(?P<{}>[a-z]+\d\w*?)_(?P<{}>[a-z]+\d\w*?)_(?P<{}>[a-z]+\d\w*?)"
_LIKE_PTX = re.compile(f"sm90_wgmma_m{_SHAPE.format('n', 'k')}_{_TYPES.format('d', 'a', 'b')}")
_TYPE = r"(?:BF16|TF32|F16|F32|E4M3|E5M2|[SU](?:32|8|4|1))"
_LIKE_CUTE = re.compile(
    f"sm90_{_SHAPE.format('x', 'x')}_(?P<a>{_TYPE})(?P<b>{_TYPE})(?P<d>{_TYPE})_(?P<operands>SS|RS)"
)
_WRAPPED = re.compile(r"MMA_(?:Atom|Traits)<(.*)>")
_DIALECT = "cute_nvgpu."


def unwrapped(text: str) -> str:
    """What CuTe's MMA_Atom<...> and MMA_Traits<...> are made of."""
    while (found := _WRAPPED.fullmatch(text)) is not None:
        text = found[1]
    return text


def cute_name(text: str) -> str | None:
    """CuTe's name, without blanks, of an atom of wgmma that a seed calls `text`; None for what no seed calls so."""
    found = _LIKE_PTX.fullmatch(text) or _LIKE_CUTE.fullmatch(text)
    if found is None:
        return None
    parts = found.groupdict()
    types = [_element(parts[name]) for name in "dab"]
    if None in types:
        return None
    d, a, b = (one for one in types if one is not None)
    name = f"SM90_{parts['m']}x{parts['n']}x{parts['k']}_{upper(d)}{upper(a)}{upper(b)}_{parts.get('operands', 'SS')}"
    return name + ("<Major::K,Major::K>" if a.bits == 16 else "_TN")


def _element(text: str) -> ElementType | None:
    lower = text.lower()
    return BY_NAME.get("b1" if lower == "u1" else lower)


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
