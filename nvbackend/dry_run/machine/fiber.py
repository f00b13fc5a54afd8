"""The lanes of a warp that go one way together, and where they wait for the others."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.program.code import SELF
from nvbackend.dry_run.values.lanes import among, merge
from nvbackend.dry_run.values.unknown import Unknown
from nvbackend.dry_run.values.vectors import Lanes
from nvbackend.dry_run.when import When

if TYPE_CHECKING:
    from nvbackend.dry_run.machine.choices import Choices
    from nvbackend.dry_run.machine.memory import SharedNumbers


class Contradicted(Exception):
    """The run has values that the kernel assumes it never has: nothing of the run is judged."""


@dataclass(slots=True, eq=False)
class Warp:
    """A warp of a CTA; `alive` has the lanes that have not left the kernel."""

    cta: int
    index: int
    alive: int


@dataclass(slots=True, eq=False)
class Meeting:
    """Diverged lanes reconverge before block `at`: `expected` has the lanes that come, `there` those that have come."""

    at: int
    expected: int
    parent: list[Any]
    there: int = 0
    came: list[tuple[int, list[Any]]] = field(default_factory=list)

    def merged(self, variables: int) -> list[Any]:
        """The registers after it: those from before, with the variables as each lane has them."""
        registers = list(self.parent)
        _, first = self.came[0]
        registers[1 : variables + 1] = first[1 : variables + 1]
        for mask, other in self.came[1:]:
            for slot in range(1, variables + 1):
                if other[slot] is not registers[slot]:
                    registers[slot] = merge(mask, other[slot], registers[slot])
        return registers


@dataclass(slots=True, eq=False)
class Fiber:
    """The lanes `mask` of a warp, which next execute part `part` of a block: its closures, or its recorded
    instruction."""

    warp: Warp
    mask: int
    block: int
    registers: list[Any]
    numbers: SharedNumbers
    choices: Choices
    meetings: tuple[Meeting, ...] = ()
    part: int = 0
    rounds: dict[int, int] = field(default_factory=dict)
    when: When | None = None
    """The rounds of the loops around its block, once they were asked for."""
    aside: Meeting | None = None
    """Where the lanes end that went by a guess: until then what they store says nothing to others."""

    def split(self, mask: int, block: int, meetings: tuple[Meeting, ...]) -> Fiber:
        """Lanes `mask` on their own, at the start of `block`."""
        registers = list(self.registers)
        if mask & (mask - 1) == 0:
            lane = mask.bit_length() - 1
            registers = [one.numbers[lane] if type(one) is Lanes else one for one in registers]
        other = Fiber(self.warp, mask, block, registers, self.numbers, self.choices, meetings, aside=self.aside)
        other.rounds = dict(self.rounds)
        registers[SELF] = other
        return other

    def assume(self, condition: Any) -> None:
        """What the kernel assumes. Raises Contradicted, and Guessed where no numbers are known for which it holds."""
        condition = among(condition, self.mask)
        if isinstance(condition, Unknown):
            self.choices.assume(condition)
        elif not (type(condition) is int and condition):
            raise Contradicted

    def fresh(self, bits: int) -> Unknown:
        """A new value of so many bits, equal to no other."""
        return self.numbers.fresh(bits)

    def load(self, address: Any, size: int) -> Any:
        """The number at an address of shared memory."""
        return self.numbers.load(address, size, self.warp.cta, self.mask)

    def store(self, address: Any, value: Any, size: int) -> None:
        """Store a number to shared memory."""
        if self.aside is not None:
            self.numbers.forget(among(address, self.mask), size, self.warp.cta)
        else:
            self.numbers.store(address, value, size, self.warp.cta, self.mask)
