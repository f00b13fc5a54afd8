"""The kinds of mistakes, and the rules that name each rightly."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """What goes wrong, and the ids of the rules that say so; another rule's diagnostic is a wrong cause."""

    what: str
    rules: frozenset[str]


def _kind(what: str, *rules: str) -> Kind:
    return Kind(what, frozenset(rules))


KINDS = {
    "released-early": _kind(
        "a stage is given back while something still reads it",
        "pipeline.in-flight",
        "proxy.write-in-flight",
        "proxy.refill-in-flight",
        "proxy.refill",
    ),
    "refilled-early": _kind(
        "a stage is filled again before all its readers, in every CTA, have given it back",
        "proxy.refill",
        "proxy.refill-in-flight",
        "proxy.write-in-flight",
        "shared.overwritten-early",
        "proxy.read-before-wait",
        "dry-run.overrun",
    ),
    "parity": _kind(
        "a wait is for the wrong phase, or for one that has passed",
        "mbarrier.parity",
        "mbarrier.parity-first",
        "mbarrier.parity-fixed",
        "mbarrier.parity-counter",
        "mbarrier.deadlock",
        "dry-run.unwaited-phase",
        "dry-run.overrun",
        "simulator.missed-phase",
    ),
    "accounting": _kind(
        "a phase gets other arrivals, bytes or commits than it counts",
        "mbarrier.arrivals",
        "mbarrier.arrivals-in-peer",
        "mbarrier.wrong-bytes",
        "mbarrier.wrong-barrier",
        "mbarrier.late-bytes",
        "mbarrier.wrong-in-peer",
        "mbarrier.missing-bytes",
        "mbarrier.missing-in-peer",
        "mbarrier.unexpected-bytes",
        "mbarrier.unexpected-in-peer",
        "mbarrier.no-arrival",
        "mbarrier.no-arrival-in-peer",
        "async-copy.read-before-wait",
        "proxy.read-before-wait",
        "mbarrier.deadlock",
        "tcgen05.missing-wait",
    ),
    "undrained": _kind(
        "stages are filled and never given back, on some path",
        "mbarrier.deadlock",
        "mbarrier.no-arrival",
        "pipeline.left",
        "dry-run.fill-left",
    ),
    "named-barrier": _kind(
        "a named barrier gets another number of threads than it counts, or gets them in another order",
        "barrier.crowd",
        "barrier.waits",
        "barrier.threads",
        "barrier.divergent",
        "barrier.skipped",
        "simulator.barrier-counts",
        "simulator.barrier-crowd",
        "dry-run.barrier-counts",
        "dry-run.barrier-hangs",
        "dry-run.barrier-rounds",
    ),
    "try-wait": _kind(
        "the result of a test or try of a phase is ignored or inverted",
        "proxy.read-before-wait",
        "proxy.waited-by-others",
    ),
    "bulk-group": _kind(
        "bulk groups are waited for in another thread, or too few of them",
        "proxy.write-in-flight",
        "proxy.store-not-waited",
        "proxy.store-not-committed",
        "proxy.refill-in-flight",
        "async.other-threads",
    ),
    "read-before-wait": _kind(
        "a tile is read before the wait, or the barrier, that its bytes need",
        "proxy.read-before-wait",
        "proxy.waited-by-others",
        "async-copy.read-before-wait",
        "tcgen05.missing-wait",
        "async.other-threads",
    ),
    "cp-async": _kind(
        "groups of cp.async are counted wrongly, or other threads' copies are read without a barrier",
        "async-copy.read-before-wait",
        "async.other-threads",
        "shared.missing-barrier",
        "shared.overwritten-early",
    ),
    "tensor-memory": _kind(
        "tensor memory is read, written or freed out of order",
        "tcgen05.missing-wait",
        "tcgen05.write-in-flight",
        "tcgen05.read-before-wait",
        "tcgen05.bounds",
        "tcgen05.missing-fence-after",
        "tcgen05.missing-fence-before",
        "tcgen05.missing-barrier",
        "tcgen05.missing-dealloc",
        "tcgen05.missing-wait-st",
        "tcgen05.undefined-accumulator",
        "tcgen05.missing-commit",
        "simulator.tensor-memory",
        "dry-run.tensor-lanes",
        "dry-run.tensor-overlap",
        "dry-run.tensor-unwritten",
        "tcgen05.lost-product",
        "tcgen05.cta-groups-mixed",
    ),
    "cluster": _kind(
        "another CTA's shared memory is used before it has started, after it has ended, or without order",
        "cluster.access-before-start",
        "cluster.exit-before-access",
        "cluster.exit-before-peers",
        "cluster.missing-barrier",
        "cluster.skipped",
        "dry-run.relaxed-arrival",
        "mbarrier.not-ready",
    ),
    "register-pool": _kind(
        "warpgroups ask for registers that no other warpgroup releases",
        "setmaxnreg.pool",
        "setmaxnreg.order",
        "pipeline.registers",
    ),
    "ring-index": _kind(
        "the index arithmetic leaves the ring",
        "shared.bounds",
        "shared.tile",
        "mbarrier.uninitialised",
        "mbarrier.overwritten",
    ),
    "descriptor": _kind(
        "a descriptor packed by hand names other bytes than the tile's",
        "descriptor.advance-unit",
        "descriptor.pattern",
        "descriptor.stride",
        "descriptor.swizzle",
        "descriptor.one-tile",
        "shared.bounds",
        "layout.bounds",
    ),
    "swizzle": _kind("a tile is written with one swizzle and read with another", "tma.swizzle", "tma.box"),
    "unwritten": _kind(
        "shared memory is read that nothing has written",
        "simulator.unwritten",
        "dry-run.unwritten",
        "dry-run.two-writers",
    ),
    "init": _kind(
        "an mbarrier is initialised by several threads, twice, or without being made visible",
        "mbarrier.double-init",
        "mbarrier.not-ready",
        "mbarrier.uninitialised",
    ),
    "proxy-fence": _kind(
        "no fence orders the generic and the async proxy", "proxy.missing-fence", "shared.missing-barrier"
    ),
    "race": _kind(
        "threads read and write shared memory with no order between them",
        "shared.missing-barrier",
        "shared.overwritten-early",
        "proxy.write-in-flight",
        "dry-run.two-writers",
        "dry-run.missing-warp-sync",
    ),
}
"""The kinds by name. A rule that comes to name one of them better joins its rules."""
