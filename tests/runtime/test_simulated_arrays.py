"""Which arguments of a launch in the simulator are arrays of this process, and where checks see them begin."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import u32
from nvbackend.runtime.simulated import SimulatedDevice, _described, _host_array, simulated_bytes

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)


class Foreign:
    """An array of another library, which NumPy can look at."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.array = np.full(shape, 5, np.int32)
        self.__array_interface__ = self.array.__array_interface__


class Tensor:
    """What is used of PyTorch's."""

    def __init__(self, device: str) -> None:
        self.device = device

    def data_ptr(self) -> int:
        return ARRAY.ctypes.data

    def detach(self) -> Any:
        return SimpleNamespace(numpy=lambda: ARRAY)


def test_arrays_are_looked_at_where_they_are() -> None:
    assert _host_array(ARRAY) is ARRAY
    assert _host_array(Tensor("cpu")) is ARRAY
    foreign = Foreign((2, 3))
    seen = _host_array(foreign)
    seen[1, 2] = 7
    assert (seen.shape, foreign.array[1, 2]) == ((2, 3), 7)


@pytest.mark.parametrize(
    "argument",
    [
        Tensor("cuda:0"),
        SimpleNamespace(device="cpu"),
        SimpleNamespace(shape=(2, 3)),
        np.array(3.0),
        np.float32(3),
        Foreign(()),
        3,
        2.5,
        None,
        "cpu",
    ],
    ids=lambda argument: type(argument).__name__,
)
def test_other_arguments_are_no_arrays_of_this_process(argument: Any) -> None:
    """Numbers with an array interface are numbers, and memory of a GPU is none of this process."""
    assert _host_array(argument) is None


@pytest.mark.parametrize(
    ("view", "offset"),
    [
        (ARRAY, 0),
        (ARRAY[1:], 16),
        (ARRAY[1:][1:, 2:], 40),
        (ARRAY.T[3], 12),
        (np.frombuffer(bytearray(64), np.uint8)[24:].view(np.int16), 24),
    ],
)
def test_a_view_begins_where_it_does_in_its_owner(view: np.ndarray, offset: int) -> None:
    """An owner is aligned as cudaMalloc aligns, whatever its address in this process."""
    described = _described(view)
    assert described.pointer % 256 == offset
    assert (described.shape, described.strides) == (view.shape, view.strides)
    assert (described.dtype, described.item_bytes) == (view.dtype.name, view.itemsize)
    assert described.readonly is False
    assert described.owner is view
    frozen = view.copy()
    frozen.flags.writeable = False
    assert _described(frozen).readonly is True


def test_an_array_without_axes_is_memory_for_a_pointer() -> None:
    @nvb.kernel("sm_80", threads=32)
    def store(k, x: nvb.Pointer[u32], value: u32):
        x[0] = value

    array = np.zeros((), np.uint32)
    nvb.runtime.load(store.compile(assemble=False), device="simulator").launch(1, array, 7)
    assert array == 7


def test_an_array_of_another_type_than_the_maps_is_refused_by_the_name_of_the_simulators_map() -> None:
    stated = nvb.TensorMap(nvb.f32, (4, 4), 0)
    with pytest.raises(nvb.DiagnosticError) as caught:
        simulated_bytes(stated, ARRAY.astype(np.float64), 1 << 12)
    (problem,) = [each for each in caught.value.diagnostics if each.rule.id == "launch.dtype"]
    assert "of the simulator" in problem.message and "float64" in problem.message
    assert len(simulated_bytes(stated, ARRAY, 1 << 12)) == 128


@pytest.mark.parametrize("name", ["sm_90a", "sm_100a"])
def test_the_simulator_allows_what_the_devices_of_data_centers_do(name: str) -> None:
    """CUDA Programming Guide, technical specifications per compute capability: 1024 threads, 227 KB a block."""
    limits = SimulatedDevice(nvb.Target.parse(name)).limits
    assert (limits.threads, limits.shared_bytes) == (1024, 227 << 10)


@pytest.fixture(scope="module")
def doubled() -> nvb.runtime.LoadedKernel:
    @nvb.kernel("sm_80", threads=32)
    def doubled(k: nvb.KernelBuilder, x: nvb.Pointer[nvb.f32], out: nvb.Pointer[nvb.f32]) -> None:
        out[k.thread_id()] = x[k.thread_id()] * 2.0

    return nvb.runtime.load(doubled.compile(assemble=False), device="simulator")


def test_bytes_in_the_other_order_are_numbers_of_no_parameter(doubled: nvb.runtime.LoadedKernel) -> None:
    """The kernel would read them as a GPU does: 1.0 as 4.6e-41."""
    x, out = np.ones(32, np.float32), np.zeros(32, np.float32)
    for arguments in ((x.astype(">f4"), out), (x, out.astype(">f4"))):
        with pytest.raises(nvb.DiagnosticError, match=r"launch\.dtype.* >f4 \(big-endian\)"):
            doubled.launch(1, *arguments)
    with pytest.raises(nvb.DiagnosticError, match=r"launch\.dtype.* >f4 \(big-endian\)"):
        simulated_bytes(nvb.TensorMap(nvb.f32, box=(8, 8)), np.zeros((32, 32), ">f4"), 0)


def test_an_argument_is_named_by_its_own_type() -> None:
    """Not by that of the description that is made of an array of NumPy."""

    @nvb.kernel("sm_80", threads=32)
    def filled(k: nvb.KernelBuilder, x: nvb.Pointer[nvb.f32], n: nvb.i32) -> None:
        x[k.thread_id()] = n.to(nvb.f32)

    x = np.zeros(32, np.float32)
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.runtime.load(filled.compile(assemble=False), device="simulator").launch(1, 3, x)
    assert [found.message for found in caught.value.diagnostics] == [
        "argument x is an int; the parameter is an array of f32",
        "argument n is a numpy.ndarray; the parameter is a scalar of s32",
    ]


def test_a_matrix_of_numpy_is_an_array(doubled: nvb.runtime.LoadedKernel) -> None:
    """Its `reshape(-1)` has two axes."""
    x, out = np.arange(32, dtype=np.float32).view(np.matrix), np.zeros(32, np.float32)
    doubled.launch(1, x, out)
    assert np.array_equal(out, 2.0 * np.arange(32))


def test_a_slice_is_taken_by_what_is_advised_for_it(doubled: nvb.runtime.LoadedKernel) -> None:
    x, out = np.arange(33, dtype=np.float32), np.zeros(32, np.float32)
    with pytest.raises(nvb.DiagnosticError, match=r"launch\.alignment") as caught:
        doubled.launch(1, x[1:], out)
    (declared,) = re.findall(r"nvb\.Pointer\(\w+, align=\d+\)", caught.value.diagnostics[0].fix or "")

    def moved(k: nvb.KernelBuilder, x: nvb.Pointer[nvb.f32], out: nvb.Pointer[nvb.f32]) -> None:
        out[k.thread_id()] = x[k.thread_id()] * 2.0

    moved.__annotations__["x"] = eval(declared, {"nvb": nvb, "f32": nvb.f32})
    kernel = nvb.kernel("sm_80", threads=32)(moved)
    nvb.runtime.load(kernel.compile(assemble=False), device="simulator").launch(1, x[1:], out)
    assert np.array_equal(out, 2.0 * x[1:])
