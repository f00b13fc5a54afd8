"""A convolution as an implicit GEMM: TMA walks over the pixels of each tap of the filter, a ring feeds wgmma."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import nvbackend as nvb
from nvbackend import f16, f32, i32

PIXELS, CHANNELS, FILTERS = 64, 64, 64
"""A tile: pixels of the result, channels of a step, and filters."""
Filters = nvb.TensorMap(f16, box=(FILTERS, CHANNELS))


def convolution(walk: nvb.Im2col, extent: tuple[int, int], dilation: tuple[int, int]) -> nvb.KernelDefinition:
    """Output pixels x filters; images are N, H, W, channels, weights filters x (taps, channels)."""
    images = nvb.TensorMap(f16, box=(PIXELS, CHANNELS), im2col=walk)
    steps = list(itertools.product(range(extent[0]), range(extent[1])))
    stride = walk.stride or (1, 1)

    def convolve(k, x, weights, out, rows, columns):
        mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{FILTERS}k16", f16, f16, f32))
        ring = k.pipeline(3, consumers=1, pixels=mma.smem_a(CHANNELS), weights=mma.smem_b(CHANNELS))
        k.mbarrier.ready()
        first = k.block_id() * PIXELS
        with k.if_(k.warpgroup_id() == 0), k.one_thread():
            column, row, image = first % columns, first // columns % rows, first // (columns * rows)
            start = (column * stride[1] + walk.lower[1], row * stride[0] + walk.lower[0], image)
            for number, (down, across) in enumerate(steps):
                tap = (across * dilation[1], down * dilation[0])
                with ring.fill() as stage:
                    pixels = stage.pixels.address.cast(f16)
                    k.tma.load_box(pixels, x, (0, *start), stage.full, mode="im2col", offsets=tap)
                    k.tma.load(stage.weights, weights, (0, number * CHANNELS), stage.full)
        with k.else_():
            acc = mma.accumulator()
            for _ in steps:
                with ring.drain() as stage, k.wgmma.group():
                    mma.accumulate(acc, stage.pixels, stage.weights)
            k.store_accumulator(acc, out + first * FILTERS, FILTERS)

    count = nvb.Scalar(i32, minimum=1)
    types = {"x": images, "weights": Filters, "out": nvb.Pointer[f32], "rows": count, "columns": count}
    convolve.__annotations__ = types
    return nvb.kernel("sm_90a", threads=256)(convolve)


def expected(x: Any, weights: Any, padding: Any, stride: Any, dilation: Any) -> Any:
    """The convolution in NumPy: filters are filters x height x width x channels."""
    padded = np.pad(x.astype(np.float32), ((0, 0), *((pad, pad) for pad in padding), (0, 0)))
    spans = [dilation[axis] * (weights.shape[1 + axis] - 1) + 1 for axis in range(2)]
    count = [(padded.shape[1 + axis] - spans[axis]) // stride[axis] + 1 for axis in range(2)]
    out = np.zeros((len(x), *count, len(weights)), np.float32)
    for p, q, r, s in itertools.product(*map(range, (*count, *weights.shape[1:3]))):
        pixel = padded[:, p * stride[0] + r * dilation[0], q * stride[1] + s * dilation[1]]
        out[:, p, q] += pixel @ weights[:, r, s].astype(np.float32).T
    return out
