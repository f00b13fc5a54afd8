"""Which instruction adds how on which chip.

The parameters are those of MMA-Sim (arXiv 2511.10909). Volta keeps 23 bits below the largest exponent, Turing to Ada
24, Hopper and later chips 25. Ada's fp8 mma and Hopper's fp8 wgmma keep 13, and 13 bits of the sum. Chips before Hopper
add an instruction's products in two or more groups. Everything of sm_90 was compared with an H100, bit for bit, also
what MMA-Sim does not cover: sparse instructions, and fp8 of a warp, which ptxas makes of mma of f16.
"""

from __future__ import annotations

from nvbackend.simulator.tensor.numerics import Model

VOLTA, TURING, AMPERE, ADA, HOPPER, BLACKWELL, CONSUMER_BLACKWELL = 70, 75, 80, 89, 90, 100, 120
_FRACTION = {VOLTA: 23, TURING: 24, AMPERE: 24, ADA: 24, HOPPER: 25, BLACKWELL: 25, CONSUMER_BLACKWELL: 25}
_GROUP = {
    # products at a time
    "f16": {VOLTA: 4, TURING: 8, AMPERE: 8, ADA: 8},
    "bf16": {AMPERE: 8, ADA: 8},
    "tf32": {AMPERE: 4, ADA: 4},
    "fp8": {ADA: 16},
}
_FP8 = frozenset({"e4m3", "e5m2"})
_SIX_BITS = frozenset({"e3m2", "e2m3"})
_FP8_FRACTION = 13
_PAIRS = 2
"""ptxas takes the lower two fp8 numbers of each register first, then the upper two."""
FOUR_BIT_FRACTION = 35
"""Of the block-scaled kinds of e2m1: sums of 16 products, exact, aligned by the exponents of their scale factors."""


def generation(sm: int) -> int:
    """The first chip of those that add as sm_`sm` does."""
    if sm >= CONSUMER_BLACKWELL:
        return CONSUMER_BLACKWELL
    return max(one for one in _FRACTION if one <= max(sm, VOLTA))


def warp_model(sm: int, a: str, b: str, k: int, *, sparse: bool = False) -> Model:
    """Of mma.sync and wmma: `a` and `b` are the types of A and B, floats other than f64; `k` the K of the shape."""
    chip = generation(sm)
    fp8 = a in _FP8 and b in _FP8
    if fp8 and chip in (HOPPER, BLACKWELL):
        return Model(_FRACTION[chip], apart=_PAIRS, claimed=chip == HOPPER)
    group = _GROUP.get("fp8" if fp8 else a, {}).get(chip, 0)
    if fp8 and chip == ADA:
        return Model(_FP8_FRACTION, group, _FP8_FRACTION, claimed=not sparse)
    # m8n8k4 of f16 is not in the hardware from Ampere on: ptxas makes it of ordinary arithmetic.
    emulated = a == "f16" and k == 4 and chip >= AMPERE
    unseen = (sparse and chip != HOPPER) or bool({a, b} & _SIX_BITS)
    return Model(_FRACTION[chip], group, claimed=not (emulated or unseen))


def wgmma_model(a: str) -> Model:
    """Of wgmma, dense and sparse, whose A is of type `a`, a float."""
    if a in _FP8:
        return Model(_FP8_FRACTION, kept=_FP8_FRACTION)
    return Model(_FRACTION[HOPPER])


def tcgen05_model(a: str, b: str, *, sparse: bool) -> Model:
    """Of tcgen05.mma of floats: of the kinds without block scale, and of mxf8f6f4."""
    return Model(_FRACTION[BLACKWELL], claimed=not (sparse or {a, b} & _SIX_BITS))
