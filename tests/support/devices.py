"""Tests of numbers on both devices: the same test on a GPU and in the simulator.

    pytestmark = ON_DEVICES

gives every test of a module a variant for each. Tests are written for a GPU, with numba-cuda's `to_device` and
nvbackend's `runtime.load`; in the simulator's variant these are stand-ins. A fixture of a module that loads a kernel
takes `device`, so that each variant has its own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nvbackend import runtime
from nvbackend.builder.kernel.kernel import FinishedKernel

GPU, SIMULATOR = "gpu", "simulator"
CAPABILITY = (9, 0)
ON_DEVICES = [
    pytest.mark.usefixtures("device"),
    pytest.mark.parametrize(
        "device", [pytest.param(GPU, marks=pytest.mark.gpu(CAPABILITY)), SIMULATOR], indirect=True, scope="module"
    ),
]
"""Both variants of every test; the GPU's is skipped where there is none."""


def target_on(device: str, target: str) -> str:
    """The target that a kernel for an older chip is built for: the GPU's, which runs no code of another generation."""
    return "sm_90" if device == GPU and target == "sm_80" else target


def too_long(cases: Iterable[Any]) -> list[Any]:
    """Cases of a test that run on a GPU alone."""
    return [pytest.param(*one, marks=pytest.mark.gpu_alone) for one in cases]


SAMPLE = 6
"""Of the variants of a test in the simulator that differ in no value, one of so many is in the ordinary run."""
FEW = 14
"""Values of a parameter of which each is in the ordinary run."""


class HostArray(np.ndarray):  # type: ignore[type-arg]
    """An array that kernels in the simulator read and write, with the call that numba's arrays have."""

    def copy_to_host(self) -> np.ndarray[Any, Any]:
        """What it holds."""
        return np.array(self)


def to_device(array: Any) -> HostArray:
    """A copy, as numba makes one on a GPU."""
    return np.array(array, order="C").view(HostArray)


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the kernels of a test run."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == SIMULATOR:
            _simulate(patch)
        yield request.param


def _simulate(patch: pytest.MonkeyPatch) -> None:
    cuda, numba = ModuleType("numba.cuda"), ModuleType("numba")
    vars(cuda).update(to_device=to_device)
    vars(numba).update(cuda=cuda)
    patch.setitem(sys.modules, "numba", numba)
    patch.setitem(sys.modules, "numba.cuda", cuda)
    patch.setattr(runtime, "load", functools.partial(runtime.load, device=SIMULATOR))
    compiles = FinishedKernel.compile

    def compile_to_ptx(kernel: FinishedKernel, **options: Any) -> Any:
        return compiles(kernel, **{"assemble": False, **options})

    patch.setattr(FinishedKernel, "compile", compile_to_ptx)


def is_simulated(item: pytest.Item) -> bool:
    """Whether this is a test's variant in the simulator."""
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("device") == SIMULATOR


def leave_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests without those that only a GPU can do; most of the variants in the simulator become exhaustive."""
    kept = [item for item in items if not (is_simulated(item) and item.get_closest_marker("gpu_alone"))]
    variants: dict[str, list[pytest.Item]] = {}
    for item in kept:
        if is_simulated(item) and not item.get_closest_marker("exhaustive"):
            variants.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for each in variants.values():
        for number in sorted(set(range(len(each))) - ordinary([_values(item) for item in each])):
            each[number].add_marker(pytest.mark.exhaustive(seconds=1))
    return kept


def ordinary(variants: list[dict[str, object]]) -> set[int]:
    """Which variants of a test are in the ordinary run, by the values of their parameters.

    They have each value of a parameter that has few, from the middle on, so that no two parameters are what they are in
    the first variant; and a sample where a parameter has more.
    """
    values: dict[str, set[object]] = {}
    for variant in variants:
        for name, value in variant.items():
            values.setdefault(name, set()).add(value)
    few = {name for name, seen in values.items() if len(seen) <= FEW}
    middle = min(len(variants), SAMPLE) // 2
    chosen = {place for place in range(len(variants)) if place % SAMPLE == middle} if few != {*values} else set()
    seen = {(name, variants[place][name]) for place in chosen for name in few}
    while missing := {(name, value) for name in few for value in values[name]} - seen:
        best = max(range(len(variants)), key=lambda place: len(missing & {*variants[place].items()}))
        chosen.add(best)
        seen |= {*variants[best].items()}
    return chosen or {middle}


def _values(item: pytest.Item) -> dict[str, object]:
    """The parameters of a variant; one that has no hash is another than all others."""
    parameters: dict[str, object] = vars(item)["callspec"].params
    return {name: value if _has_hash(value) else id(value) for name, value in parameters.items()}


def _has_hash(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def on_devices(test: Any) -> Any:
    """One test on both devices, where those around it need no GPU."""
    for mark in ON_DEVICES:
        test = mark(test)
    return test
