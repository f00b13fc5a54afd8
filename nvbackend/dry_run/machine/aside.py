"""Which thread follows a branch about which nothing is known, where no other waits for what it does there."""

from __future__ import annotations

from nvbackend.dry_run.machine.choices import Guessed
from nvbackend.dry_run.machine.fiber import Fiber, Meeting, Warp
from nvbackend.dry_run.program.code import Program


class Aside:
    """Each thread alone may go either way. So one of the launch goes the one way or the other, and the rest neither.

    What it accesses is judged against what all do; that two do so at once is not assumed.
    """

    def __init__(self, program: Program, first: bool) -> None:
        self._program = program
        self._first = first
        self._known: dict[int, bool] = {}
        self._thread: tuple[Warp, int] | None = None

    def ways(self, fiber: Fiber) -> list[tuple[Fiber, int]]:
        """The parts of `fiber`, and where each goes. Raises Guessed where others may wait for them."""
        number = fiber.block
        code = self._program.blocks[number]
        if number not in self._known:
            from nvbackend.dry_run.program.asides import is_aside

            self._known[number] = is_aside(self._program, number)
        if code.meeting is None or not self._known[number]:
            raise Guessed
        if self._thread is None:
            self._thread = fiber.warp, fiber.mask & -fiber.mask
        warp, lane = self._thread
        taken = lane & fiber.mask if warp is fiber.warp else 0
        end = Meeting(code.meeting, fiber.mask, fiber.registers)
        parts = []
        for mask, target in ((taken, code.targets[0 if self._first else 1]), (fiber.mask & ~taken, code.meeting)):
            if mask:
                other = fiber.split(mask, number, (*fiber.meetings, end))
                if mask == taken and other.aside is None:
                    other.aside = end
                parts.append((other, target))
        return parts
