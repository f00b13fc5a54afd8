"""Kernels of 128 threads that bring a matrix through tiled copies and leave it as it was; `body(k, source, out)`."""

from __future__ import annotations

from nvbackend import Major, TensorMap, f16
from nvbackend.layout import ComposedLayout, Layout, Swizzle, gmma_atom, tile_to_shape
from nvbackend.tiled import (
    cp_async_copy,
    ldmatrix_copy,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_C,
    make_tiled_mma,
    make_tma_copy,
    stmatrix_copy,
    tma_partition,
    universal_copy,
)

EXTENT = 64
THREADS = 128
MMA = make_tiled_mma("SM80_16x8x16_F16F16F16F16_TN", (2, 2, 1), (32, 32, 16))
SWIZZLES = (Swizzle(3, 3, 3), Swizzle(2, 3, 4))


def through_matrices(count, transposed, operand):
    """Global memory, a tile by cp.async, registers by ldmatrix, another tile by stmatrix, global memory.

    Registers are those of `operand`, A or C, of an mma; with `transposed` the tiles are contiguous along M.
    """
    make = {"A": make_tiled_copy_A, "C": make_tiled_copy_C}[operand]
    load, store = (make(each(f16, count, transposed=transposed), MMA) for each in (ldmatrix_copy, stmatrix_copy))
    strides = (1, EXTENT) if transposed else (EXTENT, 1)
    plain = Layout((EXTENT, EXTENT), strides)
    thr, val = (Layout((8, 16)), Layout((8, 1))) if transposed else (Layout((16, 8), (8, 1)), Layout((1, 8)))
    fill, drain = (
        make_tiled_copy(atom, thr, val) for atom in (cp_async_copy(f16, cache="cg"), universal_copy(f16, 128))
    )

    def body(k, source, out):
        thread = k.thread_id()
        first, second = (
            k.tensor(k.shared(f16, EXTENT * EXTENT, align=1024, name=name), ComposedLayout(swizzle, 0, plain))
            for name, swizzle in zip(("first", "second"), SWIZZLES, strict=True)
        )
        mine = fill.get_slice(thread)
        given = k.tensor(source.cast(f16), plain)
        k.copy(fill, given.partition(mine.partition_S), first.partition(mine.partition_D))
        k.cp_async.commit_group()
        k.cp_async.wait_group(0)
        k.barrier.sync()
        shape = getattr(MMA, f"partition_shape_{operand}")((EXTENT, EXTENT))
        fragment = k.register_tensor(f16, shape)
        loads, stores = load.get_slice(thread), store.get_slice(thread)
        k.copy(load, first.partition(loads.partition_S), fragment.retile(loads.retile_D))
        k.copy(store, fragment.retile(stores.retile_S), second.partition(stores.partition_D))
        k.barrier.sync()
        mine = drain.get_slice(thread)
        taken = k.tensor(out.cast(f16), plain)
        k.copy(drain, second.partition(mine.partition_S), taken.partition(mine.partition_D))

    return body


def through_registers(element, bits):
    """Global memory, registers, a swizzled tile, registers, global memory, `bits` at once; rows in between 0 to 47."""
    values = bits // element.bits
    copy = make_tiled_copy(universal_copy(element, bits), Layout((16, 8), (8, 1)), Layout((1, values)))
    plain = Layout((EXTENT, EXTENT), (EXTENT, 1))
    base = values.bit_length() - 1

    def body(k, source, out):
        tile = k.tensor(k.shared(element, EXTENT * EXTENT, align=1024), ComposedLayout(Swizzle(3, base, 3), 0, plain))
        mine = copy.get_slice(k.thread_id())
        given, taken = (k.tensor(one.cast(element), plain) for one in (source, out))
        inside = k.identity_tensor((EXTENT, EXTENT)).partition(mine.partition_S).below(48, None)
        part = given.partition(mine.partition_S)
        first, second = (k.register_tensor(element, part.shape) for _ in range(2))
        k.copy(copy, part, first, where=inside)
        k.copy(copy, first, tile.partition(mine.partition_D))
        k.barrier.sync()
        k.copy(copy, tile.partition(mine.partition_S), second)
        k.copy(copy, second, taken.partition(mine.partition_D))

    return body


def tma_boxes(major, mode, order, whole=False):
    """A map and a kernel that loads a tile of 128 x 64 of it from (64, 64) on, and writes it row by row.

    Box by box, or with one call of k.copy for the `whole` tile.
    """
    layout = tile_to_shape(gmma_atom(major, mode, f16), (128, EXTENT), order)
    tensor = Layout((256, 128), (128, 1) if major is Major.K else (1, 256))
    copy = make_tma_copy(f16, tensor, layout)
    parameter = TensorMap(f16, copy.map_box, copy.swizzle)

    def body(k, source, out, tensor_map):
        tile = k.tensor(k.shared(f16, 128 * EXTENT, align=1024, name="tile"), layout)
        full = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=copy.bytes)
            if whole:
                k.copy(copy, tensor_map, tile, at=(64, 64), barrier=full)
            for box in () if whole else tma_partition(copy):
                place = (tile.address + box.offset).byte_offset(0, align=128)
                k.tma.load_box(place, tensor_map, copy.coordinates_of(box, (64, 64)), full)
        k.mbarrier.wait(full, 0)
        rows = k.tensor(out.cast(f16), Layout((128, EXTENT), (EXTENT, 1)))
        for column in range(EXTENT):
            rows[k.thread_id(), column] = tile[k.thread_id(), column]

    return parameter, body
