"""Sums that an H100 gave, bit for bit: exponents far apart, subnormal numbers, zeros, infinities, NaN, overflow.

`measured.npz` has for each instruction nine cases: two rows of A, four columns of B, C and D, one after the other.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import pytest

from nvbackend.simulator.tensor.models import warp_model, wgmma_model
from nvbackend.simulator.tensor.products import Product

FILE = Path(__file__).parent / "measured.npz"
WIDTH = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "f32": 4, "f64": 8}


@functools.cache
def measured():
    with np.load(FILE) as file:
        return dict(file)


@pytest.mark.parametrize("name", sorted(np.load(FILE).files))
def test_the_bits_of_an_h100(name):
    k = int(re.search(r"k(\d+)", name)[1]) // (2 if ".sp." in name else 1)
    types = name.split("k")[1].split(".")[1:]
    d, a, b = types[:3]
    c = types[3] if len(types) > 3 else d
    model = wgmma_model(a) if name.startswith("wgmma") else warp_model(90, a, b, k, sparse=".sp." in name)
    product = Product(a, b, c, d, None if a == "f64" else model)
    data, start, matrices = measured()[name], 0, []
    for kind, shape in ((a, (2, k)), (b, (k, 4)), (c, (2, 4)), (d, (2, 4))):
        size = shape[0] * shape[1] * WIDTH[kind]
        part = np.ascontiguousarray(data[:, start : start + size]).view(f"uint{8 * WIDTH[kind]}")
        matrices.append(part.reshape(-1, *shape))
        start += size
    assert start == data.shape[1]
    assert model.claimed
    assert np.array_equal(product(*matrices[:3]), matrices[3])
