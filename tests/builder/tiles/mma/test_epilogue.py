"""Where the TMA epilogue's stmatrix write, thread by thread: the swizzle of rows, by a formula of its own."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import bf16, f16, f32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, TensorMap
from tests.support.ir_addresses import evaluate, instructions

ROWS, LINE, CHUNK = 64, 128, 16
"""Rows of a warpgroup's tile, bytes after which a swizzle takes the next pattern, and what stmatrix stores at once."""


def place(thread: int, store: int, columns: int, width: int) -> int:
    """Where a thread's row of the `store`-th stmatrix begins: lanes 0-15 have its first 8 columns, others the rest.

    A panel has `width` bytes of each row.
    """
    warpgroup, row = thread // 128, thread % 128 // 32 * 16 + thread % 16
    panel, chunk = divmod(2 * store + thread % 32 // 16, width // CHUNK)
    tile = warpgroup * ROWS * columns * 2 + panel * ROWS * width
    return tile + row * width + (chunk ^ row * width // LINE % (width // CHUNK)) * CHUNK


@pytest.mark.parametrize("element", [f16, bf16], ids=str)
@pytest.mark.parametrize(
    ("columns", "width"), [(64, 128), (256, 128), (64, 64), (96, 64), (224, 64), (64, 32), (80, 32), (112, 32)]
)
def test_each_row_of_a_matrix_goes_to_its_place(columns: int, width: int, element: nvb.ElementType) -> None:
    """By the swizzle of the map, so that a tile may have columns that are no whole lines of 128 bytes."""
    described = Parameter("c", TensorMap(element, (64, width // 2), swizzle=width))
    k = KernelBuilder("stores", "sm_90a", threads=256, parameters=[described])
    output = k.tma_epilogue(k.arguments[0], columns, 2)
    acc = k.wgmma.accumulator(columns, f32)
    acc.fill(0.0)
    output.reserve((0, 0), k.thread_id() // 128).store(acc)
    (function,) = (one for one in k.core.llvm.module.functions if one.blocks)
    stores = list(instructions(function, "stmatrix"))
    assert len(stores) == columns // 16
    for thread in range(256):
        found = [evaluate(store.args[0], {"tid.x": thread}) for store in stores]
        assert found == [place(thread, number, columns, width) for number in range(len(stores))]


def place_of_column(thread: int, store: int, columns: int, width: int) -> int:
    """Where a thread's column of the `store`-th stmatrix begins, which is a row of a panel of `width` bytes.

    Lanes 0-7 and 16-23 have columns of the warp's first 8 rows, the other lanes those of the rows below. Of 8 columns
    lanes 0-15 have all.
    """
    warpgroup, warp, lane = thread // 128, thread % 128 // 32, thread % 32
    column = 8 * store + lane % 8 if columns % 16 else 16 * store + lane // 16 * 8 + lane % 8
    panel, chunk = divmod(2 * warp + lane // 8 % 2, width // CHUNK)
    tile = warpgroup * ROWS * columns * 2 + panel * columns * width
    return tile + column * width + (chunk ^ column * width // LINE % (width // CHUNK)) * CHUNK


@pytest.mark.parametrize(
    ("columns", "width"), [(64, 128), (256, 128), (80, 128), (144, 128), (40, 128), (64, 64), (64, 32)]
)
def test_columns_become_rows_by_transposing_stores(columns: int, width: int) -> None:
    """A row of the tensor has the 64 rows of the accumulator, whatever its columns."""
    described = Parameter("c", TensorMap(f16, (8, width // 2), swizzle=width))
    k = KernelBuilder("stores", "sm_90a", threads=256, parameters=[described])
    output = k.tma_epilogue(k.arguments[0], columns, 2, transposed=True)
    acc = k.wgmma.accumulator(columns, f32)
    acc.fill(0.0)
    output.reserve((0, 0), k.thread_id() // 128).store(acc)
    (function,) = (one for one in k.core.llvm.module.functions if one.blocks)
    stores = list(instructions(function, "stmatrix"))
    count = 2 if columns % 16 else 4
    assert len(stores) == columns // (4 * count)
    assert all(f".x{count}.trans." in str(store) for store in stores)
    for thread in (thread for thread in range(256) if thread % 32 < 8 * count):
        found = [evaluate(store.args[0], {"tid.x": thread}) for store in stores]
        assert found == [place_of_column(thread, number, columns, width) for number in range(len(stores))]


@pytest.mark.parametrize(
    ("columns", "swizzle", "rule", "fix"),
    [
        (80, 128, "epilogue.columns", "declare TensorMap(..., swizzle=32), with a box of 16 columns"),
        (80, 64, "epilogue.columns", "declare TensorMap(..., swizzle=32), with a box of 16 columns"),
        (96, 128, "epilogue.columns", "declare TensorMap(..., swizzle=64), with a box of 32 columns"),
        (72, 32, "epilogue.columns", "use a multiple of 16 columns"),
        (64, 0, "tma.swizzle", "declare TensorMap(..., swizzle=128)"),
        (80, 0, "tma.swizzle", "declare TensorMap(..., swizzle=32)"),
    ],
)
def test_a_tile_is_whole_rows_of_the_swizzle_of_the_map(columns: int, swizzle: int, rule: str, fix: str) -> None:
    described = Parameter("c", TensorMap(f16, (64, swizzle // 2 or 64), swizzle=swizzle))
    k = KernelBuilder("stores", "sm_90a", threads=128, parameters=[described])
    with pytest.raises(nvb.DiagnosticError) as error:
        k.tma_epilogue(k.arguments[0], columns)
    found = error.value.diagnostics[0]
    assert found.rule_id == rule and found.fix is not None and found.fix.startswith(fix)


def test_each_warpgroup_has_a_barrier_of_its_own() -> None:
    """The CTA's own is barrier 0, and those after the epilogue's are left to the program."""
    k = KernelBuilder("stores", "sm_90a", threads=256, parameters=[Parameter("c", TensorMap(f16, (64, 64)))])
    output = k.tma_epilogue(k.arguments[0], 64, 2)
    acc = k.wgmma.accumulator(64, f32)
    acc.fill(0.0)
    output.reserve((0, 0), k.thread_id() // 128).store(acc)
    (function,) = (one for one in k.core.llvm.module.functions if one.blocks)
    syncs = [one for one in instructions(function, "barrier.cta.sync") if len(one.args) == 2]
    assert len(syncs) == 2
    for sync in syncs:
        assert [evaluate(sync.args[0], {"tid.x": thread}) for thread in (0, 127, 128, 255)] == [1, 1, 2, 2]
        assert evaluate(sync.args[1], {}) == 128


def test_buffers_are_free_when_they_are_read() -> None:
    """PTX ISA 9.7.9 (cp.async.bulk.wait_group): .read waits until the sources are read, not until all is written."""
    k = KernelBuilder("stores", "sm_90a", threads=128, parameters=[Parameter("c", TensorMap(f16, (64, 64)))])
    output = k.tma_epilogue(k.arguments[0], 64, 1)
    acc = k.wgmma.accumulator(64, f32)
    acc.fill(0.0)
    output.reserve((0, 0), 0).store(acc)
    output.finish()
    (function,) = (one for one in k.core.llvm.module.functions if one.blocks)
    waits = [str(one) for one in instructions(function, "wait.group") if "bulk" in str(one)]
    assert len(waits) == 2
    assert all("wait.group.read" in one for one in waits)


def test_only_what_a_wgmma_holds_is_converted_before_it_is_stored() -> None:
    k = KernelBuilder("stores", "sm_90a", threads=128, parameters=[Parameter("c", TensorMap(f32, (64, 32)))])
    mma = k.tiled_mma("SM80_16x8x16_F32F16F16F32_TN", atom_layout=(2, 2, 1), tile=(64, 64))
    reserved = k.tma_epilogue(k.arguments[0], 64, rows=64, threads=128).reserve((0, 0), 0)
    with pytest.raises(nvb.DiagnosticError, match=r"epilogue\.accumulator"):
        reserved.convert(mma.accumulator().elements())


@pytest.mark.parametrize("rows", [32, 64, 128])
@pytest.mark.parametrize("columns", [32, 64])
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_tile_of_warps_is_stored_by_an_epilogue_of_its_shape_and_threads(rows, columns, threads, parts) -> None:
    """64 x 64 elements of 128 threads, whole: another shape, other threads or parts of it are refused."""
    if parts > 1 and (rows, columns, threads) != (64, 64, 128):
        return  # only what one wgmma writes has parts
    k = KernelBuilder("stores", "sm_90a", threads=256, parameters=[Parameter("c", TensorMap(f32, (rows, 32)))])
    mma = k.tiled_mma("SM80_16x8x16_F32F16F16F32_TN", atom_layout=(2, 2, 1), tile=(64, 64))
    with k.if_(k.warp_id() < threads // 32):
        elements = mma.accumulator().elements()
        output = k.tma_epilogue(k.arguments[0], columns, rows=rows, threads=threads, parts=parts)
        reserved = output.reserve((0, 0), 0)
        if (rows, columns, threads, parts) == (64, 64, 128, 1):
            reserved.store(elements)
        else:
            with pytest.raises(nvb.DiagnosticError, match=r"epilogue\.accumulator"):
                reserved.store(elements)


def is_refused(n, parts, shape):
    described = Parameter("map", TensorMap(f16, box=(64, 64)))
    k = KernelBuilder("k", "sm_90a", threads=256, parameters=[described])
    try:
        k.tma_epilogue(k.arguments[0], n, parts=parts, **shape)
    except nvb.DiagnosticError as error:
        return bool({"epilogue.parts", "call.argument"} & {one.rule_id for one in error.diagnostics})
    return False


@pytest.mark.parametrize(("n", "shape"), [(24, {}), (64, {}), (80, {}), (64, {"rows": 128}), (64, {"threads": 256})])
def test_the_parts_of_an_accumulator_are_whole_groups_of_8_columns(n, shape):
    """Those of wgmma: other tiles are stored whole."""
    whole = [parts for parts in range(1, n + 1) if n % (8 * parts) == 0] if not shape else [1]
    assert [parts for parts in range(-9, n + 2) if not is_refused(n, parts, shape)] == whole
    assert all(is_refused(n, parts, shape) for parts in (True, 2.0, "2", None))
