"""Ping-pong consumers on a GPU and in the simulator: tiles of other numbers of steps each, and many turns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from nvbackend import runtime
from tests.builder.tiles.test_ring_turns import REGISTERS, products
from tests.support.devices import ON_DEVICES, too_long

pytestmark = ON_DEVICES


@pytest.mark.parametrize(("tiles", "grid"), [(0, 1), (7, 2), *too_long([(1000, 1), (1000, 132)])])
@pytest.mark.parametrize("in_flight", [0, 1])
@pytest.mark.parametrize("consumers", REGISTERS)
def test_consumers_take_turns(device, consumers, in_flight, tiles, grid):
    from numba import cuda

    random = np.random.default_rng(tiles)
    ends = np.cumsum([0, *random.integers(0, 7, tiles)]).astype(np.int32)
    a, b = (random.integers(-3, 4, (64, 64 * max(1, ends[-1]))).astype(np.float16) for _ in range(2))
    out = cuda.to_device(np.full((tiles + 1, 64, 64), 77, np.float32))
    loaded = runtime.load(products.compile(consumers=consumers, in_flight=in_flight, stages=4))
    loaded.launch(grid, *map(cuda.to_device, (a, b, ends)), out, tiles)
    loaded.synchronize()
    found = out.copy_to_host()
    for tile, (first, last) in enumerate(pairwise(64 * ends)):
        expected = a[:, first:last].astype(np.float32) @ b[:, first:last].T.astype(np.float32)
        assert np.array_equal(found[tile], expected), tile
    assert np.all(found[-1] == 77)
