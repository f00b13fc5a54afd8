"""Every mma.sync and wgmma that an H100 has: the GPU and the simulator give the same bits for the same kernel.

The registers hold random elements: exponents far apart, subnormal numbers, zeros, infinities, NaN; the same words go to
both, so that it does not matter here which element is where.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nvbackend.intrinsics.mma import mma, wgmma
from nvbackend.intrinsics.row.types import f16, f64
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.isel.select.mma.request import MmaRequest
from nvbackend.isel.select.mma.request import request_of as mma_request_of
from nvbackend.isel.select.wgmma.request import request_of as wgmma_request_of
from nvbackend.isel.target.target import Target
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.simulator import Simulator
from tests.support.mma_kernel import mma_kernel
from tests.support.wgmma_kernel import wgmma_kernel

pytestmark = pytest.mark.gpu((9, 0))

FIELDS = {
    "f16": (5, 10),
    "bf16": (8, 7),
    "tf32": (8, 23),
    "f32": (8, 23),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
    "f64": (11, 52),
}
SPREADS = ("narrow", "wide", "small", "any")
HOPPER = Target.parse("sm_90a")
MMA = {row.ptx: mma_request_of(row).instruction for row in mma.rows() if HOPPER.has(row.requires)}
EMULATED = (8, 8, 4)
WGMMA = {}
for _row in wgmma.rows():
    if _row.opcode == "wgmma.mma_async" and _row.axes["shape"][1] == 16 and _row.axes["a_in_registers"]:
        WGMMA.setdefault(_row.ptx, wgmma_request_of(_row))


def words(random, element, count, spread):
    """So many 32-bit words (f64: doubles) of random elements."""
    bits = element.bits
    total = count * max(1, 32 // bits)
    if element.name not in FIELDS or spread == "any":
        codes = random.integers(0, 1 << 32, count * bits // 32 or count, dtype=np.uint32)
        return codes.view(np.float64) if bits == 64 else random.integers(0, 1 << 32, count, dtype=np.uint32)
    exponent, mantissa = FIELDS[element.name]
    top, bias = (1 << exponent) - 1, (1 << exponent - 1) - 1
    low, high = {"narrow": (bias - 2, bias + 2), "wide": (bias // 2, bias + bias // 4), "small": (0, 3)}[spread]
    fields = np.clip(random.integers(low, high + 1, total), 0, top - 1).astype(np.uint64)
    codes = fields << np.uint64(mantissa) | random.integers(0, 1 << mantissa, total, dtype=np.uint64)
    codes |= random.integers(0, 2, total, dtype=np.uint64) << np.uint64(exponent + mantissa)
    codes[random.random(total) < 0.1] = 0
    return codes.astype(f"uint{bits}").view(np.float64 if bits == 64 else np.uint32)


def metadata(random, bits, count):
    """Words of legal codes."""
    legal = np.array([4, 14] if bits == 32 else [4, 8, 9, 12, 13, 14], np.uint32)
    codes = legal[random.integers(0, len(legal), (count, 8))]
    return np.bitwise_or.reduce(codes << np.arange(0, 32, 4, dtype=np.uint32), axis=1)


def both(finished, threads, shared, inputs, out):
    """What the kernel gives on the GPU and in the simulator."""
    from numba import cuda

    from nvbackend import runtime

    compiled = finished.compile()
    kernel = runtime.load(compiled)
    target = cuda.to_device(out.copy())
    kernel.launch(1, *(cuda.to_device(one) for one in inputs), target)
    kernel.synchronize()
    module, found = Simulator().load(compiled.ptx), out.copy()
    module.launch(module.kernels[0], block=(threads, 1, 1), shared=shared, args=[*inputs, found])
    return target.copy_to_host(), found


@pytest.mark.parametrize("ptx", [ptx for ptx, one in MMA.items() if not (one.a is f16 and one.shape == EMULATED)])
def test_mma(ptx):
    one = MMA[ptx]
    row, finished = mma.mma(one), mma_kernel(MmaRequest(one))
    for number, spread in enumerate(SPREADS):
        random = np.random.default_rng(number)
        a, b, c = (words(random, getattr(one, name), 32 * row.operand(name).count, spread) for name in "abc")
        count = 32 * row.operand("d").count
        out = np.zeros(count) if one.a is f64 else np.zeros(count, np.uint32)
        gpu, simulated = both(finished, 32, 0, (a, b, c, metadata(random, one.a.bits, 32)), out)
        assert gpu.tobytes() == simulated.tobytes(), spread


@pytest.mark.parametrize("ptx", WGMMA)
def test_wgmma(ptx):
    request = WGMMA[ptx]
    k, n = request.k, request.n
    layout = SmemLayout(Major.K, SwizzleMode.NONE, request.b, n, 2 * k)
    start = 3 if request.d.is_integer else 1.0
    finished = wgmma_kernel(request, None, layout, start=start)
    for number, spread in enumerate(SPREADS):
        random = np.random.default_rng(number)
        a = words(random, request.a, 2 * 128 * 4, spread)
        b = words(random, request.b, layout.bytes // 4, spread)
        out = np.zeros(128 * (n // (4 if request.d is f16 else 2)), np.uint32)
        inputs = (a, b, metadata(random, request.a.bits, 2 * 128))
        gpu, simulated = both(finished, 128, finished.signature.bounds.dynamic_shared_bytes, inputs, out)
        assert gpu.tobytes() == simulated.tobytes(), spread


def test_these_are_many():
    kinds = {(one.a.name, one.d.name, one.sparsity is not None) for one in MMA.values()}
    assert len(kinds) > 15
    assert len(WGMMA) > 30
    assert set(itertools.chain.from_iterable((one.a.name, one.b.name) for one in WGMMA.values())) >= {
        "e4m3",
        "s8",
        "tf32",
    }
