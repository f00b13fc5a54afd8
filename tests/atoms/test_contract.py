"""What an atom asks of the program that uses it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nvbackend.atoms import BlockScale, Residency, atom, check_atom, known_atoms, use_of
from nvbackend.intrinsics.row.types import bf16, f32, ue4m3, ue8m0
from nvbackend.isel.target.target import Target
from nvbackend.layout import Layout, coalesce, parse

REGISTER = "SM80_16x8x16_F32F16F16F32_TN"
SHARED = "SM90_64x64x16_F32F16F16_SS<Major::K, Major::K>"
SPARSE = "SM80_SPARSE_16x8x32_F32F16F16F32_TN"
SCALED = "SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 16>"
TENSOR = "SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, Major::K, Major::K>"


@pytest.mark.parametrize(
    ("name", "target"),
    [(REGISTER, "sm_80"), (SHARED, "sm_90a"), (SPARSE, "sm_120"), (SCALED, "sm_121a"), (TENSOR, "sm_103f")],
)
def test_the_use_of_an_atom_as_it_stands(name: str, target: str) -> None:
    found = atom(name)
    m, n, k = found.shape
    assert check_atom(found, target, use_of(found)) == ()
    assert check_atom(found, target, replace(use_of(found), shape=(2 * m, n, 5 * k))) == ()


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        (REGISTER, ["sm_75"]),
        (SHARED, ["sm_80", "sm_90", "sm_100a", "sm_120a"]),
        (SCALED, ["sm_90a", "sm_100a", "sm_120"]),
        (TENSOR, ["sm_90a", "sm_100", "sm_120a"]),
        ("SM90_16x8x8_F64F64F64F64_TN", ["sm_89"]),
    ],
)
def test_targets_that_have_it_not(name: str, targets: list[str]) -> None:
    found = atom(name)
    for target in targets:
        assert [one.rule_id for one in check_atom(found, target, use_of(found))] == ["atom.target"]


MISUSES: list[tuple[str, dict[str, Any], list[str]]] = [
    (REGISTER, {"shape": (16, 8, 24)}, ["atom.shape"]),
    (REGISTER, {"shape": (0, 8, 16)}, ["atom.shape"]),
    (REGISTER, {"shape": (16, 8)}, ["atom.shape"]),
    (REGISTER, {"a": bf16}, ["atom.types"]),
    (REGISTER, {"a": bf16, "b": bf16, "d": bf16}, ["atom.types"] * 3),
    (REGISTER, {"b_residency": Residency.SHARED_DESCRIPTOR}, ["atom.residency"]),
    (SHARED, {"a_residency": Residency.REGISTERS}, ["atom.residency"]),
    (TENSOR, {"d_residency": Residency.REGISTERS}, ["atom.residency"]),
    (REGISTER, {"metadata": True}, ["atom.metadata"]),
    (SPARSE, {"metadata": False}, ["atom.metadata"]),
    (SCALED, {"scale_a": None}, ["atom.scale-factors"]),
    (SCALED, {"scale_b": BlockScale(ue8m0, 32)}, ["atom.scale-factors"]),
    (SCALED, {"scale_a": BlockScale(ue4m3, 32), "scale_b": None}, ["atom.scale-factors"] * 2),
    (REGISTER, {"scale_a": BlockScale(ue8m0, 32)}, ["atom.scale-factors"]),
    (SPARSE, {"shape": (16, 8, 16), "b": f32, "metadata": False}, ["atom.shape", "atom.types", "atom.metadata"]),
]


@pytest.mark.parametrize(("name", "changed", "rules"), MISUSES)
def test_what_an_atom_refuses(name: str, changed: dict[str, Any], rules: list[str]) -> None:
    found = atom(name)
    said = check_atom(
        found, "sm_120a" if found.tier in (80, 120) else f"sm_{found.tier}a", replace(use_of(found), **changed)
    )
    assert [one.rule_id for one in said] == rules


def test_a_diagnostic_has_the_values_and_a_way_out() -> None:
    found = atom(REGISTER)
    (said,) = check_atom(found, "sm_80", replace(use_of(found), shape=(20, 8, 24)))
    assert said.message == f"a tile of 20x8x24 is not a multiple of {REGISTER}, which is 16x8x16"
    assert said.fix.startswith("use a tile of 32x8x32")


def test_the_older_ptx_version() -> None:
    found = atom("SM80_SPARSE_ORDERED_16x8x32_F32F16F16F32_TN")
    (said,) = check_atom(found, Target.parse("sm_80", (8, 4)), use_of(found))
    assert said.fix.endswith("with PTX 8.5 or later")
    assert check_atom(found, Target.parse("sm_80", (8, 5)), use_of(found)) == ()
    assert len(known_atoms()) == len({one.name for one in known_atoms()})


@pytest.mark.parametrize("name", [REGISTER, SHARED, SPARSE, SCALED, TENSOR])
def test_layouts_of_an_atom_are_its_own_however_they_are_nested(name: str) -> None:
    found = atom(name)
    target = "sm_120a" if found.tier in (80, 120) else f"sm_{found.tier}a"
    own = {operand: layout for operand, (layout, _) in found.operand_layouts().items()}
    flat = {operand: coalesce(layout, (1, 1)) for operand, layout in own.items()}
    assert {"A", "B", "C", "D"} <= set(own)
    for layouts in (own, flat):
        assert check_atom(found, target, replace(use_of(found), layouts=layouts)) == ()


LAYOUTS = [
    (
        "A",
        "((_4,_8),(_2,_2,_2)):((_32,_1),(_16,_128,_8))",
        "has as value 2 the element (0, 8) instead of (8, 0)",
    ),
    ("B", "((_4,_8),(_2,_2)):((_16,_1),(_8,64))", "it is not static"),
    ("C", "(_32,_2):(_1,_32)", "it is of 32 x 2, not of 32 x 4"),
    ("E", "(_32,_2):(_1,_32)", "it only has layouts of A, B, C, D"),
]


@pytest.mark.parametrize(("operand", "text", "words"), LAYOUTS)
def test_a_layout_that_is_not_the_atoms(operand: str, text: str, words: str) -> None:
    found, declared = atom(REGISTER), parse(text)
    assert isinstance(declared, Layout)
    (said,) = check_atom(found, "sm_80", replace(use_of(found), layouts={operand: declared}))
    assert said.rule_id == "atom.layout"
    assert words in said.message


def test_metadata_of_the_wrong_threads() -> None:
    """The seed's verifier compares slot three, too: a buffer of the wrong size is told before anything is lowered."""
    found = atom(SPARSE)
    own, _ = found.operand_layouts()["E"]
    other = Layout(own.shape, (own.stride[0], (own.stride[1][0], 2 * own.stride[1][1])))
    (said,) = check_atom(found, "sm_80", replace(use_of(found), layouts={"E": other}))
    assert "instead of" in said.message
