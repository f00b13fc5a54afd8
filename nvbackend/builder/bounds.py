"""Launch bounds as they are declared: checked before anything is built, for LLVM ends its process on other values."""

from __future__ import annotations

from nvbackend.builder import rules
from nvbackend.diagnostics import Diagnostic, gather, raise_all
from nvbackend.intrinsics.hierarchy import WARP_SIZE
from nvbackend.intrinsics.register_budget import THREAD_REGISTERS
from nvbackend.intrinsics.sync import MAX_CTA_THREADS
from nvbackend.isel.families import family_rules
from nvbackend.isel.target import Target
from nvbackend.signature import LaunchBounds


def checked_bounds(
    target: Target, threads: int, cluster: int, min_ctas: int | None = None, max_registers: int | None = None
) -> tuple[LaunchBounds, tuple[Diagnostic, ...]]:
    """The bounds, if all of them are possible on `target`, and warnings: some chips may launch no cluster of this size.

    Raises everything that is wrong with them together: kernel.bounds, cluster.size and cluster.target.
    """
    counts = {"threads": threads, "cluster": cluster, "min_ctas": min_ctas, "max_registers": max_registers}
    raise_all(gather(*(lambda name=name, given=given: _check_integer(name, given) for name, given in counts.items())))
    raise_all(
        gather(
            lambda: _check_threads(threads),
            lambda: family_rules.check_cluster_size(cluster),
            lambda: family_rules.check_cluster_target(target) if cluster > 1 else None,
            lambda: _check_min_ctas(min_ctas),
            lambda: _check_max_registers(max_registers),
        )
    )
    return LaunchBounds(threads, cluster, 0, min_ctas), family_rules.check_cluster_size(cluster)


def _check_integer(name: str, given: object) -> None:
    optional = name in ("min_ctas", "max_registers")
    if type(given) is not int and not (optional and given is None):
        advice = f"pass {int(given)}" if isinstance(given, (bool, float)) and given == given // 1 else "pass an integer"
        rules.LAUNCH_FACT.fail(fact=name, given=repr(given), needs="it must be a Python integer", advice=advice)


def _check_threads(threads: int) -> None:
    if not 1 <= threads <= MAX_CTA_THREADS or threads % WARP_SIZE:
        rules.LAUNCH_FACT.fail(
            fact="threads",
            given=threads,
            needs=f"a CTA has 1 to {MAX_CTA_THREADS} threads in whole warps of {WARP_SIZE}",
            advice=f"use a multiple of {WARP_SIZE} up to {MAX_CTA_THREADS}",
        )


def _check_min_ctas(min_ctas: int | None) -> None:
    if min_ctas is not None and min_ctas < 1:
        rules.LAUNCH_FACT.fail(
            fact="min_ctas", given=min_ctas, needs="at least one CTA runs on an SM", advice="use 1 or more"
        )


def _check_max_registers(max_registers: int | None) -> None:
    if max_registers is not None and max_registers not in THREAD_REGISTERS:
        rules.LAUNCH_FACT.fail(
            fact="max_registers",
            given=max_registers,
            needs=f"a thread has {THREAD_REGISTERS[0]} to {THREAD_REGISTERS[-1]} registers",
            advice=f"use {THREAD_REGISTERS[0]} to {THREAD_REGISTERS[-1]}",
        )
