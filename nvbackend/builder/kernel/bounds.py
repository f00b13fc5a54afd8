"""Launch bounds, checked before anything is built: LLVM ends its process on values that it does not take."""

from __future__ import annotations

import math

from nvbackend.builder.scopes import rules
from nvbackend.builder.values.math_policy import NOTHING_ALLOWED, MathPolicy
from nvbackend.diagnostics import Diagnostic, gather, raise_all
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.sync.barriers import MAX_CTA_THREADS
from nvbackend.intrinsics.sync.register_budget import REGISTER_FILE, THREAD_REGISTERS, launch_share
from nvbackend.isel.operands.sync import check_cluster_size, check_cluster_target
from nvbackend.isel.target.target import Target
from nvbackend.signature import Extents, LaunchBounds, Shape, shape_of

_MOST_CTAS, _MOST_THREADS = 32, 2048
LARGEST_CTA = (1024, 1024, 64)
"""The most threads of a CTA along each axis (CUDA C++ Programming Guide, Technical Specifications)."""
SM_CTAS: dict[int, int] = {
    **dict.fromkeys((75, 86, 87, 88), 16),
    **dict.fromkeys((89, 101, 110, 120, 121), 24),
}
"""CTAs that an SM can have at once, where it is not 32, by compute capability (ptxas 12.9 and 13.5)."""
SM_THREADS: dict[int, int] = {75: 1024, **dict.fromkeys((86, 87, 88, 89, 101, 110, 120, 121), 1536)}
"""Threads that an SM can have at once, where it is not 2048."""


def checked_bounds(
    target: Target, threads: Extents, cluster: Extents, min_ctas: int | None = None, max_registers: int | None = None
) -> tuple[LaunchBounds, tuple[Diagnostic, ...]]:
    """The bounds, if all of them are possible on `target`, and warnings: some chips may launch no cluster of this size.

    Raises everything that is wrong with them together: kernel.bounds, cluster.size and cluster.target.
    """
    counts = {"min_ctas": min_ctas, "max_registers": max_registers}
    raise_all(
        gather(
            lambda: _check_extents("threads", threads),
            lambda: _check_extents("cluster", cluster),
            *(lambda name=name, number=count: _check_integer(name, number) for name, count in counts.items()),
        )
    )
    shape, cluster_shape = shape_of(threads), shape_of(cluster)
    count, ctas = math.prod(shape), math.prod(cluster_shape)
    raise_all(
        gather(
            lambda: _check_threads(threads, shape),
            lambda: check_cluster_size(ctas),
            lambda: check_cluster_target(target) if ctas > 1 else None,
            lambda: _check_min_ctas(min_ctas),
            lambda: _check_max_registers(max_registers),
        )
    )
    raise_all(
        gather(
            lambda: _check_resident(target, count, min_ctas),
            lambda: _check_share(count, max_registers) if min_ctas is None else None,
        )
    )
    bounds = LaunchBounds(count, ctas, min_ctas=min_ctas, shape=shape, cluster_shape=cluster_shape)
    return bounds, check_cluster_size(ctas)


def _check_extents(name: str, extents: object) -> None:
    """Raises kernel.bounds unless these are an integer, or one to three positive ones."""
    if not isinstance(extents, (tuple, list)):
        _check_integer(name, extents)
        return
    if not 1 <= len(extents) <= len(LARGEST_CTA):
        needs, advice = "it has an extent along x, or along x, y and z", "pass one to three integers"
        rules.LAUNCH_FACT.fail(fact=name, given=extents, needs=needs, advice=advice)
    for axis, extent in zip("xyz", extents, strict=False):
        _check_integer(f"{name} along {axis}", extent)
        if extent < 1:
            needs, advice = "an extent is at least 1", "leave the axis out, or pass 1"
            rules.LAUNCH_FACT.fail(fact=f"{name} along {axis}", given=extent, needs=needs, advice=advice)


def checked_policy(math: object) -> MathPolicy:
    """The policy of a kernel, by default one that allows nothing (kernel.launch-fact)."""
    if math is not None and not isinstance(math, MathPolicy):
        advice = "pass nvb.MathPolicy(contract=True), or leave it out"
        rules.LAUNCH_FACT.fail(fact="math", given=repr(math), needs="it must be an nvb.MathPolicy", advice=advice)
    return math or NOTHING_ALLOWED


def _check_integer(name: str, number: object) -> None:
    optional = name in ("min_ctas", "max_registers")
    if type(number) is not int and not (optional and number is None):
        advice = f"pass {int(number)}" if isinstance(number, float) and number == number // 1 else "pass an integer"
        rules.LAUNCH_FACT.fail(fact=name, given=repr(number), needs="it must be a Python integer", advice=advice)


def _check_threads(threads: Extents, shape: Shape) -> None:
    count = math.prod(shape)
    if not 1 <= count <= MAX_CTA_THREADS or count % WARP_SIZE:
        together = "" if isinstance(threads, int) else f", these are {count}"
        rules.LAUNCH_FACT.fail(
            fact="threads",
            given=threads,
            needs=f"a CTA has 1 to {MAX_CTA_THREADS} threads in whole warps of {WARP_SIZE}{together}",
            advice=f"use a multiple of {WARP_SIZE} up to {MAX_CTA_THREADS}",
        )
    for axis, extent, most in zip("xyz", shape, LARGEST_CTA, strict=True):
        if extent > most:
            needs, advice = f"a CTA has at most {most} threads along {axis}", "put more of them along x"
            rules.LAUNCH_FACT.fail(fact=f"threads along {axis}", given=extent, needs=needs, advice=advice)


def _check_min_ctas(min_ctas: int | None) -> None:
    if min_ctas is not None and min_ctas < 1:
        rules.LAUNCH_FACT.fail(
            fact="min_ctas", given=min_ctas, needs="at least one CTA runs on an SM", advice="use 1 or more"
        )


def _check_resident(target: Target, threads: int, min_ctas: int | None) -> None:
    """How many CTAs of so many threads an SM can have at once."""
    room = SM_THREADS.get(target.number, _MOST_THREADS)
    most = min(SM_CTAS.get(target.number, _MOST_CTAS), room // threads)
    if min_ctas is not None and min_ctas > most:
        needs = f"an SM of {target} has room for {most} CTAs of {threads} threads"
        advice = f"use {most} or less" + (", or fewer threads" if most * threads > room - threads else "")
        rules.LAUNCH_FACT.fail(fact="min_ctas", given=min_ctas, needs=needs, advice=advice)


def _check_share(threads: int, max_registers: int | None) -> None:
    """ptxas gives each thread what `.maxnreg` says, even where no SM has that many registers for all of them."""
    share = launch_share(threads)
    if max_registers is not None and max_registers > share:
        needs = f"an SM has {REGISTER_FILE} registers, {share} for each of {threads} threads"
        rules.LAUNCH_FACT.fail(
            fact="max_registers", given=max_registers, needs=needs, advice=f"use {share} or less, or fewer threads"
        )


def _check_max_registers(max_registers: int | None) -> None:
    if max_registers is not None and max_registers not in THREAD_REGISTERS:
        rules.LAUNCH_FACT.fail(
            fact="max_registers",
            given=max_registers,
            needs=f"a thread has {THREAD_REGISTERS[0]} to {THREAD_REGISTERS[-1]} registers",
            advice=f"use {THREAD_REGISTERS[0]} to {THREAD_REGISTERS[-1]}",
        )
