"""Products of 4 and 6 bits on Blackwell: tiles by `smem_a` and `smem_b`, run in the simulator, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SwizzleMode, e2m1, e2m3, e3m2, e4m3, f32, i32, u8, u32, ue4m3, ue8m0
from nvbackend.layout import Layout

M, N, TILE_K, TARGET = 128, 64, 256, "sm_100a"
A, B = (nvb.TensorMap(e2m1, box=(rows, TILE_K)) for rows in (M, N))
BY_COLUMNS, OF_BYTES = nvb.TensorMap(e4m3, box=(64, M)), nvb.TensorMap(e4m3, box=(N, 64), swizzle=64)
FACTORS = nvb.Pointer(u32, align=16)
ROWS_OF_FACTORS = 512
"""Bytes of the factors of 128 rows for one instruction: four of each, row r at r % 32 * 16 + r // 32 * 4."""


def scaled(kind, scale, vector):
    instruction = nvb.tcgen05.mma("m128n64k64", e2m1, e2m1, f32, kind=kind, scale=scale, scale_vector=vector)
    issues = TILE_K // 64
    bytes_of_factors = issues * ROWS_OF_FACTORS

    @nvb.kernel(TARGET, threads=128)
    def product(k, a: A, b: B, sa: FACTORS, sb: FACTORS, c: nvb.Pointer(f32), steps: i32(minimum=1)):
        mma = k.tiled_mma(instruction)
        layout_a, layout_b = mma.smem_a(TILE_K), mma.smem_b(TILE_K)
        tile_a, tile_b = k.shared_tile(layout_a), k.shared_tile(layout_b)
        factors_a, factors_b = (k.shared(u32, bytes_of_factors // 4, align=128) for _ in range(2))
        full, read, done = (k.mbarrier.array(1, arrivals=1) for _ in range(3))
        k.mbarrier.ready()
        with k.tcgen05.tmem(128) as tmem:
            acc = tmem.columns(0, N)
            with k.one_thread():
                with k.range(steps) as step:
                    bytes_ = layout_a.bytes + layout_b.bytes + 2 * bytes_of_factors
                    k.mbarrier.arrive(full, expect_tx=bytes_)
                    k.tma.load(tile_a, a, (0, step * TILE_K), full)
                    k.tma.load(tile_b, b, (0, step * TILE_K), full)
                    k.bulk.load(factors_a, sa + step * (bytes_of_factors // 4), bytes_of_factors, full)
                    k.bulk.load(factors_b, sb + step * (bytes_of_factors // 4), bytes_of_factors, full)
                    k.mbarrier.wait(full, step & 1)
                    rows = nvb.Tcgen05SmemDescriptor(0, 128, 128)
                    first, second = mma.partition_fragment_A(tile_a), mma.partition_fragment_B(tile_b)
                    for issue in mma.issues(first, second):
                        columns = tmem.columns(64 + 4 * issue.k, 4), tmem.columns(96 + 4 * issue.k, 4)
                        for to, source in zip(columns, (factors_a, factors_b), strict=True):
                            place = source + issue.k * (ROWS_OF_FACTORS // 4)
                            k.tcgen05.cp(to, k.tcgen05.smem_descriptor(place, rows), "32x128b", "warpx4")
                        accumulate = step > 0 if issue.k == 0 else True
                        scales = {"scale_a": columns[0], "scale_b": columns[1]}
                        mma.issue(issue, acc, first, second, accumulate=accumulate, **scales)
                    k.tcgen05.commit(read)
                    k.mbarrier.wait(read, step & 1)
                k.tcgen05.commit(done)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            values = mma.load(acc)
            values.store(k.tensor(c, Layout((M, N), (N, 1))))

    return product


HALF_BYTES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def four_bits(codes):
    """The numbers of e2m1 codes, written down: the highest bit is the sign."""
    return HALF_BYTES[codes & 7] * np.where(codes & 8, -1, 1).astype(np.float32)


def packed(codes):
    return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)


def factors_of(codes, a_row):
    """The factors, `a_row` of each row for one instruction, as tcgen05.cp brings them to tensor memory."""
    rows, steps = codes.shape[0], codes.shape[1] // a_row
    image = np.zeros((steps, ROWS_OF_FACTORS), np.uint8)
    for row in range(rows):
        place = row % 32 * 16 + row // 32 * 4
        image[:, place : place + a_row] = codes[row].reshape(steps, a_row)
    return image.reshape(-1).view(np.uint32)


KINDS = {
    "NVFP4": ("mxf4nvf4", ue4m3, "scale_vec::4X", {0x30: 0.5, 0x38: 1.0, 0x40: 2.0, 0x44: 3.0}),
    "MXFP4": ("mxf4", ue8m0, None, {126: 0.5, 127: 1.0, 128: 2.0, 129: 4.0}),
}


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("name", KINDS)
def test_block_scaled_products_of_four_bits(name, steps):
    kind, scale, vector, worth = KINDS[name]
    a_row = 4 if vector else 2
    rng = np.random.default_rng(3)
    codes = [rng.integers(0, 16, (rows, steps * TILE_K)) for rows in (M, N)]
    chosen = [rng.choice(list(worth), (rows, steps * TILE_K // 64 * a_row)) for rows in (M, N)]
    c = np.full((M, N), np.nan, np.float32)
    loaded = nvb.runtime.load(scaled(kind, scale, vector).compile(cache=nvb.Cache.disabled()), device="simulator")
    loaded.launch(1, *map(packed, codes), *(factors_of(one, a_row) for one in chosen), c, steps)
    numbers = [
        four_bits(one) * np.repeat(np.vectorize(worth.get)(factor), 64 // a_row, axis=1)
        for one, factor in zip(codes, chosen, strict=True)
    ]
    np.testing.assert_allclose(c, numbers[0] @ numbers[1].T, rtol=1e-5)


def six_bits(codes, exponent):
    """The numbers of 6-bit codes with `exponent` bits of it."""
    mantissa = 5 - exponent
    power, fraction = codes >> mantissa & (1 << exponent) - 1, codes & (1 << mantissa) - 1
    bias = (1 << exponent - 1) - 1
    small = fraction * 2.0 ** (1 - bias - mantissa)
    large = (1 + fraction / 2.0**mantissa) * 2.0 ** (power - bias)
    return np.where(power == 0, small, large) * np.where(codes & 32, -1, 1)


NARROW = {e2m1: four_bits, e2m3: lambda codes: six_bits(codes, 2), e3m2: lambda codes: six_bits(codes, 3)}


@pytest.mark.parametrize("swizzle", SwizzleMode)
@pytest.mark.parametrize(("a", "b"), [(e2m1, e2m3), (e3m2, e2m1), (e2m3, e3m2)])
def test_products_of_padded_elements(a, b, swizzle):
    """kind::f8f6f4: each tile is brought as the bytes that `arrange` makes of the matrix."""
    instruction = nvb.tcgen05.mma("m128n64k32", a, b, f32)
    made = []

    @nvb.kernel(TARGET, threads=128)
    def product(k, x: nvb.Pointer(u8, align=16), y: nvb.Pointer(u8, align=16), c: nvb.Pointer(f32)):
        mma = k.tiled_mma(instruction)
        made[:] = mma.smem_a(TILE_K, swizzle=swizzle), mma.smem_b(TILE_K, swizzle=swizzle)
        tiles = [k.shared_tile(layout) for layout in made]
        full, done = k.mbarrier.array(1, arrivals=1), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.tcgen05.tmem(mma.columns) as acc:
            with k.one_thread():
                k.mbarrier.arrive(full, expect_tx=made[0].bytes + made[1].bytes)
                for tile, source in zip(tiles, (x, y), strict=True):
                    k.bulk.load(tile.address.cast(u8), source, tile.layout.bytes, full)
                k.mbarrier.wait(full, 0)
                mma.accumulate(acc, *tiles, accumulate=False)
                k.tcgen05.commit(done)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            mma.load(acc).store(k.tensor(c, Layout((M, N), (N, 1))))

    compiled = product.compile(cache=nvb.Cache.disabled())
    rng, matrices, images = np.random.default_rng(4), [], []
    for layout in made:
        assert layout.padded
        codes = rng.integers(0, 1 << layout.element.bits, (layout.rows, TILE_K))
        matrices.append(NARROW[layout.element](codes))
        images.append(layout.arrange(packed(codes) if layout.element is e2m1 else codes.astype(np.uint8)))
    c = np.full((M, N), np.nan, np.float32)
    nvb.runtime.load(compiled, device="simulator").launch(1, *images, c)
    np.testing.assert_allclose(c, matrices[0] @ matrices[1].T, rtol=1e-4, atol=1e-4)


def test_a_tile_without_padding_is_not_that_of_a_kind_with_it():
    @nvb.kernel(TARGET, threads=128)
    def wrong(k):
        mma = k.tiled_mma(nvb.tcgen05.mma("m128n64k32", e2m1, e4m3, f32))
        mma.partition_fragment_A(k.shared_tile(nvb.SmemLayout(Major.K, SwizzleMode.B128, e2m1, M, TILE_K)))

    with pytest.raises(nvb.DiagnosticError, match="padded e2m1") as error:
        wrong.build()
    assert [one.rule_id for one in error.value.diagnostics] == ["tcgen05.operand-tile"]


def refused(program):
    @nvb.kernel("sm_90a", threads=128)
    def kernel(k):
        program(k)

    with pytest.raises(nvb.DiagnosticError, match="wgmma reads") as error:
        kernel.build()
    return [one.rule_id for one in error.value.diagnostics]


FOUR_BITS = nvb.SmemLayout(Major.K, SwizzleMode.B128, e2m1, 64, 256)
TRANSPOSED = nvb.SmemLayout(Major.MN, SwizzleMode.B128, e4m3, 128, 64)


def test_wgmma_refuses_what_only_tcgen05_reads():
    tiled = nvb.wgmma.mma_async("m64n64k32", e4m3, e4m3, f32)
    assert refused(lambda k: k.wgmma.smem_descriptor(k.shared_tile(FOUR_BITS))) == ["layout.element"]
    assert refused(lambda k: k.wgmma.smem_descriptor(k.shared_tile(TRANSPOSED))) == ["layout.major"]
    assert "layout.major" in refused(lambda k: k.tiled_mma(tiled).smem_a(64, Major.MN))

    def raw(k):
        k.wgmma.fence()
        k.wgmma.mma_async(k.wgmma.accumulator(64), k.shared_tile(TRANSPOSED), k.shared_tile(TRANSPOSED), tiled)

    assert refused(raw) == ["layout.major", "layout.major"]


def test_a_tile_of_bytes_by_columns():
    """tcgen05 reads 8 bits MN-major, which wgmma does not."""
    rng = np.random.default_rng(1)
    instruction = nvb.tcgen05.mma("m128n64k32", e4m3, e4m3, f32)

    @nvb.kernel(TARGET, threads=128)
    def product(k, x: nvb.TensorMap(e4m3, box=(64, M)), y: OF_BYTES, c: nvb.Pointer(f32)):
        mma = k.tiled_mma(instruction)
        tiles = [
            k.shared_tile(mma.smem_a(64, Major.MN)),
            k.shared_tile(mma.smem_b(64, Major.K, SwizzleMode.B64)),
        ]
        full, done = k.mbarrier.array(1, arrivals=1), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.tcgen05.tmem(mma.columns) as acc:
            with k.one_thread():
                k.mbarrier.arrive(full, expect_tx=tiles[0].layout.bytes + tiles[1].layout.bytes)
                k.tma.load(tiles[0], x, (0, 0), full)
                k.tma.load(tiles[1], y, (0, 0), full)
                k.mbarrier.wait(full, 0)
                mma.accumulate(acc, *tiles, accumulate=False)
                k.tcgen05.commit(done)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            mma.load(acc).store(k.tensor(c, Layout((M, N), (N, 1))))

    whole = {0x38: 1.0, 0x40: 2.0, 0xB8: -1.0, 0x30: 0.5}
    codes = rng.choice(list(whole), (64, M)), rng.choice(list(whole), (N, 64))
    c = np.full((M, N), np.nan, np.float32)
    loaded = nvb.runtime.load(product.compile(cache=nvb.Cache.disabled()), device="simulator")
    loaded.launch(1, *(one.astype(np.uint8) for one in codes), c)
    first, second = (np.vectorize(whole.get)(one) for one in codes)
    np.testing.assert_allclose(c, first.T @ second.T, rtol=1e-5)
