"""The WGMMA protocol's mistakes in words: groups numbered, the arithmetic of a wait, what to put where.

Groups are numbered by their wgmma.commit_group in the order of the text, from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.intrinsics.mma.wgmma import PENDING_GROUPS
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.machine.function import Access, RegisterBlock
from nvbackend.isel.machine.naming import MOST_NOTES
from nvbackend.isel.protocols.wgmma import rules
from nvbackend.isel.protocols.wgmma.state import (
    NOWHERE,
    PENDING,
    Shape,
    Trail,
    WgmmaFinding,
    blocks_with,
)
from nvbackend.isel.select.wgmma.rules import WAIT_RANGE

Notes = tuple[tuple[str, Location | None], ...]
_UNNAMED = "its registers"


class Wording:
    """Diagnostics of one function, whose instructions are `sites` in the order of the text."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self._sites = sites
        self._only_read: set[RegisterBlock] | None = None
        commits = [site.position for site in sites if site.instr.semantics.commits is Completion.MMA_GROUP]
        self._groups = {position: number for number, position in enumerate(commits, start=1)}
        self._tell: dict[str, Callable[[WgmmaFinding], Diagnostic]] = {
            rules.READ_IN_FLIGHT.id: self._access_in_flight,
            rules.WRITE_IN_FLIGHT.id: self._access_in_flight,
            rules.MISSING_FENCE.id: self._missing_fence,
            rules.SHAPE_CHANGE.id: self._shape_change,
            rules.NEEDLESS_FENCE.id: self._needless_fence,
            rules.MISSING_COMMIT.id: self._missing_commit,
            rules.WAIT_LEAVES_GROUP.id: self._wait_leaves_group,
            rules.MISSING_WAIT.id: self._missing_wait,
            WAIT_RANGE.id: self._wait_range,
        }

    def diagnostic(self, finding: WgmmaFinding) -> Diagnostic:
        """The finding in words, with its fix, and notes that point to the mma, the commit and the wait."""
        return self._tell[finding.rule.id](finding)

    def _access_in_flight(self, finding: WgmmaFinding) -> Diagnostic:
        trail = max(finding.trails)
        written, read = self._taken(finding)
        doing = "using" if written and read else "reading" if read else "writing"
        if finding.age == 0:
            reason = "no wgmma.commit_group has closed the group of that mma, so no wait covers it"
            fix = f"put k.wgmma.commit_group() after {self._mma(trail)}, and {_wait(0, written)} before this line"
        else:
            reason = self._left(trail, self._uses(finding, "wrote"))
            fix = f"put {_wait(finding.age - 1, written)} before this line"
            if trail.wait != NOWHERE:
                fix += (
                    f", or let the wait of {self._line(trail.wait)} leave {trail.age - 1} in flight: "
                    f"k.wgmma.wait_group({trail.age - 1}, ...), or in_flight={trail.age - 1} of k.wgmma.group"
                )
        return finding.rule.diagnose(
            at=self._location(finding, trail),
            notes=self._history(trail),
            registers=self._registers(finding),
            verb="is" if len(finding.blocks) == 1 else "are",
            mma=self._mma(trail),
            doing=f"{doing} {'it' if len(finding.blocks) == 1 else 'them'}",
            reason=reason,
            fix=fix,
        )

    def _missing_fence(self, finding: WgmmaFinding) -> Diagnostic:
        names = _names(finding.blocks)
        if finding.accesses:
            lines = ", ".join(dict.fromkeys(self._line(position) for position in sorted(finding.accesses)))
            reason = f"ordinary code accesses {names} at {lines}, and nothing orders that before the mma"
        else:
            reason = "it may be the first mma of the kernel, which needs one whatever was done before"
        return finding.rule.diagnose(
            at=finding.site.instr.location,
            notes=self._places(finding.accesses, self._accessed),
            registers=self._registers(finding),
            reason=reason,
            fix=self._fenced(finding, names),
        )

    def _fenced(self, finding: WgmmaFinding, names: str) -> str:
        """Where the fence belongs: in the middle of a line that makes the registers and multiplies them."""
        here = finding.site.instr.location
        if here is not None and any(self._sites[access].instr.location == here for access in finding.accesses):
            made = "mma.make_fragment_A(...)" if self._taken(finding)[1] else f"what accesses {names}"
            return f"put {made} in a line of its own before this one, and k.wgmma.fence() between the two"
        return f"put k.wgmma.fence() before this line, after every ordinary access to {names}"

    def _shape_change(self, finding: WgmmaFinding) -> Diagnostic:
        earlier = max(finding.accesses)
        return finding.rule.diagnose(
            at=finding.site.instr.location,
            notes=self._places(finding.accesses, lambda _: "the mma of the other shape"),
            names=_names(finding.blocks),
            shape=_shape(finding.shape),
            earlier=_shape(finding.earlier),
            mma=f"the one of {self._line(earlier)}",
        )

    def _needless_fence(self, finding: WgmmaFinding) -> Diagnostic:
        return finding.rule.diagnose(
            at=finding.site.instr.location,
            notes=self._places(finding.accesses, lambda _: "the mma after the fence"),
            names=_names(finding.blocks),
            second=f"that of {self._line(max(finding.accesses))}",
        )

    def _missing_commit(self, finding: WgmmaFinding) -> Diagnostic:
        trail = max(finding.trails)
        if finding.site.instr.semantics.exits:
            what, where = "the kernel ends here", "the end of the kernel"
        else:
            pending = finding.site.instr.immediates[PENDING]
            what = f"this wait_group {pending} is to drain {self._registers(finding)}"
            where = "this line"
        return finding.rule.diagnose(
            at=self._location(finding, trail),
            notes=self._history(trail),
            what=what,
            mma=self._mma(trail),
            uses=self._uses(finding, "writes"),
            where=where,
        )

    def _wait_leaves_group(self, finding: WgmmaFinding) -> Diagnostic:
        trail = max(finding.trails)
        pending = finding.site.instr.immediates[PENDING]
        return finding.rule.diagnose(
            at=finding.site.instr.location,
            notes=self._history(trail),
            pending=pending,
            registers=self._registers(finding),
            uses=self._uses(finding, "wrote"),
            group=self._groups[trail.commit],
            arithmetic=self._arithmetic(pending, finding.age, self._groups[trail.commit]),
            enough=finding.age - 1,
        )

    def _missing_wait(self, finding: WgmmaFinding) -> Diagnostic:
        trail = max(finding.trails)
        return finding.rule.diagnose(
            at=self._location(finding, trail),
            notes=self._history(trail),
            group=self._groups[trail.commit],
            uses=self._uses(finding, "wrote"),
            reason=self._left(trail),
        )

    def _wait_range(self, finding: WgmmaFinding) -> Diagnostic:
        return finding.rule.diagnose(
            at=finding.site.instr.location,
            given=finding.site.instr.immediates[PENDING],
            legal=f"{PENDING_GROUPS[0]} to {PENDING_GROUPS[-1]}",
        )

    # -- phrases ------------------------------------------------------------------------------------------------

    def _left(self, trail: Trail, uses: str = "") -> str:
        """Why a committed group is still in flight: the wait that left it, or the lack of one."""
        group = f"group {self._groups[trail.commit]}"
        named = f"{group}, which {uses}," if uses else group
        if trail.wait == NOWHERE:
            return f"no wait_group is between the commit of {named.removesuffix(',')} and this line"
        pending = self._sites[trail.wait].instr.immediates[PENDING]
        arithmetic = self._arithmetic(pending, trail.age, self._groups[trail.commit])
        return f"wait_group {pending} leaves {named} in flight: {arithmetic}"

    def _taken(self, finding: WgmmaFinding) -> tuple[list[RegisterBlock], list[RegisterBlock]]:
        """The registers that the mma of a finding accumulate in, and those that they read fragments of A from."""
        places = {trail.mma for trail in finding.trails} or {finding.site.position}
        multiplied = {block for place in places for block in blocks_with(self._sites[place].instr, Access.MULTIPLY)}
        multiplied |= self._fragments()
        written = [block for block in finding.blocks if block not in multiplied]
        return written, [block for block in finding.blocks if block in multiplied]

    def _fragments(self) -> set[RegisterBlock]:
        """What mma read as A, and none accumulates in: a finding may be of several mma, and is at the first."""
        if self._only_read is None:
            taken = {
                access: {block for site in self._sites for block in blocks_with(site.instr, access)}
                for access in (Access.MULTIPLY, Access.ACCUMULATE)
            }
            self._only_read = taken[Access.MULTIPLY] - taken[Access.ACCUMULATE]
        return self._only_read

    def _uses(self, finding: WgmmaFinding, wrote: str) -> str:
        """What the mma do to the registers."""
        parts = [
            f"{verb} {_names(some)}" for verb, some in zip((wrote, "reads"), self._taken(finding), strict=True) if some
        ]
        return " and ".join(parts) or f"{wrote} {_UNNAMED}"

    def _registers(self, finding: WgmmaFinding) -> str:
        """The registers by what the mma take them for."""
        kinds = zip(("accumulator", "A fragment"), self._taken(finding), strict=True)
        parts = [f"{kind}{'s' if len(some) > 1 else ''} {_names(some)}" for kind, some in kinds if some]
        return " and ".join(parts) or _UNNAMED

    @staticmethod
    def _arithmetic(pending: int, age: int, group: int) -> str:
        allowed = "the newest group" if pending == 1 else f"the newest {pending} groups"
        place = "the newest" if age == 1 else f"number {age} counted from the newest"
        return f"it lets {allowed} run on, and group {group} is {place} there"

    def _mma(self, trail: Trail) -> str:
        return f"the wgmma.mma_async of {self._line(trail.mma)}"

    def _line(self, position: int) -> str:
        site = self._sites[position]
        location = site.instr.location
        return f"line {location.line}" if location else f"instruction {position} in block {site.block}"

    def _location(self, finding: WgmmaFinding, trail: Trail) -> Location | None:
        """The instruction's line; the mma's for an end of the kernel that is not written."""
        return finding.site.instr.location or self._sites[trail.mma].instr.location

    def _history(self, trail: Trail) -> Notes:
        notes = [("the mma is issued here", trail.mma)]
        if trail.commit != NOWHERE:
            notes.append((f"group {self._groups[trail.commit]} is closed here", trail.commit))
        if trail.wait != NOWHERE:
            pending = self._sites[trail.wait].instr.immediates[PENDING]
            notes.append((f"wait_group {pending} leaves it in flight here", trail.wait))
        return tuple((text, self._sites[position].instr.location) for text, position in notes)

    def _places(self, positions: Iterable[int], text: Callable[[int], str]) -> Notes:
        notes = {(text(position), self._sites[position].instr.location): None for position in sorted(positions)}
        return tuple(notes)[:MOST_NOTES]

    def _accessed(self, position: int) -> str:
        instr = self._sites[position].instr
        written = blocks_with(instr, Access.WRITE)
        blocks = written or blocks_with(instr, Access.READ)
        return f"{_names(blocks)} {'is' if len(blocks) == 1 else 'are'} {'written' if written else 'read'} here"


def _names(blocks: Iterable[RegisterBlock]) -> str:
    """The names of the blocks; an mma emitted on its own has registers without a name."""
    return ", ".join(dict.fromkeys(block.name for block in sorted(blocks, key=lambda block: block.id))) or _UNNAMED


def _wait(pending: int, accumulators: Iterable[RegisterBlock]) -> str:
    """The call that waits for groups, and hands these accumulators back: the names of those of a tile begin alike."""
    of_tiles: dict[str, bool] = {}
    for block in sorted(accumulators, key=lambda block: block.id):
        name, _, part = block.name.partition(".")
        of_tiles[name] = bool(part)
    if not of_tiles:
        return f"k.wgmma.wait_group({pending})"
    listed = ", ".join(f"*{name}" if is_tile else name for name, is_tile in of_tiles.items())
    drains = f"[{listed}]" if len(of_tiles) > 1 or not any(of_tiles.values()) else next(iter(of_tiles))
    return f"k.wgmma.wait_group({pending}, drains={drains})"


def _shape(shape: Shape | None) -> str:
    return "?" if shape is None else f"m{shape[0]}n{shape[1]}"
