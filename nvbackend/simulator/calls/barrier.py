"""bar.*, barrier.* and barrier.cluster.*: threads of a CTA or a cluster wait for one another. PTX ISA 9.7.13.1, .3."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.holding import held
from nvbackend.simulator.calls.in_common import in_common
from nvbackend.simulator.calls.qualifiers import only
from nvbackend.simulator.events import Mask
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Reader, Step, Waiting, Wave
from nvbackend.simulator.sync.barriers import Barriers, Key
from nvbackend.simulator.sync.cluster_barrier import ClusterBarrier

_REDUCTIONS: dict[str, Callable[[int, int], int | bool]] = {
    "popc": lambda trues, _voters: trues,
    "and": lambda trues, voters: trues == voters,
    "or": lambda trues, _voters: trues > 0,
}


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of a barrier instruction."""
    parts = instruction.parts
    if parts[:2] == ("barrier", "cluster"):
        return _cluster(instruction, place)
    only(place, ("cta", "sync", "arrive", "red", "aligned", "popc", "and", "or", "u32", "pred"))
    return _Named(instruction, place).step


def _cluster(instruction: Instruction, place: Compiling) -> Step:
    only(place, ("cluster", "arrive", "wait", "release", "acquire", "relaxed", "aligned"))
    order = "relaxed" if "relaxed" in instruction.parts else "weak"

    def arrive(wave: Wave, lanes: Lanes) -> None:
        wave.part(ClusterBarrier).arrive(place.by(lanes, order=order), lanes.threads)

    def wait(wave: Wave, lanes: Lanes) -> Waiting | None:
        barrier = wave.part(ClusterBarrier)
        return held(
            lanes,
            lambda here: barrier.passed(place.by(here), here.threads),
            lambda here: barrier.leave(place.by(here), here.threads),
            lambda here: barrier.text(here.threads),
        )

    return arrive if instruction.parts[2] == "arrive" else wait


class _Named:
    """One instruction on a named barrier: sync and red hold their threads, arrive does not."""

    def __init__(self, instruction: Instruction, place: Compiling) -> None:
        parts = instruction.parts
        self._place = place
        self._kind = next((part for part in parts if part in ("sync", "arrive", "red")), None)
        if self._kind is None:
            place.unknown(f"{instruction.opcode}")
        self._aligned = parts[0] == "bar" or "aligned" in parts
        operands = list(instruction.operands)
        self._write = None
        self._vote: Reader | None = None
        if self._kind == "red":
            self._reduction = _REDUCTIONS[next(part for part in parts if part in _REDUCTIONS)]
            self._write = place.write(operands.pop(0), parts[-1])
            self._vote = place.read(operands.pop(), "pred")
        self._barrier = place.read(operands[0], "u32")
        self._count = place.read(operands[1], "u32") if len(operands) > 1 else None

    def step(self, wave: Wave, lanes: Lanes) -> Waiting | None:
        """Join what is complete, leave what is over, hold the rest."""
        barriers = wave.part(Barriers)
        came = lanes.where(~barriers.joined(lanes.threads))
        late = wave.missing(came) if self._aligned and came.count else None
        if late is not None:
            came = Lanes(np.setdiff1d(came.threads, late.threads, assume_unique=True))
        self._check_in_common(wave, came)
        for key, here, count in self._keys(wave, came):
            votes = None if self._vote is None else self._vote(wave, here)
            barriers.arrive(
                self._place.by(here),
                key,
                count,
                here.threads,
                votes=votes,
                by_warp=self._aligned,
                stays=self._kind != "arrive",
            )
        if late is not None:
            rest = late if self._kind == "arrive" else self._staying(wave, lanes)
            return Waiting(
                rest, lambda: bool(self._passed(wave, rest).any()), lambda: self._reason(wave, rest), again=True
            )
        if self._kind == "arrive":
            return None
        return held(
            lanes,
            lambda here: self._passed(wave, here),
            lambda here: self._leave(wave, here),
            lambda here: self._reason(wave, here),
            causes=lambda here: [barriers.cause(key, each.threads) for key, each, _ in self._keys(wave, here)],
        )

    def _check_in_common(self, wave: Wave, lanes: Lanes) -> None:
        """Whole warps give one number and one count each. Raises convergence.operand."""
        for read, operand in ((self._barrier, "barrier"), (self._count, "count")):
            if self._aligned and lanes.count and read is not None:
                in_common(self._place, wave, lanes, read(wave, lanes), operand)

    def _staying(self, wave: Wave, lanes: Lanes) -> Lanes:
        """The lanes less those that can go on, which do."""
        done = self._passed(wave, lanes)
        if done.any():
            self._leave(wave, lanes.where(done))
        return lanes.where(~done)

    def _passed(self, wave: Wave, lanes: Lanes) -> Mask:
        barriers = wave.part(Barriers)
        passed = np.zeros(lanes.count, bool)
        for key, here, _ in self._keys(wave, lanes):
            passed[np.searchsorted(lanes.threads, here.threads)] = barriers.passed(key, here.threads)
        return passed

    def _leave(self, wave: Wave, lanes: Lanes) -> None:
        for key, here, _ in self._keys(wave, lanes):
            self._give(wave, here, wave.part(Barriers).leave(self._place.by(here), key, here.threads))

    def _give(self, wave: Wave, lanes: Lanes, result: tuple[int, int]) -> None:
        if self._write is not None:
            value = self._reduction(*result)
            dtype = bool if isinstance(value, bool) else np.uint32
            self._write(wave, lanes, np.full(lanes.count, value, dtype))

    def _reason(self, wave: Wave, lanes: Lanes) -> str:
        barriers = wave.part(Barriers)
        apart = lanes.where(~barriers.joined(lanes.threads))
        if apart.count:
            return _apart(apart)
        return "; ".join(barriers.text(key) for key, _, _ in self._keys(wave, lanes))

    def _keys(self, wave: Wave, lanes: Lanes) -> Iterator[tuple[Key, Lanes, int | None]]:
        """The lanes of each barrier of each CTA, with the count that they give."""
        if not lanes.count:
            return
        numbers = self._barrier(wave, lanes).astype(np.int64)
        counts = np.full(lanes.count, -1) if self._count is None else self._count(wave, lanes).astype(np.int64)
        ctas = wave.cta(lanes.threads)
        keys = (ctas << 48) + (numbers << 32) + counts
        for key in np.unique(keys).tolist():
            here = keys == key
            first = int(np.argmax(here))
            count = None if counts[first] < 0 else int(counts[first])
            yield (int(ctas[first]), int(numbers[first])), lanes.where(here), count


def _apart(lanes: Lanes) -> str:
    return f"{lanes.count} threads at a barrier that takes whole warps, whose other threads are elsewhere"
