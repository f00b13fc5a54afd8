"""Tiled MMAs of wgmma on a GPU, against NumPy: small integers, so that sums are exact in any order."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.intrinsics.row.types import tf32
from tests.support.devices import ON_DEVICES
from tests.support.tiled_mma_kernels import CASES, TURNS, Case, build

pytestmark = ON_DEVICES


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_product_of_a_tile(case: Case):
    from numba import cuda

    from nvbackend import runtime

    built = build(case)
    rows, columns, depth = built.shape
    random = np.random.default_rng(5)
    kinds = [np.float32 if one is tf32 else one.numpy_dtype() for one in (case.request.a, case.request.b)]
    a, b = (
        random.integers(-3, 4, (extent, depth)).astype(kind)
        for extent, kind in zip((rows, columns), kinds, strict=True)
    )
    tiles = [np.split(one, TURNS, axis=1) for one in (a, b)]
    image_a = a if built.a is None else np.concatenate([built.a.arrange(one) for one in tiles[0]]).view(np.uint32)
    image_b = np.concatenate([built.b.arrange(one) for one in tiles[1]]).view(np.uint32)
    result = cuda.to_device(np.full((rows, columns), -77, case.request.d.numpy_dtype()))
    kernel = runtime.load(built.k.compile())
    kernel.launch(1, cuda.to_device(image_a), cuda.to_device(image_b), result)
    kernel.synchronize()
    assert np.array_equal(result.copy_to_host(), a.astype(np.float64) @ b.astype(np.float64).T)
