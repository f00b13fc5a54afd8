"""Device time of several callables, alternated in one run so that clocks and heat treat them alike."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from nvbackend.diagnostics import printed, record, run_callback, user_facing
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.runtime.driver import bindings, call, no_gpu_reason
from nvbackend.runtime.launch import PreparedLaunch
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


class CheckedClock:
    """A user's clock, whose times are numbers that can be compared: of NaN the order of candidates would be chance."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def mark(self) -> Any:
        return run_callback("clock", self._clock.mark)

    def milliseconds(self, start: Any, end: Any) -> float:
        result = run_callback("clock", self._clock.milliseconds, start, end)
        try:
            time = float(result)
        except (TypeError, ValueError, OverflowError):
            time = math.nan
        if not 0 <= time < math.inf or isinstance(result, str | bytes):
            TIMING.fail(problem=f"a clock whose milliseconds are {printed(result)}")
        return time


A_CLOCK = "an object with mark() and milliseconds(start, end)"
"""What tells the time where the device does not."""


def check_clock(call: str, clock: object) -> None:
    """call.argument for a class, and for an object that lacks one of the methods of a clock."""
    if isinstance(clock, type):
        problem, advice = f"clock is the class {clock.__name__}", f"pass an object of it: clock={clock.__name__}()"
        ARGUMENT.fail(call=call, problem=problem, advice=advice)
    if not all(callable(getattr(clock, method, None)) for method in ("mark", "milliseconds")):
        advice = f"pass {A_CLOCK}"
        ARGUMENT.fail(call=call, problem=f"clock is {printed(clock)}", advice=advice)


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
    measure or a clock gives no time, launch.no-gpu on a machine without a GPU unless a `clock` is given.
    """
    if not isinstance(functions, Mapping) or not functions:
        TIMING.fail(problem=f"{functions=}")
    check_rounds(rounds, repeats, warmup)
    for name, function in functions.items():
        if isinstance(function, PreparedLaunch):
            ARGUMENT.fail(call="time_launches", problem=f"{name!r} is a prepared launch", advice="pass prepared.run")
    if clock is not None:
        check_clock("time_launches", clock)
    own = EventClock(stream) if clock is None else None
    used: Clock = own or CheckedClock(cast("Clock", clock))
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
