"""Device time of several callables, alternated in one run so that clocks and heat treat them alike."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nvbackend.diagnostics import record, run_callback, user_facing
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.runtime.driver import bindings, call, no_gpu_reason
from nvbackend.runtime.rules import NO_GPU, TIMING
from nvbackend.runtime.streams import stream_handle


@record
@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of device time per call, one sample per round."""

    samples: tuple[float, ...]

    __repr__ = short_repr

    @property
    def median(self) -> float:
        """The middle sample."""
        return statistics.median(self.samples)

    @property
    def best(self) -> float:
        """The least sample."""
        return min(self.samples)


class Clock(Protocol):
    """Marks on a stream, and the milliseconds between two of them."""

    def mark(self) -> Any:
        """A point on the stream, after everything that is on it at the call."""

    def milliseconds(self, start: Any, end: Any) -> float:
        """Waits until `end` is reached. Raises DriverError where what came before it failed."""


class EventClock:
    """CUDA events on one stream, of the current context. Raises launch.no-gpu on a machine without a GPU."""

    def __init__(self, stream: Any) -> None:
        reason = no_gpu_reason()
        if reason is not None:
            NO_GPU.fail(reason=reason)
        self._stream = stream_handle(stream)
        self._events: list[Any] = []

    def mark(self) -> Any:
        event = call("cuEventCreate", int(bindings().CUevent_flags.CU_EVENT_DEFAULT))
        self._events.append(event)
        call("cuEventRecord", event, self._stream)
        return event

    def milliseconds(self, start: Any, end: Any) -> float:
        call("cuEventSynchronize", end)
        return float(call("cuEventElapsedTime", start, end))

    def close(self) -> None:
        """Give the events back."""
        while self._events:
            call("cuEventDestroy", self._events.pop())


def check_rounds(rounds: int, repeats: int, warmup: int) -> None:
    """launch.timing unless these measure something."""
    if min(rounds, repeats) < 1 or warmup < 0:
        TIMING.fail(problem=f"{rounds=}, {repeats=}, {warmup=}")


@user_facing
def time_launches(
    functions: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 20,
    repeats: int = 10,
    warmup: int = 3,
    stream: Any = None,
    clock: Clock | None = None,
) -> dict[str, Timing]:
    """Time callables that launch work on `stream` (None: the default stream), in turns.

    Every round calls each function `repeats` times between two CUDA events and takes the mean. Each round has an order
    of its own, the same in every run, so that none always runs on a chip that the same other one has just heated.
    `warmup` rounds are not counted. Raises DriverError where a launch failed, launch.timing where there is nothing to
    measure, launch.no-gpu on a machine without a GPU unless a `clock` is given.
    """
    if not isinstance(functions, Mapping) or not functions:
        TIMING.fail(problem=f"{functions=}")
    check_rounds(rounds, repeats, warmup)
    own = EventClock(stream) if clock is None else None
    used = own or clock
    assert used is not None
    names = list(functions)
    marks: dict[str, list[tuple[Any, Any]]] = {name: [] for name in names}
    for turn in range(-warmup, rounds):
        for name in random.Random(turn).sample(names, len(names)):
            start = used.mark()
            for _ in range(repeats):
                run_callback("time_launches", functions[name])
            end = used.mark()
            if turn >= 0:
                marks[name].append((start, end))
    timings = {
        name: Timing(tuple(used.milliseconds(start, end) / repeats for start, end in pairs))
        for name, pairs in marks.items()
    }
    if own is not None:
        own.close()
    return timings
