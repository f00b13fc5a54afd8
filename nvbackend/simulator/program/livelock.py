"""Threads that jump back without an end: how that is known for certain, and its report.

It is known where every thread that can run comes back to the same place with the same registers, no store or atomic has
changed a value in between, nothing in flight has completed, and nobody has executed more than computation, accesses to
memory and exchanges within a warp. Each of these threads then does the same again, in whatever order they run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from nvbackend.diagnostics import Location
from nvbackend.simulator.events import Access, Bits, By, Pending, Site, Sync, Threads
from nvbackend.simulator.machine.wave import Cause, Wave
from nvbackend.simulator.memory import windows
from nvbackend.simulator.program.blocks import Code
from nvbackend.simulator.rules import LIMIT, LIVELOCK

Groups = list[tuple[int, Threads]]
"""Threads at each place, sorted."""
_STATEFUL = re.compile(
    r"(mbarrier\.(?!test_wait|try_wait)|bar\.(?!warp)|barrier|cp\.|discard|red\.async|st\.async|st\.bulk|wgmma|tcgen05|setmaxnreg|alloca|stack"
    r"|griddepcontrol|clusterlaunchcontrol|call|exit|ret(?!\.)|multimem|tensormap|enter)"
)
"""Opcodes that may leave something in the machine beside registers and memory."""
_CLOCK = re.compile(r"%clock|%globaltimer")
_MOST_SHOWN = 4


class Rounds:
    """Compares the rounds of a wave whose threads have all jumped back often. Distances between the rounds that are
    compared double, so that a loop over any number of states is recognised."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._number = 0
        self._kept: tuple[int, Groups, list[Bits]] | None = None
        self._until = 1
        self._quiet: tuple[int, int, dict[int, int]] | None = None
        """Of the round that is kept: the changes of memory, counted exactly from there, completions, and blocks run."""

    def repeats(self, groups: Groups, completed: int, runs: dict[int, int], codes: Sequence[Code]) -> bool:
        """Whether it is certain that these threads do the same without an end."""
        self._number += 1
        memory = self._wave.memory
        if self._kept is not None and self._same(groups):
            if self._quiet is not None:
                changes, before, already = self._quiet
                run = [code for code in codes if runs.get(code.start, 0) != already.get(code.start, 0)]
                if changes == memory.changes and before == completed and not any(_is_stateful(code) for code in run):
                    return True
            memory.counts_changes_only = True
            self._keep(groups, (memory.changes, completed, dict(runs)))
        elif self._kept is None or self._number >= self._until:
            memory.counts_changes_only = False
            self._keep(groups, None)
        return False

    def _keep(self, groups: Groups, quiet: tuple[int, int, dict[int, int]] | None) -> None:
        last = self._kept[0] if self._kept is not None else 0
        self._until = self._number + 2 * (self._number - last)
        self._kept = (self._number, groups, list(self._wave.registers))
        self._quiet = quiet

    def _same(self, groups: Groups) -> bool:
        assert self._kept is not None
        _, kept, registers = self._kept
        if [place for place, _ in kept] != [place for place, _ in groups]:
            return False
        if not all(np.array_equal(before, now) for (_, before), (_, now) in zip(kept, groups, strict=True)):
            return False
        threads = np.concatenate([part for _, part in groups])
        pairs = zip(registers, self._wave.registers, strict=True)
        return all(before is now or np.array_equal(before[threads], now[threads]) for before, now in pairs)


def _is_stateful(code: Code) -> bool:
    opcodes = (*code.opcodes, code.end_opcode)
    return any(_STATEFUL.match(one) for one in opcodes) or any(_CLOCK.search(site.text) for site in code.sites)


class Reads:
    """What threads read while it watches; observes a wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self.seen: dict[tuple[int, str], tuple[Site, str]] = {}
        """By the instruction and the address: where, and what messages call it."""

    def access(self, access: Access) -> None:
        """Keeps reads and atomics of memory that several threads see."""
        if access.kind != "write" and access.space not in ("local", "const", "param") and len(access.addresses):
            name = self._name(access.space, int(access.addresses[0]), access.size)
            self.seen.setdefault((access.by.site.line, name), (access.by.site, name))

    def _name(self, space: str, address: int, size: int) -> str:
        if space.startswith("shared"):
            return f"{size} bytes at {self._wave.shared_name(address)}"
        found = self._wave.memory.allocation(address) if address >= windows.WIDE_GAP or space == "global" else None
        inside = (
            f"{found.name}+{address - found.base}, " if found is not None and found.base <= address < found.end else ""
        )
        return f"{size} bytes at {inside}{space} address {address:#x}"

    def release(self, sync: Sync) -> None:
        """Nothing to note, as for the other events."""

    def acquire(self, sync: Sync) -> None:
        """Nothing."""

    def fence(self, by: By, kind: str) -> None:
        """Nothing."""

    def issued(self, operation: Pending) -> None:
        """Nothing."""

    def completed(self, operation: Pending) -> None:
        """Nothing."""

    def waited(self, by: By, what: str) -> None:
        """Nothing."""

    def exited(self, by: By) -> None:
        """Nothing."""


def fail(
    wave: Wave, groups: Groups, waits: Sequence[tuple[Site, Cause]], site_of: Callable[[int], Site], reads: Reads
) -> NoReturn:
    """Raise simulator.livelock. `waits` are threads that wait meanwhile, `reads` what was read in one more round."""
    loops = "; ".join(f"{wave.threads_name(part)} from PTX line {site_of(place).line}" for place, part in groups)
    seen = [*reads.seen.values()]
    shown = ", ".join(dict.fromkeys(f"{name} (PTX {_text(site)})" for site, name in seen[:_MOST_SHOWN]))
    more = f" and {len(seen) - _MOST_SHOWN} more" if len(seen) > _MOST_SHOWN else ""
    first, *others = [*(site for site, _ in seen), *(site_of(place) for place, _ in groups)]
    notes: dict[tuple[str, Location | None], None] = {
        (f"PTX {_text(site)}", site.location): None for site in others if site.location != first.location
    }
    for site, cause in waits:
        notes[f"{wave.threads_name(cause.threads)}: {cause.text} (PTX {_text(site)})", site.location] = None
    x, y, z = wave.launch.clusters
    if later := (x * y * z - wave.clusters.stop) * wave.cluster_size:
        notes[f"{later} CTAs of the grid have not begun; {wave.cta_count} run together here", None] = None
    LIVELOCK.fail(
        at=first.location,
        notes=tuple(notes),
        kernel=wave.launch.kernel,
        loops=loops,
        reads=f"they read {shown}{more}, and nothing writes another value there" if shown else "they read no memory",
    )


def exceeded(wave: Wave, places: Sequence[tuple[Site, Cause]]) -> NoReturn:
    """Raise simulator.limit. `places` are those of all threads, and why they are there."""
    where = "; ".join(f"{wave.threads_name(cause.threads)}: {cause.text} (PTX {_text(site)})" for site, cause in places)
    first, *others = [site for site, _ in places]
    LIMIT.fail(
        at=first.location,
        notes=tuple(
            {(f"PTX {_text(site)}", site.location): None for site in others if site.location != first.location}
        ),
        kernel=wave.launch.kernel,
        limit=wave.launch.limit,
        where=where,
    )


def _text(site: Site) -> str:
    return str(site).rstrip(";")
