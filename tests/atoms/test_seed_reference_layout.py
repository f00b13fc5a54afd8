"""The reference layouts of the seed on the MMA atoms, typed again from its tables, and the hardware's beside them."""

from __future__ import annotations

import pytest

from nvbackend.atoms.seed_reference_layout import ARMS, seed_reference_layout
from nvbackend.diagnostics import DiagnosticError
from nvbackend.layout import size

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
