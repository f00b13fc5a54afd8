"""Long straight-line integer code compiles in time in proportion to it, and short code is left as it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import u32
from nvbackend.codegen.stages.long_chains import MOST_OF_A_BLOCK, cut

Step = Callable[[Any, Any, int], Any]
STEPS: dict[str, Step] = {
    "mad": lambda v, x, i: v * 3 + x[i % 7],
    "shifted": lambda v, x, i: (v * 3 + x[i % 7]) >> 1,
    "masked": lambda v, x, i: (v * 3 + 1) & x[i % 7],
    "squares": lambda v, x, i: v * v + x[i % 7],
    "apart": lambda v, x, i: v ^ (x[i % 7] * (i + 3) + 1),
}
X = [2_654_435_761, 40_503, 3_735_928_559, 7, 305_419_896, 4_294_967_295, 4_042_322_160]


def chain(step: Step, count: int) -> nvb.CompiledKernel:
    @nvb.kernel("sm_90a", threads=32)
    def kernel(k: Any, x: nvb.Pointer[u32], out: nvb.Pointer[u32]) -> None:
        value = x[0]
        for i in range(count):
            value = step(value, x, i)
        out[0] = value

    return kernel.build().compile(assemble=False, cache=nvb.Cache.disabled())


def expected(step: Step, count: int) -> int:
    """By NumPy's numbers of 32 bits, which wrap around."""
    words = [np.array([word], np.uint32) for word in X]
    value = words[0]
    for i in range(count):
        value = step(value, words, i)
    return int(value[0])


@pytest.mark.parametrize("name", STEPS)
def test_a_long_chain_computes_what_python_does(name: str) -> None:
    compiled = chain(STEPS[name], 300)
    out = np.zeros(1, np.uint32)
    nvb.runtime.load(compiled, device="simulator").launch(1, np.array(X, np.uint32), out)
    assert out[0] == expected(STEPS[name], 300)


@pytest.mark.parametrize("name", ["mad", "shifted", "masked", "squares"])
def test_time_grows_with_the_length_and_not_with_its_square(name: str) -> None:
    """Uncut, 1,500 steps print in a minute and more."""
    start = time.process_time()
    compiled = chain(STEPS[name], 1500)
    assert compiled.timings["print"] < 8
    assert time.process_time() - start < 30


def test_a_cut_costs_no_instruction() -> None:
    step, few = STEPS["mad"], MOST_OF_A_BLOCK // 2 - 1
    short, long = (chain(step, count).ptx.count("\n") for count in (few, 2 * few))
    assert "freeze" not in chain(step, few).optimized_ir
    assert "freeze" in chain(step, 2 * few).optimized_ir
    assert long - short == few  # one mad a step


def run_of(operation: str, count: int) -> str:
    text = "".join(f"  %a{i + 1} = {operation} nsw i32 %a{i}, 7\n" for i in range(count))
    return f"define i32 @f(i32 %a0) {{\nentry:\n{text}  ret i32 %a1\n}}\n"


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "shl"])
def test_one_more_of_any_operation_is_cut(operation: str) -> None:
    few, many = (run_of(operation, MOST_OF_A_BLOCK + more) for more in (0, 1))
    assert cut(few) == few
    assert " = freeze i32 " in cut(many)


def test_a_name_that_is_taken_is_not_made_again() -> None:
    function = run_of("add", MOST_OF_A_BLOCK)
    longer = function.replace("  ret", "  %b = mul i32 %a1, %frozen.0.0\n  ret")
    assert "%frozen_." in cut(longer)
