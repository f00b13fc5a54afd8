"""Atoms by CuTe's names, and atoms of rows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NoReturn

from nvbackend.atoms.atom import MmaAtom
from nvbackend.atoms.foreign_names import foreign
from nvbackend.atoms.rules import NAME, NOT_HERE, ROW
from nvbackend.atoms.umma import umma_atom
from nvbackend.atoms.umma_names import umma_named
from nvbackend.atoms.warp import warp_atom, warp_atoms
from nvbackend.atoms.warpgroup import has_majors, warpgroup_atom, warpgroup_atoms
from nvbackend.atoms.wgmma_names import cute_name, unwrapped
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.mma import mma, tcgen05
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.words.majors import Major
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor

_WGMMA = "wgmma.mma_async"
_NAMESPACES = re.compile(r"(?:cute::|UMMA::|SM103::|(?<!SM90::)GMMA::|SM120::(?:BLOCKSCALED::)?(?:SPARSE::)?)")
_SHORT_NAMES = re.compile(r"SM90::(?:GMMA::)?MMA_")
_USUAL_MODIFIERS = re.compile(r"(?:(?<=[<,])(?:ScaleIn::One|Saturate::False|SparseSel::Zero),?)+>$")
"""The parameters that CuTe's templates have after the majorness, with their defaults."""
_SHAPE = re.compile(r"([0-9]{1,9})x([0-9]{1,9})x([0-9]{1,9})")
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
    text = _canonical(name)
    found = _known().get(text) or umma_named(text)
    if found is None:
        _fail_unknown(name, text)
    return found


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
    axes: dict[str, Any] = dict(row.axes)
    if row.family == mma.FAMILY:
        return warp_atom(mma.instruction_of(row))
    if row.opcode == _WGMMA:
        return _atom_of_wgmma(row, a_major, b_major)
    if row.opcode in (tcgen05.MMA, tcgen05.MMA_WS):
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
    ROW.fail(row=row.ptx, problem="it is not an mma", instead="use a row of mma.sync, wgmma.mma_async or tcgen05.mma")


def _atom_of_wgmma(row: Row, a_major: Major, b_major: Major) -> MmaAtom:
    axes: dict[str, Any] = dict(row.axes)
    a, b, d, shape = axes["a"], axes["b"], axes["d"], axes["shape"]
    in_registers = axes["a_in_registers"]
    if not has_majors(a, in_registers, a_major, b_major):
        problem = f"it does not read A {a_major} and B {b_major}"
        ROW.fail(row=row.ptx, problem=problem, instead="leave K-major what is in registers or not of 16 bits")
    return warpgroup_atom(
        shape[1],
        d,
        a,
        b,
        a_in_registers=in_registers,
        sparse=axes["sparse"],
        satfinite=axes["satfinite"],
        a_major=a_major,
        b_major=b_major,
    )


def _canonical(name: str) -> str:
    """The name without blanks and namespaces, its parameters separated as in the printed form."""
    text = unwrapped(_SHORT_NAMES.sub("SM90_", _NAMESPACES.sub("", "".join(name.split()))))
    text = cute_name(text) or text
    text = _USUAL_MODIFIERS.sub(">", text).replace(",>", ">")
    return text.removesuffix("<>").replace(",", ", ")


@cache
def _known() -> Mapping[str, MmaAtom]:
    """Every atom that its name determines, by name; some of sm_75 also by the name that CuTe repeats for sm_80."""
    found: dict[str, MmaAtom] = {}
    for one in (*warp_atoms(), *warpgroup_atoms()):
        found.setdefault(one.name, one)
    again = {name.replace(_OF_SM75, _AS_OF_SM80, 1): one for name, one in found.items() if name.startswith(_OF_SM75)}
    return MappingProxyType({**again, **found})


def known_atoms() -> tuple[MmaAtom, ...]:
    """Every atom of mma.sync and wgmma. Those of tcgen05 are as many as there are instruction descriptors."""
    return tuple(dict.fromkeys(_known().values()))


def _fail_unknown(name: str, text: str) -> NoReturn:
    if (reason := foreign(text)) is not None:
        NOT_HERE.fail(given=name, problem=reason.problem, instead=reason.instead)
    nearest = _of_nearest_shape(text) or next(iter(difflib.get_close_matches(text, _known(), n=1, cutoff=0.5)), None)
    NAME.fail(given=name, nearest=f"; the nearest is {nearest}" if nearest else "")


def _of_nearest_shape(text: str) -> str | None:
    """The name that differs from this one in its shape alone, and whose shape is nearest; or None."""
    asked = _SHAPE.search(text)
    if asked is None:
        return None
    rest = _SHAPE.sub("", text)
    alike = [found for name in _known() if (found := _SHAPE.search(name)) and _SHAPE.sub("", name) == rest]
    nearest = min(alike, default=None, key=lambda found: _distance(asked, found))
    return nearest and nearest.string


def _distance(some: re.Match[str], others: re.Match[str]) -> int:
    return sum(abs(int(one) - int(other)) for one, other in zip(some.groups(), others.groups(), strict=True))
