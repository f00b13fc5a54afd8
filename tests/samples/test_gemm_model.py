"""What the model of the GEMM says of a launch, by every term that it has: a change of a rate changes this table."""

from __future__ import annotations

import pytest

from nvbackend import s8
from samples.gemm.deep import Deep
from samples.gemm.model import microseconds, resident
from samples.gemm.thin import Thin
from samples.gemm.wide import Wide


@pytest.mark.parametrize(
    ("one", "shape", "multiprocessors", "batches", "expected"),
    [
        (Wide(128, 2, 1, 4), (4096, 4096, 4096), 132, 1, 230.63),
        (Wide(64, 1, 1, 7), (4096, 1024, 4100), 132, 1, 111.54),
        (Wide(256, 2, 2, 3), (8192, 8192, 8192), 132, 1, 1759.54),
        (Wide(256, 2, 1, 3), (8192, 8192, 8192), 132, 1, 1766.53),
        (Wide(256, 2, 1, 4, 2, pingpong=True), (4096, 4096, 1024), 132, 1, 62.32),
        (Wide(96, 3, 1, 4), (576, 4096, 4096), 132, 1, 35.74),
        (Wide(128, 2, 1, 4), (128, 4096, 4096), 132, 1, 30.37),
        (Wide(64, 2, 1, 4), (40, 1024, 4096), 132, 1, 16.90),
        (Wide(64, 2, 2, 4), (256, 16384, 512), 132, 1, 10.66),
        (Wide(128, 2, 1, 4), (256, 1024, 4096), 132, 5, 33.39),
        (Wide(128, 1, 1, 4, operand=s8, result=s8), (512, 1024, 4096), 78, 1, 9.32),
        (Wide(160, 2, 1, 4, swapped=True), (149, 12288, 5120), 132, 1, 50.60),
        (Wide(80, 1, 1, 7, swapped=True), (149, 12288, 5120), 132, 1, 53.60),
        (Wide(48, 1, 1, 7, swapped=True), (40, 4096, 4096), 132, 1, 10.59),
        (Deep(144, 1, 2, 7, swapped=True), (144, 4096, 4096), 132, 1, 13.33),
        (Deep(80, 2, 2, 7), (128, 5120, 5120), 132, 1, 18.23),
        (Deep(96, 1, 3, 6), (40, 1440, 5200), 132, 1, 8.69),
        (Deep(128, 3, 4, 4), (192, 1024, 8192), 132, 1, 26.62),
        (Deep(64, 1, 8, 8), (640, 2048, 8000), 132, 1, 60.87),
        (Thin(8, 1, 1, 20), (1, 28672, 8192), 132, 1, 110.70),
        (Thin(16, 1, 4, 6, 3), (9, 4096, 4096), 132, 1, 10.49),
        (Thin(64, 2, 2, 7, 1), (50, 2048, 4096), 132, 1, 8.81),
    ],
    ids=str,
)
def test_microseconds(
    one: Wide | Thin | Deep, shape: tuple[int, int, int], multiprocessors: int, batches: int, expected: float
) -> None:
    assert microseconds(one, *shape, multiprocessors, batches) == pytest.approx(expected, abs=0.005)


def test_multiprocessors_that_clusters_fill() -> None:
    assert [resident(132, cluster) for cluster in (1, 2, 3, 4, 8, 16)] == [132, 132, 117, 120, 112, 112]
    assert resident(131, 2) == 130
