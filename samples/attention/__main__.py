"""O = softmax(Q K^T) V on Hopper: `python -m samples.attention [FORM] HEADS ROWS`.

Random Q, K and V, on a machine without a GPU in the simulator, compared with NumPy. A form names what the build knows.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Any

from samples.attention.choice import choose
from samples.attention.forward import kernel, launch
from samples.flash_attention import problem_of
from samples.problem import Problem
from samples.problem import main as solve

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
}


def problem(form: str, heads: int, rows: int) -> Problem:
    """Random Q, K and V, and O in f64. The long forms are what `choose` has for longer rows."""
    import numpy as np

    constants = FORMS[form].copy()
    length = constants.pop("long", rows)
    depth, causal, share = constants.get("depth", 128), constants.get("causal", False), constants.get("share", 1)
    if heads % share:
        raise SystemExit(
            f"{heads} heads of Q: each {share} share one of K and V, so there must be a multiple of {share}"
        )
    chosen = choose(depth, length, causal=causal)
    one = problem_of(kernel(chosen, **constants), partial(launch, consumers=chosen.consumers), heads, rows, **constants)
    return replace(one, inputs=(*one.inputs, np.zeros(1, np.int32)))


def main() -> int:
    return solve(
        __doc__, problem, sizes="heads and rows", on_the_gpu=(4, 1000), in_the_simulator=(2, 300), forms=tuple(FORMS)
    )


if __name__ == "__main__":
    sys.exit(main())
