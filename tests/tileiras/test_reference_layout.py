"""The reference layouts of the seed on the MMA atoms, typed again from its tables, and the hardware's beside them."""

from __future__ import annotations

import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.layout import size
from nvbackend.tileiras.reference_layout import ARMS, DECORATION_BYTES, SLOT_BYTES, SeedArm, seed_reference_layout

TABLE = """
0 16 16 no no no mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16
1 16 16 no no yes mma.sync.aligned.m16n8k16.row.row.f16
2 16 16 yes no no mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16
3 32 16 no no no mma.sync.aligned.m16n8k32.row.col.s8.s8.s32
4 32 16 no yes no mma.sync.aligned.m16n8k32.row.col.e4m3.e4m3.f32
5 32 16 yes no no mma.sp.sync.aligned.m16n8k32.row.col.s8.s8.s32
6 8 16 no no no mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16
"""


@pytest.mark.parametrize("line", TABLE.split("\n")[1:-1])
def test_the_seven_arms(line: str) -> None:
    number, k, m, *flags, form = line.split()
    sparse, fp8, trans_a = (flag == "yes" for flag in flags)
    found = seed_reference_layout(int(k), int(m), sparse=sparse, fp8=fp8, trans_a=trans_a)
    assert (found.arm.number, found.arm.form) == (int(number), form)
    assert found.slot_count == (4 if number in "25" else 3)
    assert [slot.offset for slot in found.slots] == [0, 152, 304, 456][: found.slot_count]
    if sparse:
        assert found.slots[3].strides == (2**21, 2**26, 2**27)
    else:
        assert [slot.strides for slot in found.slots] == [(128, 256, 1024), (2048,), ()]


SHAPES = {
    # the footprints that the seed has for an arm's instruction, by the first letters of what they are of
    0: {"A": (2, 2, 2, 2), "B": (2, 2, 2), "C": (2, 2, 2)},
    4: {"A": (2, 2, 2, 2), "B": (2, 2, 2), "C": (2, 2, 2)},
    5: {"A": (2, 2, 2), "B": (2, 2, 2), "C": (2, 2, 2), "metadata": (1,)},
    6: {"A": (2, 2, 2), "B": (2, 2), "C": (2, 2, 2)},
}
DECORATIONS = {
    0: "f16 2, f16 2, f16 2",
    1: "f16 2, f16 2, f16 2",
    2: "f16 2, f16 2, f16 2, u32 1",
    3: "s8 4, s8 4, s32 1",
    4: "e4m3 4, e4m3 4, f32 1",
    5: "s8 4, s8 4, s32 1, u32 1",
    6: "f16 2, f16 2, f16 2",
}


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: str(arm.number))
def test_shape_vectors_and_decoration(arm: SeedArm) -> None:
    k, m, sparse, fp8, trans_a = arm.key
    slots = seed_reference_layout(k, m, sparse=sparse, fp8=fp8, trans_a=trans_a).slots
    expected = {"A": (), "B": (), "C": (), **({"metadata": ()} if sparse else {}), **SHAPES.get(arm.number, {})}
    if arm.number == 1:  # the same instruction for the seed, but for how A is stored
        expected = {slot.operand: slot.shape for slot in seed_reference_layout(16, 16).slots}
    assert {slot.operand: slot.shape for slot in slots} == expected
    said = (f"{one.element} {one.elements_a_register}" for one in (slot.decoration for slot in slots))
    assert ", ".join(said) == DECORATIONS[arm.number]
    assert all((slot.decoration.padding, slot.decoration.alignment) == (0, 4) for slot in slots)
    assert (SLOT_BYTES, DECORATION_BYTES) == (152, 24)


def test_a_metadata_stride_forces_the_sparse_path() -> None:
    """The seed's dispatcher looks at the stride, not at a flag; the result says which path it was."""
    assert seed_reference_layout(16, 16, metadata_stride=0).sparse is False
    forced = seed_reference_layout(16, 16, metadata_stride=0x200000)
    assert (forced.sparse, forced.slot_count, forced.arm.number) == (True, 4, 2)
    assert forced == seed_reference_layout(16, 16, sparse=True)
    with pytest.raises(DiagnosticError, match=r"atom\.seed-arm"):
        seed_reference_layout(8, 16, metadata_stride=1)


def test_elements_a_thread() -> None:
    assert [arm.elements for arm in ARMS] == [8, 8, 4, 16, 16, 8, 8]


def test_the_hardware_beside_the_arms() -> None:
    """Nobody multiplies arm 1; of arm 6 a thread has 16 * 8 / 32 elements, not 8; the rest agrees."""
    counted = {arm.number: size(arm.hardware.layout_a, 1) for arm in ARMS if arm.hardware is not None}
    assert counted == {0: 8, 2: 4, 3: 16, 4: 16, 5: 8, 6: 4}
    for arm in ARMS:
        if arm.hardware is not None:
            assert (arm.hardware.shape[0], arm.hardware.shape[2]) == (arm.m, arm.k)
            assert arm.form.split(".m16")[0].replace(".sp", "") == "mma.sync.aligned"
            assert (arm.hardware.sparsity is not None) is arm.sparse


@pytest.mark.parametrize(
    "key", [(16, 16, True, True, False), (64, 16, False, False, False), (16, 8, False, False, False)]
)
def test_another_key_falls_through_to_none(key: tuple[int, int, bool, bool, bool]) -> None:
    k, m, sparse, fp8, trans_a = key
    with pytest.raises(DiagnosticError) as caught:
        seed_reference_layout(k, m, sparse=sparse, fp8=fp8, trans_a=trans_a)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "atom.seed-arm"
    assert "(16, 16, False, False, True)" in found.fix
