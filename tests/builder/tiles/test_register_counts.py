"""How many registers of a thread a tensor takes, and the most that it may."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import bf16, f16, f32, f64, s8, s64, u32
from nvbackend.layout import Layout

MOST = 255
"""General-purpose registers of 32 bits that a thread has (CUDA Programming Guide, compute capabilities)."""


@pytest.mark.parametrize("element", [s8, f16, bf16, f32, u32, f64, s64], ids=str)
def test_a_tensor_takes_as_many_registers_as_its_bits_fill(element):
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    most = MOST * 32 // element.bits
    assert len(k.register_tensor(element, most).registers()) == -(-most * element.bits // max(32, element.bits))
    for count in (most + 1, 2 * most, 7 * most + 3):
        with pytest.raises(nvb.DiagnosticError, match=r"tensor\.register-count") as caught:
            k.register_tensor(element, count)
        words = -(-count * element.bits // 32)
        assert f"takes {words} registers of a thread, which has {MOST}" in caught.value.diagnostics[0].message


@pytest.mark.parametrize("element", [s8, f32, f64], ids=str)
def test_elements_that_share_a_register_are_as_many_as_a_threads_bits(element):
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    assert k.register_tensor(element, Layout((4, MOST * 8), (1, 0))).shape == (4, MOST * 8)
    with pytest.raises(nvb.DiagnosticError, match=rf"it has {4 * MOST * 8 + 4} coordinates"):
        k.register_tensor(element, Layout((4, MOST * 8 + 1), (1, 0)))
