"""TMA copies of some rows of a tile: only these are copied, to and from where the whole tile has them."""

from typing import Annotated

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16
from nvbackend.builder.ops.copy.tma import tile_boxes
from tests.builder.ops.test_tma import builder

SWIZZLES = [SwizzleMode.B32, SwizzleMode.B64, SwizzleMode.B128]


def swapped(layout: SmemLayout, rows: int) -> nvb.KernelDefinition:
    """A copy of a tile whose two halves are loaded in each other's place, and stored one by one."""
    extents = layout.tma_box
    box = (rows, extents[1]) if layout.major is Major.K else extents
    tensor = nvb.TensorMap(f16, box=box, swizzle=layout.swizzle.span)

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k: nvb.KernelBuilder, source: Annotated[nvb.TensorMap, tensor], to: Annotated[nvb.TensorMap, tensor]):
        tile, full = k.shared_tile(layout), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=layout.bytes)
            for half in range(2):
                k.tma.load(tile.rows_from(1 - half, rows), source, (half * rows, 0), full)
        k.mbarrier.wait(full, 0)
        k.fence.proxy_async()
        k.barrier.sync()
        with k.one_thread():
            for half in range(2):
                k.tma.store(to, (half * rows, 0), tile.rows_from(half, rows))
            k.tma.commit_group()
            k.tma.wait_group()

    return kernel


@pytest.mark.parametrize("swizzle", SWIZZLES, ids=lambda one: one.name)
@pytest.mark.parametrize("major", Major, ids=lambda one: one.name)
def test_halves_of_a_tile_are_copied_alone(major, swizzle):
    layout = SmemLayout(major, swizzle, f16, 128, 64)
    axis = 0 if major is Major.K else 1
    source = np.arange(128 * 64, dtype=np.float16).reshape((128, 64) if major is Major.K else (64, 128))
    target = np.zeros_like(source)
    loaded = nvb.runtime.load(swapped(layout, 64).compile(assemble=False), device="simulator")
    loaded.launch(1, source, target)
    assert np.array_equal(target, np.concatenate(np.split(source, 2, axis)[::-1], axis))


@pytest.mark.parametrize("major", Major, ids=lambda one: one.name)
def test_a_part_of_a_tile_is_prefetched_alone(major):
    layout = SmemLayout(major, SwizzleMode.B128, f16, 128, 64)
    k, source, _ = builder(nvb.TensorMap(f16, box=(64, 64)))
    with k.one_thread():
        k.tma.prefetch(k.shared_tile(layout).rows_from(1, 64), source, (0, 0))
    prefetches = [one for one in k.machine.instructions() if "prefetch" in one.opcode]
    assert len(prefetches) == 1


@pytest.mark.parametrize(
    ("layout", "box", "part", "rule", "says", "fix"),
    [
        (
            *(SmemLayout(Major.K, SwizzleMode.B128, f16, 128, 64), (128, 64), (1, 64), "tma.box"),
            *("the tile 64x64 (1 panel of 64x64)", "declare TensorMap(..., box=(64, 64))"),
        ),
        (
            *(SmemLayout(Major.MN, SwizzleMode.B128, f16, 64, 64), (64, 64), (0, 32), "layout.step"),
            *("steps of 32 rows", "take a multiple of 64 rows: whole panels"),
        ),
    ],
    ids=["a box larger than the part", "a part of a panel, whose swizzle a narrower box has not"],
)
def test_a_part_that_boxes_do_not_fill_is_refused(layout, box, part, rule, says, fix):
    k, source, _ = builder(nvb.TensorMap(f16, box=box))
    with pytest.raises(nvb.DiagnosticError) as refused:
        tile_boxes(k.shared_tile(layout).rows_from(*part), source, "k.tma.load", "")
    (found,) = refused.value.diagnostics
    assert found.rule_id == rule
    assert says in found.message
    assert found.fix == fix
