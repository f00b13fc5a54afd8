"""Random programs, against NumPy: in the simulator, and on a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from nvbackend import runtime
from tests.scalar.programs import Program

pytestmark = pytest.mark.filterwarnings("ignore:.*llvm.not-unrolled")

CONTINUES = 354
"""A program in which it matters."""


def results(program: Program, device: str) -> list[Any]:
    """What the kernel leaves in memory."""
    loaded = runtime.load(program.kernel().compile(assemble=device == "gpu"), device=device)
    outputs = program.outputs()
    if device == "simulator":
        loaded.launch(1, *program.inputs(), *outputs)
        return outputs
    from numba import cuda

    there = [cuda.to_device(array) for array in outputs]
    loaded.launch(1, *map(cuda.to_device, program.inputs()), *there)
    return [array.copy_to_host() for array in there]


@pytest.mark.parametrize("seed", range(16))
def test_programs_in_the_simulator(seed: int) -> None:
    program = Program(seed)
    assert program.differences(results(program, "simulator")) == [], program.text


@pytest.mark.exhaustive(seconds=60)
@pytest.mark.parametrize("block", range(20))
def test_a_thousand_programs_in_the_simulator(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        program = Program(seed)
        assert program.differences(results(program, "simulator")) == [], (seed, program.text)


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("seed", range(5000, 5040))
def test_programs_on_a_gpu(seed: int) -> None:
    program = Program(seed)
    assert program.differences(results(program, "gpu")) == [], program.text


def test_the_same_seed_is_the_same_program() -> None:
    assert Program(7).text == Program(7).text != Program(8).text


def test_a_break_for_a_continue_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The witness is no part of the builder: a builder with a mistake leaves other numbers."""
    from nvbackend.builder.kernel.kernel import KernelBuilder

    program = Program(CONTINUES)
    assert "continue" in program.text
    monkeypatch.setattr(KernelBuilder, "continue_if", KernelBuilder.break_if)
    assert program.differences(results(program, "simulator"))
