"""A pair of narrow floats in one half of a register, and a 16-bit integer in the other that is used again.

The machine writes such pairs beside what a third operand of the conversion holds. ptxas (12.9, 13.0, 13.5) puts the
integer there, and then reads the pair where the program reads the integer.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import e4m3, e5m2, f32, runtime, u8, u16
from nvbackend.codegen.sass import disassemble
from nvbackend.intrinsics.row.types import ue8m0
from nvbackend.rows import Asm, RegisterClass, Row, operand, output
from tests.support.devices import on_devices

THREADS = 32
SINGLES = {"e4m3": e4m3, "e5m2": e5m2}
NARROW = ["e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2", "e2m1x2"]
OF_HALVES = ["f16x2 to e4m3x2", "f16x2 to e5m2x2"]
OWN_TEXT, OWN_ROW = "text", "row"
OF_HOPPER = [*NARROW[:2], *OF_HALVES, *SINGLES, OWN_TEXT, OWN_ROW]
OF_BLACKWELL = [*OF_HOPPER, *NARROW[2:], "bf16x2 to ue8m0x2", "ue8m0"]
INTEGERS = ["added", "smaller", "cut", "counted"]
NARROWING = Row(
    family="mine",
    opcode="my.narrow",
    ptx="my.narrow",
    operands=(
        output("pair", RegisterClass.B16),
        operand("high", RegisterClass.F32),
        operand("low", RegisterClass.F32),
    ),
    lowering=Asm("cvt.rn.satfinite.e5m2x2.f32 {pair}, {high}, {low};"),
    summary="Rounds two numbers.",
)
_MERGED = re.compile(r"F2FP\S*MERGE_C\S*\s+R\d+,.*?,\s*(\w+)(?:\.reuse)?\s*;")


def _pair(k, conversion, low, high):
    """16 bits of the pair."""
    if conversion == OWN_TEXT:
        text = "cvt.rn.satfinite.e4m3x2.f32 {pair}, {high}, {low};"
        return k.ptx(text, outputs={"pair": u16}, inputs={"high": high, "low": low})
    if conversion == OWN_ROW:
        return k.instruction(NARROWING, high=high, low=low)["pair"][0]
    source, _, to = conversion.rpartition(" to ")
    if source:
        return k.convert.pair(k.convert.pack(source, low, high), source, to).bitcast(u16)
    if conversion in ("ue8m0", *SINGLES):
        return low.to(SINGLES.get(conversion, ue8m0)).bitcast(u8).to(u16)
    pair = k.convert.pack(conversion, low, high)
    return pair.to(u16) if pair.type is u8 else pair.bitcast(u16)


def _integer(kind, words, x, t):
    """A u16 that comes of a 32-bit register."""
    if kind == "added":
        return words[t] + 5
    if kind == "smaller":
        return x[t].to(u16)
    return (words.cast(nvb.u32)[t] >> 20).to(u16) if kind == "cut" else t.to(u16) * 3


def kernel_of(conversions, integer, target):
    @nvb.kernel(target, threads=THREADS)
    def beside(k, x: nvb.Pointer[f32], words: nvb.Pointer[u16], pairs: nvb.Pointer[u16], later: nvb.Pointer[u16]):
        t = k.thread_id()
        for place, conversion in enumerate(conversions):
            at = t + place * THREADS
            number = _integer(integer, words, x, at)
            (pairs + at * 2).store(_pair(k, conversion, x[at], x[at + THREADS]), number)
            later[at] = number ^ 0x1234

    return beside


@pytest.mark.parametrize("integer", INTEGERS)
@pytest.mark.parametrize("target", ["sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_ptxas_leaves_the_other_half_of_a_conversion_free(target, integer):
    conversions = OF_BLACKWELL if target in ("sm_100a", "sm_120a") else OF_HOPPER
    sass = disassemble(kernel_of(conversions, integer, target).compile().cubin.data)
    assert _MERGED.findall(sass) == ["RZ"] * len(conversions)


@on_devices
@pytest.mark.parametrize("integer", INTEGERS)
def test_the_integer_beside_a_pair_stays_what_it_is(integer):
    from numba import cuda

    random, count = np.random.default_rng(11), len(OF_HOPPER) * THREADS
    words = random.integers(0, 0x7000, 2 * count, dtype=np.uint16)
    x = random.integers(1, 400, count + THREADS).astype(np.float32)
    expected = {
        "added": words[:count] + 5,
        "smaller": x[:count].astype(np.uint16),
        "cut": (words.view(np.uint32) >> 20).astype(np.uint16),
        "counted": np.arange(count, dtype=np.uint16) * 3,
    }[integer]
    pairs, later = cuda.to_device(np.zeros(2 * count, np.uint16)), cuda.to_device(np.zeros(count, np.uint16))
    kernel = runtime.load(kernel_of(OF_HOPPER, integer, "sm_90").compile())
    kernel.launch(1, cuda.to_device(x), cuda.to_device(words), pairs, later)
    kernel.synchronize()
    np.testing.assert_array_equal(np.asarray(pairs.copy_to_host())[1::2], expected)
    np.testing.assert_array_equal(np.asarray(later.copy_to_host()), expected ^ 0x1234)
