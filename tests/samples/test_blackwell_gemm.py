"""The Blackwell GEMM without a GPU: golden of its machine form, what ptxas makes of it, the program itself."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend.codegen.sass import count_instructions
from samples import blackwell_gemm
from tests.support.process import ROOT, run_here


@pytest.fixture(scope="module")
def compiled():
    return blackwell_gemm.gemm.compile(cache=nvb.Cache.disabled())


def test_machine_form(compiled, golden):
    golden.check("blackwell_gemm.machine.txt", str(compiled.machine))


def test_nothing_to_warn_of(compiled):
    assert compiled.diagnostics == ()
    resources = compiled.cubin.kernel("gemm")
    assert resources.spill_stores_bytes == resources.spill_loads_bytes == resources.stack_bytes == 0


def test_the_main_loop_is_four_mma_of_one_thread(compiled):
    counted = count_instructions(compiled.sass())
    assert counted["UTCHMMA"] == 4
    assert counted["UTCBAR"] == 2
    assert "LDL" not in counted
    assert "STL" not in counted


def test_every_mma_says_what_it_multiplies(compiled):
    issued = [instr for instr in compiled.machine.instructions() if instr.opcode == "tcgen05.mma"]
    assert len(issued) == blackwell_gemm.TILE_K // 16
    assert {tuple(instr.words) for instr in issued} == {("control", "collector", "a_desc", "b_desc", "idesc")}


def test_shapes_are_covered_by_whole_tiles():
    assert blackwell_gemm.extents(4096, 4096, 4096) == (32, 16, 64)
    assert blackwell_gemm.extents(129, 1, 65) == (2, 1, 2)


def test_the_program_builds_where_there_is_no_such_gpu():
    done = run_here(ROOT / "samples" / "blackwell_gemm.py", "--show", "ptx")
    assert done.returncode == 0, done.stderr
    assert re.search(r"tcgen05\.mma\.cta_group::1\.kind::f16", done.stdout)
