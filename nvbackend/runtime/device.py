"""The current device, in numba-cuda's context: what it can run, loading, attributes, launches, synchronisation."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, MutableMapping
from typing import Any, Protocol

from nvbackend.diagnostics import Diagnostic
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.machine.assertions import place_name
from nvbackend.isel.target.target import Target
from nvbackend.runtime.driver import bindings, call, core, no_gpu_reason, numba_cuda
from nvbackend.runtime.rules import ARCHITECTURE, NO_GPU, SHARED_MEMORY, THREADS
from nvbackend.signature import Shape, Signature

_EARLY = "programmatic_stream_serialization"
"""cuda.core's option for launches that start before the grids before them have ended."""
_PORTABLE_CLUSTER = 8
"""The most CTAs of a cluster on every chip with clusters (PTX ISA 3.2.2)."""


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """The facts of a device that the launch checks need: ordinal, name, compute capability, threads a CTA, bytes of
    shared memory a CTA (with the opt-in above 48 KB), multiprocessors."""

    ordinal: int
    name: str
    capability: tuple[int, int]
    threads: int
    shared_bytes: int
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """The driver's facts about a loaded kernel: threads per CTA that its registers allow, static shared bytes."""

    threads: int
    static_shared_bytes: int


@dataclass(frozen=True, slots=True)
class Configuration:
    """A launch's shape: grid and cluster in CTAs, a CTA in threads, dynamic shared bytes a CTA.

    A kernel that `overlaps` may start before the grids before it on the stream have ended.
    """

    grid: Shape
    block: Shape
    cluster: Shape
    shared_bytes: int
    overlaps: bool = False


def runs_on(target: Target, capability: tuple[int, int], *, as_ptx: bool = False) -> bool:
    """Whether code of `target` runs on a device: `a` targets on that chip alone, `f` targets within their family from
    that chip on, plain ones on its major version from that chip on, and as PTX on every later chip.

    Source: CUDA C++ Programming Guide, Binary Compatibility and PTX Compatibility.
    """
    wanted = divmod(target.number, 10)
    if target.suffix == "a":
        return capability == wanted
    if as_ptx and not target.suffix:
        return capability >= wanted
    return capability[0] == wanted[0] and capability[1] >= wanted[1]


def check_architecture(kernel: str, target: Target, device: DeviceLimits, *, as_ptx: bool) -> Iterator[Diagnostic]:
    """launch.architecture where the device cannot run code of `target`."""
    if not runs_on(target, device.capability, as_ptx=as_ptx):
        major, minor = device.capability
        yield ARCHITECTURE.diagnose(
            kernel=kernel,
            target=target,
            device=device.name,
            capability=f"{major}.{minor}",
            nearest=f"sm_{major}{minor}" + ("a" if target.suffix and major >= 9 else ""),
        )


def check_resources(signature: Signature, device: DeviceLimits, kernel: KernelLimits) -> Iterator[Diagnostic]:
    """launch.threads and launch.shared-memory where the kernel's launch bounds exceed the device or its registers."""
    bounds = signature.bounds
    most = min(device.threads, kernel.threads)
    if not 1 <= bounds.threads <= most:
        because = "its registers allow no more" if kernel.threads < device.threads else f"the limit of {device.name}"
        yield THREADS.diagnose(kernel=signature.name, threads=bounds.threads, most=most, because=because)
    total = bounds.dynamic_shared_bytes + kernel.static_shared_bytes
    if total > device.shared_bytes:
        yield SHARED_MEMORY.diagnose(
            kernel=signature.name,
            dynamic=bounds.dynamic_shared_bytes,
            static=kernel.static_shared_bytes,
            total=total,
            device=device.name,
            most=device.shared_bytes,
            excess=total - device.shared_bytes,
        )


class Device(Protocol):
    """What loading and launching need of a device."""

    @property
    def limits(self) -> DeviceLimits:
        """What the device allows any kernel."""

    @property
    def notes(self) -> MutableMapping[str, Any]:
        """What lives as long as the context."""

    def load(self, name: str, image: bytes | str) -> Any:
        """The kernel `name` of a cubin (bytes) or PTX (str). Raises an error of the driver."""

    def kernel_limits(self, kernel: Any) -> KernelLimits:
        """What the driver allows a loaded kernel."""

    def allow(self, kernel: Any, shared_bytes: int, cluster: int) -> None:
        """Let `kernel` have this much dynamic shared memory and this many CTAs a cluster."""

    def record(self, kernel: Any, name: str, words: int) -> memoryview:
        """The words of 64 bits in which the loaded kernel called `name` records why it ended a launch.

        They can be read after that, and are 0 until then.
        """

    def configuration(self, configuration: Configuration) -> Any:
        """The driver's form of a launch's shape."""

    def stream(self, handle: int) -> Any:
        """The driver's form of the stream with this handle."""

    def launch(self, stream: Any, configuration: Any, kernel: Any, *arguments: Any) -> None:
        """Put a launch on a stream. Raises an error of the driver."""

    def synchronize(self, handle: int) -> None:
        """Wait for a stream. Raises DriverError."""

    def order(self, earlier: int, later: int) -> None:
        """Make later launches on stream `later` wait for the work on `earlier`."""

    def ordinal_of(self, pointer: int) -> int | None:
        """The device that holds an address, None outside CUDA memory."""


class CudaDevice:
    """The device of numba-cuda's current context; making one makes that context current in this thread."""

    def __init__(self) -> None:
        reason = no_gpu_reason()
        if reason is not None:
            NO_GPU.fail(reason=reason)
        context = numba_cuda().current_context()
        ordinal = int(context.device.id)
        self._ordinal = ordinal
        self.notes: MutableMapping[str, Any] = context.extras
        self.launch = core().launch
        self.stream = core().Stream.from_handle
        name = context.device.name
        self.limits = DeviceLimits(
            ordinal=ordinal,
            name=name.decode() if isinstance(name, bytes) else str(name),
            capability=(self._attribute("COMPUTE_CAPABILITY_MAJOR"), self._attribute("COMPUTE_CAPABILITY_MINOR")),
            threads=self._attribute("MAX_THREADS_PER_BLOCK"),
            shared_bytes=self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            multiprocessors=self._attribute("MULTIPROCESSOR_COUNT"),
        )

    def _attribute(self, name: str) -> int:
        attribute = getattr(bindings().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(call("cuDeviceGetAttribute", attribute, self._ordinal))

    def load(self, name: str, image: bytes | str) -> Any:
        code = core().ObjectCode
        loaded = code.from_cubin(image, name=name) if isinstance(image, bytes) else code.from_ptx(image.encode())
        return loaded.get_kernel(name)

    def kernel_limits(self, kernel: Any) -> KernelLimits:
        return KernelLimits(
            threads=self._kernel_attribute(kernel, "MAX_THREADS_PER_BLOCK"),
            static_shared_bytes=self._kernel_attribute(kernel, "SHARED_SIZE_BYTES"),
        )

    def _kernel_attribute(self, kernel: Any, name: str) -> int:
        attribute = getattr(bindings().CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(call("cuKernelGetAttribute", attribute, _handle(kernel), self._ordinal))

    def allow(self, kernel: Any, shared_bytes: int, cluster: int) -> None:
        attributes = bindings().CUfunction_attribute
        if shared_bytes:
            name = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call("cuKernelSetAttribute", name, shared_bytes, _handle(kernel), self._ordinal)
        if cluster > _PORTABLE_CLUSTER:
            name = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            call("cuKernelSetAttribute", name, 1, _handle(kernel), self._ordinal)

    def record(self, kernel: Any, name: str, words: int) -> memoryview:
        flags = bindings()
        portable = flags.CU_MEMHOSTALLOC_PORTABLE | flags.CU_MEMHOSTALLOC_DEVICEMAP
        # Never freed: the kernel's variable points there as long as the context lives, and freeing fails afterwards.
        host = int(call("cuMemHostAlloc", 8 * words, portable))
        record = (ctypes.c_uint64 * words).from_address(host)
        ctypes.memset(host, 0, 8 * words)
        library = call("cuKernelGetLibrary", _handle(kernel))
        variable, _ = call("cuLibraryGetGlobal", library, place_name(name).encode())
        place = ctypes.c_uint64(int(call("cuMemHostGetDevicePointer", host, 0)))
        call("cuMemcpyHtoD", variable, ctypes.addressof(place), 8)
        return memoryview(record).cast("B").cast("Q")

    def configuration(self, configuration: Configuration) -> Any:
        cluster, config = configuration.cluster, core().LaunchConfig
        # A cuda.core without the option launches after the grids before: later, and right.
        early = configuration.overlaps and hasattr(config, _EARLY)
        # With a cluster, cuda.core counts the grid in clusters.
        return config(
            grid=tuple(ctas // each for ctas, each in zip(configuration.grid, cluster, strict=True)),
            block=configuration.block,
            cluster=cluster if math.prod(cluster) > 1 else None,
            shmem_size=configuration.shared_bytes,
            **({_EARLY: True} if early else {}),
        )

    def synchronize(self, handle: int) -> None:
        call("cuStreamSynchronize", handle)

    def order(self, earlier: int, later: int) -> None:
        driver = bindings()
        event = call("cuEventCreate", int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        call("cuEventRecord", event, earlier)
        call("cuStreamWaitEvent", later, event, 0)
        # The driver keeps the event until the wait is over.
        call("cuEventDestroy", event)

    def ordinal_of(self, pointer: int) -> int | None:
        driver = bindings()
        attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        status, ordinal = driver.cuPointerGetAttribute(attribute, pointer)
        if status == driver.CUresult.CUDA_ERROR_INVALID_VALUE:
            return None
        # Any other error is that of an earlier kernel and says nothing of the address; the launch will report it.
        return int(ordinal) if status == driver.CUresult.CUDA_SUCCESS else self._ordinal


def _handle(kernel: Any) -> Any:
    # cuda.core before 0.7 has no public attribute.
    handle = kernel.handle if hasattr(kernel, "handle") else kernel._handle
    return bindings().CUkernel(int(handle))
