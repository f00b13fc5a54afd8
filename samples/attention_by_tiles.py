"""What attention on Ampere and on Blackwell have in common: forms, and a launch of a CTA for each tile of queries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import nvbackend as nvb
from samples import problem
from samples.flash_attention import check_places, check_shapes, problem_of

LEAST = -1e30
"""Below every score: a difference of two infinities is not a number."""
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "narrow": {"depth": 64},
    "shared": {"causal": True, "share": 2},
}


def launch(
    queries: int,
    loaded: nvb.runtime.LoadedKernel,
    q: Any,
    keys: Any,
    values: Any,
    o: Any,
    *,
    depth: int = 128,
    share: int = 1,
) -> None:
    """Start a kernel whose tiles have so many queries. Q and O are heads x rows x depth.

    K and V have a head for each `share` of Q. Raises ValueError for other shapes, and for an O that is too large.
    """
    check_shapes(q, keys, values, o, depth, share)
    check_places(o)
    heads, rows, _ = q.shape
    loaded.launch((-(-rows // queries), heads), q, keys, values, o, rows)


def problem_for(
    kernel: nvb.KernelDefinition, start: Callable[..., None], form: str, heads: int, rows: int
) -> problem.Problem:
    """Random Q, K and V, and O in f64."""
    constants = FORMS[form]
    shapes = {name: constants[name] for name in ("depth", "share") if name in constants}
    return problem_of(kernel.with_(**constants), partial(start, **shapes), heads, rows, **constants)


def main(description: str | None, make: Callable[..., problem.Problem]) -> int:
    """The program of either sample: its exit status."""
    return problem.main(
        description,
        make,
        sizes="heads and rows",
        on_the_gpu=(32, 4096),
        in_the_simulator=(2, 150),
        forms=tuple(FORMS),
    )
