"""The GEMMs of wmma and mma.sync without a GPU: machine forms, what ptxas makes of them, who holds which element."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

import nvbackend as nvb
from nvbackend.codegen.sass import count_instructions
from samples import ada_gemm, ampere_gemm, consumer_blackwell_gemm, program, turing_gemm, warp_tiles
from tests.support.process import ROOT, run_here

SAMPLES = {
    "turing_gemm": (turing_gemm, {"HMMA", "LDSM", "STS", "LDG"}),
    "ampere_gemm": (ampere_gemm, {"HMMA", "LDSM", "LDGSTS"}),
    "ada_gemm": (ada_gemm, {"QMMA", "LDSM", "LDGSTS"}),
    "consumer_blackwell_gemm": (consumer_blackwell_gemm, {"QMMA", "LDSM", "LDGSTS"}),
}


@pytest.fixture(scope="module", params=SAMPLES)
def sample(request):
    module, opcodes = SAMPLES[request.param]
    return request.param, module.gemm.compile(cache=nvb.Cache.disabled()), opcodes


def test_machine_form(sample, golden):
    name, compiled, _ = sample
    golden.check(f"{name}.machine.txt", str(compiled.machine))


def test_nothing_to_warn_of(sample):
    _, compiled, _ = sample
    assert compiled.diagnostics == ()
    resources = compiled.cubin.kernel("gemm")
    assert resources.spill_stores_bytes == resources.spill_loads_bytes == resources.stack_bytes == 0


def test_the_chip_multiplies(sample):
    _, compiled, opcodes = sample
    assert opcodes <= set(count_instructions(compiled.sass()))


def run_sample(*arguments, **options):
    """Run a sample without a GPU: on one it builds for that chip, and may warn of what the chip expands."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SAMPLES)
def test_the_program_shows_what_it_built(name, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = run_here(ROOT / "samples" / f"{name}.py", "256", "128", "128", "--show", "ptx")
    assert done.returncode == 0, done.stderr
    assert ".visible .entry gemm" in done.stdout
    assert "no warnings" in done.stdout


def test_it_runs_as_a_module_too_and_takes_whole_accesses_only():
    done = run_sample("-m", "samples.ampere_gemm", "256", "100", "64", cwd=ROOT)
    assert done.returncode == 2
    assert "N = 100 is not a multiple of 8, which the kernel needs" in done.stderr


@pytest.mark.parametrize("element", [nvb.f16, nvb.e4m3], ids=str)
def test_eight_rows_of_a_matrix_meet_all_banks(element):
    tile, chunk = warp_tiles.swizzled(element), warp_tiles.CHUNK * 8 // element.bits
    for first, column in itertools.product(range(0, warp_tiles.ROWS, 8), range(0, warp_tiles.columns(element), chunk)):
        places = [tile(first + row, column) * element.bits // 8 for row in range(8)]
        assert len({place % 128 // 16 for place in places}) == 8


# -- the numbers that the programs compare by ------------------------------------------------------------------------


def test_the_programs_decode_what_they_make():
    import ml_dtypes
    import numpy as np

    codes, values = program.e4m3_matrix(np.random.default_rng(1), 64, 64)
    assert np.array_equal(values, codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32))
    assert np.abs(values).min() == 1 / 16 and np.abs(values).max() == 15 / 8
    (codes, factors), values = consumer_blackwell_gemm.scaled_matrix(np.random.default_rng(1), 8, 64)
    scales = np.repeat(factors.view(ml_dtypes.float8_e8m0fnu).astype(np.float32), 32, 1)[:, :64]
    assert np.array_equal(values, codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * scales)
