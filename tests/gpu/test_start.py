"""Where boxes may start, and what may be reduced: elsewhere a kernel stops. Each launch has a process of its own."""

from __future__ import annotations

import pytest

from tests.support.tma_probe import DONE, ILLEGAL, Probe, outcomes

pytestmark = pytest.mark.gpu((9, 0))

STARTS = {
    "f16": {0: DONE, 24: DONE, 20: ILLEGAL, 1: ILLEGAL},
    "u8": {16: DONE, 8: ILLEGAL},
    "u32": {20: DONE, 21: ILLEGAL, 22: ILLEGAL},
    "u64": {2: DONE, 21: ILLEGAL},
}
"""For each element type innermost starts of boxes, and what becomes of a copy from or to there."""
REDUCED = {
    "add": "u32 s32 u64 f32 f16 bf16 f64 tf32",
    "max": "u32 s32 u64 s64 f16 bf16",
    "dec": "u32",
    "and": "u32 s32 u64",
}
"""For each kind of reduction the types that it is for."""
KNOWN = {
    **{
        Probe(way, element, column): wanted
        for way in ("load", "store")
        for element, starts in STARTS.items()
        for column, wanted in starts.items()
    },
    Probe("reduce", "f16", 22, operation="add"): ILLEGAL,
    Probe("reduce", "f16", 24, operation="add"): DONE,
    Probe("reduce", "u32", 20, operation="add"): DONE,
    **{
        Probe("reduce", element, operation=operation): DONE if element in elements.split() else ILLEGAL
        for operation, elements in REDUCED.items()
        for element in ["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "tf32"]
    },
    **{Probe("prefetch", "f16", column): wanted for column, wanted in ((8, DONE), (4, ILLEGAL), (-8, DONE))},
    **{Probe("load", "f16", column): wanted for column, wanted in ((-8, DONE), (-4, ILLEGAL))},
    **{Probe("load", "f16", column, "im2col"): wanted for column, wanted in ((8, DONE), (-8, DONE), (4, ILLEGAL))},
    **{Probe("store", "f16", column, "im2col_no_offs"): wanted for column, wanted in ((8, DONE), (4, ILLEGAL))},
    Probe("store", "f16", -8): ILLEGAL,
    Probe("store", "f16", -8, "im2col_no_offs"): ILLEGAL,
    Probe("store", "f16", 0, row=-1): ILLEGAL,
    Probe("store", "f16", 56, row=7): DONE,
    Probe("reduce", "f16", 0, row=-1, operation="add"): ILLEGAL,
    Probe("load", "f16", -16, row=-1): DONE,
}


@pytest.mark.parametrize("probe", KNOWN, ids=str)
def test_boxes_start_at_multiples_of_16_bytes_and_reductions_have_their_types(probe):
    assert outcomes([probe])[probe] == KNOWN[probe]
