"""Every scalar instruction in a kernel: the simulator against the functions, and a GPU against the simulator."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

from nvbackend.intrinsics.row import types
from nvbackend.isel.target.target import Target
from nvbackend.signature import LaunchBounds, Parameter, Pointer, Signature
from nvbackend.simulator import Simulator
from nvbackend.simulator.scalar import find
from tests.simulator.scalar import kernel_text
from tests.simulator.scalar.edges import at_edges
from tests.simulator.scalar.operands import drawn
from tests.simulator.scalar.spellings import REGISTERS, candidates, statement
from tests.simulator.scalar.test_spellings import UNDOCUMENTED
from tests.support.ptxas import refusals
from tests.support.runtime import Cubin, FakeCompiled

TARGET, VERSION = "sm_90", "8.6"
A_KERNEL = 100
"""Instructions of a kernel."""
APPROXIMATE = re.compile(r"(rcp|sqrt|rsqrt|sin|cos|lg2|ex2|tanh)\.approx\..*|div\.(approx|full)\..*")
"""What a GPU computes to an error that PTX bounds."""


def known():
    """The spellings that the simulator knows."""
    found = [one for one in candidates() if find(tuple(one[0].split("."))) is not None]
    return [one for one in found if not UNDOCUMENTED.fullmatch(one[0])]


def simulated(spellings, words, target=TARGET):
    results = kernel_text.results(spellings)
    text = kernel_text.kernel(spellings, target, VERSION)
    Simulator().load(text).launch(kernel_text.NAME, block=(kernel_text.LANES,), args=[words, results])
    return results


def test_the_simulator_gives_each_instruction_its_operands():
    spellings = known()[::7]
    words = kernel_text.operands(spellings, seed=1)
    for place, (spelling, found) in enumerate(zip(spellings, simulated(spellings, words), strict=True)):
        assert np.array_equal(found, kernel_text.computed(spelling, words[place])), spelling


def test_results_have_the_operands_shape_and_the_width_of_their_type():
    rng = np.random.default_rng(3)
    for spelling in known():
        instruction = kernel_text.pure(spelling)
        given = [drawn(kind, rng, 6).reshape(2, 3) for kind in instruction.operands]
        with np.errstate(all="ignore"):
            made = instruction.call(*given)
        for kind, one in zip(instruction.results, made, strict=True):
            width = f"uint{kernel_text.bits_of(kind)}" if kind not in ("pred", "cc") else "bool"
            assert (one.shape, one.dtype) == ((2, 3), np.dtype(width)), spelling


def test_operands_at_edges_reach_the_rules():
    """Of each rule that was measured, some lanes are where another one would give other bits."""
    spellings = {one[0]: one for one in known()}
    words = {name: at_edges(spellings[name], 0) for name in spellings if at_edges(spellings[name], 0) is not None}
    factors = words["mul.rn.ftz.f32"][:2].astype(np.uint32).view(np.float32)
    a, b = np.where(np.isnan(factors), 0, factors).astype(np.float64)
    between = (np.abs(a * b) < 2.0**-126) & (np.abs(a * b) > 2.0**-126 * (1 - 2.0**-25))
    assert np.count_nonzero(between) > kernel_text.LANES // 8
    doubles = np.abs(words["cvt.rn.ftz.f32.f64"][0].view(np.float64))
    assert np.count_nonzero((doubles < 2.0**-126) & (doubles > 2.0**-126 - 2.0**-149)) > kernel_text.LANES // 8
    assert np.count_nonzero(np.isnan(words["cvt.rz.f16.f64"][0].view(np.float64))) > kernel_text.LANES // 4
    for place in range(3):
        assert np.count_nonzero((words["fma.rn.oob.f16"][place] & np.uint64(0xFFFF)) == 0x7FF7) > 8
    assert np.count_nonzero(words["bfe.s64"][1] > 255) > 8 < np.count_nonzero(words["bfe.s64"][1] < 64)
    assert {"vadd.u32.s32.u32.sat.min", "slct.ftz.b32.f32", "cvt.rna.satfinite.tf32.f32"} <= set(words)


@functools.cache
def of_hopper():
    """The spellings that ptxas takes for the chip."""
    spellings = known()
    said = refusals([statement(one) for one in spellings], REGISTERS, TARGET, VERSION)
    return [one for one, refusal in zip(spellings, said, strict=True) if not refusal]


def on_gpu(spellings, words):
    """The results of a kernel on the GPU."""
    from numba import cuda

    from nvbackend import runtime
    from tests.support.hand_ptx import assembled

    text = kernel_text.kernel(spellings, TARGET, VERSION)
    parameters = tuple(Parameter(name, Pointer(types.u64)) for name in ("source", "target"))
    signature = Signature(kernel_text.NAME, parameters, LaunchBounds(kernel_text.LANES))
    loaded = runtime.load(FakeCompiled(signature, Target.parse(TARGET), text, Cubin(assembled(text).data)))
    out = cuda.to_device(kernel_text.results(spellings).reshape(-1))
    loaded.launch(1, cuda.to_device(words.reshape(-1)), out)
    loaded.synchronize()
    return np.asarray(out.copy_to_host()).reshape(len(spellings), kernel_text.RESULTS, kernel_text.LANES)


def difference(spelling, words, wanted, got):
    """What is wrong with the GPU's results or ours; nothing where they agree, or may differ."""
    kind = spelling[1][0]
    if APPROXIMATE.fullmatch(spelling[0]):
        return ""
    wrong = np.flatnonzero((wanted != got).any(axis=0) & ~both_nan(kind, wanted[0], got[0]))
    if not len(wrong):
        return ""
    lane = int(wrong[0])
    given = [hex(int(one)) for one in words[: len(spelling[2]), lane]]
    pair = [[hex(int(one)) for one in each[: len(spelling[1]), lane]] for each in (wanted, got)]
    return f"{spelling[0]} of {given}: simulator {pair[0]}, GPU {pair[1]}, {len(wrong)} of {kernel_text.LANES} lanes"


def both_nan(kind, a, b):
    """Where both are a NaN of f64: it may keep its payload."""
    if kind != "f64":
        return np.zeros(len(a), bool)
    return np.isnan(a.view(np.float64)) & np.isnan(b.view(np.float64))


def differences(spellings, operands):
    """What is wrong with each instruction, for operands that `operands(spellings)` makes."""
    found = []
    for first in range(0, len(spellings), A_KERNEL):
        part = spellings[first : first + A_KERNEL]
        words = operands(part)
        rows = zip(part, words, simulated(part, words), on_gpu(part, words), strict=True)
        found += [text for row in rows if (text := difference(*row))]
    return found


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("seed", range(2, 5))
def test_the_gpu_computes_the_same_bits(seed):
    """Some 2,000 instructions, each on 128 lanes."""
    found = differences(of_hopper(), lambda part: kernel_text.operands(part, seed))
    assert not found, "\n".join(found)


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("seed", range(8))
def test_the_gpu_computes_the_same_bits_at_the_edges_of_rules(seed):
    spellings = [one for one in of_hopper() if at_edges(one, seed) is not None]
    found = differences(spellings, lambda part: np.stack([at_edges(one, seed) for one in part]))
    assert not found, "\n".join(found)


@pytest.mark.gpu((9, 0))
def test_approximations_of_the_gpu_are_near():
    spellings = [one for one in of_hopper() if APPROXIMATE.fullmatch(one[0]) and one[1][0] == "f32"]
    words = kernel_text.operands(spellings, seed=3)
    for operand in range(2):
        numbers = np.random.default_rng(operand).uniform(0.1, 6.0, (len(spellings), kernel_text.LANES))
        words[:, operand] = numbers.astype(np.float32).view(np.uint32)
    for spelling, ours, theirs in zip(spellings, simulated(spellings, words), on_gpu(spellings, words), strict=True):
        a, b = (one[0].astype(np.uint32).view(np.float32).astype(np.float64) for one in (ours, theirs))
        assert np.all(np.abs(a - b) <= 2.0**-10 * np.abs(b) + 2.0**-20), spelling
