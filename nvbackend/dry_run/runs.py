"""The runs of one kernel: their parameters, and what they found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from nvbackend.diagnostics import Diagnostic
from nvbackend.dry_run.launches import OF_INDICES, OF_PLACES, Launches
from nvbackend.dry_run.machine.choices import Policy
from nvbackend.dry_run.machine.machine import Machine, Ways
from nvbackend.dry_run.machine.taking import is_taking
from nvbackend.dry_run.not_judged import of_blocks
from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.program.needed import is_of_protocols
from nvbackend.dry_run.rules import EACH_ASKS, UNJUDGED, UNWRITTEN
from nvbackend.dry_run.said import listed, with_values
from nvbackend.dry_run.scenario.assumed_ends import FEW_VALUES, has_ends
from nvbackend.dry_run.scenario.choose import (
    EVEN,
    FEW,
    FIRST_OF_TWO,
    FURTHER_ON,
    MAIN,
    MORE,
    Scale,
    special_of,
)
from nvbackend.dry_run.scenario.few_steps import FewSteps, asks_for_its_place
from nvbackend.dry_run.scenario.other_places import OtherPlaces, said
from nvbackend.dry_run.scenario.other_ways import OtherWays
from nvbackend.dry_run.scenario.rounds import Rounds
from nvbackend.dry_run.seam import MakeProtocols
from nvbackend.dry_run.subject import Subject, compiled
from nvbackend.dry_run.values.arithmetic import signed
from nvbackend.isel.protocols.unread.protocol import writes_results

ENOUGH = 2000
"""A further run does not start if it would take more recorded instructions than this."""
SHORT = 500
"""Further runs of a small kernel may take so many, and one for each LLVM instruction: translating it costs as much."""
GROWTH = 2
"""Roughly how much longer the last run is than the first, where tiles follow one another."""
ALONE = 700
"""The last run of a kernel without such tiles, which shows little more than the first, may bring the sum to this."""

RESERVE = 1.25
"""What a run elsewhere keeps of the room, by the length of the first one: lengths are estimates."""
LEAST = 3
"""So many tiles of a single step show most of what there is to see."""
EXCESS = 600
"""A run at another place of the grid may take so much more than there is room for."""


class Judged(NamedTuple):
    """What runs of a kernel show, and, where that is nothing, what they have not come to."""

    found: list[Diagnostic]
    unknown: tuple[str, ...] = ()


def check(subject: Subject, make: MakeProtocols, sizes: Sequence[Mapping[str, int]] = ()) -> Judged:
    """What runs of the kernel show, with parameters of each of `sizes`, or of its own choice."""
    if not any(is_of_protocols(one) for one in subject.machine.instructions()):
        return Judged([])
    program = compiled(subject)
    if program.opaque:
        return Judged([])
    runs = Runs(subject, program, make)
    found = (runs.of_sizes(sizes) if sizes else runs.of_choice()) or runs.unread()
    return Judged(found, () if found else runs.not_judged(own=not sizes))


class Runs:
    """Which runs of one kernel are made, as many as the budget allows."""

    def __init__(self, subject: Subject, program: Program, make: MakeProtocols) -> None:
        self._subject = subject
        self._program = program
        self._launches = Launches(subject, program, make)
        self._wanted = self._launches.wanted
        size = sum(len(block.instructions) for block in subject.function.blocks)
        self._enough = min(ENOUGH, SHORT + size)

    def not_judged(self, *, own: bool) -> tuple[str, ...]:
        """What the runs have not come to: the ends of those that took too long, else what none of its `own` executed.

        Of runs of its own choice the first is the longest that must end.
        """
        ends = [run.end for run in self._launches.went[: 1 if own else None] if run.end]
        return tuple(dict.fromkeys(ends)) or (of_blocks(self._program, self._launches.reached) if own else ())

    def unread(self) -> list[Diagnostic]:
        """What no run has read of what copies bring for products, in a kernel that has results."""
        if not writes_results(self._subject.machine):
            return []
        return [*self._launches.fills.told()]

    def of_sizes(self, sizes: Sequence[Mapping[str, int]]) -> list[Diagnostic]:
        """With each of `sizes`; parameters that one leaves out are chosen."""
        for given in sizes:
            rounds, chosen = self._launches.choose(MAIN, given=given)
            if chosen is None:
                return [self._unjudged(given)]
            negative = next((name for name in given if name in rounds.parameters and self._negative(given, name)), None)
            if negative is not None:
                text = f"{negative} is {self._negative(given, negative)}, and no loop that it bounds makes a round"
                return [self._unjudged(given, text)]
            found, machine = self._launches.run(MAIN, chosen, given)
            if machine.contradicted:
                return [self._unjudged(chosen)]
            if found:
                return [with_values(one, given) for one in found]
        return []

    def of_choice(self) -> list[Diagnostic]:
        """With parameters that let rings be filled more than once, then with few steps, then with more tiles.

        The last run has another order of warps, and takes the other ways where data decides.
        """
        rounds, chosen = self._launches.choose(MAIN)
        if chosen is None:
            return [self._unjudged({})]
        found, machine = self._launches.run(MAIN, chosen)
        if machine.contradicted:
            return [self._unjudged(chosen)]
        if found or machine.is_over_budget:
            return self._of_uneven(rounds, chosen, found)
        few = FewSteps(self._subject.function, self._program, self._launches.scalars, rounds, chosen, machine.ways)
        if found := self._ends(few, chosen, machine.steps) or self._further_on(rounds, chosen, machine.steps):
            return found
        for scale in FEW:
            if found := self._few(few, scale, machine.steps):
                return found
        found = self._others(rounds, few, machine.steps) or self._least(few, machine.steps)
        found = found or self._of_other_choices(chosen, machine) or self._between(few, chosen, machine.steps)
        return found or self._elsewhere(rounds, chosen, machine.steps) or self._each_asks(machine)

    def _of_uneven(self, rounds: Rounds, chosen: Mapping[str, int], found: list[Diagnostic]) -> list[Diagnostic]:
        """What was found, with the numbers for which one warp has more rounds than others, if that is the mistake."""
        if not found or not self._wanted.dealing(rounds):
            return found
        _, even = self._launches.choose(EVEN)
        if even is None or even == chosen or self._launches.run(EVEN, even)[0]:
            return found
        return [
            with_values(one, {name: chosen[name] for name in chosen if chosen[name] != even[name]}) for one in found
        ]

    def _further_on(self, rounds: Rounds, chosen: Mapping[str, int], steps: int) -> list[Diagnostic]:
        """What shows further on in the grid, where loops are longer, as those of causal attention are.

        At the first place they may be too short for their rings; `steps` is what the run there took. Indices are not
        judged: a kernel may rule out such places by its grid.
        """
        wanted, made = self._wanted.of(MAIN, rounds), rounds.of(chosen).rounds
        short = {header for header, number in made.items() if number < wanted.get(header, 0)}
        if not short or not asks_for_its_place(self._subject.function, self._program):
            return []
        farthest = self._made(FURTHER_ON[-1])
        longer = {header for header in short if farthest[0].get(header, 0) > made[header]}
        for scale in FURTHER_ON if longer else ():
            there, chosen_there = farthest if scale is FURTHER_ON[-1] else self._made(scale)
            if chosen_there is not None and all(there.get(header, 0) >= wanted[header] for header in longer):
                growth = max(there[header] // max(1, made[header]) for header in longer)
                if self._launches.spent + growth * steps > self._enough:
                    return []
                found, _ = self._launches.run(scale, chosen_there)
                return [one for one in found if one.rule_id not in OF_INDICES]
        return []

    def _made(self, scale: Scale) -> tuple[Mapping[str, int], dict[str, int] | None]:
        """The rounds of loops, and the parameters chosen for them."""
        rounds, chosen = self._launches.choose(scale)
        return ({} if chosen is None else rounds.of(chosen).rounds), chosen

    def _least(self, few: FewSteps, steps: int) -> list[Diagnostic]:
        """What a run shows with the least parameters that the kernel admits; `steps` is what the first run took.

        It takes nothing from the others, as few instructions as it has.
        """
        chosen = few.least()
        spent = self._launches.spent
        if spent + steps > ENOUGH or few.is_known(chosen):
            return []
        found, _ = self._launches.run(MAIN, chosen)
        self._launches.spent = spent
        return [with_values(one, few.changed(chosen)) for one in found if one.rule_id != UNWRITTEN.id]

    def _ends(self, few: FewSteps, chosen: Mapping[str, int], steps: int) -> list[Diagnostic]:
        """What runs show with the least and the greatest value of parameters that declare a few, as of stages.

        So do those that declare both ends and decide about no loop, as the bytes of a copy: they make no run longer.
        `chosen` are the parameters of the first run, `steps` is what it took. These runs take nothing from the others.
        """
        spent, self._launches.spent = self._launches.spent, 0
        allowed = max(ENOUGH, 2 * steps)
        loops = few.loops
        declared = ((name, scalar) for name, scalar in self._launches.scalars.items() if has_ends(scalar))
        both = [(name, each.values) for name, each in declared if len(each.values) <= FEW_VALUES or name not in loops]
        ends = [(name, (each[0], each[-1])) for name, each in both]
        found = self._of_values(few, ends, chosen, allowed - steps)
        self._launches.spent = spent
        return found

    def _others(self, rounds: Rounds, few: FewSteps, steps: int) -> list[Diagnostic]:
        """What runs show that go the other way where parameters, or the size of the grid, decide a branch.

        These runs take nothing from the others; `steps` is what the first run took.
        """
        spent, self._launches.spent = self._launches.spent, 0
        other = self._other_ways()
        found: list[Diagnostic] = []
        tried: set[int] = set()
        while not found and self._launches.spent + steps <= ENOUGH:
            went = [(one.values, one.ways) for one in self._launches.went]
            one, given = next(other.values(went, rounds.parameters, tried), (None, {}))
            if one is None:
                break
            tried.add(one.slot)
            _, chosen = self._launches.choose(MAIN, given=given)
            if chosen is not None and not few.is_known(chosen):
                found = [with_values(each, self._said(given)) for each in self._launches.run(MAIN, chosen, given)[0]]
        if not found and self._launches.spent + steps <= ENOUGH and other.asks_for_more_ctas(self._all_ways()):
            _, chosen = self._launches.choose(FIRST_OF_TWO)
            found = [] if chosen is None else self._launches.run(FIRST_OF_TWO, chosen)[0]
        self._launches.spent = spent
        return [one for one in found if one.rule_id != UNWRITTEN.id]

    def _elsewhere(self, rounds: Rounds, chosen: Mapping[str, int], steps: int) -> list[Diagnostic]:
        """What shows where the place of a CTA leads to what no other run has executed; `steps` took the first run.

        Not at a place where a loop has no work that it has at the first one, nor where an index leaves its memory: a
        kernel may rule out such places by its grid.
        """
        self._launches.spent, tried = 0, set[int]()
        places = OtherPlaces(self._program, self._other_ways(), self._launches.launch)
        while self._launches.spent + steps <= ENOUGH:
            several = places.places(self._launches.went, self._launches.reached, rounds.parameters)
            one, there = next(((one, there) for one, there in several if one.slot not in tried), (None, iter(())))
            if one is None:
                return []
            tried.add(one.slot)
            scale, given = next(((scale, given) for scale, given in there if self._has_work(scale, given)), (MAIN, {}))
            given = {name: number for name, number in given.items() if number != chosen[name]}
            values = self._launches.choose(MAIN, given=given)[1] if scale is not MAIN else None
            if values is None:
                continue
            where = {**self._said(given), **said(scale, self._launches.launch(MAIN).cluster_shape)}
            if found := [each for each in self._launches.run(scale, values, given)[0] if each.rule_id not in OF_PLACES]:
                return [with_values(each, where) for each in found]
        return []

    def _each_asks(self, machine: Machine) -> list[Diagnostic]:
        """That each CTA of a cluster takes over a cluster of its own, and does a part of its work."""
        if not machine.taking.is_of_each:
            return []
        from nvbackend.dry_run.scenario.each_asks import takes_its_own_part

        if not takes_its_own_part(self._subject.function, self._program):
            return []
        asked = next(one for one in self._subject.machine.instructions() if is_taking(one.row))
        return [EACH_ASKS.diagnose(at=asked.location)]

    def _has_work(self, scale: Scale, chosen: Mapping[str, int]) -> bool:
        """Whether each loop that makes a round at the first place makes one there."""
        first, there = (self._launches.rounds(each).of(chosen).rounds for each in (MAIN, scale))
        return all(number or not first.get(header, 0) for header, number in there.items())

    def _other_ways(self) -> OtherWays:
        return OtherWays(
            self._subject.function, self._program, self._launches.scalars, special_of(self._launches.launch(MAIN))
        )

    def _all_ways(self) -> Ways:
        return set().union(*(one.ways for one in self._launches.went))

    def _between(self, few: FewSteps, chosen: Mapping[str, int], steps: int) -> list[Diagnostic]:
        """The same with the values between them, where there is room."""
        return self._of_values(
            few, [(name, each[1:-1]) for name, each in self._launches.few_values()], chosen, ENOUGH - steps
        )

    def _of_values(
        self, few: FewSteps, values: Sequence[tuple[str, Sequence[int]]], chosen: Mapping[str, int], room: int
    ) -> list[Diagnostic]:
        """What runs show with each of the values of parameters; none starts where more than `room` is spent."""
        for name, each in values:
            for number in each:
                if number == chosen[name] or self._launches.spent > room:
                    continue
                given = {name: number}
                _, others = self._launches.choose(MAIN, given=given)
                if others is None or few.is_known(others):
                    continue
                found = self._launches.run(MAIN, others, given)[0]
                if kept := [with_values(one, given) for one in found if one.rule_id != UNWRITTEN.id]:
                    return kept
        return []

    def _of_other_choices(self, chosen: Mapping[str, int], machine: Machine) -> list[Diagnostic]:
        """What the last run shows. Where there is none, what other choices about data show, if those of the first
        `machine` ended a loop before it came round in its ring: the test of who draws the last tile does.
        """
        before = len(self._launches.went)
        found = self._last(machine.steps)
        if len(self._launches.went) > before or not machine.is_cut_short or GROWTH * machine.steps > ENOUGH:
            return found
        spent = self._launches.spent
        found = self._launches.run(MAIN, chosen, policy=Policy(first_way=False))[0]
        self._launches.spent = spent
        return found

    def _last(self, steps: int) -> list[Diagnostic]:
        """What a last run shows, if there is room for one; `steps` is what the first run took."""
        larger, other = MORE
        if not self._wanted.has_tiles:
            return self._more(larger) if self._launches.spent + steps <= ALONE else []
        if self._launches.spent + GROWTH * steps <= ENOUGH:
            return self._more(larger)
        if self._launches.spent + steps > ENOUGH + EXCESS:
            return []
        if asks_for_its_place(self._subject.function, self._program):
            return self._more(other)
        return []

    def _more(self, scale: Scale) -> list[Diagnostic]:
        """What a run at another place of the grid shows, or at the first place where the other has no work."""
        rounds, chosen = self._launches.choose(scale)
        if chosen is None:
            return []
        first = self._launches.rounds(replace(scale, place=0)).of(chosen).rounds
        if any(number < min(1, first.get(header, 0)) for header, number in rounds.of(chosen).rounds.items()):
            scale = replace(scale, place=0)
            chosen = self._launches.choose(scale)[1] or chosen
        return self._launches.run(scale, chosen, policy=Policy(latest_first=True, first_way=False))[0]

    def _few(self, few: FewSteps, scale: Scale, steps: int) -> list[Diagnostic]:
        """What a run of few steps shows, where that may be judged; `steps` is what the first run took.

        Kernels that read a step ahead read stages that few steps do not fill, and use nothing of them.
        """
        rounds, chosen = self._launches.choose(scale, few)
        room = float(self._enough - self._launches.spent)
        if chosen is not None and scale is FEW[0] and self._wanted.has_tiles:
            scale, room = self._fitting(scale, rounds, steps * few.share(rounds, chosen), steps, room)
            rounds, chosen = self._launches.choose(scale, few)
        if chosen is None or steps * few.share(rounds, chosen) > room:
            return []
        if few.is_known(chosen) or not few.may_be_judged():
            return []
        found, machine = self._launches.run(scale, chosen)
        if not found or not few.is_judged(chosen, machine.ways):
            return []
        values = few.changed(chosen) | {name: chosen[name] for name in self._launches.kept(few)}
        return [with_values(one, values) for one in found if one.rule_id != UNWRITTEN.id]

    def _fitting(self, scale: Scale, rounds: Rounds, length: float, steps: int, room: float) -> tuple[Scale, float]:
        """The scale with fewer tiles if a run of `length` is too long for the `room`, and the room for it.

        Where CTAs differ by their place, a run elsewhere keeps its room if this one has enough tiles then: the other
        one is about as long as the first, which took `steps`.
        """
        tiles = max(self._wanted.of(scale, rounds).values())
        without = room - RESERVE * steps
        if without > LEAST * length / tiles and asks_for_its_place(self._subject.function, self._program):
            room = without
        if length <= room:
            return scale, room
        return replace(scale, most=max(2, int(tiles * room / length))), self._enough - self._launches.spent

    def _negative(self, values: Mapping[str, int], name: str) -> int:
        """The number of a parameter where it is negative, else 0."""
        scalar = self._launches.scalars[name]
        return min(0, int(signed(values[name], scalar.element.bits))) if scalar.values[0] < 0 else 0

    def _said(self, values: Mapping[str, int]) -> dict[str, int]:
        """The numbers of parameters with their signs."""
        return {name: self._negative(values, name) or number for name, number in values.items()}

    def _unjudged(self, values: Mapping[str, int], why: str = "") -> Diagnostic:
        """That nothing is judged, because what the kernel assumes does not hold with `values`, or with none at all.

        Or for another reason `why`.
        """
        none = "no parameters that were tried keep to what the kernel assumes"
        reason = why or f"what the kernel assumes does not hold with {listed(values)}" if values else none
        form = ", ".join(f"{name!r}: ..." for name in self._launches.scalars)
        return UNJUDGED.diagnose(at=self._subject.assumed, reason=reason, form=f"{{{form}}}")
