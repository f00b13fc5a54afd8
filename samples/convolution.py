"""A convolution on Hopper as a matrix product whose A never exists in memory: TMA in im2col mode gathers the pixels.

Pixel (p, q) of Y is the sum over the filter's taps (r, s) of F[:, r, s, :] @ X[stride p + r - padding, stride q + s -
padding, :]. A row of the product is a pixel of Y, a column is a filter, and K runs over taps and channels. In each
step the copy walks over 128 pixels, from row to row and from image to image, shifted by the tap; outside of an image
it reads zeros.

Run it as it is: it convolves random images (on a machine without a GPU in the simulator) and compares with NumPy.
"""

from __future__ import annotations

import itertools
import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32, u16
from samples.problem import Problem
from samples.problem import main as solve

TILE_M, TILE_N, TILE_K = 128, 128, 64
STAGES, CONSUMERS = 5, 2


def pixels(taps: int, padding: int, stride: int, dilation: int) -> nvb.TensorMap:
    """The map of X: tiles of pixels x channels, where a pixel is the place of a filter's first tap."""
    walk = nvb.Im2col.of_convolution((taps, taps), (padding, padding), (stride, stride), (dilation, dilation))
    return nvb.TensorMap(f16, (TILE_M, TILE_K), im2col=walk)


X = Annotated[nvb.TensorMap, pixels]
Filters = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_N, 1, TILE_K))]
Y = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]


@nvb.kernel("sm_90a", threads=128 * (1 + CONSUMERS), min_ctas=1)
def convolution(
    k: nvb.KernelBuilder,
    x: X,
    filters: Filters,
    y: Y,
    height: i32,
    width: i32,
    tiles_m: i32,
    tiles_n: i32,
    chunks: i32,
    *,
    taps: int = 3,
    padding: int = 1,
    stride: int = 1,
    dilation: int = 1,
) -> None:
    """`height` and `width` are Y's, `chunks` the parts of 64 of X's channels; filters have `taps` x `taps` taps."""
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{TILE_N}k16", f16, f16, f32), warpgroups=(CONSUMERS, 1))
    ring = k.pipeline(STAGES, CONSUMERS, x=mma.smem_a(TILE_K), filters=mma.smem_b(TILE_K))
    output = k.tma_epilogue(y, TILE_N, CONSUMERS)
    k.tma.prefetch_maps(x, filters, y)
    k.mbarrier.ready()
    tiles = lambda: k.range(k.block_id(), tiles_m * tiles_n, k.block_count(), name="tile")  # noqa: E731
    steps = taps * taps * chunks

    with k.producer(registers=40), tiles() as tile:
        first = tile // tiles_n * TILE_M
        row, column = first // width, first % width
        start = column * stride - padding, row % height * stride - padding, row // height
        with k.range(steps) as step, ring.fill() as stage:
            tap, channel = step // chunks, step % chunks * TILE_K
            moved = [(place * dilation).to(u16) for place in (tap % taps, tap // taps)]
            k.tma.load_box(stage.x.address, x, (channel, *start), stage.full, mode="im2col", offsets=moved)
            k.tma.load(stage.filters, filters, (tap, tile % tiles_n * TILE_N, channel), stage.full)

    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        with tiles() as tile:
            acc.clear()
            with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.x, stage.filters, warpgroup)
            pixel, filter_ = tile // tiles_n * TILE_M, tile % tiles_n * TILE_N
            reserved = output.reserve((pixel + warpgroup * 64, filter_), warpgroup)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            reserved.store(acc)
        output.finish()


def launch(loaded: nvb.runtime.LoadedKernel, x: Any, filters: Any, y: Any) -> None:
    """Start the kernel on X (N x H x W x C), filters (K x taps x taps x C), and Y (N x P x Q x K)."""
    count, taps, _, channels = filters.shape
    images, height, width, _ = y.shape
    rows = images * height * width
    tiles = -(-rows // TILE_M), -(-count // TILE_N)
    grid = min(tiles[0] * tiles[1], loaded.device.limits.multiprocessors)
    by_tap, matrix = filters.reshape(count, taps * taps, channels), y.reshape(rows, count)
    loaded.launch(grid, x, by_tap, matrix, height, width, *tiles, -(-channels // TILE_K))


def problem(
    images: int, size: int, channels: int, count: int, *, taps: int = 3, stride: int = 1, dilation: int = 1
) -> Problem:
    """Random square images and `count` filters, with the padding that a stride of 1 needs to keep the size."""
    import numpy as np

    random = np.random.default_rng(images + size)
    padding = (taps - 1) * dilation // 2
    x = random.standard_normal((images, size, size, channels), np.float32).astype(np.float16)
    filters = random.standard_normal((count, taps, taps, channels), np.float32).astype(np.float16)
    wide = np.pad(x.astype(np.float32), ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    parts = []
    for r, s in itertools.product(range(taps), repeat=2):
        rows, columns = (slice(tap * dilation, tap * dilation + size, stride) for tap in (r, s))
        parts.append(wide[:, rows, columns] @ filters[:, r, s].astype(np.float32).T)
    expected = sum(parts[1:], parts[0])
    kernel = convolution.with_(taps=taps, padding=padding, stride=stride, dilation=dilation)
    return Problem(kernel, launch, (x, filters), expected, np.full(expected.shape, np.nan, np.float16), 2**-10)


def main() -> int:
    sizes = "images, their size, channels and filters"
    return solve(
        __doc__,
        problem,
        sizes=sizes,
        multiples=(1, 1, 8, 8),
        on_the_gpu=(32, 56, 256, 256),
        in_the_simulator=(2, 9, 72, 136),
    )


if __name__ == "__main__":
    sys.exit(main())
