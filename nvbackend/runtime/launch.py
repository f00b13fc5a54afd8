"""One launch: checked and prepared once, run as often as wanted, named when it goes wrong."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nvbackend.diagnostics import Diagnostic, Location, user_facing
from nvbackend.runtime.device import CudaDevice, Device
from nvbackend.runtime.driver import DriverError, driver_errors
from nvbackend.runtime.rules import ASYNCHRONOUS_ERROR, GRID, LAUNCH_FAILED
from nvbackend.runtime.streams import stream_handle
from nvbackend.signature import Signature

Grid = int | Sequence[int]

MAX_GRID = ((1 << 31) - 1, 65535, 65535)
"""CTAs a grid dimension (CUDA C++ Programming Guide, Technical Specifications per Compute Capability)."""
REMEMBERED_LAUNCHES = 16
"""Launches a stream remembers between synchronisations, to name them if one fails."""
_NOTES_KEY = "nvbackend.launches"


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """A launch as it is named later: kernel, grid, and the user's line."""

    kernel: str
    grid: tuple[int, int, int]
    location: Location | None

    def __str__(self) -> str:
        return f"{self.kernel} (grid {self.grid})"


History = deque[LaunchRecord]


def history(device: Device, handle: int) -> History:
    """What was launched on a stream since it was last synchronised, oldest first; kept with the context."""
    streams: dict[int, History] = device.notes.setdefault(_NOTES_KEY, {})
    return streams.setdefault(handle, deque(maxlen=REMEMBERED_LAUNCHES))


def grid_dimensions(grid: Grid) -> tuple[int, ...] | None:
    """`grid` as a tuple of integers, None where it is none of one to three."""
    try:
        dimensions = tuple(operator.index(extent) for extent in (grid if isinstance(grid, Sequence) else (grid,)))
    except TypeError:
        return None
    return dimensions if 1 <= len(dimensions) <= len(MAX_GRID) else None


def full_grid(grid: Grid) -> tuple[int, int, int]:
    """A grid that passed `check_grid` as x, y, z."""
    x, y, z = (*(grid_dimensions(grid) or ()), 1, 1)[:3]
    return x, y, z


def check_grid(signature: Signature, grid: Grid) -> Iterator[Diagnostic]:
    """What is wrong with `grid`, counted in CTAs: dimensions, range, and whether whole clusters fill it."""
    kernel, cluster = signature.name, signature.bounds.cluster
    dimensions = grid_dimensions(grid)
    if dimensions is None:
        problem = "a grid is an integer or one to three of them"
        yield GRID.diagnose(grid=grid, kernel=kernel, problem=problem, advice="pass (x, y, z) in CTAs")
        return
    for axis, extent, most in zip("xyz", dimensions, MAX_GRID, strict=False):
        if not 1 <= extent <= most:
            problem = f"{axis} = {extent} is not in 1 to {most}"
            advice = f"pass 1 to {most} CTAs in {axis}"
            yield GRID.diagnose(grid=grid, kernel=kernel, problem=problem, advice=advice)
    if dimensions[0] % cluster:
        nearest = -(-dimensions[0] // cluster) * cluster
        problem = f"x = {dimensions[0]} is not a multiple of the cluster of {cluster} CTAs"
        advice = f"round it up to {nearest} and let the CTAs beyond the work leave"
        yield GRID.diagnose(grid=grid, kernel=kernel, problem=problem, advice=advice)


@user_facing
class PreparedLaunch:
    """A launch whose arguments are checked and converted; `run()` only calls the driver.

    It holds the arrays it was made with, so their memory stays. Work that other streams had pending on them is
    ordered before the launch when it is prepared, not at each run.
    """

    __slots__ = ("_arguments", "_configuration", "_device", "_history", "_kernel", "_owners", "_stream", "record")

    def __init__(
        self,
        *,
        device: Device,
        kernel: Any,
        configuration: Any,
        handle: int,
        record: LaunchRecord,
        arguments: tuple[Any, ...],
        owners: object,
    ) -> None:
        self._device = device
        self._kernel = kernel
        self._configuration = configuration
        self._stream = device.stream(handle)
        self._history = history(device, handle)
        self._arguments = arguments
        self._owners = owners
        self.record = record

    def run(self) -> None:
        """Launch. Returns before the kernel has run. Raises launch.failed with the driver's answer."""
        try:
            self._device.launch(self._stream, self._configuration, self._kernel, *self._arguments)
        except driver_errors() as error:
            self._fail(error)
        if not self._history or self._history[-1] is not self.record:
            self._history.append(self.record)

    def _fail(self, error: Exception) -> None:
        earlier = tuple(self._history)
        advice = "compare the kernel's launch bounds with the device's limits"
        if earlier:
            advice = "synchronise after the launches noted above: one of them may have failed, and this one reports it"
        LAUNCH_FAILED.fail(
            kernel=self.record.kernel,
            grid=self.record.grid,
            error=error,
            advice=advice,
            notes=tuple((f"launched before, not synchronised yet: {record}", record.location) for record in earlier),
        )


@user_facing
def synchronize(stream: Any = None, *, device: Device | None = None) -> None:
    """Wait for everything on `stream` (None: the default stream).

    Raises launch.asynchronous-error, naming the kernels launched since the last call, where one of them failed;
    launch.no-gpu where there is no GPU.
    """
    device = CudaDevice() if device is None else device
    handle = stream_handle(stream)
    launched = history(device, handle)
    records = tuple(launched)
    launched.clear()
    try:
        device.synchronize(handle)
    except DriverError as error:
        names = dict.fromkeys(record.kernel for record in records)
        ASYNCHRONOUS_ERROR.fail(
            error=error,
            kernels=", ".join(names) or "none of nvbackend's",
            notes=tuple((f"launched: {record}", record.location) for record in records),
        )
