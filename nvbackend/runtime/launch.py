"""One launch: checked and prepared once, run any number of times, named when it fails."""

from __future__ import annotations

import functools
import operator
import reprlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, NoReturn, TypeVar

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Location, Uncopied, user_facing
from nvbackend.diagnostics.boundary import cut, own_boundary
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.location import CallerFrames, is_of_compiler
from nvbackend.isel.machine.assertions import CTA, DONE, NUMBER, THREAD, VALUES, WORDS, Assertion
from nvbackend.launch_calls import NoLaunches
from nvbackend.runtime.device import Configuration, CudaDevice, Device
from nvbackend.runtime.driver import DriverError, driver_errors
from nvbackend.runtime.rules import ASSERTION, ASYNCHRONOUS_ERROR, GRID, LAUNCH_FAILED
from nvbackend.runtime.streams import stream_handle
from nvbackend.signature import Signature

Grid = int | Sequence[int]

MAX_GRID = ((1 << 31) - 1, 65535, 65535)
"""The most CTAs per grid dimension (CUDA C++ Programming Guide, Technical Specifications per Compute Capability)."""
REMEMBERED_LAUNCHES = 16
"""Launches remembered per stream between synchronisations, to name them if one fails."""
KNOWN_LAUNCHES = 256
"""Grids and launching lines remembered per kernel."""
_NOTES_KEY = "nvbackend.launches"
_FAILURES_KEY = "nvbackend.failures"
LOST = "this process's CUDA context is lost, start a new one"
"""What becomes of a process whose kernel ended its launch on a GPU."""


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """A launch for later messages: kernel, grid, and the user's line."""

    kernel: str
    grid: tuple[int, int, int]
    location: Location | None

    def __str__(self) -> str:
        return f"{self.kernel} (grid {self.grid})"


History = deque[LaunchRecord]


def history(device: Device, handle: int) -> History:
    """The launches on a stream since its last synchronisation, oldest first; kept with the context."""
    streams: dict[int, History] | None = device.notes.get(_NOTES_KEY)
    launches = None if streams is None else streams.get(handle)
    if launches is None:
        streams = device.notes.setdefault(_NOTES_KEY, {})
        launches = streams.setdefault(handle, deque(maxlen=REMEMBERED_LAUNCHES))
    return launches


def grid_dimensions(grid: Grid) -> tuple[int, ...] | None:
    """`grid` as a tuple of integers, None if it is not a tuple of one to three."""
    try:
        dimensions = tuple(operator.index(extent) for extent in (grid if isinstance(grid, Sequence) else (grid,)))
    except TypeError:
        return None
    return dimensions if 1 <= len(dimensions) <= len(MAX_GRID) else None


def full_grid(grid: Grid) -> tuple[int, int, int]:
    """A grid that passed `check_grid` as x, y, z."""
    x, y, z = (*(grid_dimensions(grid) or ()), 1, 1)[:3]
    return x, y, z


def is_argument(grid: object) -> bool:
    """Whether it is an array, or the map of one, where a grid should be: the arguments after it are one too few."""
    return hasattr(grid, "shape") or hasattr(grid, "arrays")


def check_grid(signature: Signature, grid: Grid) -> Iterator[Diagnostic]:
    """What is wrong with `grid`, counted in CTAs: dimensions, range, and whether whole clusters fill it."""
    kernel, clusters = signature.name, signature.bounds.cluster_shape
    dimensions = grid_dimensions(grid)
    if dimensions is None:
        problem, advice = "a grid is an integer or one to three of them", "pass (x, y, z) in CTAs"
        if any(isinstance(extent, float) for extent in (grid if isinstance(grid, tuple) else (grid,))):
            advice = "divide by //, which gives an integer: -(-n // threads) is n / threads rounded up"
        if is_argument(grid):
            problem, advice = "the grid is missing: this is an argument of the kernel", "pass the grid first, in CTAs"
        yield GRID.diagnose(grid=reprlib.repr(grid), kernel=kernel, problem=problem, advice=advice)
        return
    for axis, extent, most in zip("xyz", dimensions, MAX_GRID, strict=False):
        if not 1 <= extent <= most:
            problem = f"{axis} = {extent} is not in 1 to {most}"
            advice = f"pass 1 to {most} CTAs in {axis}"
            yield GRID.diagnose(grid=grid, kernel=kernel, problem=problem, advice=advice)
    for axis, extent, cluster in zip("xyz", full_grid(grid), clusters, strict=True):
        if extent % cluster:
            nearest = -(-extent // cluster) * cluster
            along = "" if clusters[1:] == (1, 1) else f" along {axis}"
            problem = f"{axis} = {extent} is not a multiple of the cluster of {cluster} CTAs{along}"
            advice = f"round it up to {nearest} and let the CTAs beyond the work leave"
            yield GRID.diagnose(grid=grid, kernel=kernel, problem=problem, advice=advice)


def known_grid(grid: Grid) -> Grid | None:
    """`grid` if it consists of Python's own integers, which mean the same wherever they are equal."""
    if type(grid) is tuple:
        for extent in grid:
            if type(extent) is not int:
                return None
        return grid
    return grid if type(grid) is int else None


_Key = TypeVar("_Key")
_Found = TypeVar("_Found")
_Known = tuple[Grid, Callable[..., None], History, LaunchRecord]


class Launches:
    """What the launches of one kernel share: shapes that passed their checks, and records for later messages."""

    __slots__ = ("_callers", "_known", "_records", "_shapes", "_signature", "_streams", "device", "kernel")

    def __init__(self, signature: Signature, kernel: Any, device: Device) -> None:
        self._signature = signature
        self.device = device
        self._callers = CallerFrames()
        self.kernel = kernel
        self._shapes: dict[Grid, tuple[tuple[int, int, int], Any]] = {}
        self._records: dict[tuple[object, ...], tuple[LaunchRecord, CodeType | None]] = {}
        """Launches by grid and place in the user's code, which is kept: another's id would be the same after it."""
        self._streams: dict[int, tuple[Any, History]] = {}
        self._known: dict[tuple[object, ...], _Known] = {}
        """By grid, stream and place: the grid, what launches, the launches on the stream, the record."""

    def again(self, grid: Grid, handle: int, frame: FrameType, values: Sequence[Any]) -> bool:
        """Launch, if one of this grid was launched on this stream by the line where `frame`, the caller's, is.

        Raises launch.failed.
        """
        place = id(frame.f_code), frame.f_lasti
        try:
            known = self._known.get((grid, handle, place)) or self._known_from(grid, handle, frame)
        except DiagnosticError:
            raise
        except Exception:  # noqa: BLE001, a grid without a hash, or whose own methods raise: the check of it says so
            return False
        if known is None or not (known[0] is grid or known_grid(grid)):
            return False
        _, launch, launched, record = known
        try:
            launch(*values)
        except driver_errors() as error:
            self.fail(error, record, launched)
        if not launched or launched[-1] is not record:
            launched.append(record)
        return True

    def _known_from(self, grid: Grid, handle: int, frame: FrameType) -> _Known | None:
        """What to launch and to record, where the record of a launch by this line has been made."""
        shape, place = self.known_shape(grid), (id(frame.f_code), frame.f_lasti)
        recorded = None if shape is None else self._records.get((shape[0], place))
        if shape is None or recorded is None or is_of_compiler(frame.f_globals):
            return None
        stream, launched = self.stream(handle)
        launch = functools.partial(self.device.launch, stream, shape[1], self.kernel)
        known: _Known = grid, launch, launched, recorded[0]
        self._remember(self._known, (grid, handle, place), known)
        return known

    def _remember(self, known: dict[_Key, _Found], key: _Key, value: _Found) -> None:
        if len(known) >= KNOWN_LAUNCHES:
            known.clear()
            self._known.clear()  # it is made of the others, and a line's code is kept with its record
        known[key] = value

    def stream(self, handle: int) -> tuple[Any, History]:
        """The driver's form of the stream with this handle, and the launches on it.

        They are kept: the form says the handle and nothing else, and cuda.core takes longer to make one than to launch.
        """
        known = self._streams.get(handle)
        if known is None:
            known = self.device.stream(handle), history(self.device, handle)
            self._remember(self._streams, handle, known)
        return known

    def known_shape(self, grid: Grid) -> tuple[tuple[int, int, int], Any] | None:
        """What `shape` gives for a grid that has passed before, None for others."""
        known = known_grid(grid)
        return None if known is None else self._shapes.get(known)

    def shape(self, grid: Grid, problems: list[Diagnostic]) -> tuple[tuple[int, int, int], Any]:
        """The full grid and the driver's form of a launch; what is wrong with `grid` is added to `problems`."""
        shape = self.known_shape(grid)
        if shape is not None:
            return shape
        wrong = list(check_grid(self._signature, grid))
        problems += wrong
        if wrong:
            return (0, 0, 0), None
        full, bounds = full_grid(grid), self._signature.bounds
        shared, overlaps = bounds.dynamic_shared_bytes, bounds.overlaps
        configuration = Configuration(full, bounds.shape, bounds.cluster_shape, shared, overlaps)
        shape = full, self.device.configuration(configuration)
        known = known_grid(grid)
        if known is not None:
            self._remember(self._shapes, known, shape)
        return shape

    def record(self, grid: tuple[int, int, int]) -> LaunchRecord:
        """The launch by the user's current line."""
        frame = self._callers.caller()
        place = frame and (id(frame.f_code), frame.f_lasti)  # to ask a frame for its line is slow
        known = self._records.get((grid, place))
        if known is None:
            code = frame.f_code if frame else None
            line = Location(code.co_filename, frame.f_lineno, code.co_name) if frame and code else None
            known = LaunchRecord(self._signature.name, grid, line), code
            self._remember(self._records, (grid, place), known)
        return known[0]

    def order(self, streams: Iterable[int], handle: int, record: LaunchRecord) -> None:
        """Make the launch on `handle` wait for the work on `streams`. Raises launch.failed with the driver's answer."""
        try:
            for earlier in dict.fromkeys(streams):
                self.device.order(earlier, handle)
        except driver_errors() as error:
            self.fail(error, record, history(self.device, handle))

    def start(self, configuration: Any, handle: int, record: LaunchRecord, arguments: Sequence[Any]) -> None:
        """Launch on the stream `handle` without a check. Raises launch.failed."""
        stream, launched = self._streams.get(handle) or self.stream(handle)
        try:
            self.device.launch(stream, configuration, self.kernel, *arguments)
        except driver_errors() as error:
            self.fail(error, record, launched)
        if not launched or launched[-1] is not record:
            launched.append(record)

    def fail(self, error: Exception, record: LaunchRecord, launched: History) -> NoReturn:
        """Raise launch.assertion where a kernel said why, else launch.failed."""
        earlier = tuple(launched)
        raise_failures(self.device, earlier)
        advice = "compare the kernel's launch bounds with the device's limits"
        if any(name in str(error) for name in _FAULTS):
            advice = (
                "start the process again, since the fault has ended its CUDA context, and launch the kernels before "
                'this one with device="simulator", which names the line of the fault'
            )
        if earlier:
            advice = "synchronise after the launches noted above: one of them may have failed, and this one reports it"
        LAUNCH_FAILED.fail(
            kernel=record.kernel,
            grid=record.grid,
            error=error,
            advice=advice,
            notes=tuple((f"launched before, not synchronised yet: {launch}", launch.location) for launch in earlier),
        )


_FAULTS = ("ILLEGAL_ADDRESS", "ILLEGAL_INSTRUCTION", "MISALIGNED", "LAUNCH_FAILED", "INVALID_PC", "STACK_ERROR")
"""What the driver calls the faults of a kernel that has run; the next launch reports them."""


@dataclass(frozen=True, slots=True)
class _Watched:
    """A loaded kernel that may end its launch itself, and the words of its record.

    They outlive the context, which the driver ends with the launch: on a GPU they are in pinned memory of the host.
    """

    kernel: str
    assertions: Sequence[Assertion]
    words: memoryview


def watch(device: Device, kernel: Any, name: str, assertions: Sequence[Assertion]) -> None:
    """Have failures of a loaded kernel reported by `raise_failures`. Raises DriverError."""
    if assertions:
        words = device.record(kernel, name, WORDS)
        device.notes.setdefault(_FAILURES_KEY, []).append(_Watched(name, assertions, words))


def raise_failures(device: Device, launched: Iterable[LaunchRecord] = (), *, after: str = LOST) -> None:
    """Raise launch.assertion for what kernels recorded, if anything, and forget it.

    `launched` may be the launches, and `after` is what to do afterwards.
    """
    failures = list(_failures(device, tuple(launched), after))
    if failures:
        raise DiagnosticError(failures) from None


def _failures(device: Device, launched: Sequence[LaunchRecord], after: str) -> Iterator[Diagnostic]:
    for watched in device.notes.get(_FAILURES_KEY, ()):
        words = list(watched.words)
        if not words[DONE]:
            continue
        watched.words[:] = memoryview(bytes(watched.words.nbytes)).cast("Q")
        assertion = watched.assertions[words[NUMBER]]
        text = assertion.shown(words[VALUES:])
        failed = " failed" if assertion.what == "assertion" else ""
        yield ASSERTION.diagnose(
            at=assertion.location,
            kernel=watched.kernel,
            what=f"the {assertion.what}{f' {text!r}' if text else ''}{failed}",
            thread=_index(words[THREAD : THREAD + 3]),
            cta=_index(words[CTA : CTA + 3]),
            after=after,
            notes=tuple((f"launched: {each}", each.location) for each in launched if each.kernel == watched.kernel),
        )


def _index(axes: Sequence[int]) -> str:
    """An index along x, or along all axes."""
    return str(axes[0]) if not any(axes[1:]) else f"({', '.join(map(str, axes))})"


@user_facing
class PreparedLaunch(Uncopied, NoLaunches):
    """A launch whose arguments are checked and converted; `run()` only calls the driver.

    It holds the arrays it was made with, so their memory stays. Work that other streams had pending on them is
    ordered before the launch when it is prepared, not at each run.
    """

    __slots__ = ("_launch", "_launched", "_launches", "_owners", "handle", "record")
    _uncopied_for = "is of arrays and a stream of this process"
    _uncopied_advice = "prepare the launch again"

    def __init__(
        self,
        launches: Launches,
        handle: int,
        configuration: Any,
        arguments: Sequence[Any],
        record: LaunchRecord,
        owners: object,
    ) -> None:
        stream, self._launched = launches.stream(handle)
        self._launch = functools.partial(launches.device.launch, stream, configuration, launches.kernel, *arguments)
        self._launches = launches
        self._owners = owners
        self.handle = handle
        self.record = record

    def __repr__(self) -> str:
        return f"<prepared launch: {self.record}>"

    def _not_launched(self) -> tuple[str, str, str]:
        advice = "write prepared.run(); its grid, arguments and stream are those it was prepared with"
        return self.record.kernel, "the launch is already prepared", advice

    @own_boundary
    def run(self, *arguments: object, **named: object) -> None:
        """Launch. Returns before the kernel has run. It takes no arguments: those are prepared.

        Raises launch.failed with the driver's answer, and launch.call for arguments.
        """
        try:
            if arguments or named:
                raise DiagnosticError([self._refused("prepared.run(...)")])
            try:
                self._launch()
            except driver_errors() as error:
                self._launches.fail(error, self.record, self._launched)
        except DiagnosticError as error:
            cut(error)
            raise
        launched, record = self._launched, self.record
        if not launched or launched[-1] is not record:
            launched.append(record)


@user_facing
def synchronize(stream: Any = None, *, device: Device | None = None) -> None:
    """Wait for everything on `stream` (None: the default stream).

    Raises launch.assertion where a kernel ended the launch itself, by k.assert_ or k.trap; launch.asynchronous-error,
    naming the kernels launched since the last call, where one of them failed; launch.no-gpu without a GPU.
    """
    device = CudaDevice() if device is None else device
    handle = stream_handle(stream)
    launched = history(device, handle)
    records = tuple(launched)
    launched.clear()
    try:
        device.synchronize(handle)
    except DriverError as error:
        raise_failures(device, records)
        names = dict.fromkeys(record.kernel for record in records)
        ASYNCHRONOUS_ERROR.fail(
            error=error,
            kernels=", ".join(names) or "none of nvbackend's",
            notes=tuple((f"launched: {record}", record.location) for record in records),
        )
