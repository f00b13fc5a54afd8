"""A second compile of a sample's kernel builds nothing: all that its function reads can be taken down and compared."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvbackend import KernelDefinition, f16
from samples.attention import __main__ as attention
from samples.gemm import choice, fused
from samples.gemm.deep import Deep
from samples.gemm.thin import Thin
from samples.gemm.wide import Wide
from tests.samples.test_problems import SAMPLES, problem_of
from tests.support.compiled_again import Runs, compiled

FORMS = ("causal", "varlen", "fp8")
"""Forms of attention whose kernels are in files of their own."""


def first_of(kind: type, m: int) -> KernelDefinition:
    return next(one for one in choice.candidates(m, 4096, 4096) if isinstance(one, kind)).kernel


KERNELS: dict[str, Callable[[], KernelDefinition]] = {
    "wide": lambda: first_of(Wide, 4096),
    "thin": lambda: first_of(Thin, 1),
    "deep": lambda: next(one for one in choice.deep_ones(f16, f16) if isinstance(one, Deep)).kernel,
    "unaligned": lambda: choice.choose(129, 1001, 333).kernel,
    "skinny": lambda: choice.choose(16, 4097, 4097).kernel,
    **{f"fused {name}": lambda name=name: fused.problem(name, 72, 80, 80).kernel for name in fused.EPILOGUES},
    **{f"attention {form}": lambda form=form: attention.problem(form, 1, 80).kernel for form in FORMS},
    **{
        name: lambda name=name: problem_of(name, *SAMPLES[name].small[0]).kernel
        for name in SAMPLES
        if name not in ("gemm", "attention")
    },
}


@pytest.mark.sampled(3, seconds=2)
@pytest.mark.parametrize("name", KERNELS)
def test_a_second_compile_builds_nothing(name, monkeypatch):
    definition = KERNELS[name]()
    first = compiled(definition, check=False)
    runs = Runs(monkeypatch)
    assert compiled(definition, check=False).ptx == first.ptx
    assert runs.count == 0
    monkeypatch.setattr(KernelDefinition, "_bounds", None)
    assert compiled(definition, check=False).ptx == first.ptx, "it looks at nothing again"
