"""The seed's block-scaled triples: codes and texts as it prints them, every other combination refused."""

from __future__ import annotations

import itertools

import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.types import e2m1, e4m3, e5m2, f16, f32, ue4m3, ue8m0
from nvbackend.tileiras.block_scale import ATOMS, block_scaled_atom, packed_atom

PRINTED = {(32, 32): 0x2000000020, (64, 16): 0x4000000010, (64, 32): 0x4000000020}


def test_the_codes_are_those_that_the_seed_prints() -> None:
    assert {(atom.atom_k, atom.vec_size): atom.packed for atom in ATOMS} == PRINTED
    assert all(packed_atom(code) is not None for code in PRINTED.values())
    assert packed_atom(0) is None


def legal(atom_k: int, vec_size: int, a: object, b: object, scale: object) -> bool:
    """The seed's predicates, and its table of scale types, a second time."""
    if atom_k == 32:
        return vec_size == 32 and {a, b} <= {e4m3, e5m2} and scale is ue8m0
    return (
        atom_k == 64
        and a is b is e2m1
        and ((vec_size == 32 and scale is ue8m0) or (vec_size == 16 and scale in (ue8m0, ue4m3)))
    )


def test_exactly_the_triples_are_accepted() -> None:
    types = (e4m3, e5m2, e2m1, f16)
    for atom_k, vec_size, a, b, scale in itertools.product((16, 32, 64), (8, 16, 32, 64), types, types, (ue8m0, ue4m3)):
        if legal(atom_k, vec_size, a, b, scale):
            found = block_scaled_atom(atom_k, vec_size, a, b, f32, scale, scale)
            assert found.packed == PRINTED[atom_k, vec_size]
        else:
            with pytest.raises(DiagnosticError) as error:
                block_scaled_atom(atom_k, vec_size, a, b, f32, scale, scale)
            assert [one.rule_id for one in error.value.diagnostics] == ["block-scale.atom"]


def test_the_texts_of_the_seed_letter_by_letter() -> None:
    with pytest.raises(DiagnosticError) as error:
        block_scaled_atom(32, 32, e4m3, e5m2, f16, ue8m0, ue4m3)
    assert [(one.rule_id, one.message) for one in error.value.diagnostics] == [
        ("block-scale.accumulator", "expects c type to be Float32"),
        ("block-scale.scale-types", "expects sfa/sfb element types to be the same"),
    ]
