"""O = softmax(Q K^T) V on Hopper: `python -m samples.attention [FORM] HEADS ROWS`.

It takes random Q, K and V, and compares with NumPy; without a GPU it runs in the simulator. A form names the constants
of the build. With `--tune` it measures every kernel that could be chosen.
"""

from __future__ import annotations

import sys
from typing import Any

import nvbackend as nvb
from samples.attention.choice import Form
from samples.attention.uses import Even, Fp8, Varlen
from samples.problem import Problem
from samples.problem import main as solve
from samples.tuning import Candidate, How, tune

FORMS = {
    "causal": Even(causal=True),
    "plain": Even(),
    "shared": Even(causal=True, share=2),
    "broad": Even(256),
    "broad_causal": Even(256, causal=True),
    "narrow": Even(64),
    "narrow_causal": Even(64, causal=True),
    "narrow_long": Even(64, long=2048),
    "narrow_long_causal": Even(64, causal=True, long=8192),
    "bf16": Even(causal=True, element=nvb.bf16),
    "varlen": Varlen(),
    "varlen_causal": Varlen(causal=True),
    "varlen_cached": Varlen(causal=True, cached=100),
    "fp8": Fp8(),
    "fp8_causal": Fp8(causal=True, share=2),
    "fp8_narrow": Fp8(64, element=nvb.bf16),
    "fp8_broad": Fp8(256),
}


def use_of(form: str, heads: int, rows: int) -> Even:
    """What the kernels are for."""
    use = FORMS[form]
    if heads % use.share:
        raise SystemExit(f"error: {heads} heads of Q: each {use.share} share one of K and V")
    if rows % use.unit:
        raise SystemExit(f"error: the form {form} takes a multiple of {use.unit} rows, not {rows}")
    return use


def problem(form: str, heads: int, rows: int) -> Problem:
    """The problem of the kernel that is chosen."""
    use = use_of(form, heads, rows)
    return use.problem(use.candidates(rows)[0], heads, rows)


def tuned(form: str, heads: int, rows: int, **how: Any) -> int:
    """Measure all candidates; the exit status."""
    use = use_of(form, heads, rows)
    every = use.candidates(rows)

    def candidate(one: Form) -> Candidate:
        def prepare(loaded: nvb.runtime.LoadedKernel, arrays: Any, stream: Any) -> nvb.runtime.PreparedLaunch:
            ctas, *arguments = use.arguments(one, arrays, loaded.device.limits.multiprocessors)
            return loaded.prepare(ctas, *arguments, stream=stream)

        return Candidate(use.kernel(one), prepare)

    return tune(
        f"{form} attention {heads} x {rows}",
        {one.label: candidate(one) for one in every},
        lambda: use.problem(every[0], heads, rows),
        How.asked(**how),
    )


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="heads and rows",
        on_the_gpu=(4, 1008),
        in_the_simulator=(2, 304),
        forms=tuple(FORMS),
        tune=tuned,
    )


if __name__ == "__main__":
    sys.exit(main())
