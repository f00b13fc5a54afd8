"""GEMMs of few rows of any length: what of memory is read, shifted and multiplied, and who adds the sums."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import e4m3, f16, f32, tf32
from samples.gemm import choice, skinny
from samples.gemm.forms import FORMS, problem_for
from samples.gemm.skinny import Skinny
from samples.gemm.unaligned import Unaligned
from samples.program import Device

Size = tuple[int, int, int]
EVERY = [
    (rows, depth, one)
    for rows, depth in ((8, 293), (16, 293), (32, 294), (64, 300), (16, 296))
    for one in choice.skinny_ones(rows, 300, depth)
]
USUAL = {(8, 64, 32, 3), (16, 32, 64, 2), (32, 64, 32, 2), (64, 64, 32, 2)}
"""Columns, rows, words of a step, and CTAs of a multiprocessor of those tiles that are always tried."""


def is_usual(one: Skinny) -> bool:
    return (one.columns, one.rows, one.line, one.ctas) in USUAL and one.split == 2 and one.width < 16


def error_of(one: Skinny, size: Size, name: str = "f16", device: Device | None = None) -> float:
    """The largest error, as a part of what is tolerated. The kernel is without diagnostics."""
    problem = problem_for(one, *size, FORMS[name])
    compiled = problem.kernel.compile(assemble=device is not None)
    assert compiled.diagnostics == ()
    return problem.error(compiled, device or Device("a test")) / problem.tolerance


@pytest.mark.parametrize(
    ("rows", "depth", "one"),
    [
        pytest.param(*each, marks=() if is_usual(each[-1]) else pytest.mark.exhaustive(seconds=1), id=repr(each[-1]))
        for each in EVERY
    ],
)
def test_every_tile_multiplies_in_the_simulator(rows: int, depth: int, one: Skinny) -> None:
    """A tile that is not full, and steps of which one is not full, and not each CTA of a cluster has as many."""
    assert error_of(one, (rows - 1, one.rows + 3, depth)) < 1


def test_one_of_each_width_of_a_row_is_always_tried() -> None:
    assert {one.width for _, _, one in EVERY if is_usual(one)} == {2, 4, 8}


OF_OTHERS = [("e4m3", 141), ("e4m3", 142), ("s8", 261), ("s8", 260), ("tf32", 37), ("tf32", 70), ("tf32", 72)]


@pytest.mark.parametrize(
    ("name", "depth"),
    [
        pytest.param(*each, marks=() if each in OF_OTHERS[:3:2] else pytest.mark.exhaustive(seconds=1))
        for each in OF_OTHERS
    ],
    ids=str,
)
def test_other_types_multiply_in_the_simulator(name: str, depth: int) -> None:
    form = FORMS[name]
    one = next(choice.skinny_ones(13, 70, depth, form.operand, form.result))
    assert error_of(replace(one, split=2), (13, 70, depth), name) < 1


@pytest.mark.parametrize(
    "size",
    [
        (1, 1, 1),
        (3, 5, 7),
        *(
            pytest.param(size, marks=pytest.mark.exhaustive(seconds=1))
            for size in [(7, 1, 9), (1, 300, 77), (300, 1, 77), (20, 67, 131), (70, 33, 200), (9, 131, 1001)]
        ),
    ],
    ids=str,
)
def test_few_of_everything(size: Size) -> None:
    first, *_ = choice.candidates(*size)
    assert isinstance(first, Skinny)
    assert error_of(first, size) < 1


@pytest.mark.parametrize("depth", [133, 129, 1], ids=str)
def test_nothing_of_the_rows_beside_is_multiplied(depth: int) -> None:
    """Infinity times the zeros after the end of a row would be NaN: of the row before and of the one after it."""
    problem = problem_for(Skinny(32, 8, 64, 4, 1, 3, swapped=True), 8, 40, depth)
    a, b = (matrix.copy() for matrix in problem.inputs)
    a[[1, 3], 0] = b[3, -1] = b[5, 0] = np.inf
    output = problem.output.copy()
    loaded = nvb.runtime.load(problem.kernel.compile(assemble=False, check=False), device="simulator")
    problem.launch(loaded, a, b, output)
    finite = np.isfinite(output)
    assert not finite[[1, 3]].any()
    assert not finite[:, [3, 5]].any()
    assert np.delete(np.delete(finite, [1, 3], 0), [3, 5], 1).all()


def test_tiles_beside_one_another_and_one_above_the_other() -> None:
    assert error_of(Skinny(32, 8, 64, 4, 2, 3), (33, 9, 133)) < 1


def banks(width: int, line: int, depth: int) -> list[list[int]]:
    """The banks of each load of a warp that go together: of the addresses by the rule of rows in memory."""
    together = max(width // 4, 1)
    pitch = skinny.pitch_of(line, width)
    words = [row * pitch + depth * 2 * row % 16 // 4 + 4 * column for row in range(8) for column in range(4)]
    each = [[word + more for more in range(together)] for word in words]
    groups = [each[first : first + 32 // together] for first in range(0, 32, 32 // together)]
    return [[word % 32 for words in group for word in words] for group in groups]


@pytest.mark.parametrize("line", skinny.LINES)
@pytest.mark.parametrize("depth", range(1, 17))
def test_threads_of_a_warp_load_from_all_banks(line: int, depth: int) -> None:
    """With elements of 16 bits."""
    width = int(np.gcd(2 * depth, 16))
    assert [sorted(group) for group in banks(width, line, depth)] == [list(range(32))] * max(width // 4, 1)


@pytest.mark.parametrize(("width", "load"), [(2, "b32"), (4, "b32"), (8, "v2.b32"), (16, "v4.b32")])
def test_as_much_is_loaded_together_as_rows_are_multiples_of(width: int, load: str) -> None:
    one = Skinny(32, 8, 64, 4, 1, 3, width=width, swapped=True)
    ptx = one.kernel.compile(assemble=False, check=False).ptx
    inner = ptx[: ptx.index("barrier.cluster") if "barrier.cluster" in ptx else ptx.rindex("bar.sync")]
    assert set(re.findall(r"ld\.shared\.(\S+)", inner)) == {load}
    assert ("prmt" in inner) == (width == 2)
    assert set(re.findall(r"cp\.async\.c[ag]\.shared\.global", ptx)) == {"cp.async.cg.shared.global"}
    assert set(re.findall(r"ld\.global\.(\S+)", ptx)) == ({"b16"} if width < 16 else set())  # the matrix's last bytes
    assert ptx.count("griddepcontrol.wait") == ptx.count("griddepcontrol.launch_dependents") == 1


@pytest.mark.parametrize("columns", [16, 64])
def test_two_ctas_have_registers(columns: int) -> None:
    one = next(choice.skinny_ones(columns, 4097, 4097))
    compiled = one.kernel.compile(check=False)
    assert compiled.diagnostics == ()  # ptxas spills nothing
    assert compiled.cubin is not None


def test_the_model_takes_them_for_few_rows_that_tma_cannot_load() -> None:
    for size in ((1, 4097, 4097), (16, 4097, 4097), (64, 4097, 4097), (4097, 9, 4095)):
        assert isinstance(choice.choose(*size), Skinny), size
    for size in ((16, 4096, 4096), (65, 4097, 4097), (4097, 70, 4097)):
        assert not any(isinstance(one, Skinny) for one in choice.candidates(*size))


@pytest.mark.parametrize(
    ("size", "tile"),
    [
        ((16, 4097, 4097), (32, 16, 64, 4, 2, 6, 2)),
        ((4097, 16, 4097), (32, 16, 64, 4, 2, 6, 2)),
        ((1, 4097, 4097), (32, 8, 64, 4, 2, 6, 2)),
        ((32, 4097, 4097), (32, 32, 64, 4, 2, 4, 2)),
        ((64, 4097, 4097), (32, 64, 32, 2, 2, 4, 2)),
        ((16, 50257, 769), (64, 16, 64, 4, 1, 3, 2)),
        ((16, 1025, 4097), (32, 16, 64, 4, 8, 4, 3)),
        ((16, 14337, 4095), (64, 16, 64, 4, 1, 3, 2)),
    ],
    ids=str,
)
def test_the_model_takes_what_was_fastest(size: Size, tile: tuple[int, ...]) -> None:
    """Or within 5 % of it, on an H200."""
    one = choice.choose(*size)
    assert isinstance(one, Skinny)
    assert (one.rows, one.columns, one.line, one.along, one.split, one.stages, one.ctas) == tile


@pytest.mark.parametrize("size", [(16, 4096, 4100), (16, 4097, 4096)], ids=str)
def test_the_model_takes_others_where_these_were_faster(size: Size) -> None:
    assert isinstance(choice.choose(*size), Unaligned)


def test_tiles_have_all_of_the_shorter_side() -> None:
    for few in range(1, 65):
        for m, n in ((few, 100), (100, few)):
            every = list(choice.skinny_ones(m, n, 77))
            assert {one.tiles(m, n)[1] for one in every} == {1}
            assert {one.swapped for one in every} == {m < n}
            assert len({one.label for one in every}) == len(every) > 0
    assert list(choice.skinny_ones(65, 70, 77)) == []


@pytest.mark.parametrize(
    ("constants", "text"),
    [
        ({"width": 3}, "width is one of 2, 4, 8, 16, not 3"),
        ({"width": 2, "operand": tf32}, "width is one of 4, 8, 16, not 2"),
        ({"width": 1, "operand": e4m3}, "line is one of 32, not 64"),
        ({"along": 3}, "along is one of 1, 2, 4, not 3"),
        ({"stages": 0}, "stages is a positive integer, not 0"),
        ({"rows": 24}, "4 warps, 4 along the depth, have no equal parts of 24 x 16 in steps of 64 words"),
        ({"columns": 12}, "have no equal parts of 64 x 12 in"),
        ({"line": 32}, "have no equal parts of 64 x 16 in steps of 32 words"),
        ({"split": 3}, "3 CTAs cannot add equal parts of 64 x 16 sums"),
    ],
    ids=str,
)
def test_a_choice_that_is_none(constants: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Skinny(**constants)


def test_a_launch_that_the_kernel_is_not_for_is_refused() -> None:
    one = Skinny(width=4, swapped=True)
    assert one.launch_of(20, 67, 34, 132) == (2 * 2 * 4, (1.0, 20, 67, 34))
    with pytest.raises(ValueError, match="rows of K = 33 elements are not multiples of 4 bytes"):
        one.launch_of(20, 67, 33, 132)
    with pytest.raises(ValueError, match=r"products of f16 are not scaled, by 0\.5"):
        one.launch_of(20, 67, 34, 132, scale=0.5)
    with pytest.raises(ValueError, match="more than 2\\^31"):
        one.launch_of(2, 2**31, 34, 132)


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("one", [one for _, _, one in EVERY], ids=repr)
def test_every_tile_multiplies_on_a_gpu(one: Skinny) -> None:
    depth = 4096 + one.width // 2
    assert error_of(one, (one.columns - 1, 4099, depth), device=Device(None)) < 1


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize(("name", "depth"), OF_OTHERS, ids=str)
def test_other_types_multiply_on_a_gpu(name: str, depth: int) -> None:
    form = FORMS[name]
    for one in choice.skinny_ones(13, 1003, depth, form.operand, form.result):
        assert error_of(one, (13, 1003, depth), name, Device(None)) < 1


def test_results_of_another_type() -> None:
    one = Skinny(32, 8, 64, 4, 1, 3, result=f32)
    form = FORMS["f16"]._replace(result=f32, storage="float32", tolerance=2**-20)
    problem = problem_for(one, 9, 7, 129, form)
    assert one.operand is f16
    assert problem.error(problem.kernel.compile(assemble=False), Device("a test")) < problem.tolerance
