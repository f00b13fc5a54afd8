"""What CudaDevice tells the driver: every number differs from every other, so that none can stand for another."""

from __future__ import annotations

import ctypes
import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import runtime
from nvbackend.intrinsics.row import types
from nvbackend.isel.target.target import Target
from nvbackend.runtime.device import CudaDevice, DeviceLimits, KernelLimits
from nvbackend.runtime.driver import driver_errors
from nvbackend.runtime.timing import EventClock
from nvbackend.signature import LaunchBounds, Pointer, Scalar, Signature
from tests.support.cuda import DEVICE_OFFSET, ENUMS, HOST_MEMORY, CUresult, FakeCuda, FakeCUDAError, LaunchConfig
from tests.support.runtime import Cubin, FakeArray, FakeCompiled, broken, rules, signature

ADDRESS = 0x7F0000000000


def installed(monkeypatch: pytest.MonkeyPatch, **state: Any) -> FakeCuda:
    return FakeCuda(**state).install(monkeypatch)


def test_the_stand_ins_numbers_are_the_drivers() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    for kind in ENUMS:
        for member in kind:
            assert int(getattr(getattr(driver, kind.__name__), member.name)) == member.value
    for flag in HOST_MEMORY:
        assert getattr(driver, str(flag.name)) == flag.value


def test_the_stand_in_takes_what_cuda_core_takes() -> None:
    core = pytest.importorskip("cuda.core")
    for name in ("LaunchConfig", "Stream", "ObjectCode", "launch"):
        assert hasattr(core, name)
    assert hasattr(core.Stream, "from_handle")
    for name in ("from_cubin", "from_ptx", "get_kernel"):
        assert hasattr(core.ObjectCode, name)
    for name in ("grid", "block", "cluster", "shmem_size", "programmatic_stream_serialization"):
        assert hasattr(core.LaunchConfig, name)


def test_the_limits_are_asked_of_the_current_device(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {1: 768, 8: 11111, 16: 77, 75: 12, 76: 3, 97: 101376}
    installed(monkeypatch, ordinal=3, name=b"some GPU", limits=limits)
    assert CudaDevice().limits == DeviceLimits(3, "some GPU", (12, 3), 768, 101376, 77)
    installed(monkeypatch, name="a name as text")
    assert CudaDevice().limits.name == "a name as text"


@pytest.mark.parametrize("cluster", [1, 2, 8])
def test_a_launch_as_the_driver_sees_it(monkeypatch: pytest.MonkeyPatch, cluster: int) -> None:
    cuda = installed(monkeypatch, ordinal=2, memory={ADDRESS: 2})
    kernel = runtime.load(
        FakeCompiled(signature(Pointer(types.f16), Scalar(types.s32), threads=96, cluster=cluster, shared=50_000))
    )
    kernel.launch((24, 5, 7), FakeArray((64,)), -2, stream=0xABCD)
    [(stream, config, launched, arguments)] = cuda.launches
    assert stream == 0xABCD
    assert config.ctas == (24, 5, 7)
    assert config.cluster == ((cluster, 1, 1) if cluster > 1 else None)  # GPUs before sm_90 take no cluster at all
    assert config.block == (96, 1, 1)
    assert config.shmem_size == 50_000
    assert (launched.name, launched.form, launched.image) == ("k", "cubin", b"binary")
    assert arguments[0] == ADDRESS
    assert arguments[1] == 2**32 - 2


@nvb.kernel("sm_90a", threads=32)
def waits(k: nvb.KernelBuilder) -> None:
    with k.one_thread():
        k.griddepcontrol("launch_dependents")
        k.griddepcontrol("wait")


@nvb.kernel("sm_90a", threads=32)
def lets_others_start(k: nvb.KernelBuilder) -> None:
    k.griddepcontrol("launch_dependents")


def test_a_kernel_that_waits_for_earlier_grids_may_start_before_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = installed(monkeypatch)
    for kernel in (waits, lets_others_start):
        runtime.load(FakeCompiled(kernel.build().signature)).launch(1)
    assert [config.programmatic_stream_serialization for _, config, *_ in cuda.launches] == [True, False]


def test_a_cuda_core_without_early_launches_launches_later(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = installed(monkeypatch)

    def without(*, grid: Any, block: Any, cluster: Any, shmem_size: int) -> LaunchConfig:
        return LaunchConfig(grid, block, cluster, shmem_size)

    monkeypatch.setattr("cuda.core.LaunchConfig", without)
    runtime.load(FakeCompiled(waits.build().signature)).launch(1)
    assert [config.ctas for _, config, *_ in cuda.launches] == [(1, 1, 1)]


@pytest.mark.parametrize("grid", [(3, 5, 7), (7, 3, 5), (5, 7), 11, (1, 2, 3), (2, 1, 3)])
def test_each_axis_of_the_grid_is_its_own(monkeypatch: pytest.MonkeyPatch, grid: Any) -> None:
    cuda = installed(monkeypatch)
    kernel = runtime.load(FakeCompiled(signature()))
    kernel.launch(grid)
    kernel.prepare(grid).run()
    kernel[grid, None]()
    x, y, z = (*(grid if isinstance(grid, tuple) else (grid,)), 1, 1)[:3]
    assert [config.ctas for _, config, *_ in cuda.launches] == [(x, y, z)] * 3


@pytest.mark.parametrize(("axis", "most"), [(0, 2**31 - 1), (1, 65535), (2, 65535)])
def test_each_axis_has_its_own_limit(monkeypatch: pytest.MonkeyPatch, axis: int, most: int) -> None:
    cuda = installed(monkeypatch)
    kernel = runtime.load(FakeCompiled(signature()))
    grid = [2, 2, 2]
    grid[axis] = most
    kernel.launch(grid)
    assert cuda.launches[0][1].ctas == tuple(grid)
    grid[axis] = most + 1
    [diagnostic] = broken(lambda: kernel.launch(grid))
    assert diagnostic.rule_id == "launch.grid"
    assert f"{'xyz'[axis]} = {most + 1} is not in 1 to {most}" in diagnostic.message


def test_only_x_is_counted_in_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    kernel = runtime.load(FakeCompiled(signature(cluster=4)))
    kernel.launch((8, 3, 5))
    [diagnostic] = broken(lambda: kernel.launch((6, 4, 8)))
    assert diagnostic.rule_id == "launch.grid"
    assert "x = 6 is not a multiple of the cluster of 4 CTAs" in diagnostic.message
    assert "round it up to 8 " in diagnostic.fix


@pytest.mark.parametrize("shared", [0, 1, 49_152, 49_153, 200_000])
def test_dynamic_shared_memory_is_allowed_first(monkeypatch: pytest.MonkeyPatch, shared: int) -> None:
    """The stand-in refuses a launch with more than 48 KB whose attribute was not raised, as the driver does."""
    cuda = installed(monkeypatch, ordinal=1, static_bytes=1024)
    kernel = runtime.load(FakeCompiled(signature(shared=shared)))
    kernel.launch(1)
    assert cuda.launches[0][1].shmem_size == shared
    handle = cuda.launches[0][2].handle
    assert cuda.attributes.get((handle, 8, 1), 0) == shared


@pytest.mark.parametrize(("cluster", "large"), [(1, False), (8, False), (16, True)])
def test_clusters_that_are_not_portable_are_allowed_first(
    monkeypatch: pytest.MonkeyPatch, cluster: int, large: bool
) -> None:
    cuda = installed(monkeypatch, ordinal=1)
    kernel = runtime.load(FakeCompiled(signature(cluster=cluster)))
    kernel.launch(2 * cluster)
    assert cuda.launches[0][1].ctas == (2 * cluster, 1, 1)
    assert cuda.attributes == ({(cuda.launches[0][2].handle, 14, 1): 1} if large else {})


def test_each_kernel_has_its_own_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = installed(monkeypatch)
    for name, shared in (("first", 60_000), ("second", 70_000)):
        kernel = runtime.load(FakeCompiled(Signature(name, (), LaunchBounds(32, 1, shared))))
        kernel.launch(1)
    assert sorted(cuda.attributes.values()) == [60_000, 70_000]
    assert [(launched.name, config.shmem_size) for _, config, launched, _ in cuda.launches] == [
        ("first", 60_000),
        ("second", 70_000),
    ]


def test_the_kernels_limits_are_the_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, threads=640, static_bytes=4096)
    device = CudaDevice()
    assert device.kernel_limits(device.load("k", b"cubin")) == KernelLimits(640, 4096)
    # Registers allow 640 threads, the device 1024.
    [diagnostic] = broken(lambda: runtime.load(FakeCompiled(signature(threads=672))))
    assert diagnostic.rule_id == "launch.threads"
    assert "1 to 640" in diagnostic.message
    assert "registers" in diagnostic.message
    runtime.load(FakeCompiled(signature(threads=640)))
    # 232448 in all: static memory counts.
    runtime.load(FakeCompiled(signature(shared=232_448 - 4096)))
    [diagnostic] = broken(lambda: runtime.load(FakeCompiled(signature(shared=232_448 - 4095))))
    assert diagnostic.rule_id == "launch.shared-memory"
    assert "1 bytes less" in diagnostic.fix


def test_the_devices_own_limit_is_named_where_registers_are_not_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    [diagnostic] = broken(lambda: runtime.load(FakeCompiled(signature(threads=1056))))
    assert "1 to 1024" in diagnostic.message
    assert "fake H200" in diagnostic.message


def test_ptx_is_loaded_as_text_and_cubins_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = installed(monkeypatch)
    runtime.load(FakeCompiled(signature(), ptx="// only text", cubin=None))
    runtime.load(FakeCompiled(signature(), ptx="// text too", cubin=Cubin(b"\x7fELF")))
    assert cuda.named("load") == [("ptx", b"// only text"), ("cubin", b"\x7fELF")]


def test_old_kernels_without_a_public_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, threads=96)
    assert CudaDevice().kernel_limits(SimpleNamespace(_handle=0xC0DE)).threads == 96


def test_a_load_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, fails={"load": CUresult.CUDA_ERROR_INVALID_IMAGE})
    [diagnostic] = broken(lambda: runtime.load(FakeCompiled(signature())))
    assert diagnostic.rule_id == "launch.load-failed"
    assert "cubin: CUDA_ERROR_INVALID_IMAGE" in diagnostic.message


def test_a_launch_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = installed(monkeypatch)
    kernel = runtime.load(FakeCompiled(signature()))
    cuda.fails["launch"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    [diagnostic] = broken(lambda: kernel.launch((2, 3, 4)))
    assert diagnostic.rule_id == "launch.failed"
    assert "kernel k (grid (2, 3, 4)): CUDA_ERROR_ILLEGAL_ADDRESS" in diagnostic.message
    assert 'device="simulator", which names the line of the fault' in diagnostic.fix  # no launch bound is to blame
    cuda.fails["launch"] = CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    [diagnostic] = broken(lambda: kernel.launch((2, 3, 4)))
    assert diagnostic.fix == "compare the kernel's launch bounds with the device's limits"


def test_synchronising_waits_for_that_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = installed(monkeypatch)
    kernel = runtime.load(FakeCompiled(signature()))
    kernel.launch(1, stream=0x7000)
    kernel.synchronize(0x7000)
    runtime.synchronize()
    assert cuda.named("cuStreamSynchronize") == [(0x7000,), (0,)]
    kernel.launch(1, stream=0x7000)
    cuda.fails["cuStreamSynchronize"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    [diagnostic] = broken(lambda: runtime.synchronize(0x7000))
    assert diagnostic.rule_id == "launch.asynchronous-error"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS: text of CUDA_ERROR_ILLEGAL_ADDRESS" in diagnostic.message
    assert diagnostic.message.endswith(": k")


def test_the_later_stream_waits_for_the_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = installed(monkeypatch, memory={ADDRESS: 0})
    kernel = runtime.load(FakeCompiled(signature(Pointer(types.f16))))
    kernel.launch(1, FakeArray((64,), stream=0x50), stream=0x6000)
    assert cuda.order == [(0x6000, 0x50)]
    assert not cuda.events, "an event is given back"
    names = [call[0] for call in cuda.calls]
    assert names.index("cuEventRecord") < names.index("cuStreamWaitEvent") < names.index("cuEventDestroy")
    [(flags,)] = cuda.named("cuEventCreate")
    assert flags == 2, "an event that takes the time is slower"


def test_an_address_is_asked_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = installed(monkeypatch, ordinal=1, count=2, memory={0x1000: 0, 0x2000: 1})
    device = CudaDevice()
    assert [device.ordinal_of(pointer) for pointer in (0x1000, 0x2000, 0x3000)] == [0, 1, None]
    cuda.fails["cuPointerGetAttribute"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    assert device.ordinal_of(0x1000) == 1, "an error of an earlier kernel says nothing of the address"


def test_host_and_foreign_addresses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, ordinal=1, count=2, memory={0x1000: 0, 0x2000: 1})
    kernel = runtime.load(FakeCompiled(signature(Pointer(types.f16))))
    kernel.launch(1, FakeArray((64,), pointer=0x2000))
    [diagnostic] = broken(lambda: kernel.launch(1, FakeArray((64,), pointer=0x1000)))
    assert "p0 is in the memory of device 0; the kernel runs on device 1" in diagnostic.message
    [diagnostic] = broken(lambda: kernel.launch(1, FakeArray((64,), pointer=0x3000)))
    assert "no CUDA memory (address 0x3000)" in diagnostic.message


def test_what_was_launched_is_kept_with_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = installed(monkeypatch)
    runtime.load(FakeCompiled(signature())).launch((2, 3))
    cuda.fails["cuStreamSynchronize"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    [diagnostic] = broken(runtime.synchronize)
    assert [note for note, _ in diagnostic.notes] == ["launched: k (grid (2, 3, 1))"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"init": CUresult.CUDA_ERROR_NO_DEVICE}, "the CUDA driver does not start (CUDA_ERROR_NO_DEVICE)"),
        ({"count": 0}, "there is no GPU"),
    ],
)
def test_a_machine_without_a_gpu(monkeypatch: pytest.MonkeyPatch, state: dict[str, Any], reason: str) -> None:
    installed(monkeypatch, **state)
    assert runtime.no_gpu_reason() == reason
    assert rules(CudaDevice) == ["launch.no-gpu"]


def test_a_cuda_core_without_launch_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    monkeypatch.delattr(importlib.import_module("cuda.core"), "launch")
    assert runtime.no_gpu_reason() == "cuda-core is too old: it has no cuda.core.launch"


def test_a_device_of_another_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, limits={1: 1024, 8: 0, 16: 132, 75: 8, 76: 9, 97: 101376})
    runtime.load(FakeCompiled(signature(), target=Target.parse("sm_80")))
    newer = FakeCompiled(signature(), target=Target.parse("sm_90"))
    assert rules(lambda: runtime.load(newer)) == ["launch.architecture"]


def test_a_refused_attribute_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, fails={"cuKernelSetAttribute": CUresult.CUDA_ERROR_INVALID_VALUE})
    [diagnostic] = broken(lambda: runtime.load(FakeCompiled(signature(shared=60_000))))
    assert diagnostic.rule_id == "launch.load-failed"
    assert "CUDA_ERROR_INVALID_VALUE" in diagnostic.message


def test_an_error_of_an_earlier_kernel_that_ordering_meets_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = installed(monkeypatch, memory={ADDRESS: 0})
    kernel = runtime.load(FakeCompiled(signature(Pointer(types.f16))))
    kernel.launch(3, FakeArray((64,)))
    cuda.fails["cuEventRecord"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    for start in (kernel.launch, kernel.prepare):
        [diagnostic] = broken(lambda start=start: start(4, FakeArray((64,), stream=9)))  # type: ignore[misc]
        assert diagnostic.rule_id == "launch.failed"
        assert "(grid (4, 1, 1)): CUDA_ERROR_ILLEGAL_ADDRESS" in diagnostic.message
        assert [note for note, _ in diagnostic.notes] == ["launched before, not synchronised yet: k (grid (3, 1, 1))"]


def test_events_are_on_the_stream_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = installed(monkeypatch)
    clock = EventClock(0x7700)
    first, second = clock.mark(), clock.mark()
    assert cuda.named("cuEventRecord") == [(first, 0x7700), (second, 0x7700)]
    assert cuda.named("cuEventCreate") == [(0,), (0,)], "events that take the time"
    assert clock.milliseconds(first, second) == second - first > 0
    clock.close()
    assert not cuda.events


def test_the_record_of_a_failure_is_where_the_kernels_variable_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty words of the host's memory, of which the kernel's own variable gets the address that the device knows."""
    cuda = installed(monkeypatch)
    device = CudaDevice()
    kernel = device.load("k", b"cubin")
    record = device.record(kernel, "k", 5)
    assert record.tolist() == [0] * 5
    assert bytes(cuda.host) == bytes(40) + b"\xff" * 40
    address = ctypes.addressof(cuda.host) + DEVICE_OFFSET
    assert cuda.globals == {(("library", kernel.handle), b"k__failure_at"): address.to_bytes(8, "little")}
    cuda.host[9] = 1
    assert record.tolist() == [0, 256, 0, 0, 0]


def test_errors_of_the_driver_are_known_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    assert driver_errors() == (RuntimeError, FakeCUDAError)
    monkeypatch.setitem(sys.modules, "cuda.core._utils.cuda_utils", None)
    assert driver_errors() == (RuntimeError,)
