"""A kernel and the functions that it calls, as blocks of closures in the order in which threads run them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import field
from typing import Protocol

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Variable
from nvbackend.simulator.events import Site
from nvbackend.simulator.machine.deciding import Deciding
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.slots import Slots
from nvbackend.simulator.machine.unset import Unset
from nvbackend.simulator.machine.uses import Uses
from nvbackend.simulator.machine.wave import Polls, Shared, Step, Wave

Going = list[tuple[int, Lanes]]


class End(Protocol):
    """How a block ends: which threads go where."""

    def go(self, wave: Wave, lanes: Lanes) -> int | Going:
        """The place where all go on; or the places with the threads that go there, none for threads that end."""


@dataclass(frozen=True, slots=True)
class Jump:
    """All threads go on at one place."""

    target: int

    def go(self, _wave: Wave, _lanes: Lanes) -> int:
        """The target."""
        return self.target


@dataclass(slots=True)
class Code:
    """A block: its steps, with the instruction of each, and its end. `start` is the place of its first step."""

    start: int
    steps: tuple[Step, ...]
    sites: tuple[Site, ...]
    end: End
    end_site: Site
    opcodes: tuple[str, ...]
    """Each instruction's opcode, for the report."""
    end_opcode: str = ""
    """That of the branch or exit that ends it; empty where it goes on, or a step has its opcode."""

    @property
    def last(self) -> int:
        """The place of its end."""
        return self.start + len(self.steps)


@dataclass(slots=True)
class Program:
    """The blocks of a kernel, by the places where they start, lowest first; the kernel starts at `entry`."""

    kernel: str
    slots: Slots
    codes: list[Code] = field(default_factory=list)
    entry: int = 0
    frame_bytes: int = 0
    """Local memory of a thread, without recursion."""
    static_shared: int = 0
    """Where the dynamic shared memory begins: the bytes before it, the driver's own too."""
    parameters: tuple[tuple[Variable, int], ...] = ()
    """The kernel's parameters with their addresses."""
    shared: tuple[Shared, ...] = ()
    """The variables in shared memory, by their addresses."""
    deciding: Callable[[], Deciding] = Deciding
    """Which registers decide what threads do."""
    polls: Polls = dict
    """Where it reads words until they are one certain number."""
    uses: Uses = dict
    """How each instruction uses its registers."""
    unset: Callable[[], Unset] = Unset
    """The registers that it may read before it sets them."""

    def tables(self) -> tuple[list[Code], list[int]]:
        """The block that each place is in, and how far into it."""
        blocks: list[Code] = []
        inside: list[int] = []
        for code in self.codes:
            count = len(code.steps) + 1
            blocks += [code] * count
            inside += range(count)
        return blocks, inside


def places_of(codes: Iterable[Code], sites: Container[Site]) -> dict[int, frozenset[int]]:
    """Where some instructions are: of the block that starts at a place their numbers in it."""
    found = {}
    for code in codes:
        here = frozenset(place for place, site in enumerate((*code.sites, code.end_site)) if site in sites)
        if here:
            found[code.start] = here
    return found


def starts(lengths: Sequence[int]) -> list[int]:
    """The place of the first step of each block, from the number of steps of each."""
    found, place = [], 0
    for length in lengths:
        found.append(place)
        place += length + 1
    return found
