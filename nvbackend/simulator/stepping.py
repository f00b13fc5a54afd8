"""A launch that is run instruction by instruction, to look into its registers, memory and barriers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nvbackend.diagnostics import Uncopied, user_facing
from nvbackend.simulator.events import Site, Threads
from nvbackend.simulator.execution import Execution
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.memory import windows
from nvbackend.simulator.program.single import SingleSteps
from nvbackend.simulator.report.report import Report
from nvbackend.simulator.rules import STEP
from nvbackend.simulator.sync.barriers import Barriers
from nvbackend.simulator.sync.mbarriers import Mbarriers


@user_facing
class SteppedLaunch(Uncopied):
    """A launch that is run step by step: `SimulatedModule.start` makes it.

    `step()` and `run_until()` go on, `finish()` runs the rest. `str` of it says where it is, and who waits for what.
    CTAs and warps are counted in the wave that runs: CTA 0 is the first of its first cluster.
    """

    _uncopied_for = "is a launch that is running"
    _uncopied_advice = "start the kernel again, by SimulatedModule.start"

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._waves = execution.waves()
        self._scheduler: SingleSteps | None = None
        self._next()

    def __repr__(self) -> str:
        return f"<launch of {self._execution.launch.kernel}, {'ended' if self.has_ended else f'at {self.site}'}>"

    def __str__(self) -> str:
        if self._scheduler is None:
            return f"{self._execution.launch.kernel} has ended"
        place = f"{self._wave.threads_name(self.threads)} at {self.site.location}, PTX {self.site}"
        return "\n".join([place, *(f"waits: {one}" for one in self.waits())])

    @property
    def has_ended(self) -> bool:
        """Whether every thread has ended."""
        return self._scheduler is None

    @property
    def site(self) -> Site:
        """The instruction that comes next. Raises simulator.step after the end."""
        return self._running().site

    @property
    def threads(self) -> Threads:
        """The threads that execute it, counted through the wave: CTA times the threads of its warps, plus thread."""
        return self._running().threads

    def step(self, count: int = 1) -> bool:
        """Execute that many instructions, each for the threads that are at it; False if the launch has ended.

        Raises what the launch raises, and simulator.step after the end.
        """
        if count < 0:
            from nvbackend.diagnostics.arguments import ARGUMENT

            ARGUMENT.fail(call="SteppedLaunch.step", problem=f"count={count} leads back", advice="give 0 steps or more")
        for _ in range(count):
            scheduler = self._running()
            with self._execution.guarded():
                scheduler.step()
                is_over = not scheduler.go_on()
            if is_over:
                self._execution.end(scheduler)
                self._next()
        return not self.has_ended

    def run_until(self, *, line: int | None = None, ptx_line: int | None = None, cta: int | None = None) -> bool:
        """Step until threads (of a CTA) are before an instruction of that line of the program, or of the PTX.

        At least one instruction is executed. False when the launch has ended before. Raises as `step`.
        """
        if not all(one is None or isinstance(one, (int, np.integer)) for one in (line, ptx_line, cta)):
            raise TypeError("the boundary says which")  # nothing is equal to it, so the launch would run to its end
        if cta is not None:
            self._check("CTA", cta, self._wave.cta_count)
        while self.step():
            site = self.site
            here = (line is None or site.location.line == line) and (ptx_line is None or site.line == ptx_line)
            if here and (cta is None or (self._wave.cta(self.threads) == cta).any()):
                return True
        return False

    def finish(self) -> Report:
        """Run the rest; returns what the launch did, with counts of instructions only. Raises what it raises."""
        while not self.has_ended:
            self.step()
        return self._execution.report

    def registers(self, warp: int = 0, *, cta: int = 0) -> dict[str, NDArray[Any]]:
        """The registers of a warp by their names in the PTX, as bits: an element a lane, bool for predicates.

        Of a name that several functions declare, the later ones are `name@line`.
        """
        self._check("CTA", cta, self._wave.cta_count)
        self._check("warp", warp, self._wave.cta_threads // WARP)
        first = cta * self._wave.cta_threads + warp * WARP
        registers = self._wave.registers
        found: dict[str, NDArray[Any]] = {}
        for (position, name), slot in self._execution.program.slots.names.items():
            key = name if name not in found else f"{name}@{position.line}"
            found[key] = registers[slot][first : first + WARP].copy()
        return found

    def shared(
        self, start: str | int, count: int | None = None, *, dtype: DTypeLike = "uint8", cta: int = 0
    ) -> NDArray[Any]:
        """A copy of a CTA's shared memory as elements of a type: a variable by its name, or from an address on.

        The builder writes `kernel__tile` for what is named `tile`: both names do.
        `count` elements; None is the whole variable, from an address on all that there is.
        """
        self._check("CTA", cta, self._wave.cta_count)
        memory = self._wave.memory.shared
        offset, end = (start, memory.shape.size) if isinstance(start, int) else self._variable(start)
        item = np.dtype(dtype).itemsize
        last = end if count is None else offset + count * item
        if not windows.SHARED_START <= offset <= last <= memory.shape.size or (last - offset) % item:
            extent = f"{memory.shape.size - windows.SHARED_START} bytes from {windows.SHARED_START:#x} on"
            self._refuse(f"shared memory has {extent}, not {last - offset} from {offset:#x} on")
        base = cta * memory.stride
        return memory.store.data[base + offset : base + last].copy().view(dtype)

    def _variable(self, name: str) -> tuple[int, int]:
        """The offsets of its first byte and of the one after its last."""
        for one in self._wave.variables:
            if name in (one.name, one.name.removeprefix(f"{self._execution.launch.kernel}__")):
                return one.offset, one.offset + one.size if one.size else self._wave.memory.shared.shape.size
        names = ", ".join(one.name for one in self._wave.variables)
        return self._refuse(f"no variable {name} in shared memory, {f'only {names}' if names else 'and no other'}")

    def _check(self, kind: str, number: int, count: int) -> None:
        """Raises simulator.step for a CTA or a warp that does not run now."""
        if not 0 <= number < count:
            self._refuse(f"there is no {kind} {number}, only {f'0 to {count - 1}' if count > 1 else f'{kind} 0'}")

    def _refuse(self, problem: str) -> NoReturn:
        STEP.fail(kernel=self._execution.launch.kernel, problem=problem)

    def barriers(self, *, cta: int = 0) -> list[str]:
        """The state of each mbarrier and named barrier of a CTA."""
        wave = self._wave
        self._check("CTA", cta, wave.cta_count)
        mbarriers, named = wave.made(Mbarriers), wave.made(Barriers)
        found = [f"{wave.shared_name(place[1])}: {one}" for place, one in mbarriers or () if place[0] == cta]
        return found + [named.text(key) for key in named or () if key[0] == cta and named is not None]

    def waits(self) -> list[str]:
        """Which threads wait, where, and for what."""
        return list(self._described())

    def _described(self) -> Iterator[str]:
        for site, cause in self._running().causes():
            yield f"{self._wave.threads_name(cause.threads)}: {cause.text} ({site.location}, PTX {site})"

    @property
    def _wave(self) -> Wave:
        self._running()
        assert self._execution.wave is not None
        return self._execution.wave

    def _running(self) -> SingleSteps:
        if self._scheduler is None:
            self._refuse("it has ended")
        return self._scheduler

    def _next(self) -> None:
        """The next wave, if there is one."""
        wave = next(self._waves, None)
        self._scheduler = None
        if wave is not None:
            self._scheduler = SingleSteps(self._execution.program, wave)
            self._scheduler.begin()
