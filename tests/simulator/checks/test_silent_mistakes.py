"""Mistakes in samples about which the verifier must be silent: a launch shows them, whatever the order."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import DiagnosticError, FinishedKernel, Pointer, TensorMap
from nvbackend.simulator import Simulator
from samples import ampere_gemm, hopper_gemm
from tests.mutations.mutation import Mutation, mutated
from tests.mutations.table import name_of
from tests.rules.registry import mutations

SAMPLES = {"hopper_gemm": hopper_gemm, "ampere_gemm": ampere_gemm}
SHAPES = {"hopper_gemm": (512, 256, 320), "ampere_gemm": (128, 128, 256)}
"""Rows, columns and K: more steps than stages, and more than one tile for a cluster of Hopper's."""
HARMLESS = ("right, and slower", "it runs there too")
FOUND = {
    ("hopper_gemm", "wait for the release of a stage before its first fill"): "simulator.deadlock",
    ("hopper_gemm", "store tiles 4 columns further, which is not a multiple of 16 bytes"): "simulator.tma-place",
    ("hopper_gemm", "fill a stage of the ring without waiting until it is empty"): "mbarrier.arrivals",
    (
        "hopper_gemm",
        "write a buffer again with no barrier after what reads it in other threads",
    ): "proxy.write-in-flight",
    (
        "hopper_gemm",
        "let the bytes of a load complete on the barrier after the one that expects them",
    ): "simulator.deadlock",
    (
        "ampere_gemm",
        "no barrier of threads between the rounds of a ring of cp.async",
    ): "async-copy.read-before-wait",
    ("ampere_gemm", "a CTA of one warpgroup and a half"): "proxy.refill-in-flight",
}
SILENT = [(sample, mistake) for sample, name in FOUND for mistake in mutations() if name_of(mistake) == name]
"""The dry run of a build finds most of them, too."""


class _Recorder:
    """What a sample's `launch` asks for, where it launches."""

    def __init__(self, kernel: FinishedKernel, seed: int) -> None:
        self.kernel, self.seed = kernel.compile(), seed
        self.device = self.limits = self
        self.multiprocessors = 2

    def launch(self, grid, *given):
        signature = self.kernel.signature
        bounds = signature.bounds
        arguments = []
        for parameter, one in zip(signature.parameters, given, strict=True):
            kind = parameter.type
            plain = one if isinstance(kind, Pointer) or not isinstance(kind, TensorMap) else kind.bind(one)
            arguments.append(plain if not isinstance(one, int) else np.int32(one))
        Simulator().load(self.kernel.ptx).launch(
            signature.name,
            grid=grid if isinstance(grid, tuple) else (grid,),
            block=(bounds.threads,),
            cluster=bounds.cluster_shape,
            shared=bounds.dynamic_shared_bytes,
            args=arguments,
            seed=self.seed,
        )


def launched(sample: str, mutation: type[Mutation], seed: int) -> np.ndarray:
    """C less what it should be."""
    m, n, k = SHAPES[sample]
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    module = SAMPLES[sample]
    recorder = _Recorder(mutated(module.gemm, mutation).finish(check=False), seed)
    kinds = [one.type.element for one in recorder.kernel.signature.parameters[:3]]
    c = np.zeros((m, n), kinds[2].numpy_dtype())
    module.launch(recorder, a, b, c)
    return c.astype(np.float32) - a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize("sample", SAMPLES)
def test_without_a_mistake_the_numbers_are_right(sample):
    assert not launched(sample, Mutation, 0).any()


def test_every_silent_mistake_is_listed():
    unseen = {
        (sample, name_of(mistake))
        for sample in SAMPLES
        for mistake in mutations()
        if sample in mistake.unseen and mistake.because not in HARMLESS
    }
    assert unseen <= set(FOUND)
    assert len(SILENT) == len(FOUND)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sample", "mistake"), SILENT, ids=[f"{mistake.__name__}-{sample}" for sample, mistake in SILENT]
)
def test_a_run_shows_a_silent_mistake(sample, mistake):
    for seed in (0, 1):
        with pytest.raises(DiagnosticError) as caught:
            launched(sample, mistake, seed)
        assert [one.rule_id for one in caught.value.diagnostics] == [FOUND[sample, name_of(mistake)]]
