"""Threads that jump back without an end: how that is known for certain, and its report.

It is known where every thread that can run comes back to the same place with the same in the registers that decide
where it goes and what it accesses, nothing has written what it reads into them, nothing in flight has completed, and
nobody has executed more than computation, accesses to memory and exchanges within a warp. Each of these threads then
does the same again, in whatever order they run, whatever else it counts or stores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.checks.watching import Watching
from nvbackend.simulator.events import Access, Bits, Site, Threads
from nvbackend.simulator.machine.deciding import Deciding, Decisive
from nvbackend.simulator.machine.wave import Cause, Wave
from nvbackend.simulator.memory import windows
from nvbackend.simulator.program.blocks import Code
from nvbackend.simulator.rules import LIMIT, LIVELOCK

Groups = list[tuple[int, Threads]]
"""Threads at each place, sorted."""
_Part = tuple[Site, bytes, bytes]
"""An instruction, the addresses that it accesses, and whose memory it is."""
_OWNER_SHIFT = 48
"""Addresses are less than this power of two."""
_STATEFUL = re.compile(
    r"(mbarrier\.(?!test_wait|try_wait)|bar\.(?!warp)|barrier|cp\.|discard|red\.async|st\.async|st\.bulk|wgmma|tcgen05|setmaxnreg|alloca|stack"
    r"|griddepcontrol|clusterlaunchcontrol|call|exit|ret(?!\.)|multimem|tensormap|enter)"
)
"""Opcodes that may leave something in the machine beside registers and memory."""
_STORE = re.compile(r"(?:st|red|atom)\b(?:.*?\.(shared|global)\b)?")
_CLOCK = re.compile(r"%clock|%globaltimer")
_MOST_SHOWN = 4


@dataclass(frozen=True, slots=True)
class _Kept:
    """A round that later ones are compared with; `touched` is what memory was accessed from there on, if that is known,
    `completed` how much in flight has completed before it, and `runs` the blocks that have run."""

    number: int
    groups: Groups
    registers: list[Bits]
    completed: int
    runs: dict[int, int]
    touched: Touched | None = None


class Touched(Watching):
    """The memory that is read and written; observes a wave."""

    def __init__(self) -> None:
        self._reads: dict[_Part, Access] = {}
        self._writes: dict[_Part, Access] = {}
        self._changes: dict[_Part, Access] = {}

    def access(self, access: Access) -> None:
        """Keeps an access, once however often it is repeated."""
        owners = b"" if access.owners is None else access.owners.tobytes()
        part = access.by.site, access.addresses.tobytes(), owners
        if access.kind != "write":
            self._reads.setdefault(part, access)
        if access.kind == "read":
            return
        self._writes.setdefault(part, access)
        changed = access.changed if access.kind == "write" else None if access.kept is None else ~access.kept
        if changed is None or changed.any():
            self._changes.setdefault(part, access)

    def disjoint(self, reads: Collection[Site], *, changed_only: bool) -> bool:
        """Whether nothing is written, or changed, that one of the instructions `reads` reads."""
        written = _bytes((self._changes if changed_only else self._writes).values())
        read = _bytes(access for access in self._reads.values() if access.by.site in reads)
        return all(not len(np.intersect1d(read[space], written[space])) for space in read.keys() & written.keys())


def _bytes(accesses: Iterable[Access]) -> dict[str, NDArray[np.uint64]]:
    """The bytes of accesses by their space, each a number of its own."""
    found: dict[str, list[NDArray[np.uint64]]] = {}
    for access in accesses:
        owners = np.zeros(1, np.uint64) if access.owners is None else access.owners.astype(np.uint64)
        first = access.addresses.astype(np.uint64) + (owners << np.uint64(_OWNER_SHIFT))
        every = first[:, None] + np.arange(access.size, dtype=np.uint64)
        found.setdefault(access.space, []).append(every.reshape(-1))
    return {space: np.unique(np.concatenate(parts)) for space, parts in found.items()}


class Rounds:
    """Compares the rounds of a wave whose threads have all jumped back often. Distances between the rounds that are
    compared double, so that a loop over any number of states is recognised."""

    def __init__(self, wave: Wave, decides: Callable[[], Deciding]) -> None:
        self._wave = wave
        self._decides = decides
        self._number = 0
        self._kept: _Kept | None = None
        self._until = 1

    def repeats(self, groups: Groups, completed: int, runs: dict[int, int], codes: Sequence[Code]) -> bool:
        """Whether it is certain that these threads do the same without an end."""
        self._number += 1
        kept, decides = self._kept, self._decides()
        if kept is not None and self._same(kept, groups, decides.going):
            if kept.touched is not None and kept.completed == completed:
                run = [code for code in codes if runs.get(code.start, 0) != kept.runs.get(code.start, 0)]
                if not any(_is_stateful(code) for code in run) and self._does_the_same(kept, groups, decides):
                    return True
            self._keep(_Kept(self._number, groups, list(self._wave.registers), completed, dict(runs), Touched()))
        elif kept is None or self._number >= self._until:
            self._keep(_Kept(self._number, groups, list(self._wave.registers), completed, {}))
        return False

    def _does_the_same(self, kept: _Kept, groups: Groups, decides: Deciding) -> bool:
        """Whether the next round reads what this one has read.

        It does where no round writes what decides. Where what is stored is always the same, writes that leave the value
        that was there do no harm.
        """
        assert kept.touched is not None
        if kept.touched.disjoint(decides.going.reads, changed_only=False):
            return True
        is_same = self._same(kept, groups, decides.storing)
        return is_same and kept.touched.disjoint(decides.storing.reads, changed_only=True)

    def _keep(self, now: _Kept) -> None:
        before = self._kept
        if before is not None and before.touched is not None:
            self._wave.observers.remove(before.touched)
        if now.touched is not None:
            self._wave.observers.append(now.touched)
        self._until = self._number + 2 * (self._number - (before.number if before is not None else 0))
        self._kept = now

    def _same(self, kept: _Kept, groups: Groups, decisive: Decisive) -> bool:
        """Whether threads are where they were, with the same in the registers that decide."""
        if [place for place, _ in kept.groups] != [place for place, _ in groups]:
            return False
        if not all(np.array_equal(before, now) for (_, before), (_, now) in zip(kept.groups, groups, strict=True)):
            return False
        threads = np.concatenate([part for _, part in groups])
        pairs = ((kept.registers[slot], self._wave.registers[slot]) for slot in decisive.slots)
        return all(before is now or np.array_equal(before[threads], now[threads]) for before, now in pairs)


def _is_stateful(code: Code) -> bool:
    opcodes = (*code.opcodes, code.end_opcode)
    return any(_STATEFUL.match(one) for one in opcodes) or any(_CLOCK.search(site.text) for site in code.sites)


class Reads(Watching):
    """What threads read, by the instructions that decide, while it watches; observes a wave."""

    def __init__(self, wave: Wave, sites: Collection[Site]) -> None:
        self._wave = wave
        self._sites = sites
        self.seen: dict[tuple[int, str], tuple[Site, str]] = {}
        """By the instruction and the address: where, and what messages call it."""
        self.spaces: set[str] = set()

    def access(self, access: Access) -> None:
        """Keeps reads and atomics of memory that several threads see."""
        if access.by.site not in self._sites:
            return
        if access.kind != "write" and access.space not in ("local", "const", "param") and len(access.addresses):
            name = self._name(access.space, int(access.addresses[0]), access.size)
            self.seen.setdefault((access.by.site.line, name), (access.by.site, name))
            self.spaces.add(access.space)

    def _name(self, space: str, address: int, size: int) -> str:
        if space.startswith("shared"):
            return f"{size} bytes at {self._wave.shared_name(address)}"
        found = self._wave.memory.allocation(address) if address >= windows.WIDE_GAP or space == "global" else None
        inside = (
            f"{found.name}+{address - found.base}, " if found is not None and found.base <= address < found.end else ""
        )
        return f"{size} bytes at {inside}{space} address {address:#x}"


def writers(codes: Sequence[Code], runs: Mapping[int, int], reads: Reads) -> list[tuple[Site, str]]:
    """The instructions that could write what is read, as far as their spelling says; those that no thread has come to
    first."""
    read_there = {site for site, _ in reads.seen.values()}
    found = [
        (site, bool(runs.get(code.start)))
        for code in codes
        for opcode, site in zip(code.opcodes, code.sites, strict=True)
        if (match := _STORE.match(opcode)) and site not in read_there and (match.group(1) or "global") in reads.spaces
    ]
    words = {False: "this writes such memory, and no thread has come to it", True: "this writes such memory"}
    return [(site, words[has_run]) for site, has_run in sorted(found, key=lambda one: one[1])[:_MOST_SHOWN]]


def fail(
    wave: Wave,
    groups: Groups,
    waits: Sequence[tuple[Site, Cause]],
    site_of: Callable[[int], Site],
    reads: Reads,
    stores: Sequence[tuple[Site, str]],
) -> NoReturn:
    """Raise simulator.livelock. `waits` are threads that wait meanwhile, `reads` what was read in one more round, and
    `stores` the instructions that could write it."""
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
    for site, text in stores:
        notes[f"{text}: PTX {_text(site)}", site.location] = None
    if later := (wave.not_started.end - wave.not_started.first) * wave.cluster_size:
        notes[f"{later} CTAs of the grid have not begun; {wave.cta_count} run together here", None] = None
    LIVELOCK.fail(
        at=first.location,
        notes=tuple(notes),
        kernel=wave.launch.kernel,
        loops=loops,
        reads=f"they read {shown}{more}, and nothing writes another value there"
        if shown
        else "nothing that they read decides when it ends",
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
