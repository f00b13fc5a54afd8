"""Tiles of matrices in tensors of three to five dimensions, loaded and stored by TMA, on both devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, i32, runtime
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES


@dataclass(frozen=True)
class Case:
    """A tensor, the box of its map, and which of its dimensions the tile's strided one is."""

    shape: tuple[int, ...]
    box: tuple[int, ...]
    strided: int
    major: Major
    tile: tuple[int, int]
    """Strided and contiguous extent of the tile."""

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape))}-{self.major.name}"


CASES = [
    Case((3, 96, 64), (1, 64, 64), 1, Major.K, (64, 64)),
    Case((3, 96, 128), (1, 32, 64), 1, Major.K, (64, 128)),
    Case((96, 3, 64), (64, 1, 64), 0, Major.K, (64, 64)),
    Case((2, 96, 3, 64), (1, 64, 1, 64), 1, Major.MN, (64, 64)),
    Case((2, 2, 80, 3, 128), (1, 1, 64, 1, 64), 2, Major.MN, (64, 128)),
]


def kernel(case: Case) -> nvb.KernelDefinition:
    """Copies a tile of one tensor to the same place of another."""
    (strided, contiguous), matrix = case.tile, nvb.TensorMap(f16, box=case.box)
    rows, columns = case.tile if case.major is Major.K else (contiguous, strided)

    def copy(k, a, b, start, *others):
        tile = k.shared_tile(SmemLayout(case.major, SwizzleMode.B128, f16, rows, columns))
        full = k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        at = (*others, start, 0) if case.major is Major.K else (*others, 0, start)
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
            k.tma.load(tile, a, at, full)
            k.mbarrier.wait(full, 0)
            k.tma.store(b, at, tile)
            k.tma.commit_group()
            k.tma.wait_group()

    names = [f"other{number}" for number in range(len(case.shape) - 2)]
    copy.__annotations__ = {"a": matrix, "b": matrix, "start": i32}
    body = _with_parameters(copy, names)
    return nvb.kernel("sm_90a", threads=32)(body)


def _with_parameters(copy, names):
    """`copy` with a parameter for each name in place of *others."""
    scope: dict[str, object] = {"copy": copy}
    arguments = ", ".join(["k", "a", "b", "start", *names])
    exec(f"def body({arguments}):\n    copy({arguments})\n", scope)
    body = scope["body"]
    body.__annotations__ = {**copy.__annotations__, **dict.fromkeys(names, i32)}
    return body


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_matrix_of_the_tensor_is_copied(case, device):
    from numba import cuda

    a = np.arange(1, 1 + np.prod(case.shape), dtype=np.uint16).reshape(case.shape).view(np.float16)
    a = np.where(np.isfinite(a), a, 1).astype(np.float16)
    b = cuda.to_device(np.zeros_like(a))
    start = 16
    others = [extent - 1 for dimension, extent in enumerate(case.shape[:-1]) if dimension != case.strided]
    loaded = runtime.load(kernel(case).compile())
    loaded.launch(1, cuda.to_device(a), b, start, *others)
    loaded.synchronize()
    place = [extent - 1 for extent in case.shape[:-1]]
    place[case.strided] = slice(start, start + case.tile[0])
    expected = np.zeros_like(a)
    expected[tuple(place)] = a[tuple(place)]
    assert np.array_equal(b.copy_to_host(), expected)
