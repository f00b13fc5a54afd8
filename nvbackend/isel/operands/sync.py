"""Rules on single numbers, names and targets of bulk copies, mbarriers, barriers, clusters and register budgets.

Each rule comes with a `check_...`, over what is visible at the call, that raises its diagnostic at the user's line. The
legal values themselves are with the rows.
"""

from __future__ import annotations

from nvbackend.diagnostics import Diagnostic, Rule, Severity
from nvbackend.intrinsics.copy import tma
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import cluster, mbarrier, register_budget, special_registers
from nvbackend.isel.target.target import Target, dotted, targets_with


def is_available(row: Row, target: Target) -> bool:
    """Whether `target` has the features and the PTX version that `row` needs: the gate of selector and verifier."""
    return target.has(row.requires) and target.ptx_version >= row.ptx_version


def _check_target(rule: Rule, row: Row, target: Target) -> None:
    if not is_available(row, target):
        instead = f"{targets_with(row.requires)}, PTX {dotted(row.ptx_version)} or later"
        rule.fail(instruction=row.ptx, target=f"{target} at PTX {dotted(target.ptx_version)}", instead=instead)


TMA_BULK_SIZE = Rule(
    id="tma.bulk-size",
    message="a bulk copy moves a positive multiple of {step} bytes, not {size}",
    fix="round the size up to {rounded}, or copy the rest with ordinary loads and stores",
    why="ptxas refuses a constant that is not a size; in a register it fails on the GPU.",
    reference="PTX ISA 9.7.9 (cp.async.bulk)",
)


def check_bulk_size(size: int) -> None:
    """Raises tma.bulk-size unless `size` bytes can be copied by one cp.async.bulk."""
    step = tma.BULK_ALIGNMENT
    if size < step or size % step:
        TMA_BULK_SIZE.fail(step=step, size=size, rounded=max(step, -(-size // step) * step))


SETMAXNREG_RANGE = Rule(
    id="setmaxnreg.range",
    message="setmaxnreg takes {lowest} to {highest} registers by {step}, not {registers}",
    fix="use {nearest}",
    why="The register file is dealt out in units of that step.",
    reference="PTX ISA 9.7.19 (setmaxnreg); ptxas 13.5",
)


def check_register_count(registers: int) -> None:
    """Raises setmaxnreg.range unless setmaxnreg takes `registers` a thread."""
    if registers not in register_budget.REGISTER_COUNTS:
        legal = register_budget.REGISTER_COUNTS
        SETMAXNREG_RANGE.fail(
            lowest=legal[0],
            highest=legal[-1],
            step=legal.step,
            registers=registers,
            nearest=min(legal, key=lambda count: abs(count - registers)),
        )


SETMAXNREG_TARGET = Rule(
    id="setmaxnreg.target",
    message="{target} does not support {instruction}",
    fix="leave the register budget alone, or compile for {instead}",
    why="Only architecture- and family-specific targets have it: their names end in a or f.",
    reference="PTX ISA 9.7.19 (setmaxnreg); ptxas 13.5",
)


def check_setmaxnreg_target(target: Target) -> None:
    """Raises setmaxnreg.target unless `target` can move registers between warpgroups."""
    _check_target(SETMAXNREG_TARGET, register_budget.setmaxnreg("inc"), target)


BARRIER_ID = Rule(
    id="barrier.id",
    message="a CTA has the named barriers {lowest} to {highest}, not {given}",
    fix="number the barriers of the kernel from {lowest} to {highest}; k.barrier.sync() uses barrier {lowest}",
    why="Another number in a register waits on a barrier that is not meant, or traps.",
    reference="PTX ISA 9.7.13.1",
)


def check_barrier_id(number: int) -> None:
    """Raises barrier.id unless `number` is one of the CTA's named barriers."""
    if number not in sync.BARRIER_IDS:
        BARRIER_ID.fail(lowest=sync.BARRIER_IDS[0], highest=sync.BARRIER_IDS[-1], given=number)


BARRIER_THREADS = Rule(
    id="barrier.threads",
    message="a barrier counts whole warps: {threads} threads are not a positive multiple of {warp} up to {most}",
    fix="give the number of threads that arrive, rounded to whole warps",
    why="The hardware counts warps, so the barrier would open early or never.",
    reference="PTX ISA 9.7.13.1",
)


def check_barrier_threads(threads: int) -> None:
    """Raises barrier.threads unless `threads` can take part in a counted barrier."""
    if threads not in range(WARP_SIZE, sync.MAX_CTA_THREADS + WARP_SIZE, WARP_SIZE):
        BARRIER_THREADS.fail(threads=threads, warp=WARP_SIZE, most=sync.MAX_CTA_THREADS)


BARRIER_CROWD = Rule(
    id="barrier.crowd",
    message="{coming} threads come to this barrier, and it opens for every {threads} of them",
    fix="give each group of threads a barrier of its own number; or count all that come here: threads={coming}",
    why="It opens when the first {threads} have come, whichever these are, and does not wait for the others.",
    reference="PTX ISA 9.7.13.1 (barrier)",
)


def check_barrier_crowd(threads: int, coming: int) -> None:
    """Raises barrier.crowd where `coming` threads come to a barrier that is for fewer."""
    if coming > threads:
        BARRIER_CROWD.fail(coming=coming, threads=threads)


MBARRIER_COUNT = Rule(
    id="mbarrier.count",
    message="an mbarrier expects {lowest} to {highest} arrivals a phase, not {count}",
    fix="count the threads that arrive: 1 where one thread arrives for all",
    why="The count has 20 bits in the barrier's word; what does not fit changes its other fields.",
    reference="PTX ISA 9.7.13.15 (mbarrier.init)",
)


def check_arrival_count(count: int) -> None:
    """Raises mbarrier.count unless a barrier can be initialised to `count` arrivals."""
    if count not in mbarrier.ARRIVAL_COUNTS:
        legal = mbarrier.ARRIVAL_COUNTS
        MBARRIER_COUNT.fail(lowest=legal[0], highest=legal[-1], count=count)


MBARRIER_EXPECT_TX = Rule(
    id="mbarrier.expect-tx",
    message="one expect_tx adds {lowest} to {highest} bytes, not {count}",
    fix="give the bytes of the copies that complete on this barrier in one phase, or use more barriers",
    why="ptxas silently takes any number, and the barrier's transaction count overflows.",
    reference="PTX ISA 9.7.13.15 (mbarrier.expect_tx)",
)


def check_transaction_count(count: int) -> None:
    """Raises mbarrier.expect-tx unless one expect_tx can announce `count` bytes."""
    if count not in mbarrier.TRANSACTION_BYTES:
        legal = mbarrier.TRANSACTION_BYTES
        MBARRIER_EXPECT_TX.fail(lowest=legal[0], highest=legal[-1], count=count)


MBARRIER_PARITY = Rule(
    id="mbarrier.parity",
    message="the parity of a phase is 0 or 1, not {parity}",
    fix="wait for the parity of the phase: its number modulo 2, the first phase being 0",
    why="A wait on the phase's number instead of its parity returns at once or never.",
    reference="PTX ISA 9.7.13.15 (mbarrier.try_wait)",
)


def check_parity(parity: int) -> None:
    """Raises mbarrier.parity unless `parity` is 0 or 1."""
    if parity not in mbarrier.PARITIES:
        MBARRIER_PARITY.fail(parity=parity)


SPECIAL_REGISTER = Rule(
    id="register.name",
    message="{given!r} is not a special register that nvbackend reads{nearest}",
    fix="name it as PTX does, without its percent sign and with its axis: tid.x",
    why="LLVM takes an intrinsic that it does not know for a function from elsewhere.",
    reference="PTX ISA 10 (special registers)",
)


def check_special_register(name: str) -> None:
    """Raises register.name unless `name` is a special register that has a row."""
    if name not in special_registers.NAMES:
        import difflib

        nearest = difflib.get_close_matches(str(name), special_registers.NAMES, n=1)
        SPECIAL_REGISTER.fail(given=name, nearest=f"; the nearest is {nearest[0]}" if nearest else "")


CLUSTER_SIZE = Rule(
    id="cluster.size",
    message="a cluster has {lowest} to {highest} CTAs, not {size}",
    fix="use {lowest} to {portable} CTAs, which every chip with clusters launches",
    why="The launch fails with an error that does not name the reason.",
    reference="CUDA Programming Guide, thread block clusters",
)
CLUSTER_PORTABLE_SIZE = Rule(
    id="cluster.portable-size",
    message="a cluster of {size} CTAs is launched by some chips only",
    fix="use at most {portable} CTAs, or ask the device with cuOccupancyMaxPotentialClusterSize",
    why="The kernel has to allow the non-portable size, and the launch fails where the chip has no room for it.",
    reference="CUDA Programming Guide, thread block clusters",
    severity=Severity.WARNING,
)


def check_cluster_size(size: int) -> tuple[Diagnostic, ...]:
    """Raises cluster.size unless some chip launches clusters of `size` CTAs; returns the warning where not all do."""
    if size not in cluster.SIZES:
        CLUSTER_SIZE.fail(
            lowest=cluster.SIZES[0], highest=cluster.SIZES[-1], portable=cluster.PORTABLE_SIZES[-1], size=size
        )
    if size in cluster.PORTABLE_SIZES:
        return ()
    return (CLUSTER_PORTABLE_SIZE.diagnose(size=size, portable=cluster.PORTABLE_SIZES[-1]),)


CLUSTER_TARGET = Rule(
    id="cluster.target",
    message="{target} has no clusters ({instruction})",
    fix="leave the cluster out (one CTA), or compile for {instead}",
    why="Clusters came with compute capability 9.0; LLVM ends the process on their instructions before.",
    reference="PTX ISA 9.7.13 (barrier.cluster)",
)


def check_cluster_target(target: Target) -> None:
    """Raises cluster.target unless `target` has clusters of more than one CTA."""
    _check_target(CLUSTER_TARGET, cluster.barrier_wait(), target)
