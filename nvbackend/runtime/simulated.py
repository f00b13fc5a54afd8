"""Kernels in the simulator: the same launches on arrays of this process, where there is no GPU or none is wanted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nvbackend.intrinsics.copy.tensormap import ELEMENT_TYPE_OF
from nvbackend.isel.target.target import Target
from nvbackend.runtime.arguments import Binder, Bound
from nvbackend.runtime.arrays import DeviceArray
from nvbackend.runtime.device import Configuration, DeviceLimits, KernelLimits
from nvbackend.runtime.tensor_map import TensorMapPlan
from nvbackend.signature import Pointer, Signature, TensorMap

if TYPE_CHECKING:
    from nvbackend.simulator import SimulatedModule

_THREADS, _SHARED_BYTES = 1024, 232448
_ALIGNED = 256
"""What the address of an array of its own is a multiple of."""


class SimulatedDevice:
    """The simulator as a device: it loads PTX, and its launches return when the kernel has run."""

    def __init__(self, target: Target) -> None:
        from nvbackend.simulator import multiprocessors

        major, minor = divmod(target.number, 10)
        count = multiprocessors(str(target))
        self.limits = DeviceLimits(0, "the simulator", (major, minor), _THREADS, _SHARED_BYTES, count)
        self.notes: dict[str, Any] = {}

    def load(self, name: str, image: bytes | str) -> SimulatedModule:
        """The module of a PTX text, which has the kernel `name`. Raises simulator.unknown and ptx.*."""
        from nvbackend.simulator import Simulator

        assert isinstance(image, str)
        return Simulator().load(image, source=f"<{name}>")

    def kernel_limits(self, kernel: SimulatedModule) -> KernelLimits:
        """What the simulator allows a loaded kernel."""
        (name,) = kernel.kernels
        return KernelLimits(_THREADS, kernel.static_shared_bytes(name))

    def allow(self, kernel: Any, shared_bytes: int, cluster: int) -> None:
        """Everything is allowed already."""

    def configuration(self, configuration: Configuration) -> Configuration:
        """A launch's shape as it is."""
        return configuration

    def stream(self, handle: int) -> int:
        """There is one order of launches."""
        return handle

    def launch(self, _stream: Any, configuration: Any, kernel: Any, *arguments: Any) -> None:
        """Run the kernel to its end."""
        kernel.launch(
            kernel.kernels[0],
            grid=configuration.grid,
            block=(configuration.threads, 1, 1),
            cluster=(configuration.cluster, 1, 1),
            shared=configuration.shared_bytes,
            args=arguments,
        )

    def synchronize(self, handle: int) -> None:
        """Nothing is in flight."""

    def order(self, earlier: int, later: int) -> None:
        """Launches are in order."""

    def ordinal_of(self, _pointer: int) -> int | None:
        """All memory of this process is the simulator's."""
        return 0


@dataclass(frozen=True)
class BoundMap:
    """A tensor map over an array of this process, as the simulator takes it for a parameter."""

    planned: TensorMapPlan
    element: str
    array: Any
    arrays: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", (self.array,))

    def bytes_of(self, addresses: Sequence[int]) -> bytes:
        """The 128 bytes that the simulator's copy engine reads; innermost dimension first."""
        from nvbackend.simulator.copies.tensor_map import TensorMap as Encoded

        planned, im2col = self.planned, self.planned.im2col
        mode = "tile"
        if im2col is not None:
            mode = {None: "im2col", "w": "im2col::w", "w128": "im2col::w::128"}[im2col.wide]
        return Encoded(
            address=addresses[0],
            element=self.element,
            extents=planned.shape[::-1],
            strides=planned.strides[-2::-1],
            box=planned.box[::-1],
            swizzle=planned.swizzle,
            mode=mode,
            lower=() if im2col is None else im2col.lower[::-1],
            upper=() if im2col is None else im2col.upper[::-1],
        ).encode()


class SimulatedBinder:
    """Checks and converts the arguments of one kernel's launches, as `Binder` does for a GPU."""

    def __init__(self, signature: Signature, device: SimulatedDevice) -> None:
        self._signature = signature
        self._binder = Binder(signature, device)

    def known(self, _arguments: Sequence[object], stream: int) -> None:
        """Every launch is checked: a kernel takes longer here."""

    def bind(self, arguments: Sequence[object], stream: int) -> Bound:
        """What the simulator takes for the arguments; every problem found is listed."""
        hosts = [_host_array(one) for one in arguments]
        seen = [one if host is None else _described(host) for one, host in zip(arguments, hosts, strict=True)]
        bound = self._binder.bind(seen, stream)
        if bound.problems:
            return bound
        values = bound.values
        bound.values = []
        for parameter, value, host in zip(self._signature.parameters, values, hosts, strict=True):
            if isinstance(parameter.type, Pointer):
                bound.values.append(host)
            elif isinstance(parameter.type, TensorMap):
                bound.values.append(BoundMap(value.plan, ELEMENT_TYPE_OF[parameter.type.element.name], host))
            else:
                bound.values.append(bytes(value))
        return bound

    def encoded(self, bound: Bound) -> list[Any]:
        """The values: there is nothing to encode."""
        return bound.values


def _host_array(argument: Any) -> Any:
    """A view of an array in this process's memory as NumPy's, None for anything else."""
    import numpy as np

    if isinstance(argument, np.ndarray):
        return argument if argument.ndim else None
    if hasattr(argument, "__array_interface__") and bool(getattr(argument, "shape", None)):
        return np.asarray(argument)
    if hasattr(argument, "data_ptr") and str(getattr(argument, "device", "")) == "cpu":
        return argument.detach().numpy()
    return None


def _described(array: Any) -> DeviceArray:
    """The array as checks see it. Its place in its owner's memory counts, not that of the owner in this process."""
    owner = array
    while getattr(owner, "base", None) is not None and hasattr(owner.base, "__array_interface__"):
        owner = owner.base
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return DeviceArray(
        pointer=_ALIGNED + offset,
        shape=array.shape,
        strides=array.strides,
        dtype=array.dtype.name,
        item_bytes=array.itemsize,
        readonly=not array.flags.writeable,
        owner=array,
    )


def say_where(kernel: str, reason: str) -> None:
    """One line that says that a kernel runs in the simulator, and why."""
    sys.stderr.write(f"nvbackend: {kernel} runs in the simulator: {reason}\n")
