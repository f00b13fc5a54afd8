"""Atoms by CuTe's names, by those of other compilers, and atoms of rows.

Other compilers write lower case: `sm90_wgmma_m64n128k16_f32_f16_f16` (D, A, B, as PTX orders them) and
`sm90_64x128x16_F16F16F32_SS` (A, B, D) say shape and types alone. What they leave out is what PTX has without saying
so: K-major operands, and A in shared memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NoReturn

from nvbackend.atoms import warpgroup
from nvbackend.atoms.atom import MmaAtom
from nvbackend.atoms.rules import NAME, NOT_HERE, ROW
from nvbackend.atoms.spellings import upper
from nvbackend.atoms.warpgroup import warpgroup_atoms
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.mma import families, wgmma
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import (
    BY_NAME,
    ElementType,
)
from nvbackend.intrinsics.words.smem_descriptor import Major
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor

_SHAPE = r"(?P<m>[0-9]{{1,9}}){}(?P<n>[0-9]{{1,9}}){}(?P<k>[0-9]{{1,9}})"
_TYPES = r"(?P<{}>[a-z]+\d\w*?)_(?P<{}>[a-z]+\d\w*?)_(?P<{}>[a-z]+\d\w*?)"
_LIKE_PTX = f"sm90_wgmma_m{_SHAPE.format('n', 'k')}_{_TYPES.format('d', 'a', 'b')}"
_TYPE = r"(?:BF16|TF32|F16|F32|E4M3|E5M2|[SU](?:32|8|4|1))"
_LIKE_CUTE = f"sm90_{_SHAPE.format('x', 'x')}_(?P<a>{_TYPE})(?P<b>{_TYPE})(?P<d>{_TYPE})_(?P<operands>SS|RS)"
_WRAPPED = r"MMA_(?:Atom|Traits)<(.*)>"


def unwrapped(text: str) -> str:
    """What CuTe's MMA_Atom<...> and MMA_Traits<...> are made of."""
    while (match := re.fullmatch(_WRAPPED, text)) is not None:
        text = match[1]
    return text


def cute_name(text: str) -> str | None:
    """CuTe's name, without blanks, of an atom of wgmma that another compiler calls `text`; None for other texts."""
    match = re.fullmatch(_LIKE_PTX, text) or re.fullmatch(_LIKE_CUTE, text)
    if match is None:
        return None
    parts = match.groupdict()
    types = [_element(parts[name]) for name in "dab"]
    if None in types:
        return None
    d, a, b = (element for element in types if element is not None)
    name = f"SM90_{parts['m']}x{parts['n']}x{parts['k']}_{upper(d)}{upper(a)}{upper(b)}_{parts.get('operands', 'SS')}"
    return name + ("<Major::K,Major::K>" if a.bits == 16 else "_TN")


def _element(text: str) -> ElementType | None:
    lower = text.lower()
    return BY_NAME.get("b1" if lower == "u1" else lower)


_NAMESPACES = r"(?:cute::|UMMA::|SM103::|(?<!SM90::)GMMA::|SM120::(?:BLOCKSCALED::)?(?:SPARSE::)?)"
_SHORT_NAMES = r"SM90::(?:GMMA::)?MMA_"
_USUAL_MODIFIERS = r"(?:(?<=[<,])(?:ScaleIn::One|Saturate::False|SparseSel::Zero),?)+>$"
"""The parameters that CuTe's templates have after the majorness, with their defaults."""
_EXTENTS = r"([0-9]{1,9})x([0-9]{1,9})x([0-9]{1,9})"
_LONGEST, _QUOTED = 400, 60
"""The most letters of a name, twice as many as any has, and how many of a longer one are quoted."""
_OF_SM75 = "SM75_"
_AS_OF_SM80 = "SM80_"


@user_facing
def atom(name: str) -> MmaAtom:
    """The atom that CuTe calls `name`: "SM80_16x8x16_F32F16F16F32_TN", "SM90_64x64x16_F16F16F16_SS<Major::K,
    Major::K>", "SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, Major::K, Major::K>".

    Namespaces and MMA_Atom<MMA_Traits<...>> around it are optional. "sm90_wgmma_m64n128k16_f32_f16_f16" and
    "sm90_64x128x16_F16F16F32_SS" are names of other compilers for wgmma, with K-major operands. Raises atom.name, with
    the nearest name, and atom.not-here for atoms of CuTe that nvbackend does not have; of names of tcgen05 also
    tcgen05.types, tcgen05.modifier, tcgen05.m and tcgen05.n.
    """
    if len(name) > _LONGEST:
        NAME.fail(given=f"{name[:_QUOTED]}... ({len(name)} letters)", nearest="")
    from nvbackend.atoms.umma_names import umma_named

    text = _canonical(name)
    known = _known().get(text) or umma_named(text)
    if known is None:
        _fail_unknown(name, text)
    return known


@user_facing
def atom_of(
    row: Row,
    *,
    a_major: Major = Major.K,
    b_major: Major = Major.K,
    descriptor: InstructionDescriptor | None = None,
) -> MmaAtom:
    """The atom of an instruction's row.

    The majorness of a wgmma's operands, and all that the `descriptor` of a tcgen05.mma says, are not in the row. Raises
    atom.row for other rows and for what is missing or does not belong to the row.
    """
    if row.family == families.MMA:
        from nvbackend.atoms.warp import warp_atom
        from nvbackend.intrinsics.mma import mma

        return warp_atom(mma.instruction_of(row))
    if row.opcode == wgmma.MMA_ASYNC:
        return warpgroup.atom_of_row(row, a_major, b_major)
    if row.opcode in (families.TCGEN05_MMA, families.TCGEN05_MMA_WS):
        from nvbackend.atoms import umma

        return umma.atom_of_row(row, descriptor)
    ROW.fail(row=row.ptx, problem="it is not an mma", instead="use a row of mma.sync, wgmma.mma_async or tcgen05.mma")


def _canonical(name: str) -> str:
    """The name without blanks and namespaces, its parameters separated as in the printed form."""
    text = unwrapped(re.sub(_SHORT_NAMES, "SM90_", re.sub(_NAMESPACES, "", "".join(name.split()))))
    text = cute_name(text) or text
    text = re.sub(_USUAL_MODIFIERS, ">", text).replace(",>", ">")
    return text.removesuffix("<>").replace(",", ", ")


@cache
def _known() -> Mapping[str, MmaAtom]:
    """Every atom that its name determines, by name; some of sm_75 also by the name that CuTe repeats for sm_80."""
    from nvbackend.atoms.warp import warp_atoms

    atoms: dict[str, MmaAtom] = {}
    for atom in (*warp_atoms(), *warpgroup_atoms()):
        atoms.setdefault(atom.name, atom)
    again = {
        name.replace(_OF_SM75, _AS_OF_SM80, 1): known_atom
        for name, known_atom in atoms.items()
        if name.startswith(_OF_SM75)
    }
    return MappingProxyType({**again, **atoms})


@user_facing
def known_atoms() -> tuple[MmaAtom, ...]:
    """Every atom of mma.sync and wgmma. Those of tcgen05 are as many as there are instruction descriptors."""
    return tuple(dict.fromkeys(_known().values()))


def _fail_unknown(name: str, text: str) -> NoReturn:
    import difflib

    from nvbackend.atoms.foreign_names import foreign

    if (reason := foreign(text)) is not None:
        NOT_HERE.fail(given=name, problem=reason.problem, instead=reason.instead)
    nearest = _of_nearest_shape(text) or next(iter(difflib.get_close_matches(text, _known(), n=1, cutoff=0.5)), None)
    NAME.fail(given=name, nearest=f"; the nearest is {nearest}" if nearest else "")


def _of_nearest_shape(text: str) -> str | None:
    """The name that differs from this one in its shape alone, and whose shape is nearest; or None."""
    asked = re.search(_EXTENTS, text)
    if asked is None:
        return None
    rest = re.sub(_EXTENTS, "", text)
    alike = [match for name in _known() if (match := re.search(_EXTENTS, name)) and re.sub(_EXTENTS, "", name) == rest]
    nearest = min(alike, default=None, key=lambda candidate: _distance(asked, candidate))
    return nearest and nearest.string


def _distance(some: re.Match[str], others: re.Match[str]) -> int:
    return sum(abs(int(extent) - int(other)) for extent, other in zip(some.groups(), others.groups(), strict=True))
