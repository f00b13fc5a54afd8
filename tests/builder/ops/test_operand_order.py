"""Operands of one type, which could change places: what each does in the simulator, or its place in the PTX."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, e4m3, f16, f32, f64, u8, u16, u32, u64, ue8m0
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


def test_a_and_b_of_one_size_are_multiplied_in_their_order() -> None:
    """PTX ISA 9.7.14.5 (m8n8k4, f64): an element of A and one of B a thread, and two of C side by side."""
    k = KernelBuilder("k", "sm_90a", threads=32, parameters=[Parameter(name, Pointer(f64)) for name in "abc"])
    a, b, c = k.arguments
    row, column = k.lane_id() // 4, k.lane_id() % 4
    product = k.mma.sync(
        nvb.mma.sync("m8n8k4", f64, f64, f64), [a[row * 4 + column]], [b[column * 8 + row]], [0.0, 0.0]
    )
    for index, value in enumerate(product):
        c[row * 8 + 2 * column + index] = value
    left, right = np.arange(32.0).reshape(8, 4) - 7, np.arange(32.0).reshape(4, 8) ** 2 - 5
    out = np.zeros((8, 8))
    nvb.runtime.load(k.finish().compile(assemble=False), device="simulator").launch(1, left, right, out)
    assert np.array_equal(out, left @ right)


@pytest.mark.parametrize("signs", [(False, True), (True, False), (True, True)])
def test_signs_and_transpositions_of_wgmma_are_of_their_operand(signs: tuple[bool, bool]) -> None:
    """PTX ISA 9.7.15.5.2: imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b."""
    k = KernelBuilder("k", "sm_90a", threads=128)
    tiles = [k.shared_tile(SmemLayout(major, SwizzleMode.B128, f16, 64, 64)) for major in (Major.K, Major.MN)]
    request = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32, negate_a=signs[0], negate_b=signs[1], trans_b=True)
    with k.wgmma.group():
        k.wgmma.mma_async(k.wgmma.accumulator(64), *tiles, request)
    ptx = k.finish(check=False).compile(assemble=False).ptx
    (text,) = re.findall(r"wgmma\.mma_async\S* ([^;]+);", ptx)
    assert text.split(", ")[-4:] == [*("-1" if sign else "1" for sign in signs), "0", "1"]


def test_the_places_of_scale_factors_are_of_their_operand() -> None:
    """PTX ISA 9.7.14.5.14: the factors of A, {byte-id-a, thread-id-a}, and then those of B."""
    request = nvb.mma.sync(
        "m16n8k32", e4m3, e4m3, f32, kind="mxf8f6f4", scale=ue8m0, scale_vec=1, scale_a_at=(3, 1), scale_b_at=(2, 0)
    )
    k = KernelBuilder("k", "sm_120a", threads=32, parameters=[Parameter("out", Pointer(f32))])
    k.arguments[0][0] = k.mma.sync(request, [0] * 4, [0] * 2, [0.0] * 4, scale_a=71, scale_b=72)[0]
    (found,) = numbers(k.finish().compile(assemble=False).ptx, r"mma\.sync\.")
    assert found[-6:] == ["71", "3", "1", "72", "2", "0"]
