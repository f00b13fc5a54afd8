"""How many rounds counted loops make, for given parameters of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.scenario.loop_code import Assumption, Counted, LoopCode
from nvbackend.dry_run.values.arithmetic import signed
from nvbackend.dry_run.values.unknown import UNKNOWN

_MANY = (4096, 4095, 4094, 4093)
"""Numbers for all parameters with which it is seen to how many warps a loop deals its rounds."""


@dataclass(frozen=True, slots=True)
class Made:
    """What parameters make of a kernel: the rounds of its loops by header; those that are not known are left out.

    `whole` are the loops whose last step is a whole one, or, where clusters take turns, is the first one's alone;
    `broken` are the assumptions that do not hold. Of loops whose rounds are dealt to warps `dealt` says to how many,
    and `rounds` are the most that one of them makes; in `even` loops all make as many.
    """

    rounds: Mapping[str, int]
    whole: frozenset[str]
    broken: tuple[Assumption, ...]
    dealt: Mapping[str, int]
    even: frozenset[str]

    @property
    def admitted(self) -> bool:
        """Whether nothing contradicts what is assumed."""
        return not self.broken


class Rounds:
    """The counted loops of `code` whose rounds the parameters and the launch decide.

    `special` gives the special registers of a thread. The first thread is looked at, and of loops whose rounds are
    other ones in other threads some thread of each kind that comes there.
    """

    def __init__(self, code: LoopCode, special: Callable[[int], Mapping[str, int]]) -> None:
        self._code = code
        self._special = special
        self._cluster = special(0)["cluster_nctarank"]
        self.used = code.used
        self.assumptions = code.assumptions
        self._made: dict[tuple[Any, ...], Made] = {}
        self._fixed: dict[int, list[Any]] = {}
        """The registers of threads as far as no parameter decides them."""
        self._kinds = {header: self._kinds_of(header) for header in code.threads}
        """Of loops that depend on the thread, a thread of each kind that comes there."""
        self._threads = {0, *(thread for kinds in self._kinds.values() for thread in kinds)}

    def _kinds_of(self, header: str) -> list[int]:
        """Threads are of one kind where all that the loop takes of them is the same.

        Where lanes of a warp differ the first thread stands for all: such loops deal nothing to whole warps.
        """
        found: dict[tuple[Any, ...], int] = {}
        for first, last in self._code.threads[header]:
            one, other = (
                tuple([self._fixed_of(thread)[slot] for slot in self._code.of_thread[header]])
                for thread in (first, last)
            )
            if one != other:
                return [self._code.threads[header][0][0]]
            found.setdefault(one, first)
        return list(found.values())

    def _fixed_of(self, thread: int) -> list[Any]:
        registers = self._fixed.get(thread)
        if registers is None:
            registers, special = list(self._code.registers), self._special(thread)
            for slot, name in self._code.special.items():
                registers[slot] = special.get(name, UNKNOWN)
            for operation in self._code.fixed:
                operation(registers)
            self._fixed[thread] = registers
        return registers

    @property
    def parameters(self) -> set[str]:
        """The parameters on which some loop depends."""
        return {name for names in self.used.values() for name in names}

    @property
    def assumed(self) -> frozenset[str]:
        """The parameters of which something is assumed."""
        return frozenset().union(*(one.names for one in self.assumptions))

    @cached_property
    def dealt(self) -> Mapping[str, int]:
        """The loops whose rounds are dealt to warps, whose lanes make them together, and to how many."""
        found: dict[str, int] = {}
        for number in _MANY if self._code.threads or len(self._code.loops) > 1 else ():
            found.update(self.of(dict.fromkeys(self._code.parameters, number)).dealt)
        return found

    def _computed_from(self, parameters: Mapping[str, int], thread: int = 0) -> list[Any]:
        """All registers."""
        registers = list(self._fixed_of(thread))
        for name, slot in self._code.parameters.items():
            registers[slot] = parameters.get(name, UNKNOWN)
        for operation in self._code.operations:
            operation(registers)
        return registers

    def gap(self, assumption: Assumption, parameters: Mapping[str, int]) -> int | None:
        """By how much the left of what an assumption compares is greater; None where that is not known."""
        if assumption.sides is None:
            return None
        registers = self._computed_from(parameters)
        left, right = (registers[one] for one in assumption.sides)
        if type(left) is not int or type(right) is not int:
            return None
        return int(signed(left, assumption.bits) - signed(right, assumption.bits))

    def of(self, parameters: Mapping[str, int]) -> Made:
        """What `parameters` make of the loops."""
        key = tuple([parameters.get(name) for name in self._code.parameters])
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._make(parameters)
        return found

    def _make(self, parameters: Mapping[str, int]) -> Made:
        registers = {thread: self._computed_from(parameters, thread) for thread in self._threads}
        made: dict[str, list[_OfThread]] = {}
        whole = set[str]()
        for one in self._code.loops:
            several = [_made_of(one, registers[thread]) for thread in self._kinds.get(one.header) or (0,)]
            made[one.header] = known = [each for each in several if each is not None]
            if len(known) < len(several):
                del made[one.header]
                continue
            most = max(known, key=lambda each: each.rounds)
            # Of those that take turns the first makes the last step alone, unless they are CTAs of one cluster.
            alone = not one.fixed and (self._cluster == 1 or most.step % self._cluster != 0)
            if most.step and not (most.bound - most.start - alone) % most.step:
                whole.add(one.header)
        together = _together(made)
        rounds = {header: max(each.rounds for each in several) for header, several in together.items()}
        dealt = {header: len(several) for header, several in together.items() if len(several) > 1}
        even = frozenset(one for one, several in together.items() if len({each.rounds for each in several}) == 1)
        first = registers[0]
        broken = tuple(one for one in self.assumptions if type(first[one.slot]) is int and not first[one.slot])
        return Made(rounds, frozenset(whole), broken, dealt, even)


class _OfThread(NamedTuple):
    """What a loop is in one thread."""

    rounds: int
    start: int
    bound: int
    step: int


def _together(made: Mapping[str, Sequence[_OfThread]]) -> dict[str, set[_OfThread]]:
    """What each loop is in all threads: loops of other warps that begin elsewhere, and go on alike, are of one deal."""
    deals: dict[tuple[int, int], set[_OfThread]] = {}
    for one in (one for several in made.values() for one in several if one.step > 1):
        deals.setdefault((one.bound, one.step), set()).add(one)
    found = {}
    for header, several in made.items():
        deal = deals.get((several[0].bound, several[0].step), set())
        places = {one.start % one.step for one in deal}
        found[header] = {*several} | (deal if len(places) == len(deal) else set())
    return found


def _made_of(loop: Counted, registers: Sequence[Any]) -> _OfThread | None:
    """None where something of it is not known."""
    start, bound, step = registers[loop.start], registers[loop.bound], registers[loop.step]
    if type(start) is not int or type(bound) is not int or type(step) is not int:
        return None
    return _OfThread(_count(loop, start, bound, step), start, bound, step)


def _count(loop: Counted, start: int, bound: int, step: int) -> int:
    if loop.has_sign:
        start, bound = signed(start, loop.bits), signed(bound, loop.bits)
    step = signed(step, loop.bits)
    if step <= 0:
        return 0
    return max(0, -(-(bound + loop.inclusive - start) // step))
