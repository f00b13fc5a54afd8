"""O = softmax(Q K^T) V on Hopper: `python -m samples.attention [FORM] HEADS ROWS`.

It takes random Q, K and V, and compares with NumPy; without a GPU it runs in the simulator. A form names the constants
of the build. With `--tune` it measures every kernel that could be chosen.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import nvbackend as nvb
from samples.attention.choice import Form, candidates, choose
from samples.attention.forward import grid, kernel, launch
from samples.flash_attention import problem_of
from samples.problem import Problem
from samples.problem import main as solve
from samples.tuning import Candidate, How, tune

FORMS: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "plain": {},
    "shared": {"causal": True, "share": 2},
    "broad": {"depth": 256},
    "broad_causal": {"depth": 256, "causal": True},
    "narrow": {"depth": 64},
    "narrow_causal": {"depth": 64, "causal": True},
    "narrow_long": {"depth": 64, "long": 2048},
    "narrow_long_causal": {"depth": 64, "causal": True, "long": 8192},
    "bf16": {"causal": True, "element": nvb.bf16},
}


def constants_of(form: str, heads: int, rows: int) -> tuple[dict[str, Any], int]:
    """The build's constants, and the length that the choice is for: the long forms are what longer rows have."""
    constants = FORMS[form].copy()
    length, share = constants.pop("long", rows), constants.get("share", 1)
    if heads % share:
        raise SystemExit(
            f"{heads} heads of Q: each {share} share one of K and V, so there must be a multiple of {share}"
        )
    return constants, length


def problem_for(chosen: Form, heads: int, rows: int, constants: Mapping[str, Any]) -> Problem:
    """Random Q, K and V, and O in f64."""
    import numpy as np

    shapes = {name: constants[name] for name in ("depth", "share") if name in constants}
    start = partial(launch, consumers=chosen.consumers, **shapes)
    one = problem_of(kernel(chosen, **constants), start, heads, rows, **constants)
    return replace(one, inputs=(*one.inputs, np.zeros(1, np.int32)))


def problem(form: str, heads: int, rows: int) -> Problem:
    """The problem of the kernel that is chosen."""
    constants, length = constants_of(form, heads, rows)
    chosen = choose(constants.get("depth", 128), length, causal=constants.get("causal", False))
    return problem_for(chosen, heads, rows, constants)


def tuned(form: str, heads: int, rows: int, **how: Any) -> int:
    """Measure all candidates; the exit status."""
    constants, length = constants_of(form, heads, rows)
    every = candidates(constants.get("depth", 128), length, causal=constants.get("causal", False))

    def candidate(one: Form) -> Candidate:
        def prepare(loaded: nvb.runtime.LoadedKernel, arrays: Any, stream: Any) -> nvb.runtime.PreparedLaunch:
            q, keys, values, counter, o = arrays
            ctas = grid(heads, rows, loaded.device.limits.multiprocessors, one.consumers)
            return loaded.prepare(ctas, q, keys, values, o, heads, rows, counter, stream=stream)

        return Candidate(kernel(one, **constants), prepare)

    return tune(
        f"{form} attention {heads} x {rows}",
        {one.label: candidate(one) for one in every},
        lambda: problem_for(every[0], heads, rows, constants),
        How.asked(**how),
    )


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="heads and rows",
        on_the_gpu=(4, 1000),
        in_the_simulator=(2, 300),
        forms=tuple(FORMS),
        tune=tuned,
    )


if __name__ == "__main__":
    sys.exit(main())
