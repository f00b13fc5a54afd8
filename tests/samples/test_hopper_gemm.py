"""The Hopper GEMM without a GPU: goldens of its machine form and PTX, what ptxas makes of it, the program itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import nvbackend as nvb
from nvbackend.codegen.sass import count_instructions
from samples import hopper_gemm
from tests.support.process import ROOT, run_here


def run_sample(*arguments):
    """The sample as a program of its own."""
    return subprocess.run(
        [sys.executable, str(ROOT / "samples" / "hopper_gemm.py"), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )


@pytest.fixture(scope="module")
def compiled():
    return hopper_gemm.gemm.compile(cache=nvb.Cache.disabled())


def test_machine_form(compiled, golden):
    golden.check("hopper_gemm.machine.txt", str(compiled.machine))


def test_ptx(compiled, golden):
    golden.check("hopper_gemm.ptx", compiled.ptx)


def test_nothing_to_warn_of(compiled):
    assert compiled.diagnostics == ()
    resources = compiled.cubin.kernel("gemm")
    assert resources.spill_stores_bytes == resources.spill_loads_bytes == resources.stack_bytes == 0


def test_the_main_loop_is_four_wgmma_on_one_block_of_registers(compiled):
    sass = compiled.sass()
    issued = re.findall(r"HGMMA\.64x256x16\.F32 (R\d+), gdesc\[UR\d+\], (R\d+)", sass)
    assert len(issued) == 4
    assert len({register for pair in issued for register in pair}) == 1
    counted = count_instructions(sass)
    assert "LDL" not in counted and "STL" not in counted


def test_no_fence_of_gpu_scope_after_the_start(compiled):
    """MEMBAR.ALL.GPU in the main loop costs a quarter of the speed; one for the barriers' initialisation is needed."""
    lines = compiled.sass().splitlines()
    first_mma = next(index for index, line in enumerate(lines) if "HGMMA" in line)
    assert not [line for line in lines[first_mma:] if "MEMBAR.ALL.GPU" in line]


def test_the_same_program_gives_the_same_ptx_in_every_process(compiled):
    program = (
        "import sys; from samples import hopper_gemm; sys.stdout.write(hopper_gemm.gemm.compile(assemble=False).ptx)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONHASHSEED": "1", "PATH": "", "XDG_CACHE_HOME": "/nonexistent"},
        check=True,
    )
    assert run.stdout == compiled.ptx


def test_the_program_says_what_it_built_and_that_its_numbers_are_right():
    run = run_sample("256", "256", "64", "--simulate")
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    for text in ("wgmma.mma_async", "registers", "shared memory", "cubin", "assemble", "together"):
        assert text in run.stdout
    last = "256x256x64, in the simulator (--simulate asks for it): equal to NumPy"
    assert run.stdout.splitlines()[-1].startswith(last)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["machine", "ir", "ptx", "sass"])
def test_every_form_can_be_shown(form):
    run = run_here(ROOT / "samples" / "hopper_gemm.py", "256", "256", "64", "--show", form)
    assert run.returncode == 0, run.stderr
    expected = {"machine": "wgmma.fence.sync", "ir": "define ptx_kernel", "ptx": ".visible .entry", "sass": "HGMMA"}
    assert expected[form] in run.stdout


@pytest.mark.parametrize(
    ("m", "n", "k", "expected"),
    [(128, 256, 64, (2, 1, 1)), (4096, 4096, 4096, (32, 16, 64)), (300, 200, 72, (4, 1, 2))],
)
def test_extents_are_whole_tiles_and_clusters(m, n, k, expected):
    assert hopper_gemm.extents(m, n, k) == expected
