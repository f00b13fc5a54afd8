"""Kernels in the simulator: the same launches on arrays of this process, without a GPU or by request."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nvbackend.diagnostics import DiagnosticError, raise_all
from nvbackend.intrinsics.copy.map_elements import ELEMENT_TYPE_OF
from nvbackend.intrinsics.sync.barriers import MAX_CTA_THREADS
from nvbackend.isel.machine.assertions import record_name
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.machine.zeros import ZEROS
from nvbackend.isel.target.target import Target
from nvbackend.runtime.arguments.apart import Apart
from nvbackend.runtime.arguments.arrays import DeviceArray, accepted_dtypes, big_endian, shown_dtypes
from nvbackend.runtime.arguments.binder import Binder, Bound
from nvbackend.runtime.device import Configuration, DeviceLimits, KernelLimits
from nvbackend.runtime.im2col import element_strides
from nvbackend.runtime.launch import raise_failures
from nvbackend.runtime.rules import DTYPE
from nvbackend.runtime.tensor_map import TensorMapPlan, check_array, check_tensor_map, plan
from nvbackend.signature import BoundTensorMap, Parameter, Pointer, Scalar, Signature, TensorMap

if TYPE_CHECKING:
    from nvbackend.runtime.arguments.promises import Promises
    from nvbackend.runtime.arguments.zeros import Zeroed
    from nvbackend.simulator import Report, SimulatedModule

_SHARED_BYTES = 232448
_AFTER = "the arrays keep what was written"
_MAP_NAME = "of the simulator"
_MAP_MODES = {None: "im2col", "w": "im2col::w", "w128": "im2col::w::128"}
_ALIGNED = 256
"""What the address of an array of its own is a multiple of."""


Place = tuple[str, int, int, int, str]
"""A variable of the PTX, the first byte in it, the bytes of all and of each part, and what the program calls that."""
_UNNAMED = ("shared", "memory")


def places_of(compiled: object) -> Iterator[Place]:
    """What a compiled kernel calls its shared memory, by where it lies; one that was saved does not say it."""
    machine = getattr(compiled, "machine", None)
    instructions = machine.instructions() if isinstance(machine, MachineFunction) else ()
    objects = {touch.object for instr in instructions for touch in instr.memory}
    for memory in sorted(objects, key=lambda each: each.id):
        if memory.start is not None and memory.twin is None and memory.name not in _UNNAMED:
            yield (*memory.start, memory.bytes, memory.element_bytes, memory.name)


class SimulatedDevice:
    """The simulator as a device: it loads PTX, and its launches return when the kernel has run.

    `names` are those of its kernel's parameters, `places` gives those of its shared memory, `zeroed` what of its
    arguments is 0 before and after each launch. Launches go by `seed`, `checks`, `report` and `limit`, as
    `SimulatedModule.launch` takes them.
    """

    def __init__(
        self,
        target: Target,
        names: Sequence[str] = (),
        *,
        places: Callable[[], Iterable[Place]] = tuple,
        zeroed: Callable[[], Zeroed | None] = lambda: None,
        seed: int = 0,
        checks: bool = True,
        report: bool = False,
        limit: int | None = None,
    ) -> None:
        from nvbackend.simulator import multiprocessors

        major, minor = divmod(target.number, 10)
        count = multiprocessors(str(target))
        self.limits = DeviceLimits(0, "the simulator", (major, minor), MAX_CTA_THREADS, _SHARED_BYTES, count)
        self.notes: dict[str, Any] = {}
        self._kernel = ""
        """The one that is loaded: a module may have others."""
        self._names = names
        self._places = functools.cache(lambda: list(places()))
        self._zeroed = functools.cache(zeroed)
        self.seed, self.checks, self.report = seed, checks, report
        self._limit = {} if limit is None else {"limit": limit}
        self._reports: dict[Any, Report] = {}

    def load(self, name: str, image: bytes | str) -> SimulatedModule:
        """The module of a PTX text, which has the kernel `name`. Raises simulator.unknown and ptx.*."""
        from nvbackend.simulator import Simulator

        assert isinstance(image, str)
        self._kernel = name
        return Simulator().load(image, source=f"<{name}>")

    def kernel_limits(self, kernel: SimulatedModule) -> KernelLimits:
        """What the simulator allows a loaded kernel."""
        return KernelLimits(MAX_CTA_THREADS, kernel.static_shared_bytes(self._kernel))

    def allow(self, kernel: Any, shared_bytes: int, cluster: int) -> None:
        """Everything is allowed already."""

    def record(self, kernel: SimulatedModule, name: str, words: int) -> memoryview:
        """The variable of the kernel's record."""
        return kernel.global_bytes(record_name(name)).data.cast("Q")[:words]

    def configuration(self, configuration: Configuration) -> Configuration:
        """A launch's shape as it is."""
        return configuration

    def stream(self, handle: int) -> int:
        """There is one order of launches."""
        return handle

    def launch(self, _stream: Any, configuration: Any, kernel: Any, *arguments: Any) -> None:
        """Run the kernel to its end.

        Raises launch.assertion, launch.not-zero, launch.left-over, and what the simulator raises.
        """
        self._reports.pop(kernel, None)
        zeroed, ctas = self._zeroed() if self.checks else None, math.prod(configuration.grid)
        raise_all(zeroed.before(arguments, ctas) if zeroed else ())
        try:
            self._reports[kernel] = kernel.launch(
                self._kernel,
                grid=configuration.grid,
                block=configuration.block,
                cluster=configuration.cluster if math.prod(configuration.cluster) > 1 else None,
                shared=configuration.shared_bytes,
                args=arguments,
                seed=self.seed,
                checks=self.checks,
                report=self.report,
                names=self._names,
                places=self._places(),
                **self._limit,
            )
        except DiagnosticError:
            raise_failures(self, after=_AFTER)
            raise
        raise_all(zeroed.after(arguments, ctas) if zeroed else ())

    def report_of(self, kernel: SimulatedModule) -> Report | None:
        """What the last launch of a loaded kernel did; None before one, and after one that failed."""
        return self._reports.get(kernel)

    def synchronize(self, handle: int) -> None:
        """Nothing is in flight."""

    def order(self, earlier: int, later: int) -> None:
        """Launches are in order."""

    def ordinal_of(self, _pointer: int) -> int | None:
        """All memory of this process is the simulator's."""
        return 0


class SimulatedBinder:
    """Checks and converts the arguments of one kernel's launches, as `Binder` does for a GPU."""

    def __init__(
        self,
        signature: Signature,
        device: SimulatedDevice,
        apart: Sequence[tuple[int, int]] = (),
        promises: Promises | None = None,
    ) -> None:
        self._signature = signature
        self._apart = Apart(signature, apart)
        self._promises = promises
        self._binder = Binder(signature, device)

    def known(self, _arguments: Sequence[object], stream: int) -> None:
        """Every launch is checked: a kernel takes longer here."""

    def bind(self, arguments: Sequence[object], stream: int) -> Bound:
        """What the simulator takes for the arguments; every problem found is listed."""
        pointers = {place for place, each in enumerate(self._signature.parameters) if isinstance(each.type, Pointer)}
        hosts = [_host_of(argument, is_pointer=place in pointers) for place, argument in enumerate(arguments)]
        seen = [
            argument if host is None else _seen(argument, host) for argument, host in zip(arguments, hosts, strict=True)
        ]
        bound = self._binder.bind(seen, stream)
        if not bound.problems:
            bound.problems += self._apart.overlaps({place: _addresses(hosts[place]) for place in self._apart.places})
        if not bound.problems and self._promises is not None:
            every = zip(self._signature.parameters, bound.values, strict=True)
            numbers = {each.name: int(value) for each, value in every if _is_integer(each)}
            bound.problems += self._promises.broken(numbers)
        if bound.problems:
            return bound
        values = bound.values
        bound.values = []
        for parameter, value, host in zip(self._signature.parameters, values, hosts, strict=True):
            if isinstance(parameter.type, Pointer):
                bound.values.append(host)
            elif isinstance(parameter.type, TensorMap):
                bound.values.append(parameter.type.bind(host))
            else:
                bound.values.append(value.tobytes())
        return bound

    def encoded(self, bound: Bound) -> list[Any]:
        """The values: there is nothing to encode."""
        return bound.values


def promised(signature: Signature, compiled: object) -> Promises | None:
    """What a kernel promises of its scalar arguments by k.assume; None for nothing."""
    from nvbackend.runtime.arguments.promises import promises_of

    return promises_of(signature, compiled)


def zeroed_of(compiled: Any) -> Zeroed | None:
    """What of a kernel's arguments is 0 between launches; None for nothing."""
    if ZEROS not in str(getattr(compiled, "ir", "")):
        return None
    from nvbackend.runtime.arguments.zeros import Zeroed

    names = [parameter.name for parameter in compiled.signature.parameters]
    return Zeroed(compiled.signature.name, names, compiled)


def _is_integer(parameter: Parameter) -> bool:
    return isinstance(parameter.type, Scalar) and parameter.type.element.is_integer


def _addresses(array: Any) -> range:
    start = int(array.__array_interface__["data"][0])
    return range(start, start + array.nbytes)


def _host_of(argument: Any, *, is_pointer: bool) -> Any:
    """A view of an argument's array, None for anything else.

    An array without axes is memory for a pointer alone.
    """
    import numpy as np

    if is_pointer and isinstance(argument, np.ndarray) and not argument.ndim:
        return argument.reshape(1)
    return _host_array(argument.array if isinstance(argument, BoundTensorMap) else argument)


def _host_array(argument: Any) -> Any:
    """A view of an array in this process's memory as NumPy's, None for anything else."""
    import numpy as np

    if isinstance(argument, np.ndarray):
        return np.asarray(argument) if argument.ndim else None  # a np.matrix would keep two axes whatever is asked
    if hasattr(argument, "__array_interface__") and bool(getattr(argument, "shape", None)):
        return np.asarray(argument)
    if hasattr(argument, "data_ptr") and str(getattr(argument, "device", "")) == "cpu":
        return argument.detach().numpy()
    return None


def _seen(argument: object, host: Any) -> object:
    """What the checks are made of, for an argument that is an array or a map over one."""
    described = _described(host)
    return BoundTensorMap(argument.parameter, described) if isinstance(argument, BoundTensorMap) else described


def _described(array: Any) -> DeviceArray:
    """The array as checks see it. Its place in its owner's memory counts, not that of the owner in this process."""
    owner = array
    while hasattr(getattr(owner, "base", None), "__array_interface__"):
        owner = owner.base
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return DeviceArray(
        pointer=_ALIGNED + offset,
        shape=array.shape,
        strides=array.strides,
        dtype=array.dtype.name if array.dtype.isnative else big_endian(array.dtype.str),
        item_bytes=array.itemsize,
        readonly=not array.flags.writeable,
        owner=array,
    )


def say_where(kernel: str, reason: str) -> None:
    """One line that says that a kernel runs in the simulator, and why."""
    sys.stderr.write(f"nvbackend: {kernel} runs in the simulator: {reason}\n")


def simulated_bytes(parameter: TensorMap, array: Any, address: int) -> bytes:
    """The 128 bytes of the tensor map of `array`, a NumPy array whose first element is at `address` there.

    The checks and the plan are those for the driver. Raises launch.dtype and tensor-map.*.
    """
    described = replace(_described(array), pointer=address)
    problems = list(check_tensor_map(_MAP_NAME, parameter))
    accepted = accepted_dtypes(parameter.element)
    if described.dtype not in accepted:
        problems.append(
            DTYPE.diagnose(
                name=_MAP_NAME,
                given=described.dtype,
                element=parameter.element,
                accepted=shown_dtypes(accepted),
            )
        )
    raise_all([*problems, *check_array(_MAP_NAME, parameter, described)])
    return _map_bytes(parameter, plan(parameter, described))


def _map_bytes(parameter: TensorMap, planned: TensorMapPlan) -> bytes:
    """The plan has the outermost dimension first, what TMA reads the innermost."""
    from nvbackend.simulator.copies import tensor_map as simulated

    walk = planned.im2col
    options: dict[str, Any] = {}
    if walk is not None:
        options = {
            "element_strides": element_strides(walk)[::-1],
            "mode": _MAP_MODES[walk.wide],
            "lower": walk.lower[::-1],
            "upper": walk.upper[::-1],
        }
    return simulated.TensorMap(
        address=planned.pointer,
        element=ELEMENT_TYPE_OF[parameter.element.name],
        extents=planned.shape[::-1],
        strides=planned.strides[-2::-1],
        box=planned.box[::-1],
        swizzle=planned.swizzle,
        **options,
    ).encode()
