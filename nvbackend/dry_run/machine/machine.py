"""Runs all warps of the launch until they end, or none can go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, TypeAlias

from nvbackend.dry_run.machine.aside import Aside
from nvbackend.dry_run.machine.choices import Choices, Guessed, Policy
from nvbackend.dry_run.machine.fiber import Fiber, Meeting, Warp
from nvbackend.dry_run.machine.memory import SharedNumbers
from nvbackend.dry_run.machine.operands import OF_PHASES, common, give, operand_of
from nvbackend.dry_run.machine.taking import Taking
from nvbackend.dry_run.machine.writes import Writes
from nvbackend.dry_run.program.code import SELF, CodeBlock, Part, Program, Recorded
from nvbackend.dry_run.seam import (
    BLOCKED,
    RANK_SHIFT,
    Launch,
    Protocols,
    Step,
)
from nvbackend.dry_run.values.lanes import ALL, among, bits
from nvbackend.dry_run.values.unknown import UNKNOWN, Expression, Unknown, leaf
from nvbackend.dry_run.when import When

_WARPS = 4
"""Warps of a warpgroup."""
UNKNOWN_ROUNDS = 2
"""Rounds of a loop whose end depends on data alone; of one that uses a ring and counts by no number of global memory,
how often it comes round in that."""
WHOLE_ROUNDS = 24
"""Rounds where that is a number of global memory, in a run with one that many others divide."""
RECORDED = 10
"""What a recorded instruction costs, in LLVM instructions."""
OWN = 4
"""What an instruction costs that the machine executes itself, such as a shuffle."""
MOST_ROUNDS = 32
"""A loop whose end depends on data is left after this many rounds, whatever its condition."""
SETTLED_ROUNDS = MOST_ROUNDS // 2
"""Rounds there where a number keeps what the first choice makes of it: other loops may make twice as many."""


Ways: TypeAlias = set[tuple[int, bool]]
"""Conditions of branches and guards that held, or did not, in some lane, by their registers."""


class OverBudget(Exception):
    """The run takes more steps than it may."""


class Machine:
    """One run of `program` with `scalars`, judged by `protocols`; it may take `steps`, in LLVM instructions."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        protocols: Protocols,
        scalars: Mapping[str, int],
        steps: int,
        policy: Policy,
    ) -> None:
        self._policy = policy
        self._rounds_of_memory = WHOLE_ROUNDS if policy.whole else UNKNOWN_ROUNDS
        self.asks_for_sizes = False
        """Whether numbers of memory say how many bytes are copied, or which phase of which mbarrier is meant."""
        self._buffers = program.buffers()
        self.is_of_memory = False
        """Whether numbers of global memory decided how many rounds a loop makes."""
        self.leaves_rings = False
        """Whether such a number ended a loop before it came round in its ring."""
        self.is_cut_short = False
        """Whether other choices made a loop end before it came round in its ring."""
        self._program = program
        self._launch = launch
        self._protocols = self.protocols = protocols
        self._left = steps
        self._table: dict[Hashable, Expression] = {}
        self._numbers = SharedNumbers(launch.cluster, self._table)
        self.taking = Taking(launch, self._numbers)
        self._writes = Writes(self._numbers, self.taking)
        self._scalars = scalars
        self._ready: deque[Fiber] = deque()
        self._blocked: list[tuple[Fiber, ...]] = []
        self._parked: list[tuple[Fiber, Meeting]] = []
        self._gathered: dict[tuple[int, int], list[Fiber]] = {}
        self.choices = Choices(policy)
        self._aside = Aside(program, policy.first_way)
        self.ways: Ways = set()
        self.reached: set[int] = {0}
        """The blocks that some lane executed."""
        self.last_rounds = When()
        """Where a run was that took too many steps."""
        self.parted = False
        """Whether lanes that wait for others of their warp continued without them, because nothing else could run."""
        self.steps = 0
        self.contradicted = False
        """Whether something did not hold that the kernel assumes."""
        self._guesses = False
        self.has_ended = False
        """Whether all warps came to the end of the kernel."""

    @property
    def is_over_budget(self) -> bool:
        """Whether the run ended, or will end, because it takes more steps than it may."""
        return self._left < 0

    # -- the whole ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end, or until nothing can go on.

        A warp that would have to guess stays where it is, as if it were very slow: what the others do is judged. Raises
        OverBudget, Guessed where a warp stayed, and fiber.Contradicted.
        """
        for cta in range(self._launch.ctas):
            self._start(cta)
        while self._ready or self._blocked or self._parked or self._waits_for_others():
            while self._ready:
                try:
                    self._run(self._ready.pop() if self._policy.latest_first else self._ready.popleft())
                except Guessed:
                    self._guesses = True
            if (self._blocked or self._parked or self._waits_for_others()) and not self._try_blocked():
                if self._guesses:
                    break
                self._protocols.deadlock([self._step(group, self._recorded(group[0])) for group in self._stuck()])
                return
        if self._guesses:
            raise Guessed
        self.has_ended = True

    def _start(self, cta: int) -> None:
        registers = list(self._program.registers)
        for slot in self._program.addresses:
            registers[slot] |= cta % self._launch.cluster << RANK_SHIFT
        for name, slot in self._program.scalars.items():
            registers[slot] = self._scalars[name] if name in self._scalars else self._parameter(name)
        for index in range(self._launch.warps):
            alive = self._launch.lanes(index)
            fiber = Fiber(Warp(cta, index, alive), alive, 0, list(registers), self._numbers, self.choices)
            fiber.registers[SELF] = fiber
            for slot, own in self._program.special.items():
                fiber.registers[slot] = own(fiber, self._launch, None, alive)["value"]
            self._ready.append(fiber)

    def _parameter(self, name: str) -> Expression:
        """A parameter without a number: a float, or an address."""
        kind = self._program.formats.get(name)
        return leaf(self._table, "parameter" if kind is None else f"number {kind}", name)

    def _try_blocked(self) -> bool:
        """Try every waiting warp again. Returns whether one of them could go on."""
        waiting, self._blocked = self._blocked, []
        went = False
        for group in waiting:
            try:
                if self._execute(group, self._recorded(group[0])):
                    went = True
                    self._pass(group)
                else:
                    self._blocked.append(group)
            except Guessed:
                self._guesses = True
        return went

    def _stuck(self) -> list[tuple[Fiber, ...]]:
        return [*self._blocked, *(tuple(group) for group in self._gathered.values() if group)]

    def _waits_for_others(self) -> bool:
        return any(self._gathered.values())

    # -- one fiber ----------------------------------------------------------------------------------------------------

    def _recorded(self, fiber: Fiber) -> Recorded:
        found = self._part(fiber).recorded
        assert found is not None
        return found

    def _part(self, fiber: Fiber) -> Part:
        return self._program.blocks[fiber.block].parts[fiber.part]

    def _run(self, fiber: Fiber) -> None:
        """Run one fiber until it blocks, ends, diverges or waits for its warpgroup."""
        blocks = self._program.blocks
        while True:
            code = blocks[fiber.block]
            registers = fiber.registers
            parts = code.parts
            while fiber.part < len(parts):
                part = parts[fiber.part]
                for operation in part.operations:
                    operation(registers)
                recorded = part.recorded
                if recorded is not None and not self._reach(fiber, recorded):
                    return
                fiber.part += 1
            self._left -= code.length
            if self._left < 0:
                self.last_rounds = self._rounds(fiber)
                raise OverBudget
            if not self._leave(fiber):
                return

    def _reach(self, fiber: Fiber, recorded: Recorded) -> bool:
        """Whether `fiber` has executed the instruction and goes on at once."""
        if recorded.own is not None:
            self._left -= OWN
            outputs = recorded.own(fiber, self._launch, partial(operand_of, fiber, recorded), fiber.mask)
            give(fiber, recorded, outputs)
            if recorded.meets:
                self._protocols.met(fiber.warp.cta, fiber.warp.index)
            return True
        if not recorded.together:
            if self._execute((fiber,), recorded):
                return True
            self._blocked.append((fiber,))
            return False
        key = (fiber.warp.cta, fiber.warp.index // _WARPS)
        group = self._gathered.setdefault(key, [])
        group.append(fiber)
        at = [one for one in group if one.block == fiber.block and one.part == fiber.part]
        if len(at) < _WARPS or len({one.warp.index for one in at}) < _WARPS:
            return False
        self._gathered[key] = [one for one in group if one not in at]
        together = tuple(sorted(at, key=lambda one: one.warp.index))
        if self._execute(together, recorded):
            self._pass(together)
        else:
            self._blocked.append(together)
        return False

    def _pass(self, group: tuple[Fiber, ...]) -> None:
        """Continue the fibers after the instruction that they have executed."""
        for one in group:
            one.part += 1
        self._ready.extend(group)

    def _execute(self, group: tuple[Fiber, ...], recorded: Recorded) -> bool:
        """Whether the instruction could be executed."""
        self.steps += 1
        self._left -= RECORDED
        step = self._step(group, recorded)
        if step is None:
            return True
        outcome = self._protocols.execute(step)
        if outcome is BLOCKED:
            return False
        if recorded.writes:
            self._writes.note(group[0], recorded, outcome)
        if recorded.outputs:
            given = outcome if isinstance(outcome, Mapping) else {}
            for fiber in group:
                give(fiber, recorded, given)
        return True

    def _step(self, group: tuple[Fiber, ...], recorded: Recorded) -> Any:
        """The step; None where the guard leaves no lane."""
        first = group[0]
        lanes = first.mask
        if recorded.guard is not None:
            guard = first.registers[recorded.guard]
            is_data = isinstance(guard, Unknown)
            if is_data:
                guard = self.choices.lanes(guard)
            lanes &= (ALL if guard else 0) if type(guard) is int else bits(guard)
            if not is_data:
                self.ways.add((recorded.guard, bool(lanes)))
            if not lanes:
                return None
        return Step(
            recorded.instr,
            first.warp.cta,
            (first.warp.index,) if len(group) == 1 else tuple(one.warp.index for one in group),
            lanes,
            partial(self._value, group, recorded, lanes),
            partial(self._rounds, first),
            recorded.facts,
            recorded.swaps,
            recorded.decides,
            recorded.changes,
            first.aside is not None,
        )

    def _value(
        self, group: tuple[Fiber, ...], recorded: Recorded, lanes: int, name: str, *of: int, **which: int
    ) -> Any:
        """An operand; what numbers of memory say of a phase is a number where the run makes many rounds of them."""
        value = common(group, recorded, lanes, name, *of, **which)
        if name not in OF_PHASES or not isinstance(value, Unknown):
            return value
        self.asks_for_sizes = True
        number = self.choices.number(value) if self._policy.whole else None
        return value if number is None else number

    # -- control flow -------------------------------------------------------------------------------------------------

    def _leave(self, fiber: Fiber) -> bool:
        """Go to the next block. Returns whether the fiber goes on."""
        code = self._program.blocks[fiber.block]
        if code.condition is None:
            if not code.targets:
                self._exit(fiber)
                return False
            return self._enter(fiber, code.targets[0])
        value = fiber.registers[code.condition]
        if type(value) is not int:
            value = among(value, fiber.mask)
        if code.cases is not None:
            return self._enter(fiber, self._case(code, value))
        yes, no = code.targets
        if type(value) is int:
            self.ways.add((code.condition, value != 0))
        elif isinstance(value, Unknown):
            try:
                value = among(self._decide(fiber, value, yes, no), fiber.mask)
            except Guessed:
                self._part_one(fiber)
                return False
        if type(value) is int:
            return self._enter(fiber, yes if value else no)
        self.ways |= {(code.condition, False), (code.condition, True)}
        taken = bits(value) & fiber.mask
        self._part_lanes(fiber, code.meeting, ((taken, yes), (fiber.mask & ~taken, no)))
        return False

    def _case(self, code: CodeBlock, value: Any) -> int:
        """The target of a switch, which all lanes take."""
        if type(value) is not int or code.cases is None:
            raise Guessed
        return code.cases.get(value, code.targets[0])

    def _part_lanes(self, fiber: Fiber, at: int | None, ways: tuple[tuple[int, int], ...]) -> None:
        meetings = fiber.meetings
        if at is not None and not (meetings and meetings[-1].at == at):
            meetings = (*meetings, Meeting(at, fiber.mask, fiber.registers))
        for mask, target in ways:
            other = fiber.split(mask, fiber.block, meetings)
            if self._enter(other, target):
                self._ready.append(other)
        fiber.registers[SELF] = None  # it is over, and goes with its last reference

    def _part_one(self, fiber: Fiber) -> None:
        """One thread goes one of two ways between which nothing is known, the others go neither. Raises Guessed."""
        ways = self._aside.ways(fiber)
        self._numbers.forget(UNKNOWN, None, fiber.warp.cta)
        self._protocols.left_out()
        for other, target in ways:
            if self._enter(other, target):
                self._ready.append(other)

    def _enter(self, fiber: Fiber, target: int) -> bool:
        """Whether the fiber goes on with the block `target`."""
        phis = self._program.blocks[target].phis
        if phis:
            moved = [(to, fiber.registers[source]) for to, source in phis.get(fiber.block, ())]
            for to, value in moved:
                fiber.registers[to] = value
        if self._program.around[target]:
            self._count(fiber, target)
        self.reached.add(target)
        fiber.block, fiber.part, fiber.when = target, 0, None
        return self._meet(fiber) if fiber.meetings else True

    def _count(self, fiber: Fiber, target: int) -> None:
        loop = self._program.around[target][-1]
        if self._program.loops[loop].header == target:
            again = fiber.block in self._program.loops[loop].blocks
            fiber.rounds[loop] = fiber.rounds.get(loop, 0) + 1 if again else 0

    def _meet(self, fiber: Fiber) -> bool:
        while fiber.meetings and fiber.meetings[-1].at == fiber.block:
            meeting = fiber.meetings[-1]
            meeting.there |= fiber.mask
            meeting.came.append((fiber.mask, fiber.registers))
            if meeting.there & fiber.warp.alive != meeting.expected & fiber.warp.alive:
                self._parked.append((fiber, meeting))
                return False
            self._parked = [one for one in self._parked if one[1] is not meeting]
            self._join(fiber, meeting)
        return True

    def _join(self, fiber: Fiber, meeting: Meeting) -> None:
        if fiber.aside is meeting:
            fiber.aside = None
        registers = meeting.merged(self._program.variables)
        for _, parted in meeting.came:
            parted[SELF] = None  # its fiber is over, but for this one
        fiber.registers = registers
        fiber.registers[SELF] = fiber
        fiber.mask = meeting.there & fiber.warp.alive
        fiber.meetings = fiber.meetings[:-1]

    def _exit(self, fiber: Fiber) -> None:
        warp = fiber.warp
        warp.alive &= ~fiber.mask
        fiber.registers[SELF] = None
        for meeting in reversed(fiber.meetings):
            waiting = [one for one, at in self._parked if at is meeting]
            if waiting and meeting.there & warp.alive == meeting.expected & warp.alive:
                self._parked = [one for one in self._parked if one[1] is not meeting]
                self._join(waiting[0], meeting)
                if self._meet(waiting[0]):
                    self._ready.append(waiting[0])
        if not warp.alive:
            self._protocols.ended(warp.cta, warp.index)

    # -- branches on data --------------------------------------------------------------------------------------------

    def _decide(self, fiber: Fiber, condition: Unknown, yes: int, no: int) -> Any:
        """Which way to branch, or which lanes branch: loops end after some rounds."""
        for loop in reversed(self._program.around[fiber.block]):
            inside = self._program.loops[loop].blocks
            if (yes in inside) != (no in inside):
                return int(self._again(fiber, condition, loop, yes in inside))
        return self.choices.lanes(condition)

    def _again(self, fiber: Fiber, condition: Unknown, loop: int, goes_on: bool) -> bool:
        """The value of a condition under which a loop continues, or ends where not `goes_on`."""
        rounds = fiber.rounds.get(loop, 0)
        of_memory = self.choices.is_of_memory(condition)
        self.is_of_memory |= of_memory
        wanted = self._rounds_of_memory if of_memory else UNKNOWN_ROUNDS * max(1, self._buffers[loop])
        if of_memory:
            self.choices.loop_ends.add(loop, condition)
            if self._policy.whole and not rounds:
                self.choices.settle_far(condition, goes_on, SETTLED_ROUNDS - 1)
        found = self.choices.holds(condition, goes_on == (rounds < wanted))
        self.is_cut_short |= found != goes_on and rounds < self._buffers[loop] and not of_memory
        self.leaves_rings |= found != goes_on and rounds <= self._buffers[loop] and of_memory
        if found == goes_on and rounds >= MOST_ROUNDS:
            raise Guessed
        return found

    def _rounds(self, fiber: Fiber) -> When:
        if fiber.when is None:
            around = self._program.around[fiber.block]
            loops = [self._program.loops[loop].counter for loop in around]
            numbers = tuple([fiber.rounds.get(loop, 0) for loop in around])
            fiber.when = When(tuple([one.name for one in loops]), numbers, loops)
        return fiber.when
