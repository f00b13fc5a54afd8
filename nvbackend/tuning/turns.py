"""What is timed of a candidate: a launch, or several over operands of their own, so that none finds its own in L2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NoReturn

from nvbackend.runtime.device import CudaDevice, Device
from nvbackend.runtime.driver import bindings, call, driver_errors
from nvbackend.runtime.launch import PreparedLaunch
from nvbackend.runtime.rules import LAUNCH_FAILED
from nvbackend.runtime.streams import CU_STREAM_PER_THREAD
from nvbackend.runtime.timing import Timing

Launches = PreparedLaunch | Sequence[PreparedLaunch]
"""What `prepare` gives: several are run in turns."""


def each_of(launches: object) -> tuple[PreparedLaunch, ...]:
    """The launches that `prepare` gave, none where it gave anything else."""
    if isinstance(launches, PreparedLaunch):
        return (launches,)
    several = launches if isinstance(launches, list | tuple) else ()
    return tuple(several) if all(isinstance(each, PreparedLaunch) for each in several) else ()


def run_all(launches: Sequence[PreparedLaunch]) -> None:
    """Put all of them on their stream."""
    for launch in launches:
        launch.run()


@contextmanager
def timed(launches: Mapping[str, Launches], device: Device, handle: int) -> Iterator[dict[str, Callable[[], object]]]:
    """For each candidate a function that runs its launches, on the stream with this handle.

    On a GPU several are launched as a CUDA graph, so that no time of the host counts; on a default stream, of which
    the driver makes no graph, one after another. Raises launch.failed.
    """
    has_graphs = isinstance(device, CudaDevice) and handle > CU_STREAM_PER_THREAD
    with ExitStack() as graphs:
        runs: dict[str, Callable[[], object]] = {}
        for name, prepared in launches.items():
            if isinstance(prepared, PreparedLaunch):
                runs[name] = prepared.run
            elif has_graphs:
                runs[name] = graphs.enter_context(_graph(prepared, handle))
            else:
                runs[name] = partial(run_all, prepared)
        yield runs


@contextmanager
def _graph(launches: Sequence[PreparedLaunch], handle: int) -> Iterator[Callable[[], object]]:
    """A function that launches a CUDA graph of them."""
    try:
        captured = _captured(launches, handle)
        executable = call("cuGraphInstantiate", captured, 0)
        call("cuGraphDestroy", captured)
    except driver_errors() as error:
        _fail(launches, error)

    def launch() -> None:
        try:
            call("cuGraphLaunch", executable, handle)
        except driver_errors() as error:
            _fail(launches, error)

    try:
        yield launch
    finally:
        # The driver frees it after the launches that are still to run.
        call("cuGraphExecDestroy", executable)


def _fail(launches: Sequence[PreparedLaunch], error: Exception) -> NoReturn:
    record = launches[0].record
    advice = "leave stream= out, and nothing is captured: launches then count the host's time"
    LAUNCH_FAILED.fail(kernel=record.kernel, grid=record.grid, error=f"as a CUDA graph: {error}", advice=advice)


def _captured(launches: Sequence[PreparedLaunch], handle: int) -> object:
    """The driver's graph of the launches. Raises an error of the driver."""
    # The other modes end a capture where this thread frees memory meanwhile, as Python may at any line.
    call("cuStreamBeginCapture", handle, bindings().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    try:
        run_all(launches)
    finally:
        captured = call("cuStreamEndCapture", handle)
    return captured


def per_launch(timings: Mapping[str, Timing], launches: Mapping[str, Launches]) -> dict[str, Timing]:
    """The timings of one launch, of those of all launches of each candidate."""
    counts = {name: len(each_of(launches[name])) for name in timings}
    return {name: Timing(tuple(sample / counts[name] for sample in timing.samples)) for name, timing in timings.items()}
