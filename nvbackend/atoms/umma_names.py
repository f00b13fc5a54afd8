"""Atoms of tcgen05 by CuTe's names, which say all that an instruction descriptor does."""

from __future__ import annotations

import re

from nvbackend.atoms.atom import MmaAtom
from nvbackend.atoms.spellings import CPP_TYPES
from nvbackend.atoms.umma import KIND_NAMES, SPARSE_FP4, ULTRA, umma_atom, vector_size
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.words.tcgen05_descriptor import FORMS, InstructionDescriptor

_KINDS = "|".join(dict.fromkeys((*KIND_NAMES.values(), SPARSE_FP4, ULTRA)))
_NAME = (
    rf"SM(?:100_MMA|103)_(?P<kind>{_KINDS})(?P<group>_2x1SM|_WS)?_(?P<operands>SS|TS)(?P<end>_SPARSE|_VS)?"
    r"<(?P<parts>[^<>]*)>"
)
_MAJORS = ("Major::K", "Major::MN")
_EXTENT = "[0-9]{1,9}"
_NAMED_VECTORS = KIND_NAMES["mxf4"]
"""CuTe's names of the kinds that say how many elements share a scale factor."""


def umma_named(text: str) -> MmaAtom | None:
    """The atom of a name of tcgen05 without namespaces, None where it has not the parts of one.

    Raises tcgen05.types, tcgen05.modifier, tcgen05.m and tcgen05.n.
    """
    match = re.fullmatch(_NAME, text)
    if match is None:
        return None
    sparse, ultra = match["end"] == "_SPARSE", match["kind"] == ULTRA
    if ultra is not text.startswith("SM103_") or ultra is not (match["end"] == "_VS"):
        return None
    name = _NAMED_VECTORS if ultra or (sparse and match["kind"] == SPARSE_FP4) else match["kind"]
    for kind in (kind for kind, known in KIND_NAMES.items() if known == name):
        descriptor = _descriptor(kind, match["parts"].split(", "), sparse=sparse, k96=ultra)
        if descriptor is not None and (match["group"] != "_WS" or kind in tcgen05.DENSE_KINDS):
            return umma_atom(
                descriptor,
                cta_group=2 if match["group"] == "_2x1SM" else 1,
                a_in_tmem=match["operands"] == "TS",
                weight_stationary=match["group"] == "_WS",
            )
    return None


def _descriptor(kind: str, parts: list[str], *, sparse: bool, k96: bool) -> InstructionDescriptor | None:
    """The instruction descriptor of a name's parameters, None where they are not those of the kind."""
    if k96 and FORMS[kind].k != FORMS["mxf4nvf4"].k:
        return None
    scaled, named = tcgen05.KINDS[kind].block_scale, KIND_NAMES[kind] == _NAMED_VECTORS
    types, numbers = 4 if scaled else 3, 3 if named else 2
    texts, integers, majors = parts[:types], parts[types : types + numbers], parts[types + numbers :]
    if not (all(text in CPP_TYPES for text in texts) and all(re.fullmatch(_EXTENT, integer) for integer in integers)):
        return None
    if len(majors) != 2 or not set(majors) <= set(_MAJORS):
        return None
    a, b, d, *scale = (CPP_TYPES[text] for text in texts)
    m, n, *vector = map(int, integers)
    if vector and vector_size(kind, sparse) != vector[0]:
        return None
    return InstructionDescriptor(
        kind=kind,
        m=m,
        n=n,
        a=a,
        b=b,
        d=d,
        scale=scale[0] if scale else None,
        sparse=sparse,
        transpose_a=majors[0].endswith("MN"),
        transpose_b=majors[1].endswith("MN"),
        k96=k96,
    )
