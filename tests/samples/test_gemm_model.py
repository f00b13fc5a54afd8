"""What the model of the GEMM says of a launch, by every term that it has: a change of a rate changes this table."""

from __future__ import annotations

import pytest

from nvbackend import s8, s32
from samples.gemm.deep import Deep
from samples.gemm.model import microseconds, resident
from samples.gemm.skinny import Skinny
from samples.gemm.thin import Thin
from samples.gemm.unaligned import Unaligned
from samples.gemm.wide import Wide


@pytest.mark.parametrize(
    ("one", "shape", "multiprocessors", "batches", "expected"),
    [
        (Wide(128, 2, 1, 4), (4096, 4096, 4096), 132, 1, 230.68),
        (Wide(64, 1, 1, 7), (4096, 1024, 4100), 132, 1, 111.57),
        (Wide(256, 2, 2, 3), (8192, 8192, 8192), 132, 1, 1759.63),
        (Wide(256, 2, 1, 3), (8192, 8192, 8192), 132, 1, 1766.62),
        (Wide(256, 2, 1, 4, 2, pingpong=True), (4096, 4096, 1024), 132, 1, 62.36),
        (Wide(96, 3, 1, 4), (576, 4096, 4096), 132, 1, 35.81),
        (Wide(128, 2, 1, 4), (128, 4096, 4096), 132, 1, 30.41),
        (Wide(64, 2, 1, 4), (40, 1024, 4096), 132, 1, 20.33),
        (Wide(64, 2, 2, 4), (256, 16384, 512), 132, 1, 12.18),
        (Wide(128, 2, 1, 4), (256, 1024, 4096), 132, 5, 33.74),
        (Wide(128, 1, 1, 4, operand=s8, result=s8), (512, 1024, 4096), 78, 1, 11.13),
        (Wide(160, 2, 1, 4, swapped=True), (149, 12288, 5120), 132, 1, 51.14),
        (Wide(80, 1, 1, 7, swapped=True), (149, 12288, 5120), 132, 1, 53.89),
        (Wide(48, 1, 1, 7, swapped=True), (40, 4096, 4096), 132, 1, 13.72),
        (Wide(16, 1, 1, 4, swapped=True), (8, 4096, 4096), 132, 1, 22.26),
        (Wide(64, 1, 1, 3), (4096, 1024, 4096), 132, 1, 205.40),
        (Deep(16, 2, 2, 4, swapped=True), (16, 14336, 4096), 132, 1, 32.54),
        (Deep(32, 2, 2, 10, operand=s8, result=s32, swapped=True), (20, 6144, 4096), 132, 1, 8.64),
        (Deep(144, 1, 2, 7, swapped=True), (144, 4096, 4096), 132, 1, 13.36),
        (Deep(80, 2, 2, 7), (128, 5120, 5120), 132, 1, 18.29),
        (Deep(96, 1, 3, 6), (40, 1440, 5200), 132, 1, 8.93),
        (Deep(128, 3, 4, 4), (192, 1024, 8192), 132, 1, 29.36),
        (Deep(64, 1, 8, 8), (640, 2048, 8000), 132, 1, 80.36),
        (Thin(8, 1, 1, 20), (1, 28672, 8192), 132, 1, 112.12),
        (Thin(16, 1, 4, 6, 3), (9, 4096, 4096), 132, 1, 11.51),
        (Thin(64, 2, 2, 7, 1), (50, 2048, 4096), 132, 1, 9.76),
        (Unaligned(192, 2, 2, 5, 2), (4097, 4099, 4101), 132, 1, 835.67),
        (Unaligned(256, 1, 2, 4, 4, 2), (4096, 4096, 4098), 132, 1, 386.19),
        (Unaligned(256, 1, 2, 4, 16), (4096, 4099, 4096), 132, 1, 300.47),
        (Unaligned(64, 1, 1, 7, 8, swapped=True), (40, 1025, 4100), 132, 1, 27.63),
        (Unaligned(16, 2, 1, 12, 1, operand=s8, result=s32, swapped=True), (9, 1025, 4101), 78, 1, 42.95),
        (Unaligned(16, 1, 1, 12, 8, swapped=True), (16, 4096, 4100), 132, 1, 15.33),
        (Skinny(64, 16, 64, 4, 4, 3, 2, 2, swapped=True), (16, 4097, 4097), 132, 1, 22.75),
        (Skinny(32, 16, 64, 4, 2, 6, 2, 2, swapped=True), (16, 4097, 4097), 132, 1, 16.55),
        (Skinny(32, 8, 64, 4, 1, 5, 3, 4), (50257, 7, 770), 132, 1, 34.19),
        (Skinny(64, 64, 32, 2, 8, 3, 2, 8, swapped=True), (60, 1030, 8196), 78, 1, 37.48),
        (Skinny(32, 16, 64, 4, 2, 6, 2, 16, swapped=True), (16, 4097, 4096), 132, 1, 11.17),
        (Skinny(32, 16, 64, 4, 4, 6, 2, 16, swapped=True), (16, 1025, 4104), 132, 1, 6.02),
        (Skinny(128, 16, 32, 2, 2, 3, 2, 1, s8, s32, swapped=True), (9, 4097, 1025), 132, 1, 8.30),
    ],
    ids=str,
)
def test_microseconds(
    one: Wide | Thin | Deep | Unaligned | Skinny,
    shape: tuple[int, int, int],
    multiprocessors: int,
    batches: int,
    expected: float,
) -> None:
    assert microseconds(one, *shape, multiprocessors, batches) == pytest.approx(expected, abs=0.005)


def test_multiprocessors_that_clusters_fill() -> None:
    assert [resident(132, cluster) for cluster in (1, 2, 3, 4, 8, 16)] == [132, 132, 117, 120, 112, 112]
    assert resident(131, 2) == 130
