"""Loaded kernels: a compiled kernel on the current device, ready to launch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, cast, overload

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Uncopied, raise_all, user_facing, with_article
from nvbackend.diagnostics.boundary import cut, own_boundary, refuse_method
from nvbackend.isel.target.target import Target
from nvbackend.launch_calls import LAUNCH_CALL, KernelsByName, NoLaunches
from nvbackend.runtime import launch as launching
from nvbackend.runtime import tensor_map
from nvbackend.runtime.arguments.apart import pairs_apart
from nvbackend.runtime.arguments.arrays import describe
from nvbackend.runtime.arguments.binder import Binder, Bound
from nvbackend.runtime.arguments.large import has_large_array
from nvbackend.runtime.device import CudaDevice, Device, check_architecture, check_resources, runs_on
from nvbackend.runtime.driver import driver_errors, no_gpu_reason
from nvbackend.runtime.launch import Grid, Launches, LaunchRecord, PreparedLaunch, is_argument, watch
from nvbackend.runtime.rules import DEVICE_NAME, GRID, LOAD_FAILED, NOT_COMPILED, SIMULATOR_OPTION, how_to_load
from nvbackend.runtime.simulated import SimulatedBinder, SimulatedDevice, places_of, promised, say_where, zeroed_of
from nvbackend.runtime.streams import CU_STREAM_PER_THREAD, stream_handle
from nvbackend.signature import Signature, TensorMap

if TYPE_CHECKING:
    from nvbackend.runtime.arguments.promises import Promises
    from nvbackend.runtime.arguments.wide_indices import WideIndices
    from nvbackend.simulator import Report

GPU, SIMULATOR = "gpu", "simulator"
"""The names of devices."""


class Image(Protocol):
    """A cubin."""

    @property
    def data(self) -> bytes | None:
        """Its bytes; None where it was not assembled."""


class Compiled(Protocol):
    """What the runtime needs of a compiled kernel: signature, target, PTX, and a cubin if it was assembled."""

    @property
    def signature(self) -> Signature:
        """What the kernel takes, and its launch bounds."""

    @property
    def target(self) -> Target:
        """The target that it was compiled for."""

    @property
    def ptx(self) -> str:
        """The PTX text."""

    @property
    def cubin(self) -> Image | None:
        """Its cubin, None where PTX is all there is."""


_OnDevice = TypeVar("_OnDevice")


class _Loaded(Uncopied):
    """What is on a device: a deep copy of an object that holds it launches the same kernel."""

    __slots__ = ()
    _uncopied_for = "is on a device of this process"
    _uncopied_advice = "pickle what was compiled, and load that again"

    def __deepcopy__(self: _OnDevice, memo: dict[int, Any]) -> _OnDevice:
        return self


_Launch = TypeVar("_Launch", bound=Callable[..., None])
_NOTHING: Any = object()


def _again_or(checked: _Launch) -> _Launch:
    """A launch that differs from earlier ones by what `checked` does, one that does not by the shortest way.

    A boundary of its own: one that looks at each argument's type first takes longer.
    """
    covered = user_facing(checked)

    @own_boundary
    @functools.wraps(checked)
    def launch(
        self: LoadedKernel, grid: Any = _NOTHING, /, *arguments: object, stream: Any = None, **named: object
    ) -> None:
        try:
            try:
                if not named and self._again(grid, arguments, stream, sys._getframe(1)):
                    return
                if stream is not None:
                    named["stream"] = stream
                covered(self, *(() if grid is _NOTHING else (grid,)), *arguments, **named)
            except Exception as error:
                refuse_method(error, checked, (self,))
                raise
        except DiagnosticError as error:
            cut(error)
            raise

    return cast("_Launch", launch)


@user_facing
class LoadedKernel(_Loaded, NoLaunches):
    """A kernel on the current device. Launch it by `launch(grid, ...)` or `kernel[grid, stream](...)`."""

    def __init__(
        self,
        signature: Signature,
        kernel: Any,
        device: Device,
        apart: Sequence[tuple[int, int]] = (),
        promises: Promises | None = None,
        compiled: object = None,
    ) -> None:
        self.signature = signature
        self.device = device
        self._compiled = compiled
        self._binder = (
            SimulatedBinder(signature, device, apart, promises)
            if isinstance(device, SimulatedDevice)
            else Binder(signature, device, apart)
        )
        self._launches = Launches(signature, kernel, device)

    def __repr__(self) -> str:
        return f"<loaded kernel: {self.signature!r}>"

    @functools.cached_property
    def _indices(self) -> WideIndices:
        from nvbackend.runtime.arguments.wide_indices import WideIndices

        return WideIndices(self.signature, self._compiled)

    @property
    def name(self) -> str:
        """The kernel's name, as in the PTX."""
        return self.signature.name

    @property
    def report(self) -> Report | None:
        """What the last launch in the simulator did; None on a GPU, before a launch, and after one that failed."""
        device = self.device
        return device.report_of(self._launches.kernel) if isinstance(device, SimulatedDevice) else None

    def prepare(self, grid: Grid, *arguments: object, stream: Any = None) -> PreparedLaunch:
        """Check and convert everything once, for a launch that `run()` repeats.

        `grid` counts CTAs: an integer, or x, y, z; x is a multiple of the cluster. `arguments` are device arrays
        (numba, CuPy, PyTorch, JAX: `__cuda_array_interface__` or DLPack) and numbers, in the signature's order.
        `stream` is a stream of any of them or a handle; None is the default stream. Raises every problem found
        together: the rules launch.* and tensor-map.*.
        """
        handle = stream_handle(stream)
        record, configuration, bound = self._checked(grid, arguments, handle)
        values, owners = self._binder.encoded(bound), (bound.owners, stream)
        return PreparedLaunch(self._launches, handle, configuration, values, record, owners)

    def _checked(self, grid: Grid, arguments: tuple[object, ...], handle: int) -> tuple[LaunchRecord, Any, Bound]:
        """The launch's record, the driver's form of it, and its arguments, with other streams' work ordered before."""
        launches = self._launches
        problems: list[Diagnostic] = []
        full, configuration = launches.shape(grid, problems)
        if problems and is_argument(grid):
            raise_all(problems)
        bound = self._binder.bind(arguments, handle)
        if not problems and not bound.problems and has_large_array(bound.values):
            problems += self._indices.wrapped(full, bound.values)
        if problems or bound.problems:
            raise_all([*problems, *bound.problems])
        record = launches.record(full)
        if bound.streams:
            launches.order(bound.streams, handle, record)
        return record, configuration, bound

    def _again(self, grid: Any, arguments: tuple[object, ...], stream: Any, frame: FrameType) -> bool:
        """Launch what was launched before with this grid, on this stream, by the line of `frame`; whether it was.

        Raises launch.failed.
        """
        try:
            handle = 0 if stream is None else stream_handle(stream)
        except Exception:  # noqa: BLE001, said by the launch that asks again
            return False
        values = self._binder.known(arguments, handle)
        return values is not None and self._launches.again(grid, handle, frame, values)

    @_again_or
    def launch(self, grid: Grid, *arguments: object, stream: Any = None) -> None:
        """Check, convert and launch; arguments as for `prepare`. Returns before the kernel has run.

        Raises the rules launch.* and tensor-map.* before anything is launched, launch.failed where the driver refuses.
        """
        handle = stream_handle(stream)
        launches = self._launches
        values = self._binder.known(arguments, handle)
        shape = None if values is None else launches.known_shape(grid)
        if values is None or shape is None:
            record, configuration, bound = self._checked(grid, arguments, handle)
            values = self._binder.encoded(bound)
        else:
            full, configuration = shape
            record = launches.record(full)
        launches.start(configuration, handle, record, values)

    @own_boundary
    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        """`kernel[grid](...)` and `kernel[grid, stream](...)`, numba's way to write a launch.

        A grid of two or three dimensions is a nested tuple: `kernel[(x, y), stream]`, `kernel[(x, y), None]`.
        """
        brackets = configuration if isinstance(configuration, tuple) else (configuration,)
        try:
            return _OfGrid(self, *self._grid_and_stream(brackets))
        except DiagnosticError as error:
            cut(error)
            raise

    def _refuse_names(self, named: Iterable[str]) -> NoReturn:
        """launch.call: neither parameters nor options of a launch are given by name."""
        names = ", ".join(f"{name}=..." for name in named)
        takes = ", ".join(parameter.name for parameter in self.signature.parameters) or "nothing"
        advice = f"pass {takes} in this order, a stream in the brackets, and constants of the build to compile()"
        problem = "a launch takes its arguments by position"
        LAUNCH_CALL.fail(call=f"kernel[...](..., {names})", kernel=self.name, problem=problem, advice=advice)

    def _grid_and_stream(self, brackets: tuple[Any, ...]) -> tuple[Any, Any]:
        """The contents of the brackets. Raises launch.grid for numba's (grid, block): no stream has such a handle."""
        grid, stream = (*brackets, None, None)[:2]
        threads = isinstance(stream, tuple) or (
            type(stream) is int and CU_STREAM_PER_THREAD < stream <= self.device.limits.threads
        )
        if threads or len(brackets) not in (1, 2):
            problem = "kernels take [grid] or [grid, stream]; the threads of a CTA are the kernel's own"
            advice = "pass the grid, a tuple of its own where it has several dimensions, and a stream or None"
            raise_all([GRID.diagnose(grid=brackets, kernel=self.name, problem=problem, advice=advice)])
        return grid, stream

    def _not_launched(self) -> tuple[str, str, str]:
        return self.name, "a launch needs a grid", "write kernel.launch(grid, ...) or kernel[grid](...)"

    def synchronize(self, stream: Any = None) -> None:
        """Wait for `stream`; raises as `nvbackend.runtime.synchronize` where something launched on it failed."""
        launching.synchronize(stream, device=self.device)


@user_facing
class _OfGrid:
    """`kernel[grid, stream]`, to be called with the arguments."""

    __slots__ = ("_grid", "_kernel", "_stream")

    @own_boundary
    def __init__(self, kernel: LoadedKernel, grid: Any, stream: Any) -> None:
        self._kernel, self._grid, self._stream = kernel, grid, stream

    @own_boundary
    def __call__(self, *arguments: object, **named: object) -> None:
        kernel, grid, stream = self._kernel, self._grid, self._stream
        try:
            try:
                if not named and kernel._again(grid, arguments, stream, sys._getframe(1)):
                    return
                self._launch(*arguments, **named)
            except Exception as error:
                refuse_method(error, LoadedKernel.launch, (kernel,))
                raise
        except DiagnosticError as error:
            cut(error)
            raise

    @own_boundary
    def _launch(self, *arguments: object, **named: object) -> None:
        if named:
            self._kernel._refuse_names(named)
        self._kernel.launch(self._grid, *arguments, stream=self._stream)


@user_facing
class LoadedModule(_Loaded, KernelsByName[LoadedKernel]):
    """The kernels of a module on the current device, by name: `module["scale"].launch(grid, ...)`."""

    def __init__(self, kernels: Mapping[str, LoadedKernel]) -> None:
        self.kernels = dict(kernels)

    def __repr__(self) -> str:
        return f"<loaded module: {', '.join(self.kernels)}>"

    def _not_launched(self) -> tuple[str, str, str]:
        first = next(iter(self.kernels), "name")
        advice = f'name a kernel: module["{first}"].launch(grid, ...)'
        return " or ".join(self.kernels), "it is a module of kernels", advice


@overload
def load(
    compiled: Compiled,
    *,
    device: Device | str | None = None,
    seed: int | None = None,
    checks: bool | None = None,
    report: bool | None = None,
    limit: int | None = None,
) -> LoadedKernel: ...


@overload
def load(
    compiled: Mapping[str, Compiled],
    *,
    device: Device | str | None = None,
    seed: int | None = None,
    checks: bool | None = None,
    report: bool | None = None,
    limit: int | None = None,
) -> LoadedModule: ...


@user_facing
def load(
    compiled: Compiled | Mapping[str, Compiled],
    *,
    device: Device | str | None = None,
    seed: int | None = None,
    checks: bool | None = None,
    report: bool | None = None,
    limit: int | None = None,
) -> LoadedKernel | LoadedModule:
    """Load `compiled` into numba-cuda's current context: its cubin, or its PTX where it has none.

    For a module, as `nvb.compile_module` returns it, every kernel is loaded, by name.

    `device="simulator"` runs the kernel in the simulator, on NumPy arrays. None does so if there is no GPU, and says so
    on standard error; "gpu" never does. Launches in the simulator return when the kernel has ended. Four arguments are
    for them: `seed` (0) chooses another legal order of threads and operations; `checks` (True) looks for mistakes that
    the numbers do not show; `report` (False) collects bytes, bank conflicts, waits and a timeline in `loaded.report`;
    `limit` (10^8) is how many instructions the CTAs that run together may execute.
    Raises launch.not-compiled, launch.simulator-option, launch.no-gpu, launch.architecture, launch.load-failed,
    launch.threads, launch.shared-memory, and tensor-map.* for a tensor-map parameter that no array could fill.
    """
    options = {"seed": seed, "checks": checks, "report": report, "limit": limit}
    if isinstance(compiled, Mapping):
        return LoadedModule({name: _load(kernel, device, options) for name, kernel in compiled.items()})
    return _load(compiled, device, options)


def _load(compiled: Compiled, device: Device | str | None, options: Mapping[str, Any]) -> LoadedKernel:
    """One kernel."""
    if not all(hasattr(compiled, name) for name in ("signature", "target", "ptx", "cubin")):
        NOT_COMPILED.fail(given=with_article(describe(compiled)), fix=how_to_load(compiled))
    device = chosen_device(device, compiled, options)
    if hasattr(compiled, "variants") and not isinstance(device, SimulatedDevice):
        compiled = _suited(compiled, device.limits.capability)
    signature, target = compiled.signature, compiled.target
    cubin = None if isinstance(device, SimulatedDevice) else compiled.cubin
    binary = None if cubin is None else cubin.data
    misfits = check_architecture(signature.name, target, device.limits, as_ptx=binary is None)
    raise_all([*misfits, *_check_maps(signature)])
    bounds, assertions = signature.bounds, getattr(compiled, "assertions", ())
    try:
        kernel = device.load(signature.name, compiled.ptx if binary is None else binary)
        raise_all(check_resources(signature, device.limits, device.kernel_limits(kernel)))
        device.allow(kernel, bounds.dynamic_shared_bytes, bounds.cluster)
        watch(device, kernel, signature.name, assertions)
    except driver_errors() as error:
        LOAD_FAILED.fail(kernel=signature.name, form="PTX" if binary is None else "cubin", error=error)
    promises = promised(signature, compiled) if isinstance(device, SimulatedDevice) else None
    return LoadedKernel(signature, kernel, device, pairs_apart(signature, compiled), promises, compiled)


def _suited(saved: Any, capability: tuple[int, int]) -> Any:
    """What a file has for a device: a cubin, else PTX, each of the newest target that runs; else its first target."""
    cubins = [each for each in saved.variants if each.cubin is not None and runs_on(each.target, capability)]
    texts = [replace(each, cubin=None) for each in saved.variants if runs_on(each.target, capability, as_ptx=True)]
    return max(cubins or texts, key=lambda each: (each.target.number, each.target.suffix), default=saved)


def chosen_device(device: Device | str | None, compiled: Any, options: Mapping[str, Any]) -> Device:
    """The requested device; by default the simulator where there is no GPU."""
    signature = compiled.signature
    chosen = {name: value for name, value in options.items() if value is not None}
    if device is None:
        reason = no_gpu_reason()
        if reason is not None:
            say_where(signature.name, reason)
            device = SIMULATOR
    if device == SIMULATOR:
        names = [parameter.name for parameter in signature.parameters]
        noted: dict[str, Any] = {
            "places": functools.partial(places_of, compiled),
            "zeroed": functools.partial(zeroed_of, compiled),
        }
        return SimulatedDevice(compiled.target, names, **noted, **chosen)
    if chosen:
        SIMULATOR_OPTION.fail(
            kernel=signature.name, options=", ".join(f"{name}={value}" for name, value in chosen.items())
        )
    if device is None or device == GPU:
        return CudaDevice()
    return device if not isinstance(device, str) else DEVICE_NAME.fail(given=device)


def _check_maps(signature: Signature) -> Iterator[Diagnostic]:
    for parameter in signature.parameters:
        if isinstance(parameter.type, TensorMap):
            yield from tensor_map.check_tensor_map(parameter.name, parameter.type)
