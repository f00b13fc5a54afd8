"""Steps made by hand: rows by their PTX, operands as numbers, warps one after the other as the test says."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from nvbackend.diagnostics import Location
from nvbackend.dry_run.facts import facts_of
from nvbackend.dry_run.protocols.run import Run
from nvbackend.dry_run.seam import ALL_LANES, BLOCKED, UNKNOWN, Launch, Step
from nvbackend.dry_run.when import When
from nvbackend.intrinsics.catalogue import rows
from nvbackend.isel.machine.function import MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.target.target import Target

OUTSIDE, LATER = When(), When(("step",), (1,))
FULL, EMPTY, TILE = (
    MemoryObject(1, "full", "shared", 16, 8),
    MemoryObject(2, "empty", "shared", 16, 8),
    MemoryObject(3, "tile", "shared", 2048, 1024),
)


@cache
def _rows() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows():
        found.setdefault(row.ptx, []).append(row)
    return found


def _row(ptx: str, values: Collection[str]) -> Any:
    """Of the rows with this PTX the one with the most operands among `values`."""
    return max(_rows().get(ptx, [None]), key=lambda row: _fit(row, values))


def _fit(row: Any, values: Collection[str]) -> int:
    names = [] if row is None else [operand.name for operand in row.operands]
    return sum(1 if name in values else -1 for name in names)


class Drive:
    """A run of CTAs of so many warps. Each instruction is made at its first step, at a line of its own."""

    def __init__(self, warps: int = 2, ctas: int = 1, cluster: int = 1, registers: int | None = None) -> None:
        self.run = Run(Launch(Target.parse("sm_90a"), warps * 32, cluster, ctas, range(8192), registers))
        self._instrs: dict[tuple[str, object], MachineInstr] = {}
        self._warps = [(cta, warp) for cta in range(ctas) for warp in range(warps)]

    def instr(self, ptx: str, line: object, values: Collection[str] = (), **about: Any) -> MachineInstr:
        """The instruction with this PTX at a line."""
        found = self._instrs.get((ptx, line))
        if found is None:
            row = _row(ptx, values)
            opcode = ptx if row is None else row.opcode
            place = Location("test.py", len(self._instrs) + 1, "test")
            found = self._instrs[ptx, line] = MachineInstr(opcode, row, location=place, **about)
        return found

    def do(self, warp: int, ptx: str, *, cta: int = 0, lanes: int = 1, line: object = 0, rounds: When = OUTSIDE,
           warps: tuple[int, ...] = (), about: Any = None, **values: Any) -> Any:  # fmt: skip
        """A warp executes an instruction."""
        instr = self.instr(ptx, line, values, **(about or {}))
        given = {**dict(instr.immediates), **values}
        value = lambda name, _nth=0: given.get(name, UNKNOWN)  # noqa: E731
        return self.run.execute(Step(instr, cta, warps or (warp,), lanes, value, lambda: rounds, facts_of(instr)))

    def stuck(self, warp: int, ptx: str, *, cta: int = 0, line: object = 0, **values: Any) -> Step:
        """The step that a warp waits in."""
        instr = self.instr(ptx, line, values)
        value = lambda name, _nth=0: values.get(name, UNKNOWN)  # noqa: E731
        return Step(instr, cta, (warp,), 1, value, lambda: When(("step",), (1,)), facts_of(instr))

    def end(self) -> list[str]:
        """All warps end: the rules of what was found."""
        for cta, warp in self._warps:
            self.run.ended(cta, warp)
        return [found.rule_id for found in self.run.finish()]

    @staticmethod
    def touch(operand: str, bytes: int) -> tuple[MemoryTouch, ...]:
        """What an instruction does to the tile at an operand."""
        return (MemoryTouch(TILE, MemoryUse.WRITE, operand, 0, "%i*1", bytes),)

    # The steps of a ring whose barriers `full` are at 0 and 8, `empty` at 16 and 24, stages at 1024 and 2048.

    def init(self, warp: int, stage: int, full: int = 1, empty: int = 1) -> None:
        for memory, at, count in ((FULL, 0, full), (EMPTY, 16, empty)):
            touch = MemoryTouch(memory, MemoryUse.SYNCHRONIZE, "barrier", 8 * stage, "", 8)
            about = {"memory": (touch,)}
            self.do(warp, INIT, line=("init", memory.name, stage), about=about, barrier=at + 8 * stage, count=count)

    def sync(self, *warps: int, cta: int = 0, line: object = 0) -> None:
        """All warps meet at barrier 0."""
        outcomes = [self.do(warp, SYNC, lanes=ALL_LANES, cta=cta, line=line, id=0) for warp in warps]
        for warp, outcome in zip(warps, outcomes, strict=True):
            if outcome is BLOCKED:
                assert self.do(warp, SYNC, lanes=ALL_LANES, cta=cta, line=line, id=0) is not BLOCKED

    def wait(self, warp: int, at: int, parity: int, **about: Any) -> bool:
        """Whether a wait goes on."""
        return self.do(warp, WAIT, lanes=ALL_LANES, barrier=at, parity=parity, **about) is not BLOCKED

    def fill(self, warp: int, stage: int, expect: int = 1024, **about: Any) -> None:
        """Announce a stage, and copy it."""
        self.do(warp, EXPECT, barrier=8 * stage, bytes=expect, **about)
        self.copy(warp, stage, **about)

    def copy(self, warp: int, stage: int, **about: Any) -> None:
        self.do(warp, BULK, barrier=8 * stage, destination=1024 + 1024 * stage, source=UNKNOWN, bytes=1024, **about)

    def load(self, warp: int, address: int, **about: Any) -> None:
        self.do(warp, "ldmatrix.sync.aligned.m8n8.x1.shared.b16", lanes=ALL_LANES, address=address, **about)

    def store(self, warp: int, address: int, **about: Any) -> None:
        self.do(warp, "stmatrix.sync.aligned.m8n8.x1.shared.b16", lanes=ALL_LANES, address=address, **about)

    def release(self, warp: int, stage: int, **about: Any) -> None:
        self.do(warp, ARRIVE, barrier=16 + 8 * stage, **about)


INIT = "mbarrier.init.shared.b64"
SYNC = "bar.sync"
WAIT = "mbarrier.try_wait.parity.shared::cta.b64"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64"
ARRIVE = "mbarrier.arrive.shared::cta.b64"
BULK = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"
COMMIT, WAIT_STORES = "cp.async.bulk.commit_group", "cp.async.bulk.wait_group.read"
FENCE = "fence.proxy.async.shared::cta"
