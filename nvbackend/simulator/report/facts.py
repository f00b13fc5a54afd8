"""What a report says, as data."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import Site
from nvbackend.simulator.machine.wave import Dim
from nvbackend.simulator.report.record import Record
from nvbackend.simulator.report.uses import Engine, Use

WATCHED = ("total", "engines", "waits")
"""What only a launch that is asked for a report has."""


@dataclass
class Facts:
    """What a launch did: the fields of a `Report`."""

    kernel: str
    grid: Dim = (1, 1, 1)
    block: Dim = (1, 1, 1)
    cluster: Dim = (1, 1, 1)
    """CTAs; threads of a CTA; CTAs of a cluster."""
    seed: int = 0
    instructions: Counter[str] = field(default_factory=Counter)
    """Threads that executed the instructions of each opcode: `mad`, `ld`."""
    classes: dict[str, Counter[str]] = field(default_factory=dict)
    """The same by class: integer, floating point, tensor cores, loads and stores, ..."""
    steps: int = 0
    """Instructions that the simulator ran, each for any number of threads at once."""
    shared_bytes: int = 0
    """Shared memory of a CTA, static and dynamic."""
    tensor_columns: int = 0
    """The most columns of tensor memory that one CTA had at a time."""
    is_whole: bool = False
    """Whether the launch was asked for a report; else `total`, `engines` and `waits` raise simulator.report."""
    warp_steps: int = 0
    """Steps of the slowest warp; of waves of CTAs, which run one after another, their sum."""
    total: Use = field(default_factory=Use)
    """Bytes, passes over the banks, sectors and waits of all threads together; bytes of engines too."""
    engines: dict[str, Engine] = field(default_factory=dict)
    """What asynchronous engines did: TMA load, wgmma, cp.async, ..."""
    waits: dict[str, Use] = field(default_factory=dict)
    """How often and how long warps waited, by what for: mbarrier, barrier, cluster, or the engine of a group."""
    record: Record = field(default_factory=Record, repr=False)
    """What all of it is made of."""

    def __post_init__(self) -> None:
        for name in () if self.is_whole else WATCHED:
            delattr(self, name)

    def by_instruction(self) -> list[tuple[Site, Use]]:
        """What each instruction of the PTX did, in the order of the text."""
        return sorted(self.record.uses.values(), key=lambda one: one[0].line)
