"""What is open while a kernel is built: with-blocks, the threads in them, and the storage that lives in them."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.thread_tables.thread_set import ThreadSet
from nvbackend.diagnostics import Location
from nvbackend.isel.machine.function import MachineBlock


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
        self.executing: ThreadSet | None = None
        """The threads of all CTAs of the cluster that are in it, where they are known."""
        self.among: int | None = None
        """A bit for each thread of the CTA that may come to it; None where that is not known."""
        self.crew: ThreadSet | None = None
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
