"""Samples that are a `Problem`: numbers against NumPy, goldens of what is built, the programs themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from samples import (
    ampere_attention,
    attention_by_tiles,
    blackwell_attention,
    block_scaled_gemm,
    cluster_reduction,
    convolution,
    dynamic_gemm,
    flash_attention,
    fused_gemm,
    grouped_gemm,
    histogram,
    rows,
    stream_k_gemm,
)
from samples.attention import __main__ as attention
from samples.gemm import fused
from samples.problem import Problem
from samples.program import Device
from samples.w4a16 import __main__ as w4a16

pytestmark = pytest.mark.sampled(3)


class Sample(NamedTuple):
    """How to make its problem; sizes of seconds in the simulator, and more of them for a GPU."""

    make: Callable[..., Problem]
    small: tuple[tuple[object, ...], ...]
    large: tuple[tuple[object, ...], ...]


SAMPLES = {
    "rows": Sample(
        rows.problem,
        tuple((form, 3, columns) for form in rows.KERNELS for columns in (8, 1000, 1024)),
        tuple((form, 100, columns) for form in rows.KERNELS for columns in (4096, 8192, 16000)),
    ),
    "ampere_attention": Sample(
        ampere_attention.problem,
        (("plain", 1, 1), ("causal", 1, 136), ("shared", 2, 72), ("narrow", 1, 72)),
        tuple((form, 2, rows) for form in attention_by_tiles.FORMS for rows in (176, 1000, 4096)),
    ),
    "blackwell_attention": Sample(
        blackwell_attention.problem, (("plain", 1, 1), ("causal", 1, 200), ("shared", 2, 72), ("narrow", 1, 130)), ()
    ),
    "block_scaled_gemm": Sample(
        block_scaled_gemm.problem, ((136, 136, 400), (20, 136, 400)), ((200, 1000, 512), (2048, 2048, 2048))
    ),
    "convolution": Sample(convolution.problem, ((2, 7, 72, 136),), ((3, 28, 64, 200), (16, 14, 512, 256))),
    "dynamic_gemm": Sample(dynamic_gemm.problem, ((136, 264, 136),), ((1000, 520, 264), (4096, 2048, 1024))),
    "grouped_gemm": Sample(grouped_gemm.problem, ((3, 200, 136, 136),), ((7, 1000, 264, 520), (32, 4096, 2048, 1024))),
    "cluster_reduction": Sample(cluster_reduction.problem, ((1, 4), (2, 9000)), ((3, 8192), (50, 60000), (9, 65536))),
    "fused_gemm": Sample(
        fused_gemm.problem, ((136, 264, 136),), ((1000, 520, 264), (3000, 2000, 1000), (2048, 2048, 2048))
    ),
    "gemm": Sample(
        fused.problem,
        tuple((name, 72, 80, 80) for name in fused.EPILOGUES),
        tuple((name, *size) for name in fused.EPILOGUES for size in ((1000, 528, 272), (4096, 4096, 2048))),
    ),
    "histogram": Sample(histogram.problem, ((1,), (9005,)), ((4096,), (2**24 + 3,))),
    "stream_k_gemm": Sample(
        stream_k_gemm.problem,
        (("split_k", 128, 128, 328), ("stream_k", 136, 200, 320), ("stream_k", 8, 8, 64)),
        (("split_k", 512, 384, 8192), ("stream_k", 512, 384, 8192), ("stream_k", 1000, 2000, 1024)),
    ),
    "w4a16": Sample(
        w4a16.problem,
        ((1, 128, 128), (72, 256, 256)),
        ((16, 1024, 2048), (64, 8192, 8192), (200, 512, 1024), (30, 28672, 1024)),
    ),
    "attention": Sample(
        attention.problem,
        (
            ("causal", 1, 200),
            ("plain", 1, 200),
            ("shared", 2, 72),
            ("broad", 1, 72),
            ("broad_causal", 1, 72),
            ("narrow", 1, 200),
            ("narrow_long", 1, 200),
            ("narrow_long_causal", 1, 200),
            ("narrow_causal", 1, 200),
            ("bf16", 1, 200),
            ("varlen", 1, 200),
            ("varlen_causal", 1, 200),
            ("varlen_cached", 1, 200),
            ("fp8", 1, 208),
            ("fp8_causal", 2, 80),
            ("fp8_narrow", 1, 208),
            ("fp8_broad", 1, 80),
        ),
        tuple((form, heads, rows) for form in attention.FORMS for heads, rows in ((2, 176), (40, 528), (2, 4096))),
    ),
    "flash_attention": Sample(
        flash_attention.problem,
        (
            ("plain", 1, 1),
            ("causal", 1, 136),
            ("shared", 2, 72),
            ("narrow", 1, 72),
            ("broad", 1, 90),
            ("bf16", 1, 72),
            ("plain", 1, 200),
        ),
        tuple((form, 2, rows) for form in flash_attention.FORMS for rows in (176, 1000, 4096)),
    ),
}
SMALL = [(name, *size) for name, sample in SAMPLES.items() for size in sample.small]
ELSEWHERE = {"blackwell_attention"}
"""Samples of other chips than the GPU of the tests."""
ALL = [(name, *size) for name, sample in SAMPLES.items() for size in (*sample.small, *sample.large)]
ON_A_GPU = [case for case in ALL if case[0] not in ELSEWHERE]
KERNELS = [("rows", form) for form in rows.KERNELS] + [(name, "") for name in SAMPLES if name != "rows"]
"""A sample, and its form where that is a kernel of its own."""


def problem_of(name: str, *size: object) -> Problem:
    return SAMPLES[name].make(*size)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: "-".join(map(str, case)))
def test_numbers_in_the_simulator(case):
    problem = problem_of(*case)
    assert problem.error(problem.kernel.compile(), Device("a test")) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("case", ON_A_GPU, ids=lambda case: "-".join(map(str, case)))
def test_numbers_on_a_gpu(case):
    problem = problem_of(*case)
    target = "sm_90" if str(problem.kernel.target) == "sm_80" else None
    assert problem.error(problem.kernel.compile(target=target), Device(None)) < problem.tolerance


@pytest.fixture(scope="module", params=KERNELS, ids=lambda kernel: "-".join(filter(None, kernel)))
def compiled(request):
    """The kernel of a sample, or of one of its forms, and its name."""
    name, form = request.param
    size = next(size for size in SAMPLES[name].small if form in ("", size[0]))
    return form or name, problem_of(name, *size).kernel.compile()


def test_machine_form(compiled, golden):
    name, kernel = compiled
    golden.check(f"{name}.machine.txt", str(kernel.machine))


def test_nothing_to_warn_of(compiled):
    _, kernel = compiled
    assert kernel.diagnostics == ()
    resources = kernel.cubin.kernel(kernel.name)
    assert resources.spill_stores_bytes == resources.spill_loads_bytes == resources.stack_bytes == 0


@pytest.mark.parametrize("name", SAMPLES)
def test_the_program_says_that_its_numbers_are_right(name, monkeypatch, capsys):
    size = [str(part) for part in SAMPLES[name].small[-1]]
    monkeypatch.setattr(sys, "argv", [name, *size, "--simulate"])
    make = SAMPLES[name].make
    shared = isinstance(make, partial)  # by samples that have one program
    assert (attention_by_tiles.main("", make) if shared else sys.modules[make.__module__].main()) == 0
    said = capsys.readouterr().out
    assert "no warnings" in said
    assert ": equal to NumPy, largest error" in said.splitlines()[-1]
