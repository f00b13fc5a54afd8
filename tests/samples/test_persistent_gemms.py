"""Products whose CTAs walk several tiles: of groups, from a counter, with scales, of pixels; on both devices."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from samples import block_scaled_gemm, convolution, dynamic_gemm, grouped_gemm
from samples.problem import Problem
from samples.program import Device
from tests.support.devices import GPU, ON_DEVICES

pytestmark = ON_DEVICES

PROBLEMS = {
    "block_scaled_gemm": (lambda: block_scaled_gemm.problem(200, 136, 400), 2),
    "convolution": (lambda: convolution.problem(2, 9, 72, 136), 3),
    "convolution, dilated": (lambda: convolution.problem(1, 12, 136, 72, dilation=2), 1),
    "convolution, every second pixel": (lambda: convolution.problem(2, 13, 72, 136, stride=2), 1),
    "convolution, one tap": (lambda: convolution.problem(2, 9, 72, 72, taps=1), 1),
    "dynamic_gemm": (lambda: dynamic_gemm.problem(300, 264, 136), 3),
    "grouped_gemm": (lambda: grouped_gemm.problem(3, 300, 136, 136), 2),
}
"""Sizes that do not divide, and fewer CTAs than tiles."""


@functools.cache
def problem_of(name: str) -> Problem:
    return PROBLEMS[name][0]()


@dataclass(frozen=True)
class OnFew:
    """A loaded kernel that says of its device that it has few multiprocessors."""

    loaded: nvb.runtime.LoadedKernel
    multiprocessors: int

    @property
    def device(self) -> Any:
        return SimpleNamespace(limits=self)

    def launch(self, grid: int, *arguments: Any) -> None:
        assert grid == self.multiprocessors
        self.loaded.launch(grid, *arguments)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_cta_takes_several_tiles(name, device):
    problem, multiprocessors = problem_of(name), PROBLEMS[name][1]
    place = Device(None if device == GPU else "the test asks for it")
    loaded = place.load(problem.kernel.compile(assemble=device == GPU))
    inputs, output = [place.array(one.copy()) for one in problem.inputs], place.array(problem.output.copy())
    for _ in range(2):  # the second finds what the first left: a counter
        problem.launch(OnFew(loaded, multiprocessors), *inputs, output)
    loaded.synchronize()
    difference = np.abs(place.numbers(output).astype(np.float64) - problem.expected)
    assert difference.max() / np.abs(problem.expected).max() < problem.tolerance


def test_groups_may_be_empty_and_large(device):
    sizes = np.diff(problem_of("grouped_gemm").inputs[2])
    assert sizes[1] == 0
    assert sizes.max() > grouped_gemm.TILE_M
    assert sizes.sum() == 300
