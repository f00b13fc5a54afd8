"""Tiles of elements that share bytes, copied by TMA in the simulator: annotations are of local names here."""

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SwizzleMode, b1, e2m1, i32


@pytest.mark.parametrize("element", [b1, e2m1])
def test_parts_of_bytes_are_copied_from_and_to_the_column_that_is_asked_for(element):
    """Coordinates of a tile count elements, and those of the map bytes."""
    columns = 512 // element.bits
    layout = nvb.SmemLayout(Major.K, SwizzleMode.B32, element, 8, columns)
    map_ = nvb.TensorMap(element, box=layout.tma_box, swizzle=32)

    @nvb.kernel("sm_90a", threads=32)
    def moved(k, x: map_, y: map_, row: i32, column: i32):
        tile, full = k.shared_tile(layout), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=layout.bytes)
            k.tma.load(tile, x, (row, column), full)
            k.mbarrier.wait(full, 0)
            k.tma.store(y, (0, columns), tile)
            k.tma.commit_group()
            k.tma.wait_group(0)

    x = np.random.default_rng(0).integers(0, 256, (16, 256), np.uint8)
    y = np.zeros((8, 128), np.uint8)
    loaded = nvb.runtime.load(moved.compile(cache=nvb.Cache.disabled()), device="simulator")
    loaded.launch(1, x, y, 8, 2 * columns)
    bytes_ = layout.columns * element.bits // 8
    np.testing.assert_array_equal(y[:, bytes_:], x[8:, 2 * bytes_ : 3 * bytes_])
    assert not y[:, :bytes_].any()
