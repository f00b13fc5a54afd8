"""GEMMs of any M, N and K: what of a row threads copy, store, and leave alone, and where TMA does without them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend import Major, bf16, e4m3, f16, f32, s8, s32, tf32
from samples.gemm import choice
from samples.gemm.deep import Deep
from samples.gemm.forms import FORMS, problem_for
from samples.gemm.model import microseconds
from samples.gemm.skinny import Skinny
from samples.gemm.thin import Thin
from samples.gemm.unaligned import Unaligned
from samples.gemm.wide import Wide
from samples.problem import Problem
from samples.program import Device
from tests.support.process import ROOT, run_here

Size = tuple[int, int, int]
ODD, BY_FOUR, BY_EIGHT, BY_TMA = 2, 4, 8, 16
"""Bytes of which rows of f16 are multiples: K is odd, 2 mod 4, 4 mod 8, or a multiple of 8."""
USUAL = [(1, 1, 1), (65, 129, 33), (65, 66, 130), (20, 67, 132), (70, 65, 72)]
MORE = [
    (3, 5, 7),
    *((127, 255, 1001), (129, 257, 65), (64, 64, 63), (1, 300, 77), (300, 1, 77), (17, 33, 129), (256, 3, 511)),
    *((100, 102, 2), (33, 130, 66), (200, 201, 190), (4, 4, 4), (90, 94, 204), (128, 127, 68), (9, 1000, 12)),
    *((64, 66, 64), (130, 131, 136), (5, 7, 8), (250, 260, 96), (40, 4100, 40)),
]
EVERY = [
    pytest.param(n, depth, one, marks=pytest.mark.exhaustive(seconds=4), id=f"{depth}-{one!r}")
    for n, depth in ((129, 69), (130, 70), (131, 76), (129, 72))
    for one in choice.unaligned_ones(n, depth)
]


def assert_right(problem: Problem, *, check: bool = True) -> None:
    compiled = problem.kernel.compile(assemble=False, check=check)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("the test asks for it")) < problem.tolerance


def unaligned(size: Size, name: str = "f16") -> Unaligned:
    """The best of these tiles for a size."""
    form, (m, n, depth) = FORMS[name], size
    every = choice.unaligned_ones(n, depth, form.operand, form.result)
    return min((one for one in every if choice.fits(one, m, n)), key=lambda one: microseconds(one, *size, 132))


@pytest.mark.parametrize(
    "size",
    [*USUAL, *(pytest.param(size, marks=pytest.mark.exhaustive(seconds=3)) for size in MORE)],
    ids=lambda size: "x".join(map(str, size)),
)
def test_any_size_multiplies_in_the_simulator(size: Size) -> None:
    assert_right(problem_for(unaligned(size), *size))


@pytest.mark.parametrize(("n", "depth", "one"), EVERY)
def test_every_tile_multiplies_in_the_simulator(n: int, depth: int, one: Unaligned) -> None:
    m, across = one.sides(one.rows + 3, one.columns + 5)
    assert_right(problem_for(one, m, across // one.together * one.together, depth))


@pytest.mark.parametrize("columns", [8, 24])
@pytest.mark.parametrize("depth", [69, 70])
def test_a_tile_whose_rows_are_few_turns_of_one_producer(columns: int, depth: int) -> None:
    """Half of its rows are not as long as the pattern in which the rows of a tile lie: they are filled in one round."""
    one = Unaligned(columns, 1, 1, 3, choice.width_of(depth, f16))
    assert_right(problem_for(one, 67, columns + 5, depth))


TURNS = [(False, 1), (True, 2)]
OF_OTHERS = [
    *(("e4m3", (70, 77, 131)), ("e4m3", (70, 78, 130)), ("e4m3", (9, 77, 140)), ("e4m3", (70, 77, 144))),
    *(("s8", (70, 77, 131)), ("s8", (70, 78, 132)), ("tf32", (70, 77, 37)), ("tf32", (70, 78, 38))),
]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        pytest.param(name, size, marks=() if size == (9, 77, 140) else pytest.mark.exhaustive(seconds=2))
        for name, size in OF_OTHERS
    ],
    ids=str,
)
def test_other_types_multiply_in_the_simulator(name: str, size: Size) -> None:
    assert_right(problem_for(unaligned(size, name), *size, FORMS[name]))


@pytest.mark.parametrize(
    ("size", "swapped", "multiprocessors"),
    [
        ((150, 70, 33), False, 1),
        pytest.param((150, 70, 33), True, 2, marks=pytest.mark.exhaustive(seconds=2)),
        *(pytest.param((70, 150, 70), *turns, marks=pytest.mark.exhaustive(seconds=2)) for turns in TURNS),
        *(pytest.param((150, 140, 72), *turns, marks=pytest.mark.exhaustive(seconds=2)) for turns in TURNS),
    ],
    ids=str,
)
def test_ctas_multiply_tile_after_tile(size: Size, swapped: bool, multiprocessors: int) -> None:
    one = replace(unaligned(size), columns=32, consumers=1, stages=3, swapped=swapped, group=2)
    problem = problem_for(one, *size)

    def launch(loaded: nvb.runtime.LoadedKernel, *matrices: Any) -> None:
        grid, last = one.launch_of(*size, multiprocessors)
        assert grid == multiprocessors
        loaded.launch(grid, *matrices, *last)

    assert_right(replace(problem, launch=launch), check=False)


@pytest.mark.parametrize("depth", [33, 70, 76], ids=str)
def test_nothing_of_the_next_row_is_multiplied(depth: int) -> None:
    """Infinity times the zeros after the end of a row would be NaN."""
    size = (30, 40, depth)
    problem = problem_for(unaligned(size), *size)
    a, b = (matrix.copy() for matrix in problem.inputs)
    a[1, 0] = b[3, 0] = np.inf
    output = problem.output.copy()
    loaded = nvb.runtime.load(problem.kernel.compile(assemble=False, check=False), device="simulator")
    problem.launch(loaded, a, b, output)
    finite = np.isfinite(output)
    assert not finite[1].any()
    assert not finite[:, 3].any()
    assert np.delete(np.delete(finite, 1, 0), 3, 1).all()


@pytest.mark.parametrize("width", [BY_FOUR, BY_EIGHT])
def test_rows_of_words_are_copied_by_cp_async(width: int) -> None:
    ptx = Unaligned(64, 1, 1, 4, width).kernel.compile(assemble=False, check=False).ptx
    assert set(re.findall(r"cp\.async\.ca\.shared\.global \S+ \S+ (\d+)", ptx)) == {str(width)}
    assert "ld.global" not in ptx
    assert ptx.count("griddepcontrol.wait") == ptx.count("griddepcontrol.launch_dependents") == 1


@pytest.mark.parametrize(("operand", "width"), [(f16, 2), (e4m3, 2), (e4m3, 1)], ids=str)
def test_other_rows_are_loaded_in_parts_of_a_word(operand: nvb.ElementType, width: int) -> None:
    ptx = Unaligned(64, 2, 1, 4, width, operand=operand).kernel.compile(assemble=False, check=False).ptx
    assert set(re.findall(r"ld\.global\.b(\d+)", ptx)) == {str(8 * width)}
    assert "cp.async" not in ptx
    assert ptx.count("griddepcontrol.wait") == ptx.count("griddepcontrol.launch_dependents") == 1


@pytest.mark.parametrize(("together", "store"), [(1, "st.global.b16"), (2, "st.global.b32")])
def test_an_even_n_is_stored_in_pairs(together: int, store: str) -> None:
    ptx = Unaligned(64, 1, 1, 4, BY_TMA, together).kernel.compile(assemble=False, check=False).ptx
    assert ptx.count("st.global") == ptx.count(store) == 64 * 64 // 128 // together
    assert "cp.async.bulk.tensor" in ptx


def lines(extent: int, element: nvb.ElementType) -> bool:
    return extent * element.bits % 128 == 0


@given(
    size=st.tuples(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 5000)),
    types=st.sampled_from([(f16, f16), (bf16, bf16), (f16, f32), (e4m3, f16), (s8, s32), (tf32, f32)]),
    multiprocessors=st.sampled_from([1, 78, 132]),
)
@example(size=(1, 4100, 4096), types=(f16, f16), multiprocessors=132)
@example(size=(40, 4098, 4096), types=(f16, f16), multiprocessors=132)
@example(size=(40, 4096, 4096), types=(f16, f16), multiprocessors=132)
@example(size=(64, 4096, 4097), types=(f16, f16), multiprocessors=132)
@example(size=(4096, 65, 4097), types=(f16, f16), multiprocessors=132)
@example(size=(4096, 64, 4098), types=(f16, f16), multiprocessors=132)
@settings(deadline=None, max_examples=30)
def test_rows_that_tma_takes_do_without_copies_by_threads(size: Size, types: Any, multiprocessors: int) -> None:
    (m, n, depth), (operand, result) = size, types
    every = choice.candidates(*size, operand, result, multiprocessors=multiprocessors)
    is_slow = depth * operand.bits // 8 % 4 and min(m, n) <= 64  # there are skinny tiles
    is_whole = lines(n, result) and lines(depth, operand)
    assert any(isinstance(one, Unaligned) for one in every) == (not (is_whole or is_slow))
    for one in every:
        if isinstance(one, Unaligned):
            assert one.width == np.gcd(depth * operand.bits // 8, 16)
            assert one.together == 2 - n % 2
        elif not isinstance(one, Skinny):
            assert lines(depth, operand)
            assert n % {Wide: 128 // result.bits, Thin: 4, Deep: 2}[type(one)] == 0
        grid, _ = one.launch_of(m, n, depth, multiprocessors)
        assert grid > 0
    assert len({one.label for one in every}) == len(every)


@pytest.mark.exhaustive(seconds=20)
@given(data=st.data(), size=st.tuples(*[st.integers(1, 5000)] * 3), name=st.sampled_from(["f16", "e4m3", "s8", "tf32"]))
@settings(deadline=None, max_examples=12)
def test_candidates_are_built_and_verified(data: st.DataObject, size: Size, name: str) -> None:
    form = FORMS[name]
    one = data.draw(st.sampled_from(list(choice.candidates(*size, form.operand, form.result))))
    assert one.kernel.build().diagnostics == ()


@pytest.mark.parametrize(
    ("size", "how"),
    [
        ((64, 64, 65), {"batches": 3}),
        ((64, 68, 64), {"batches": 1}),
        ((64, 68, 64), {"majors": (Major.K, Major.MN)}),
        ((64, 65, 64), {"majors": (Major.MN, Major.K)}),
        ((64, 64, 65), {"majors": (Major.MN, Major.K)}),
    ],
    ids=str,
)
def test_rows_of_a_batch_or_beside_mn_major_ones_are_not_copied_by_threads(size: Size, how: dict[str, Any]) -> None:
    text = "rows in a batch, or with MN-major operands, are multiples of 16 bytes, unlike in M = 64, N = 6. and K = 6."
    for ask in (choice.candidates, choice.choose):
        with pytest.raises(ValueError, match=text):
            ask(*size, **how)


def test_any_k_of_operands_that_are_mn_major() -> None:
    """Their rows do not have K elements."""
    form = FORMS["f16_tn"]
    one = choice.choose(72, 80, 33, majors=form.majors)
    assert isinstance(one, Wide)
    assert_right(problem_for(one, 72, 80, 33, form))


@pytest.mark.parametrize(
    ("constants", "text"),
    [
        ({"width": 3}, "width is one of 2, 4, 8, 16, not 3"),
        ({"width": 2, "operand": tf32}, "width is one of 4, 8, 16, not 2"),
        ({"together": 4}, "together is one of 1, 2, not 4"),
        ({"consumers": 3}, "consumers is one of 1, 2, not 3"),
        ({"producers": 3}, "producers is one of 1, 2, not 3"),
        ({"width": 16, "producers": 2}, "producers is one of 1, not 2"),
        ({"stages": 0}, "stages is a positive integer, not 0"),
    ],
    ids=str,
)
def test_a_choice_that_is_none(constants: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Unaligned(**constants)


def test_a_launch_that_the_kernel_is_not_for_is_refused() -> None:
    one = Unaligned(64, 1, 1, 4, BY_FOUR, 2)
    assert one.launch_of(65, 66, 34, 132) == (4, (1.0, 65, 66, 34))
    assert one.launch_of(65, 66, 36, 3) == (3, (1.0, 65, 66, 36))
    for n, depth in ((66, 33), (65, 34)):
        with pytest.raises(ValueError, match=rf"K = {depth} and N = {n} elements are not multiples of 4 bytes and 2"):
            one.launch_of(65, n, depth, 132)
    with pytest.raises(ValueError, match=r"products of f16 are not scaled, by 0\.5"):
        one.launch_of(65, 66, 34, 132, scale=0.5)


def test_the_program_takes_any_size() -> None:
    done = run_here(ROOT / "samples" / "gemm" / "__main__.py", "20", "67", "50", "--simulate")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Unaligned(columns=")
    assert ": equal to NumPy, largest error" in done.stdout.splitlines()[-1]


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("size", [*USUAL, *MORE, (1001, 3003, 2005), (4097, 4099, 4101), (2048, 2050, 2046)], ids=str)
def test_any_size_multiplies_on_a_gpu(size: Size) -> None:
    problem = problem_for(unaligned(size), *size)
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize(("name", "size"), OF_OTHERS, ids=str)
def test_other_types_multiply_on_a_gpu(name: str, size: Size) -> None:
    problem = problem_for(unaligned(size, name), *size, FORMS[name])
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize(("n", "depth", "one"), [each.values for each in EVERY], ids=repr)
def test_every_tile_multiplies_on_a_gpu(n: int, depth: int, one: Unaligned) -> None:
    problem = problem_for(one, 333, n, depth)
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance
