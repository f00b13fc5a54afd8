"""The GEMM of pairs of CTAs without a GPU: its numbers in the simulator, a golden, what ptxas makes of it."""

from __future__ import annotations

import re
import sys

import pytest

import nvbackend as nvb
from nvbackend.codegen.sass import count_instructions
from samples import blackwell_pair_gemm as sample
from samples.program import Device


@pytest.fixture(scope="module")
def compiled():
    return sample.gemm.compile()


@pytest.mark.parametrize(
    "size",
    [
        pytest.param((8, 8, 72), id="less than a step"),
        pytest.param((264, 8, 328), id="two tiles, more steps than stages"),
        pytest.param((264, 520, 1032), marks=pytest.mark.exhaustive(seconds=12), id="six tiles, each stage often"),
    ],
)
def test_numbers_in_the_simulator(compiled, size):
    problem = sample.problem(*size)
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.gpu((10, 0))
@pytest.mark.parametrize("size", [(8, 8, 72), (264, 264, 328), (4096, 4096, 4096)], ids=str)
def test_numbers_on_a_gpu(compiled, size):
    problem = sample.problem(*size)
    assert problem.error(compiled, Device(None)) < problem.tolerance


def test_machine_form(compiled, golden):
    golden.check("blackwell_pair_gemm.machine.txt", str(compiled.machine))


def test_nothing_to_warn_of(compiled):
    assert compiled.diagnostics == ()
    resources = compiled.cubin.kernel("gemm")
    assert resources.spill_stores_bytes == resources.spill_loads_bytes == resources.stack_bytes == 0


def test_four_mma_of_a_pair_and_commits_to_both(compiled):
    sass = compiled.sass()
    assert count_instructions(sass)["UTCHMMA"] == sample.TILE_K // 16
    issued = re.findall(r"\b(UTCHMMA\S*|UTCBAR\S*)", sass)
    assert issued == ["UTCHMMA.2CTA"] * 4 + ["UTCBAR.2CTA.MULTICAST"] * 2


def test_each_byte_of_a_and_b_is_loaded_once_a_pair(compiled):
    a, b, _ = (parameter.type for parameter in compiled.signature.parameters[:3])
    assert (a.box, b.box) == ((128, 64), (128, 64))
    instruction = next(one for one in compiled.machine.instructions() if one.opcode == "tcgen05.mma")
    assert "cta_group::2" in instruction.row.ptx
    multiplied = nvb.InstructionDescriptor.decode(instruction.words["idesc"], "f16")
    assert (multiplied.m, multiplied.n, multiplied.k) == (256, 256, 16)


def test_the_program_says_that_its_numbers_are_right(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["blackwell_pair_gemm", "8", "8", "72", "--simulate"])
    assert sample.main() == 0
    said = capsys.readouterr().out
    assert "no warnings" in said
    assert ": equal to NumPy, largest error" in said.splitlines()[-1]
