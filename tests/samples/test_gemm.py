"""GEMMs of any shape: every kernel that can be chosen multiplies, and the choice is what a measured table says."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, e3m2, e4m3, f16, f32, f64, s8, s16, s32, tf32, u8
from samples.gemm import choice
from samples.gemm.deep import Deep
from samples.gemm.forms import FORMS, Form, problem_for, s8_matrix
from samples.gemm.thin import Thin
from samples.gemm.wide import NARROW, Wide
from samples.program import Device
from tests.support.process import ROOT, run_here

WIDE = list(choice.wide_ones())
MAJORS = [pair for pair in product(Major, repeat=2) if pair != choice.K_MAJOR]
STORED = [one for majors in MAJORS for one in choice.stored_so((*WIDE, *choice.deep_ones()), majors)]
"""Tiles for operands that are MN-major."""
THIN = [one for m in choice.THIN_COLUMNS for one in choice.thin_ones(m)]
DEEP = list(choice.deep_ones())
USUAL = [
    *(Wide(128, 1, 1, 7), Wide(80, 2, 1, 7), Wide(16, 1, 1, 12, swapped=True), Deep(32, 2, 2, 10, swapped=True)),
    *(Thin(8, 1, 2, 7, 3), Thin(16, 1, 2, 10), Thin(64, 1, 1, 12, 1), Thin(64, 2, 4, 7, 1)),
    *(Deep(80, 1, 2, 11), Deep(144, 2, 3, 4), Deep(96, 2, 4, 6)),
]
"""Some of each, for the ordinary run."""
PINGPONG = Wide(256, 2, 2, 4, 2, pingpong=True)
EVERY = [
    pytest.param(one, marks=() if one in USUAL else pytest.mark.exhaustive(seconds=6), id=repr(one))
    for one in (*WIDE, *STORED, *THIN, *DEEP)
]


COLUMNS = [columns for _, columns in choice.USUAL]
LITTLE, LARGE = (64, 64, 128), (8192, 8192, 8192)
"""Shapes with the least tile and the largest."""
OTHERS = [
    pytest.param(name, size, marks=() if size == LITTLE or name == "tf32" else pytest.mark.exhaustive(seconds=6))
    for name in FORMS
    if name != "f16"
    for size in (LITTLE, LARGE)
]


def error(one, device, depth=520, *, more=8, check=True):
    """The largest error at a small shape that nothing divides: a tile and `more` along M and N."""
    m, n = (
        (one.columns - 3, one.rows + more) if isinstance(one, Thin) else one.sides(one.rows + more, one.columns + more)
    )
    majors = getattr(one, "a_major", Major.K), getattr(one, "b_major", Major.K)
    problem = problem_for(one, m, n, depth, Form(majors=majors))
    compiled = problem.kernel.compile(assemble=device is None, check=check)
    assert compiled.diagnostics == ()
    return problem.error(compiled, Device(device)), problem.tolerance


@pytest.mark.parametrize("one", [*WIDE, *STORED, *THIN, *DEEP], ids=repr)
def test_every_choice_is_verified_and_multiplies_few_steps(one):
    more = 8 if isinstance(one, Wide) else -8  # the CTAs of a tile that are simulated are many already
    found, tolerance = error(one, "the test asks for it", 136, more=more, check=False)
    assert found < tolerance


@pytest.mark.parametrize(("depth", "instructions"), [(16, 4 + 1), (56, 4), (64, 4), (72, 4 + 1), (176, 4 + 3)])
def test_a_last_step_that_is_not_full_has_fewer_instructions(depth, instructions):
    one = Wide(64, 1, 1, 2).for_depth(depth)
    compiled = one.kernel.compile(assemble=False, check=False)
    assert compiled.ptx.count("wgmma.mma_async") == instructions
    problem = problem_for(one, 72, 72, depth)
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.parametrize(
    "one", [Wide(64, 1, 1, 2), Thin(8, 1, 2, 7, 3), Deep(64, 1, 2, 3)], ids=lambda one: repr(one)[:4]
)
def test_operands_are_loaded_after_the_launches_before(one):
    ptx = one.kernel.compile(assemble=False, check=False).ptx
    assert ptx.count("griddepcontrol.wait") == ptx.count("griddepcontrol.launch_dependents") == 1


@pytest.mark.parametrize("one", EVERY)
def test_every_choice_multiplies_in_the_simulator(one):
    found, tolerance = error(one, "the test asks for it")
    assert found < tolerance


@pytest.mark.parametrize(("name", "size"), OTHERS)
def test_other_types_and_batches_multiply_in_the_simulator(name, size):
    form = FORMS[name]
    one = choice.choose(*size, form.operand, form.result, batches=form.batches, majors=form.majors)
    assert isinstance(one, Wide)
    m, n = (one.rows + 8, one.columns + 16) if size == LITTLE else (one.rows, one.columns)
    problem = problem_for(one, m, n, 2 * one.depth + 16, form)
    compiled = problem.kernel.compile(assemble=False)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("a test")) < problem.tolerance


def in_turns(one, size, multiprocessors):
    """A problem for so many multiprocessors, where consumers have several tiles, or none."""
    problem = problem_for(one, *size)

    def launch(loaded, *matrices):
        grid, last = one.launch_of(*size, multiprocessors)
        loaded.launch(grid, *matrices, *last)

    return replace(problem, launch=launch)


@pytest.mark.parametrize(("cluster", "size"), [(1, (72, 520, 136)), (1, (320, 256, 64)), (2, (648, 256, 80))], ids=str)
def test_ping_pong_consumers_have_tiles_of_their_own(cluster, size):
    one = replace(PINGPONG, cluster=cluster).for_depth(size[2])
    problem = in_turns(one, size, cluster)
    assert problem.error(problem.kernel.compile(assemble=False), Device("a test")) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("multiprocessors", [2, 6, 132])
@pytest.mark.parametrize("size", [(8, 16, 16), (200, 144, 272), (1000, 1040, 2064), (5000, 3000, 80)], ids=str)
@pytest.mark.parametrize("cluster", [1, 2])
def test_ping_pong_consumers_multiply_odd_shapes_on_a_gpu(cluster, size, multiprocessors):
    one = replace(PINGPONG, cluster=cluster).for_depth(size[2])
    problem = in_turns(one, size, multiprocessors)
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("size", [(200, 144, 272), (1000, 1040, 2064)], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_every_form_multiplies_on_a_gpu(name, size):
    form = FORMS[name]
    one = choice.choose(*size, form.operand, form.result, batches=form.batches, majors=form.majors)
    problem = problem_for(one, *size, form)
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("one", [*WIDE, *STORED, *THIN, *DEEP], ids=repr)
def test_every_choice_multiplies_on_a_gpu(one):
    found, tolerance = error(one, None)
    assert found < tolerance


def test_the_usual_ones_can_be_chosen():
    assert all(one in (*WIDE, *THIN, *DEEP) for one in (*USUAL, PINGPONG))


@pytest.mark.parametrize(
    ("shape", "fastest"),
    [
        ((4096, 4096, 4096), Wide(256, 2, 1, 3)),
        ((5000, 3000, 2000), Wide(192, 2, 1, 4, tail=1)),
        ((8192, 8192, 1024), Wide(192, 2, 1, 4)),
        ((8192, 8192, 8192), Wide(224, 2, 2, 3)),
        ((576, 4096, 4096), Wide(144, 2, 1, 5, swapped=True)),
        ((192, 10240, 8192), Wide(80, 3, 1, 5)),
        ((192, 28672, 4096), Wide(112, 3, 1, 4)),
        ((1536, 1536, 1536), Wide(144, 2, 1, 5)),
        ((512, 5120, 5120), Wide(160, 2, 1, 4)),
        ((256, 5120, 5120), Wide(80, 2, 2, 7)),
        ((64, 5120, 5120), Deep(80, 1, 2, 11)),
        ((128, 5120, 5120), Deep(80, 2, 2, 7)),
        ((320, 2048, 8192), Deep(160, 1, 2, 6)),
        ((768, 1280, 8192), Wide(128, 1, 1, 7)),
        ((34, 12288, 5120), Deep(48, 3, 2, 6, swapped=True)),
        ((87, 5504, 5120), Deep(96, 3, 4, 4, swapped=True)),
        ((512, 512, 8192), Deep(64, 1, 2, 12)),
        ((128, 8192, 8192), Wide(128, 1, 2, 7)),
        ((144, 4096, 4096), Deep(144, 1, 2, 7, swapped=True)),
        ((72, 4096, 14336), Deep(80, 1, 2, 11, swapped=True)),
        ((130, 28672, 3072), Wide(144, 2, 1, 5, swapped=True)),
        ((288, 4096, 4096), Wide(144, 1, 1, 7, swapped=True)),
        ((1, 4096, 4096), Deep(16, 1, 2, 14, swapped=True)),
        ((3, 2560, 2560), Deep(16, 2, 2, 11, swapped=True)),
        ((16, 8192, 8192), Deep(16, 2, 2, 11, swapped=True)),
        ((8192, 16, 8192), Deep(16, 2, 2, 11)),
        ((2048, 16, 16384), Deep(16, 1, 2, 14)),
        ((20, 3584, 18944), Deep(32, 2, 4, 10, swapped=True)),
        ((32, 3584, 18944), Deep(32, 2, 4, 10, swapped=True)),
        ((128, 4096, 4096), Deep(128, 1, 2, 8, swapped=True)),
        ((128, 4096, 14336), Deep(128, 1, 2, 8, swapped=True)),
    ],
    ids=str,
)
def test_the_model_finds_what_was_fastest_on_an_h200(shape, fastest):
    assert choice.choose(*shape) == fastest


def test_three_ctas_share_a_multiprocessor_where_their_sums_are_few():
    """Each has 48 and 112 registers a thread, which hold those of so many columns."""
    assert {one.columns for one in THIN if one.ctas == 3} == {8, choice.SMALL}


def test_thin_tiles_are_of_one_type():
    assert any(isinstance(one, Thin) for one in choice.candidates(16, 256, 256, f16, f16))
    assert not any(isinstance(one, Thin) for one in choice.candidates(16, 256, 256, f16, f32))


def test_few_rows_have_thin_and_narrow_tiles_alone():
    few, more = (list(choice.candidates(choice.FEW + rows, 8192, 64)) for rows in (0, 1))
    assert all(isinstance(one, Thin) or one.swapped for one in few)
    assert {one.columns for one in few} == {*NARROW}
    assert not all(isinstance(one, Thin) or one.swapped for one in more)


@pytest.mark.parametrize(("operand", "result"), [(e4m3, f16), (s8, s32), (tf32, f32), (f16, f32)], ids=str)
def test_few_rows_of_every_type_have_narrow_tiles(operand, result):
    for m in (1, 20, 32):
        assert choice.choose(m, 4096, 4096, operand, result).columns in NARROW


def test_few_rows_without_a_narrow_tile_have_others():
    """In a batch no depth is shared, and stmatrix stores C^T of 16 bits alone."""
    assert choice.choose(16, 64, 4096, e4m3, f16, batches=3).columns in NARROW
    assert choice.choose(16, 64, 4096, e4m3, f32, batches=3).columns not in NARROW


def test_few_rows_of_b_have_narrow_tiles_of_c():
    assert {(one.swapped, one.columns) for one in choice.candidates(4096, 16, 4096) if one.columns in NARROW} == {
        (False, columns) for columns in NARROW
    }
    assert not any(one.columns in NARROW for one in choice.candidates(4096, 40, 4096))


def test_few_tiles_share_the_depth():
    few, many = choice.choose(8, 1024, 16384), choice.choose(8, 16384, 1024)
    assert few.split > 1 == getattr(many, "split", 1)


@pytest.mark.parametrize("result", [e4m3, s8, f16, s32], ids=str)
def test_what_can_be_chosen_for_a_result_can_be_built(result):
    operand = s8 if result.is_integer else e4m3
    every = choice.candidates(200, 192, 256, operand, result)
    assert {*product(COLUMNS, (1, 2))} <= {(one.columns, one.cluster) for one in every if isinstance(one, Wide)}
    for one in every:
        assert one.kernel.build(check=False).diagnostics == ()


@pytest.mark.parametrize(
    ("name", "one"),
    [
        ("batch", Wide(80, 1, 1, 3, batched=True, swapped=True)),
        ("e4m3", Wide(48, 2, 1, 3, 2, e4m3, swapped=True)),
        ("e4m3", Deep(64, 1, 2, 3, e4m3, f16, swapped=True)),
        ("s8", Deep(32, 1, 2, 3, s8, s32, swapped=True)),
        ("tf32", Deep(16, 1, 2, 3, tf32, f32, swapped=True)),
    ],
    ids=["batch", "e4m3", "e4m3 of a shared depth", "s8", "tf32"],
)
def test_tiles_of_the_transpose_of_other_types_and_batches(name, one):
    """Rows of A that are no multiple of a thread's pair of columns, with tiles one above the other and side by side."""
    problem = problem_for(one, one.columns + 9, one.rows + 16, 2 * one.depth, FORMS[name])
    assert problem.error(problem.kernel.compile(assemble=False), Device("a test")) < problem.tolerance


@pytest.mark.parametrize("depth", [16, 64, 136], ids=str)
def test_ctas_of_a_cluster_without_a_step_add_zeros(depth):
    problem = problem_for(Deep(64, 1, 4, 3), 72, 72, depth)
    assert problem.error(problem.kernel.compile(assemble=False), Device("a test")) < problem.tolerance


@pytest.mark.parametrize("name", sorted(name for name, form in FORMS.items() if form.operand is not f16))
def test_a_shared_depth_of_other_types(name):
    form = FORMS[name]
    problem = problem_for(Deep(96, 1, 3, 3, form.operand, form.result), 72, 200, 528, form)
    assert problem.error(problem.kernel.compile(assemble=False), Device("a test")) < problem.tolerance


def test_sums_of_a_shared_depth_stop_at_the_ends_of_a_result():
    form = Form(s8, s16, s8_matrix, "int16")
    problem = problem_for(Deep(64, 1, 2, 3, s8, s16), 8, 16, 528, form)
    ends = np.iinfo(np.int16)
    stopped = problem.expected.clip(ends.min, ends.max).astype(np.int16)
    assert {ends.min, ends.max} <= set(stopped.flat)
    output = problem.output.copy()
    loaded = nvb.runtime.load(problem.kernel.compile(assemble=False), device="simulator")
    problem.launch(loaded, *problem.inputs, output)
    assert np.array_equal(output, stopped)


def test_a_depth_is_shared_where_all_of_its_ctas_run_at_once():
    assert any(isinstance(one, Deep) for one in choice.candidates(320, 2048, 8192))
    assert not any(isinstance(one, Deep) for one in choice.candidates(320, 2048, 8192, multiprocessors=24))
    assert not any(isinstance(one, Deep) for one in choice.candidates(320, 2048, 8192, batches=1))


def of_integers(result, size):
    return problem_for(choice.choose(*size, s8, result), *size, Form(s8, result, s8_matrix, result.numpy_dtype().name))


def test_sums_of_integers_are_exact():
    problem = of_integers(s32, (72, 144, 16))
    assert problem.error(problem.kernel.compile(assemble=False), Device("a test")) == 0


@pytest.mark.parametrize("result", [s8, u8, s16], ids=str)
def test_sums_of_integers_stop_at_the_ends_of_a_result_as_those_of_cublaslt(result):
    problem = of_integers(result, (72, 144, 48))
    ends = np.iinfo(problem.output.dtype)
    stopped = problem.expected.clip(ends.min, ends.max).astype(problem.output.dtype)
    assert {ends.min, ends.max} <= set(stopped.flat)
    output = problem.output.copy()
    problem.launch(
        nvb.runtime.load(problem.kernel.compile(assemble=False), device="simulator"), *problem.inputs, output
    )
    assert np.array_equal(output, stopped)


@pytest.mark.parametrize(
    ("operand", "result", "text"),
    [
        (f16, s8, "result is one of f16, bf16, tf32, f32, e4m3, e5m2, not s8"),
        (s8, f64, "result is one of .*, s32, u32, not f64"),
        (e4m3, e3m2, "not e3m2"),
        (f16, "f16", "not 'f16'"),
    ],
    ids=str,
)
def test_results_that_no_kernel_has(operand, result, text):
    with pytest.raises(ValueError, match=text):
        choice.candidates(64, 64, 64, operand, result)


@pytest.mark.parametrize(
    ("kind", "constants", "text"),
    [
        (Wide, {"consumers": 4}, "consumers is one of 1, 2, 3, not 4"),
        (Wide, {"tail": -1}, "tail is one of 0, 1, 2, 3, not -1"),
        (Wide, {"cluster": 0}, "cluster is a positive integer, not 0"),
        (Wide, {"group": 0}, "group is a positive integer, not 0"),
        (Deep, {"consumers": 4}, "consumers is one of 1, 2, 3, not 4"),
        (Deep, {"columns": 80, "split": 4}, "4 CTAs cannot store equal parts of 80 columns"),
        (Deep, {"split": 1}, "1 CTAs cannot store equal parts of 128 columns"),
        (Deep, {"stages": 0}, "stages is a positive integer, not 0"),
        (Thin, {"ctas": 0}, "ctas is one of 1, 2, 3, not 0"),
        (Thin, {"split": 5}, "5 CTAs cannot add equal parts of 64 x 16 sums"),
        (Thin, {"columns": 8, "split": 256}, "256 CTAs cannot add equal parts of 64 x 8 sums"),
        (Thin, {"stages": 0}, "stages is a positive integer, not 0"),
    ],
    ids=str,
)
def test_a_choice_that_would_multiply_wrong_numbers(kind, constants, text):
    with pytest.raises(ValueError, match=text):
        kind(**constants)


def test_a_launch_that_the_kernel_is_not_for_is_refused():
    one = Wide(64, 1, 1, 2).for_depth(80)
    assert one.launch_of(64, 64, 80, 132) == one.launch_of(64, 64, 72, 132) == (1, (1.0, 1, 64, 64, 2))
    assert one.launch_of(64, 64, 80, 132, batches=3)[0] == 3
    with pytest.raises(ValueError, match=r"K = 128 is longer .*for_depth\(128\)"):
        one.launch_of(64, 64, 128, 132)
    with pytest.raises(ValueError, match=r"products of f16 are not scaled, by 0\.5"):
        one.launch_of(64, 64, 80, 132, scale=0.5)
    assert replace(one, operand=e4m3).for_depth(80).launch_of(64, 64, 80, 132, scale=0.5)[1][0] == 0.5
    with pytest.raises(ValueError, match=r"products of f16 are not scaled, by 0\.5"):
        Deep().launch_of(64, 64, 80, 132, scale=0.5)
    with pytest.raises(ValueError, match=r"products of s8 are not scaled, by 0\.5"):
        Deep(operand=s8, result=s32).launch_of(64, 64, 80, 132, scale=0.5)
    assert Deep(operand=e4m3).launch_of(64, 64, 80, 132, scale=0.5) == (2, (0.5, 64, 64, 1))


@pytest.mark.parametrize("words", [("16", "144", "256"), ("f16", "16", "144", "256")], ids=" ".join)
def test_the_program_names_its_choice(words):
    done = run_here(ROOT / "samples" / "gemm" / "__main__.py", *words, "--simulate")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Wide(columns=16")
    assert done.stdout.count("columns=") == 1
    assert ": equal to NumPy, largest error" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("sample", "words", "text"),
    [
        (
            "gemm",
            ("f8", "16", "144", "256"),
            f"'f8' is not a number; forms are: {', '.join(FORMS)}",
        ),
        ("gemm", ("100", "0", "100"), "N = 0 is not a positive number"),
        (
            "gemm",
            ("batch", "100", "100", "100"),
            "error: rows in a batch, or with MN-major operands, are multiples of 16",
        ),
        ("gemm", ("16", "16"), "python -m samples.gemm: error: M, N and K are 3 numbers, not 2"),
        ("attention", ("fp8", "2", "17"), "error: the form fp8 takes a multiple of 16 rows, not 17"),
        ("attention", ("shared", "3", "100"), "error: 3 heads of Q: each 2 share one of K and V"),
        ("ampere_attention", ("shared", "3", "100"), "error: 3 heads of Q: each 2 share one of K and V"),
    ],
)
def test_a_wrong_size_or_form_is_named(sample, words, text):
    package, file = ROOT / "samples" / sample / "__main__.py", ROOT / "samples" / f"{sample}.py"
    done = run_here(package if package.exists() else file, *words)
    assert done.returncode != 0
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("swapped", [False, True])
def test_each_element_of_a_shared_depth_is_stored_once(swapped):
    """The last tiles begin in those before them; another order of their sums would round an element in another way."""
    one = Deep(64, 1, 2, 3, swapped=swapped)
    problem = problem_for(one, 72, 80, 128)
    loaded = nvb.runtime.load(problem.kernel.compile(assemble=False), device="simulator", report=True)
    problem.launch(loaded, *problem.inputs, problem.output)
    assert loaded.report.total.written["global"] == problem.output.nbytes


@pytest.mark.parametrize("multiprocessors", [1, 2, 3])
def test_a_choice_for_few_multiprocessors_fits_them(multiprocessors):
    for m, n in ((8, 8), (16, 16), (64, 64), (512, 512)):
        for one in choice.candidates(m, n, 64, multiprocessors=multiprocessors):
            assert getattr(one, "cluster", getattr(one, "split", 1)) <= multiprocessors


@pytest.mark.parametrize(
    "majors", [(Major.MN,), (*choice.K_MAJOR, Major.K), list(choice.K_MAJOR), Major.MN, None], ids=str
)
def test_majors_are_a_pair(majors):
    with pytest.raises(ValueError, match="majors are a pair, that of A and that of B, not"):
        choice.candidates(64, 64, 64, majors=majors)


def test_places_in_c_have_32_bits():
    assert all(isinstance(one, Wide) for one in choice.candidates(16, 2**27 + 8, 64))
    for one in (Thin(), Deep()):
        assert one.launch_of(16, 2**27, 64, 132)[1][-1] == 1
        with pytest.raises(ValueError, match=r"16 x 134217736 elements are more than 2\^31"):
            one.launch_of(16, 2**27 + 8, 64, 132)


@pytest.mark.parametrize("one", [Wide(64, 1, 1, 3), Deep(), Thin()], ids=repr)
def test_operands_that_are_stored_otherwise_are_refused(one):
    with pytest.raises(
        ValueError, match="K-major and K-major for this kernel, those of the form are K-major and MN-major"
    ):
        problem_for(one, 64, 64, 64, FORMS["f16_nn"])
