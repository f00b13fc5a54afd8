"""Elements of accumulators with coordinates: what goes together, rows, operands."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32
from tests.rules.example import kernel


@kernel("elements.other", "sm_80")
def a_sum_of_two_tiles(k):
    mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (4, 1), tile=(64, 64))
    wide = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (4, 1), tile=(64, 128))
    first = mma.accumulator()
    second = wide.accumulator()  # breaks
    second = mma.accumulator()  # keeps
    first.set(first.elements() + second.elements())


@kernel("elements.lanes", "sm_80")
def rows_of_partial_sums(k):
    atoms = (1, 2, 2)  # breaks
    atoms = (2, 2, 1)  # keeps
    mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), atom_layout=atoms, tile=(64, 64))
    mma.accumulator().elements().reduce_rows("max")


@kernel("elements.operand", "sm_80")
def columns_of_another_warp(k):
    warps = (2, 2)  # breaks
    warps = (4, 1)  # keeps
    first = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), warps, tile=(64, 64))
    second = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (4, 1), tile=(64, 64))
    second.make_fragment_A(first.accumulator().elements())


@kernel("elements.type", "sm_80")
def elements_of_two_types(k):
    mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (4, 1))
    numbers = iter(range(4))

    def first_alone(value):
        return value if next(numbers) == 0 else value.to(f16)  # breaks
        return value.to(f16)  # keeps

    mma.accumulator().map(first_alone)


@kernel("elements.places", "sm_80")
def rows_of_a_part_of_an_accumulator(k):
    mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (4, 1), tile=(64, 64))
    acc = mma.accumulator()
    acc[None, 0, 0].elements()  # breaks
    acc.elements()  # keeps


@kernel("reduce.operation", "sm_80")
def a_mean_of_rows(k):
    mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (4, 1), tile=(64, 64))
    rows = mma.accumulator().elements()
    rows.reduce_rows("mean")  # breaks
    rows.reduce_rows("add") * (1 / 64)  # keeps


@kernel("mma.tile-lanes", "sm_100a")
def more_columns_than_the_tile_has(k):
    mma = k.tiled_mma(nvb.tcgen05.mma("m128n64k16", f16, f16, f32))
    with k.tcgen05.tmem(128) as accumulators:
        mma.load(accumulators, 0, 128)  # breaks
        mma.load(accumulators, 0, 64)  # keeps


@kernel("mma.tile-operand", "sm_100a")
def weights_for_an_instruction_that_reads_shared_memory(k):
    weighing = k.tiled_mma(nvb.tcgen05.mma("m128n32k16", f16, f16, f32))  # breaks
    weighing = k.tiled_mma(nvb.tcgen05.mma("m128n32k16", f16, f16, f32, a_in_tmem=True))  # keeps
    with k.tcgen05.tmem(128) as tmem:
        weighing.make_fragment_A(tmem.columns(64, 32), 64)


@kernel("tile.attribute", "sm_80")
def a_name_of_another_object(k):
    mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (4, 1))
    acc = mma.accumulator()
    acc.zero()  # breaks
    acc.clear()  # keeps


@kernel("sequence.entry", "sm_80")
def the_element_after_the_last(k, out: nvb.Pointer[f32]):
    values = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (4, 1)).accumulator().elements()
    out[k.thread_id()] = values[len(values)]  # breaks
    out[k.thread_id()] = values[len(values) - 1]  # keeps
