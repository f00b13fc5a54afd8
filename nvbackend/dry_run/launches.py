"""One run of a kernel after the other: the launch, the parameters, and what each has found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from nvbackend.diagnostics import Diagnostic
from nvbackend.dry_run.inverted import told_where_it_is
from nvbackend.dry_run.machine.choices import USUAL, Policy
from nvbackend.dry_run.machine.machine import Machine
from nvbackend.dry_run.not_judged import of_end
from nvbackend.dry_run.objects.fills import Fills
from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.rules import BEYOND, TENSOR_BOUNDS, UNINITIALISED, UNWRITTEN
from nvbackend.dry_run.said import with_data
from nvbackend.dry_run.scenario.assumed_ends import FEW_VALUES, has_ends, with_assumed_ends
from nvbackend.dry_run.scenario.choose import LARGER, MAIN, Scale, Wanted, choose, halved, special_of
from nvbackend.dry_run.scenario.few_steps import FewSteps
from nvbackend.dry_run.scenario.laps import Laps
from nvbackend.dry_run.scenario.loop_code import loop_code
from nvbackend.dry_run.scenario.other_places import Run
from nvbackend.dry_run.scenario.placed import naming_a_place
from nvbackend.dry_run.scenario.promises import Promises
from nvbackend.dry_run.scenario.rounds import Rounds
from nvbackend.dry_run.scenario.sources import Sources
from nvbackend.dry_run.seam import Exceeded, Launch, MakeProtocols
from nvbackend.dry_run.subject import Subject, run
from nvbackend.dry_run.values.divisors import together
from nvbackend.isel.machine.function import MachineInstr

MOST_STEPS = 300
"""A run of so many recorded instructions is made again with more rounds of the loops that numbers of memory end."""
MOST_AGAIN = 3
"""At most so many are."""
_SEVERAL = 2
"""So many branches on numbers of memory can go different ways."""
OF_INDICES = frozenset({BEYOND.id, TENSOR_BOUNDS.id, UNINITIALISED.id})
OF_PLACES = OF_INDICES | {UNWRITTEN.id}
"""What is found of indices, which a kernel may rule out by its grid or by the numbers that it is given."""


class Launches:
    """The runs of one kernel: `went` are those that were made, which `spent` so many recorded instructions.

    `reached` are the blocks that some run executed.
    """

    def __init__(self, subject: Subject, program: Program, make: MakeProtocols) -> None:
        self._subject = subject
        self._program = program
        self._make = make
        self._loop_code = loop_code(subject.function, subject.machine, program)
        self._known_rounds: dict[tuple[int, int, int], Rounds] = {}
        """By the place of the cluster that runs, and how many come after it."""
        if self._loop_code.assumptions:
            self._subject = replace(subject, scalars=with_assumed_ends(subject.scalars, self.rounds(MAIN)))
        self.scalars = self._subject.scalars
        """The parameters that are integers, with the ends that are declared or assumed."""
        self.wanted = Wanted(subject.function, subject.machine, program, self.scalars)
        self._places = naming_a_place(subject.function, program)
        self._promises = Promises(subject.function, subject.anchors, program.computed, self.scalars)
        self._sources = Sources(subject.function, subject.anchors, program.computed, self.scalars)
        self._laps = Laps(subject.function, subject.anchors, program)
        self._again = MOST_AGAIN
        self._has_mixed = False
        self.spent = 0
        self.went: list[Run] = []
        self.reached: set[int] = set()
        self.fills = Fills()

    def few_values(self) -> list[tuple[str, Sequence[int]]]:
        """The parameters that declare a few values, with these."""
        return [
            (name, scalar.values)
            for name, scalar in self._subject.scalars.items()
            if has_ends(scalar) and len(scalar.values) <= FEW_VALUES
        ]

    def choose(
        self, scale: Scale, few: FewSteps | None = None, given: Mapping[str, int] | None = None
    ) -> tuple[Rounds, dict[str, int] | None]:
        """The loops, and the parameters that suit a scale; None for these where there are none."""
        rounds = self.rounds(scale)
        wished: dict[str, int] = {}
        if few is not None:
            wished = few.admitted(self.wanted.few(scale, rounds, few.many))
            kept = self.kept(few)
            wished |= kept if wished.keys() - kept else {}
        wanted, dealing = self.wanted.of(scale, rounds), self.wanted.dealing(rounds)
        scalars, places = self._subject.scalars, self._places
        return rounds, choose(rounds, scalars, wanted, given, wished, places, dealing=dealing, even=scale.even)

    def kept(self, few: FewSteps) -> dict[str, int]:
        """The parameters that declare a few values, as in the first run: steps are few beside many stages."""
        return {name: few.many[name] for name, _ in self.few_values()}

    def rounds(self, scale: Scale) -> Rounds:
        """The loops in the first thread that runs."""
        launch = self.launch(scale)
        place = launch.first, launch.row, launch.after
        if place not in self._known_rounds:
            self._known_rounds[place] = Rounds(self._loop_code, partial(special_of, launch, 0))
        return self._known_rounds[place]

    def launch(self, scale: Scale) -> Launch:
        """The launch of a run."""
        subject, bounds = self._subject, self._subject.bounds
        base = Launch(
            subject.machine.target,
            bounds.threads,
            bounds.cluster,
            bounds.cluster,
            self._program.shared,
            subject.registers,
            places=self._program.places,
            bounds=bounds,
            function=subject.machine,
        )
        return scale.launch(base)

    def run(
        self,
        scale: Scale,
        scalars: Mapping[str, int],
        given: Mapping[str, int] | None = None,
        policy: Policy = USUAL,
    ) -> tuple[list[Diagnostic], Machine]:
        """A run with parameters as `scalars`, or smaller ones that the kernel's arrays admit."""
        sources = partial(self._chosen_of, frozenset(given or ()))
        launch = replace(self.launch(scale), promised=self._promised(given or {}), sources=sources)
        less = dict(scalars)
        while True:
            try:
                found, machine = run(self._program, launch, self._make, less, policy)
            except Exceeded as error:
                smaller = halved(self.rounds(scale), self._subject.scalars, less, error.names)
                if smaller is None:
                    launch = replace(launch, promised=lambda _instr, _operand: frozenset())
                else:
                    less = smaller
                continue
            self.spent += machine.steps
            self.went.append(Run(scale, less, machine.ways, of_end(machine)))
            self.reached |= machine.reached
            if not found and machine.has_ended:
                self.fills.note(machine.protocols.unread())
            if found and machine.is_of_memory:
                other_found, other = self._of_multiples(launch, less, machine, replace(policy, whole=True))
                found = found if other_found or other.is_over_budget else []
            if not found and scale is MAIN and (more := self._of_memory(launch, less, machine)):
                return more, machine
            again = partial(run, self._program, make=self._make, scalars=less, policy=policy)
            found = told_where_it_is(found, machine.protocols, launch, again)
            return [with_data(one, machine.choices.of_memory()) for one in found], machine

    def _of_memory(self, launch: Launch, scalars: Mapping[str, int], machine: Machine) -> list[Diagnostic]:
        """What shows with other numbers of memory than those of `machine`, where these decide how rings are used."""
        found: list[Diagnostic] = []
        if machine.leaves_rings or machine.asks_for_sizes:
            found = self._come_round(launch, scalars, machine)
        if found or machine.choices.of_places < _SEVERAL or self._has_mixed or not any(self._program.buffers()):
            return found
        self._has_mixed = True
        try:
            found, other = self._of_multiples(launch, scalars, machine, Policy(mixed=True))
        except Exceeded:
            return []
        self.reached |= other.reached
        if other.is_over_budget or other.choices.is_of_lists:
            return []
        found = [] if not OF_PLACES.isdisjoint(one.rule_id for one in found) else found
        return [with_data(one, other.choices.of_memory()) for one in found]

    def _come_round(self, launch: Launch, scalars: Mapping[str, int], machine: Machine) -> list[Diagnostic]:
        """What shows in rings of loops that numbers of memory end, where these make more rounds than in `machine`.

        It shows with the least and with the greatest numbers for so many rounds: the kernel may be for multiples. Those
        that say how many bytes are copied are the greatest, and multiples themselves. None of it where an index leaves
        its memory: it may be for smaller ones. Nor where it takes too long.
        """
        if machine.steps > MOST_STEPS or not self._again:
            return []
        self._again -= 1
        for above in (True,) if machine.asks_for_sizes else (True, False):
            policy = Policy(whole=True, above=above)
            try:
                found, other = self._of_multiples(launch, scalars, machine, policy)
            except Exceeded:
                return []
            self.reached |= other.reached
            if not found or other.is_over_budget or not OF_PLACES.isdisjoint(one.rule_id for one in found):
                return []
        return [with_data(one, other.choices.of_memory()) for one in found]

    def _of_multiples(
        self, launch: Launch, scalars: Mapping[str, int], machine: Machine, policy: Policy
    ) -> tuple[list[Diagnostic], Machine]:
        """A run with other numbers of memory: multiples of what the kernel divides them by, in `machine` and there.

        What it finds must show, too, where such a number is less than the parameters that it may not exceed, and where
        lists end once: a role may leave one where another skips what is left.
        """
        units = machine.choices.loop_ends.divisors()
        while True:
            found, other = run(self._program, launch, self._make, scalars, replace(policy, multiples=units))
            seen = together(units, other.choices.loop_ends.divisors()) if found else units
            if seen == units:
                break
            units = seen
        policy = replace(policy, multiples=units)
        short = replace(policy, padded=True, whole=False, first_way=True)
        several = [*([policy] if policy.whole else []), *([short] if other.choices.is_of_lists else [])]
        return found if found and all(self._is_of_longer(launch, scalars, one) for one in several) else [], other

    def _is_of_longer(self, launch: Launch, scalars: Mapping[str, int], policy: Policy) -> bool:
        """Whether a run finds something where loops that parameters end make more rounds than those of memory."""
        changed = self.rounds(LARGER).parameters.difference(name for name, _ in self.few_values())
        kept = {name: number for name, number in scalars.items() if name not in changed}
        for values in (self.choose(LARGER, given=kept)[1], scalars):
            if values is not None:
                try:
                    found, machine = run(self._program, launch, self._make, values, policy)
                    return bool(found) or machine.is_over_budget
                except Exceeded:
                    continue
        return True

    def _chosen_of(self, given: frozenset[str], instr: MachineInstr, operand: str, index: int) -> frozenset[str]:
        """The parameters that a register is computed from, but for those that the author gave."""
        return self._sources.of(instr, operand, index) - given

    def _promised(self, given: Mapping[str, int]) -> Callable[[MachineInstr, str], frozenset[str]]:
        """The parameters that decide how far an index goes, but for those that the author gave, and for one that
        decides it alone and declares how large it may be.

        None where some of them make the laps of a ring too, so that they are larger than it is.
        """

        known: dict[tuple[int, str], frozenset[str]] = {}

        def promised(instr: MachineInstr, operand: str) -> frozenset[str]:
            found = known.get((id(instr), operand))
            if found is None:
                found = known[id(instr), operand] = deciding(instr, operand)
            return found

        def deciding(instr: MachineInstr, operand: str) -> frozenset[str]:
            names = self._promises.of(instr, operand).difference(given)
            if len(names) == 1 and has_ends(self._subject.scalars[next(iter(names))]):
                return frozenset()
            laps = self._laps.of(instr, operand, lambda: self.rounds(MAIN).used)
            return names if names.isdisjoint(laps) else frozenset()

        return promised
