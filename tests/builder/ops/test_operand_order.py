"""Operands of one type, which could change places: what each does in the simulator, or its place in the PTX."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, u8, u16, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer, TensorMap
from tests.support.barriers import barrier_of_somebody


@pytest.mark.parametrize("element", [u16, u32, u64, f32], ids=str)
def test_compare_and_swap_writes_the_value_where_the_expected_one_is(element) -> None:
    kind = {u16: np.uint16, u32: np.uint32, u64: np.uint64, f32: np.float32}[element]

    k = KernelBuilder("k", "sm_90a", threads=32, parameters=[Parameter(name, Pointer(element)) for name in ("p", "q")])
    with k.one_thread():
        for index in range(3):
            k.arguments[1][index] = k.atomic.cas(k.arguments[0] + index, 5, 9)
    place, old = np.array([5, 9, 7], kind), np.zeros(3, kind)
    nvb.runtime.load(k.finish().compile(assemble=False), device="simulator").launch(1, place, old)
    assert place.tolist() == [9, 9, 7]
    assert old.tolist() == [5, 9, 7]


def numbers(ptx: str, instruction: str) -> list[list[str]]:
    """The operands of each such instruction, a register that was given a constant as that constant."""
    given = dict(re.findall(r"mov\.b(?:16|32|64)\s+(%\w+), (-?\d+);", ptx))
    found = re.findall(rf"{instruction}\S*\s+([^;]+);", ptx)
    return [[given.get(one, one) for one in re.findall(r"%\w+|-?\b\d+", operands)] for operands in found]


@pytest.mark.parametrize("mask", [0b01, 0b10, 0b11])
def test_a_multicast_goes_to_the_ctas_of_its_mask(mask: int) -> None:
    """PTX ISA 9.7.9.25.4.1: the mask is the last operand, a bit for each rank."""
    matrix = Parameter("matrix", TensorMap(u32, box=(8, 32)))
    k = KernelBuilder("k", "sm_90a", threads=32, cluster=2, parameters=[matrix, Parameter("bytes", Pointer(u8, 16))])
    tile, full = k.shared(u32, 256, align=128), barrier_of_somebody(k)
    with k.one_thread():
        k.bulk.load(tile, k.arguments[1], 64, full, multicast_mask=mask)
        k.tma.load_box(tile, k.arguments[0], (0, 0), full, multicast_mask=mask)
    ptx = k.finish(check=False).compile(assemble=False).ptx
    copies = numbers(ptx, r"cp\.async\.bulk\.")
    assert [one[-1] for one in copies] == [str(mask)] * 2


def test_a_canceled_cluster_has_x_then_y_then_z() -> None:
    k = KernelBuilder("k", "sm_100a", threads=32, parameters=[Parameter("out", Pointer(u32))])
    answer = k.shared(u64, 2, align=16)
    _, coordinates = k.launch_control.canceled_cluster(answer)
    for index, coordinate in enumerate(coordinates):
        k.arguments[0][index] = coordinate
    k.arguments[0][3] = k.launch_control.canceled_coordinate(answer, "z")
    ptx = k.finish(check=False).compile(assemble=False).ptx
    (first,) = re.findall(r"get_first_ctaid\.v4\.b32\.b128\s+\{([^}]*)\}", ptx)
    (last,) = re.findall(r"get_first_ctaid::z\.b32\.b128\s+(%\w+)", ptx)
    stored = re.findall(r"st\.global\.b32\s+\[%\w+(?:\+(\d+))?\], (%\w+);", ptx)
    assert {int(place or 0): register for place, register in stored} == dict(
        zip((0, 4, 8, 12), (*first.split(", ")[:3], last), strict=True)
    )
