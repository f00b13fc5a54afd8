"""What is open while a kernel is built: with-blocks, the threads in them, and the storage that lives in them."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from nvbackend.diagnostics import Location
from nvbackend.intrinsics.row.hierarchy import WARP_SIZE
from nvbackend.isel.machine.function import MachineBlock


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads of a CTA, a bit each. With `elected`, each bit stands for its warp: which of its lanes it is is open."""

    bits: int
    elected: bool = False

    @property
    def count(self) -> int:
        """How many they are."""
        return self.bits.bit_count()

    @property
    def warps(self) -> int:
        """How many warps they belong to."""
        whole = (1 << WARP_SIZE) - 1
        return sum(bool(self.bits >> start & whole) for start in range(0, self.bits.bit_length(), WARP_SIZE))

    @property
    def lanes(self) -> int:
        """The lanes that they are in their warps, a bit each."""
        found = 0
        for start in range(0, self.bits.bit_length(), WARP_SIZE):
            found |= self.bits >> start & (1 << WARP_SIZE) - 1
        return found

    def without(self, others: Threads) -> Threads | None:
        """Those that are not among `others`; None where that is not known."""
        if self.elected or others.elected:
            return None
        return Threads(self.bits & ~others.bits)


def in_both(left: Threads, right: Threads | None) -> Threads | None:
    """The threads of both; None where some lane of a warp is elected and not all lanes have the other condition."""
    if right is None or (left.elected and right.elected):
        return None
    if left.elected or right.elected:
        other = right if left.elected else left
        return Threads(left.bits & right.bits, True) if of_whole_warps(other) else None
    return Threads(left.bits & right.bits)


def of_whole_warps(threads: Threads) -> bool:
    """Whether they are all threads of the warps that they are in."""
    whole = (1 << WARP_SIZE) - 1
    if threads.elected:
        return False
    parts = (threads.bits >> start & whole for start in range(0, threads.bits.bit_length(), WARP_SIZE))
    return all(part in (0, whole) for part in parts)


class Region:
    """A with-block of the kernel. Values made in it may be used while it is open."""

    __slots__ = (
        "alone",
        "among",
        "anchor",
        "crew",
        "entered",
        "executing",
        "exit_block",
        "held",
        "in_cluster",
        "kind",
        "left",
        "location",
        "next_block",
        "open",
        "written",
    )

    def __init__(self, kind: str, location: Location | None) -> None:
        self.kind = kind
        self.location = location
        self.open = True
        self.written: set[Storage] = set()
        self.exit_block: ir.Block | None = None
        self.next_block: ir.Block | None = None
        self.left = False
        """Whether some thread leaves it by break or return."""
        self.alone = False
        """Whether at most one thread of a warp runs it."""
        self.held: list[tuple[str, Location | None]] = []
        """The blocks inside it whose end has work to do, so that no thread may leave them early; with their places."""
        self.executing: Threads | None = None
        """The threads of the CTA that are in it, where they are known."""
        self.in_cluster: Threads | None = None
        """The same of all CTAs of the cluster, one after the other (`cluster_execution`)."""
        self.among: int | None = None
        """A bit for each thread of the CTA that may come to it; None where that is not known."""
        self.crew: Threads | None = None
        """Those that certainly come to it together, each time that its anchor is run; None where that is not known."""
        self.anchor: str | None = None
        """The block that brings the crew to every block of it; None where each of them does so itself."""
        self.entered: list[MachineBlock] = []
        """The blocks in it and in the regions inside."""

    def describe(self) -> str:
        """What diagnostics call it, with its place."""
        return f"the {self.kind} block at {self.location}" if self.location else f"a {self.kind} block"


class Storage:
    """Stack slots, one a register. The builder keeps the registers it knows and writes slots where blocks end."""

    __slots__ = ("name", "region", "slots")

    def __init__(self, name: str, slots: tuple[ir.AllocaInstr, ...], region: Region) -> None:
        self.name = name
        self.slots = slots
        self.region = region
