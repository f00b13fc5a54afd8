"""A stand-in for the driver, cuda.core and numba-cuda's context: it records what it is told, keeps the state that a
driver keeps (attributes of kernels, events, what memory is whose), and refuses what a driver refuses.

Numbers are those of cuda.h, written down here a second time.
"""

from __future__ import annotations

import ctypes
import enum
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

DEFAULT_SHARED_BYTES = 48 << 10
"""Dynamic shared memory that a launch may have before the kernel's attribute is raised."""
PORTABLE_CLUSTER = 8


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_CLUSTER_SIZE = 912
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701


class CUdevice_attribute(enum.IntEnum):
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97


class CUfunction_attribute(enum.IntEnum):
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14


class CUpointer_attribute(enum.IntEnum):
    CU_POINTER_ATTRIBUTE_CONTEXT = 1
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9


class CUevent_flags(enum.IntEnum):
    CU_EVENT_DEFAULT = 0
    CU_EVENT_DISABLE_TIMING = 2


class CUevent_wait_flags(enum.IntEnum):
    CU_EVENT_WAIT_DEFAULT = 0


class CUstreamCaptureMode(enum.IntEnum):
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
    CU_STREAM_CAPTURE_MODE_RELAXED = 2


class HOST_MEMORY(enum.IntFlag):
    CU_MEMHOSTALLOC_PORTABLE = 1
    CU_MEMHOSTALLOC_DEVICEMAP = 2
    CU_MEMHOSTALLOC_WRITECOMBINED = 4


DEVICE_OFFSET = 1 << 44
"""How far the device sees host memory from where the host does."""
ENUMS = (
    *(CUresult, CUdevice_attribute, CUfunction_attribute, CUpointer_attribute, CUevent_flags, CUevent_wait_flags),
    CUstreamCaptureMode,
)


class FakeCUDAError(Exception):
    """What cuda.core raises."""


@dataclass(frozen=True)
class LaunchConfig:
    """cuda.core's: with a cluster, the grid counts clusters."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] | None = None
    shmem_size: int = 0
    programmatic_stream_serialization: bool = False

    @property
    def ctas(self) -> tuple[int, int, int]:
        """The grid in CTAs, as cuLaunchKernelEx takes it."""
        x, y, z = self.grid
        cx, cy, cz = self.cluster or (1, 1, 1)
        return x * cx, y * cy, z * cz


@dataclass
class FakeKernel:
    """A kernel that was loaded."""

    name: str
    handle: int
    image: bytes
    form: str


@dataclass
class FakeCuda:
    """One device of a machine, and all that was asked of it."""

    ordinal: int = 0
    name: Any = b"fake H200"
    limits: dict[int, int] = field(default_factory=lambda: {1: 1024, 8: 49152, 16: 132, 75: 9, 76: 0, 97: 232448})
    threads: int = 1024
    static_bytes: int = 0
    memory: dict[int, int] = field(default_factory=dict)
    """Address to the device that holds it."""
    count: int = 1
    init: CUresult = CUresult.CUDA_SUCCESS
    fails: dict[str, CUresult] = field(default_factory=dict)
    """What a function of the driver answers from now on."""
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    attributes: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """(kernel, attribute, device) to its value."""
    launches: list[tuple[int, LaunchConfig, FakeKernel, tuple[Any, ...]]] = field(default_factory=list)
    extras: dict[str, Any] = field(default_factory=dict)
    events: set[int] = field(default_factory=set)
    order: list[tuple[int, int]] = field(default_factory=list)
    """(stream that waits, stream that is waited for)."""
    core_version: str = "1.2.2"
    host: Any = None
    """The memory of the host that was asked for last."""
    captured: dict[int, list[Any]] = field(default_factory=dict)
    """What was launched on a stream since its capture began."""
    graphs: list[tuple[Any, ...]] = field(default_factory=list)
    """Graphs that were instantiated and not destroyed: their launches."""
    globals: dict[Any, bytes] = field(default_factory=dict)
    """What was copied to variables, by library and name."""

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of every call of `name`."""
        return [tuple(values) for called, *values in self.calls if called == name]

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
        """Put it where the runtime imports the driver, cuda.core and numba-cuda from."""
        modules = {
            "cuda.bindings.driver": self._driver(),
            "cuda.core": self._core(),
            "cuda.core._utils.cuda_utils": SimpleNamespace(CUDAError=FakeCUDAError),
            "numba.cuda": SimpleNamespace(current_context=self._context),
        }
        for name, content in modules.items():
            module = ModuleType(name)
            vars(module).update(vars(content))
            monkeypatch.setitem(sys.modules, name, module)
        return self

    def _context(self) -> Any:
        self.calls.append(("current_context",))
        return SimpleNamespace(device=SimpleNamespace(id=self.ordinal, name=self.name), extras=self.extras)

    def _driver(self) -> Any:
        made = {name[1:]: self._answering(name[1:]) for name in dir(self) if name.startswith("_cu")}
        kinds = {kind.__name__: kind for kind in ENUMS}
        return SimpleNamespace(CUkernel=int, **{flag.name: int(flag) for flag in HOST_MEMORY}, **kinds, **made)

    def _answering(self, name: str) -> Any:
        function = getattr(self, f"_{name}")

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            if name in self.fails:
                return (self.fails[name], None)
            answer: tuple[Any, ...] = function(*arguments)
            return answer

        return call

    def _cuInit(self, flags: int) -> tuple[Any, ...]:
        # "Currently, the Flags parameter must be 0."
        return (CUresult.CUDA_ERROR_INVALID_VALUE if flags else self.init,)

    def _cuDeviceGetCount(self) -> tuple[Any, ...]:
        return CUresult.CUDA_SUCCESS, self.count

    def _cuGetErrorString(self, status: CUresult) -> tuple[Any, ...]:
        return CUresult.CUDA_SUCCESS, b"text of " + status.name.encode()

    def _cuDeviceGetAttribute(self, attribute: int, device: int) -> tuple[Any, ...]:
        if device != self.ordinal:
            return CUresult.CUDA_ERROR_INVALID_VALUE, 0
        return CUresult.CUDA_SUCCESS, self.limits[int(attribute)]

    def _cuKernelGetAttribute(self, attribute: int, kernel: int, device: int) -> tuple[Any, ...]:
        if device != self.ordinal:
            return CUresult.CUDA_ERROR_INVALID_VALUE, 0
        known = {0: self.threads, 1: self.static_bytes}
        return CUresult.CUDA_SUCCESS, self.attributes.get((kernel, attribute, device), known.get(int(attribute)))

    def _cuKernelSetAttribute(self, attribute: int, value: int, kernel: int, device: int) -> tuple[Any, ...]:
        if attribute == 8 and value + self.static_bytes > self.limits[97]:
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        self.attributes[kernel, int(attribute), device] = value
        return (CUresult.CUDA_SUCCESS,)

    def _cuPointerGetAttribute(self, attribute: int, pointer: int) -> tuple[Any, ...]:
        if attribute != CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL or pointer not in self.memory:
            return CUresult.CUDA_ERROR_INVALID_VALUE, None
        return CUresult.CUDA_SUCCESS, self.memory[pointer]

    def _cuMemHostAlloc(self, size: int, flags: int) -> tuple[Any, ...]:
        """Memory that a device may write, full of what was there before, with as much again behind it."""
        if flags != HOST_MEMORY.CU_MEMHOSTALLOC_PORTABLE | HOST_MEMORY.CU_MEMHOSTALLOC_DEVICEMAP:
            return CUresult.CUDA_ERROR_INVALID_VALUE, None
        self.host = (ctypes.c_ubyte * (2 * size))(*[255] * (2 * size))
        return CUresult.CUDA_SUCCESS, ctypes.addressof(self.host)

    def _cuMemHostGetDevicePointer(self, host: int, flags: int) -> tuple[Any, ...]:
        # "Flags ... must be 0."
        known = flags == 0 and host == ctypes.addressof(self.host)
        return (CUresult.CUDA_SUCCESS if known else CUresult.CUDA_ERROR_INVALID_VALUE), host + DEVICE_OFFSET

    def _cuKernelGetLibrary(self, kernel: int) -> tuple[Any, ...]:
        return CUresult.CUDA_SUCCESS, ("library", kernel)

    def _cuLibraryGetGlobal(self, library: Any, name: bytes) -> tuple[Any, ...]:
        return CUresult.CUDA_SUCCESS, (library, name), 8

    def _cuMemcpyHtoD(self, to: Any, source: int, size: int) -> tuple[Any, ...]:
        self.globals[to] = ctypes.string_at(source, size)
        return (CUresult.CUDA_SUCCESS,)

    def _cuStreamSynchronize(self, _stream: int) -> tuple[Any, ...]:
        return (CUresult.CUDA_SUCCESS,)

    def _cuEventCreate(self, _flags: int) -> tuple[Any, ...]:
        event = 0xE000 + len(self.calls)
        self.events.add(event)
        return CUresult.CUDA_SUCCESS, event

    def _cuEventRecord(self, event: int, stream: int) -> tuple[Any, ...]:
        self.extras.setdefault("recorded", {})[event] = stream
        return (CUresult.CUDA_SUCCESS if event in self.events else CUresult.CUDA_ERROR_INVALID_VALUE,)

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple[Any, ...]:
        if flags != CUevent_wait_flags.CU_EVENT_WAIT_DEFAULT:  # the other one is for streams that are captured
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        # An event that was not recorded is waited for by nobody.
        if event in self.extras.get("recorded", {}):
            self.order.append((stream, self.extras["recorded"][event]))
        return (CUresult.CUDA_SUCCESS if event in self.events else CUresult.CUDA_ERROR_INVALID_VALUE,)

    def _cuEventSynchronize(self, event: int) -> tuple[Any, ...]:
        self.extras.setdefault("reached", set()).add(event)
        return (CUresult.CUDA_SUCCESS,)

    def _cuEventElapsedTime(self, start: int, end: int) -> tuple[Any, ...]:
        # What comes before an event that is reached is reached as well.
        if end not in self.extras.get("reached", ()):
            return CUresult.CUDA_ERROR_NOT_READY, None
        return CUresult.CUDA_SUCCESS, float(end - start)

    def _cuEventDestroy(self, event: int) -> tuple[Any, ...]:
        self.events.discard(event)
        return (CUresult.CUDA_SUCCESS,)

    def _cuStreamBeginCapture(self, stream: int, mode: CUstreamCaptureMode) -> tuple[Any, ...]:
        if stream < 2 or not isinstance(mode, CUstreamCaptureMode):
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        self.captured[stream] = []
        return (CUresult.CUDA_SUCCESS,)

    def _cuStreamEndCapture(self, stream: int) -> tuple[Any, ...]:
        return CUresult.CUDA_SUCCESS, tuple(self.captured.pop(stream))

    def _cuGraphInstantiate(self, graph: tuple[Any, ...], _flags: int) -> tuple[Any, ...]:
        self.graphs.append(graph)
        return CUresult.CUDA_SUCCESS, graph

    def _cuGraphDestroy(self, _graph: tuple[Any, ...]) -> tuple[Any, ...]:
        return (CUresult.CUDA_SUCCESS,)

    def _cuGraphExecDestroy(self, graph: tuple[Any, ...]) -> tuple[Any, ...]:
        self.graphs.remove(graph)
        return (CUresult.CUDA_SUCCESS,)

    def _cuGraphLaunch(self, graph: tuple[Any, ...], _stream: int) -> tuple[Any, ...]:
        self.launches.extend(graph)
        return (CUresult.CUDA_SUCCESS,)

    def _core(self) -> Any:
        return SimpleNamespace(
            __version__=self.core_version,
            LaunchConfig=LaunchConfig,
            Stream=SimpleNamespace(from_handle=lambda handle: SimpleNamespace(handle=handle)),
            ObjectCode=SimpleNamespace(from_cubin=self._from_cubin, from_ptx=self._from_ptx),
            launch=self._launch,
        )

    def _from_cubin(self, image: bytes, *, name: str = "") -> Any:
        return self._code(image, "cubin")

    def _from_ptx(self, image: bytes, *, name: str = "") -> Any:
        return self._code(image, "ptx")

    def _code(self, image: bytes, form: str) -> Any:
        if not isinstance(image, bytes):
            raise TypeError(f"{form} of {type(image)}")
        if "load" in self.fails:
            raise FakeCUDAError(self.fails["load"].name)
        handle = 0xC000 + len(self.calls)
        self.calls.append(("load", form, image))
        return SimpleNamespace(get_kernel=lambda name: FakeKernel(name, handle, image, form))

    def _launch(self, stream: Any, config: LaunchConfig, kernel: FakeKernel, *arguments: Any) -> None:
        allowed = self.attributes.get((kernel.handle, 8, self.ordinal), DEFAULT_SHARED_BYTES)
        x, y, z = config.cluster or (1, 1, 1)
        large = self.attributes.get((kernel.handle, 14, self.ordinal), 0)
        if config.shmem_size > allowed:
            raise FakeCUDAError("CUDA_ERROR_INVALID_VALUE")
        if x * y * z > PORTABLE_CLUSTER and not large:
            raise FakeCUDAError("CUDA_ERROR_INVALID_CLUSTER_SIZE")
        if config.block[0] * config.block[1] * config.block[2] > self.threads:
            raise FakeCUDAError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
        if "launch" in self.fails:
            raise FakeCUDAError(self.fails["launch"].name)
        self.captured.get(stream.handle, self.launches).append((stream.handle, config, kernel, arguments))
