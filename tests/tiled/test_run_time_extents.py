"""Tensors whose extents are known at run time: coordinates, compact strides, tiles and bounds, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, runtime
from nvbackend.layout import Layout, _, coalesce, zipped_divide

SIZES = [(1, 1), (5, 7), (16, 3), (17, 33)]


def run(definition, *arguments) -> None:
    runtime.load(definition.compile(assemble=False), device="simulator").launch(1, *arguments)


@nvb.kernel("sm_80", threads=64)
def by_coordinates(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32], shapes: nvb.Pointer[i32], m: i32, n: i32):
    rows = k.tensor(x, Layout((m, n), (n, 1)))
    columns = k.tensor(out, Layout((n, m)))  # compact, the first mode fastest: the same memory as rows
    shapes[0], shapes[1] = rows.shape
    with k.range(k.thread_id(), m * n, 64) as place:
        columns[place % n, place // n] = rows[place // n, place % n] * 2.0


@nvb.kernel("sm_80", threads=64)
def by_number(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32], m: i32, n: i32):
    """One index goes through the first mode first, which is m long."""
    source, target = k.tensor(x, Layout((m, n), (n, 1))), k.tensor(out, Layout((m, n)))
    with k.range(k.thread_id(), m * n, 64) as place:
        target[place] = source[place]


@nvb.kernel("sm_80", threads=32)
def by_tiles(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32], counts: nvb.Pointer[i32], m: i32, n: i32):
    """The tiles of 8 x 4 elements, of which those at the ends are cut off."""
    source = k.tensor(x, Layout((m, n), (n, 1))).tile((8, 4), (_, _))
    down, across = source.shape[2], source.shape[3]
    counts[0], counts[1] = down, across
    row, column = k.thread_id() // 4, k.thread_id() % 4
    with k.range(down) as i, k.range(across) as j:
        inside = k.identity_tensor((8, 4), at=(i * 8, j * 4)).below(m, n)
        with k.if_(inside.holds((row, column))):
            out[(i * 8 + row) * n + j * 4 + column] = source[row, column, i, j]


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_coordinates_find_their_elements(m, n) -> None:
    x, out, shapes = (
        np.random.default_rng(m).random((m, n), np.float32),
        np.zeros((m, n), np.float32),
        np.zeros(2, np.int32),
    )
    run(by_coordinates, x, out, shapes, m, n)
    assert np.array_equal(out, x * 2)
    assert shapes.tolist() == [m, n]


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_a_number_goes_through_the_modes(m, n) -> None:
    x, out = np.random.default_rng(m).random((m, n), np.float32), np.zeros((n, m), np.float32)
    run(by_number, x, out, m, n)
    assert np.array_equal(out, x.T)


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_tiles_cover_the_matrix(m, n) -> None:
    x, out, counts = (
        np.random.default_rng(m).random((m, n), np.float32),
        np.zeros((m, n), np.float32),
        np.zeros(2, np.int32),
    )
    run(by_tiles, x, out, counts, m, n)
    assert np.array_equal(out, x)
    assert counts.tolist() == [-(-m // 8), -(-n // 4)]


def builder():
    parameters = [nvb.Parameter("x", nvb.Pointer(f32)), *(nvb.Parameter(name, i32) for name in "mn")]
    return nvb.KernelBuilder("k", "sm_80", threads=32, parameters=parameters)


def test_what_is_known_of_a_coordinate_is_checked() -> None:
    k = builder()
    x, m, n = k.arguments
    tensor = k.tensor(x, Layout((m, 8, n), (n * 8, n, 1)))
    tensor.at(1000, 7, n - 1)
    for wrong in ((-1, 0, 0), (0, 8, 0), (0, 0, k.const(-2, i32))):
        with pytest.raises(nvb.DiagnosticError) as caught:
            tensor.at(*wrong)
        assert caught.value.diagnostics[0].rule_id == "tensor.coordinate"


def test_layouts_with_run_time_extents_print_and_divide() -> None:
    k = builder()
    _x, m, n = k.arguments
    layout = Layout((m, n), (n, 1))
    assert str(layout) == "(?,?):(?,_1)"
    assert str(zipped_divide(layout, (64, 32))) == "((_64,_32),(?,?)):((?,_1),(?,_32))"
    assert str(Layout((4, m, 8))) == "(_4,?,_8):(_1,_4,?)"


@pytest.mark.parametrize("stride", [1 << 30, (1 << 31) - (1 << 16), 4 * ((1 << 31) - (1 << 16)), 1])
def test_modes_are_not_joined_by_a_number_that_stands_for_an_extent(stride) -> None:
    """The second mode begins where the first ends only if the extent happens to be that number."""
    k = builder()
    _x, m, _n = k.arguments
    assert len(coalesce(Layout((m, 4), (1, stride)))) == 2
    assert len(coalesce(Layout((4, m, 2), (1, 4, stride)))) == 2


def test_a_shared_tensor_may_have_run_time_extents() -> None:
    k = builder()
    x, m, n = k.arguments
    tile = k.tensor(k.shared(f32, 64), Layout((m, n), (n, 1)))
    tile[0, 0] = 1.0
    with pytest.raises(nvb.DiagnosticError, match="reaches"):
        k.tensor(k.shared(f32, 64, name="small"), Layout((8, 9)))
    for row, column in itertools.product(range(2), repeat=2):
        x[row * 2 + column] = tile[row, column]
