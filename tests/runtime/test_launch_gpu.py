"""Launches on a real GPU of kernels written as PTX by hand, with the arrays and streams of every library there is."""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from nvbackend import runtime
from nvbackend.intrinsics.row import types
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.target.target import Target
from tests.support import hand_ptx
from tests.support.process import run_python
from tests.support.runtime import FakeArray, broken, rules

pytestmark = pytest.mark.gpu((9, 0))

LIBRARIES = ("numba", "torch", "cupy", "jax")


def to_device(library: str, array: numpy.ndarray[Any, Any]) -> Any:
    """A device array of `library` with the content of `array`; skips where the library is not installed."""
    if library == "numba":
        return pytest.importorskip("numba.cuda").to_device(array)
    if library == "torch":
        return pytest.importorskip("torch").from_numpy(array).cuda()
    if library == "cupy":
        return pytest.importorskip("cupy").asarray(array)
    # JAX would take most of the GPU's memory for itself.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip(f"JAX is installed for {jax.default_backend()}, without its GPU package")
    return jax.block_until_ready(jax.device_put(array))


def to_host(array: Any) -> numpy.ndarray[Any, Any]:
    for method in ("copy_to_host", "get"):
        if hasattr(array, method):
            return numpy.asarray(getattr(array, method)())
    return numpy.asarray(array.cpu() if hasattr(array, "cpu") else array)


def zeros(size: int, dtype: str = "float32") -> Any:
    return to_device("numba", numpy.zeros(size, dtype))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", ["ptx", "cubin"])
def test_affine(library: str, form: str) -> None:
    kernel = hand_ptx.affine()
    if form == "cubin":
        kernel = dataclasses.replace(kernel, cubin=hand_ptx.assembled(kernel.ptx))
    source = numpy.random.default_rng(1).standard_normal(1000).astype("float32")
    target = zeros(1000)
    loaded = runtime.load(kernel)
    loaded.launch(8, to_device(library, source), target, 3, 1000)
    loaded.synchronize()
    # One rounding in the kernel's fma, two in NumPy.
    numpy.testing.assert_allclose(to_host(target), source * numpy.float32(3) + 1, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("library", ["numba", "torch", "cupy"])
def test_result_lands_in_the_librarys_own_array(library: str) -> None:
    source = numpy.arange(256, dtype="float32")
    target = to_device(library, numpy.zeros(256, "float32"))
    loaded = runtime.load(hand_ptx.affine())
    loaded.launch(2, to_device(library, source), target, 2.0, 200)
    loaded.synchronize()
    expected = numpy.where(numpy.arange(256) < 200, source * 2 + 1, 0)
    numpy.testing.assert_array_equal(to_host(target), expected)


def streams() -> dict[str, Callable[[], Any]]:
    """A way to make a stream for each library."""

    def handle() -> int:
        stream = importlib.import_module("numba.cuda").stream()
        _keep.append(stream)
        return int(stream)

    def of_core() -> Any:
        device = importlib.import_module("cuda.core").Device()
        device.set_current()
        return device.create_stream()

    return {
        "default": lambda: None,
        "numba": lambda: importlib.import_module("numba.cuda").stream(),
        "handle": handle,
        "cuda.core": of_core,
        "torch": lambda: pytest.importorskip("torch").cuda.Stream(priority=0),
        "cupy": lambda: pytest.importorskip("cupy").cuda.Stream(non_blocking=True),
    }


_keep: list[object] = []
"""Streams whose handles are used."""


@pytest.mark.parametrize("library", [*streams()])
def test_streams_of_every_library(library: str) -> None:
    source = to_device("numba", numpy.arange(1024, dtype="float32"))
    target = zeros(1024)
    importlib.import_module("numba.cuda").synchronize()
    stream = streams()[library]()
    loaded = runtime.load(hand_ptx.affine())
    for _ in range(3):
        loaded.launch(8, source, target, 1.0, 1024, stream=stream)
        source, target = target, source
    runtime.synchronize(stream)
    numpy.testing.assert_array_equal(to_host(source), numpy.arange(1024, dtype="float32") + 3)


def test_scalars_arrive_bit_for_bit() -> None:
    values = {
        types.s8: (-5, "int8"),
        types.u8: (250, "uint8"),
        types.pred: (True, "bool"),
        types.e4m3: (0x7E, "uint8"),
        types.f16: (-1.5, "float16"),
        types.bf16: (3.0, None),
        types.s16: (-1234, "int16"),
        types.s32: (-123456789, "int32"),
        types.u32: (4000000000, "uint32"),
        types.f32: (numpy.pi, "float32"),
        types.s64: (-(2**60), "int64"),
        types.u64: (2**64 - 3, "uint64"),
        types.f64: (numpy.e, "float64"),
    }
    target = zeros(hand_ptx.SCALAR_SLOT_BYTES * len(hand_ptx.SCALAR_ELEMENTS), "uint8")
    loaded = runtime.load(hand_ptx.scalars())
    loaded.launch(1, target, *(values[element][0] for element in hand_ptx.SCALAR_ELEMENTS))
    loaded.synchronize()
    slots = to_host(target).reshape(-1, hand_ptx.SCALAR_SLOT_BYTES)
    for slot, element in zip(slots, hand_ptx.SCALAR_ELEMENTS, strict=True):
        value, dtype = values[element]
        # bfloat16 is the upper half of float32, and 3 has no lower half.
        expected = numpy.array(value, dtype).tobytes() if dtype else numpy.float32(value).tobytes()[2:]
        assert slot.tobytes() == expected.ljust(hand_ptx.SCALAR_SLOT_BYTES, b"\0"), element


def test_cluster() -> None:
    target = zeros(12, "uint32")
    loaded = runtime.load(hand_ptx.ranks())
    assert rules(lambda: loaded.launch(10, target)) == ["launch.grid"]
    loaded.launch(12, target)
    loaded.synchronize()
    assert to_host(target).tolist() == [100 * cluster + rank for cluster in range(3) for rank in range(4)]


@pytest.mark.parametrize("kilobytes", [1, 48, 49, 100, 227])
def test_dynamic_shared_memory(kilobytes: int) -> None:
    loaded = runtime.load(hand_ptx.deep(kilobytes * 1024))
    target = zeros(1, "uint32")
    loaded.launch(1, target, kilobytes * 1024 - 4)
    loaded.synchronize()
    assert to_host(target).tolist() == [4711]


def test_too_much_shared_memory() -> None:
    [diagnostic] = broken(lambda: runtime.load(hand_ptx.deep(512 * 1024)))
    assert diagnostic.rule_id == "launch.shared-memory"
    assert str(512 * 1024) in diagnostic.message


TILE_TYPES = [
    (types.f16, "float16"),
    (types.bf16, "uint16"),
    (types.tf32, "float32"),
    (types.f32, "float32"),
    (types.e4m3, "uint8"),
    (types.s8, "int8"),
    (types.s32, "int32"),
    (types.f64, "float64"),
]


def expected_tile(array: numpy.ndarray[Any, Any], row: int, column: int, swizzle: int) -> numpy.ndarray[Any, Any]:
    """The bytes of the box in shared memory: zero outside the array, 16-byte chunks exchanged by the swizzle."""
    columns = hand_ptx.TILE_ROW_BYTES // array.itemsize
    padded = numpy.pad(array, ((hand_ptx.TILE_ROWS, hand_ptx.TILE_ROWS), (columns, columns)))
    top, left = row + hand_ptx.TILE_ROWS, column + columns
    box = padded[top : top + hand_ptx.TILE_ROWS, left : left + columns]
    plain = numpy.frombuffer(box.tobytes(), "uint8")
    place = numpy.arange(plain.size)
    if swizzle:
        place ^= (place >> 3) & {32: 0x10, 64: 0x30, 128: 0x70}[swizzle]
    result = numpy.empty_like(plain)
    result[place] = plain
    return result


@pytest.mark.parametrize("swizzle", [0, 128])
@pytest.mark.parametrize(("element", "dtype"), TILE_TYPES, ids=[str(element) for element, _ in TILE_TYPES])
def test_tensor_map(element: ElementType, dtype: str, swizzle: int) -> None:
    # Small integers: every type holds them, and TMA has nothing to round for tf32.
    array = numpy.random.default_rng(2).integers(1, 100, (40, 272)).astype(dtype)
    source, target = to_device("numba", array), zeros(1024, "uint8")
    loaded = runtime.load(hand_ptx.tile(element, swizzle))
    for row, column in ((8, 16), (-3, 0), (36, 256), (0, -16)):
        loaded.launch(1, source, target, row, column)
        loaded.synchronize()
        numpy.testing.assert_array_equal(to_host(target), expected_tile(array, row, column, swizzle), f"{row},{column}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_tensor_map_of_every_librarys_arrays(library: str) -> None:
    array = numpy.random.default_rng(3).standard_normal((64, 128)).astype("float16")
    source, target = to_device(library, array), zeros(1024, "uint8")
    loaded = runtime.load(hand_ptx.tile(types.f16, 128))
    loaded.launch(1, source, target, 16, 64)
    loaded.synchronize()
    numpy.testing.assert_array_equal(to_host(target), expected_tile(array, 16, 64, 128))


def test_tensor_map_of_a_slice() -> None:
    torch = pytest.importorskip("torch")
    whole = torch.arange(64 * 256, dtype=torch.int32).reshape(64, 256)
    source, target = whole.cuda()[8:56, 32:160], zeros(1024, "uint8")
    loaded = runtime.load(hand_ptx.tile(types.s32, 0))
    loaded.launch(1, source, target, 44, 112)
    loaded.synchronize()
    expected = expected_tile(whole.numpy()[8:56, 32:160], 44, 112, 0)
    numpy.testing.assert_array_equal(to_host(target), expected)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_types_that_numpy_lacks(name: str) -> None:
    torch = pytest.importorskip("torch")
    element = {"bfloat16": types.bf16, "float8_e4m3fn": types.e4m3, "float8_e5m2": types.e5m2}[name]
    source = torch.randn(32, 256, device="cuda").to(getattr(torch, name))
    target = zeros(1024, "uint8")
    loaded = runtime.load(hand_ptx.tile(element, 0))
    loaded.launch(1, source, target, 8, 64)
    loaded.synchronize()
    raw = source.view(torch.uint8).cpu().numpy().view(f"uint{element.bits}")
    numpy.testing.assert_array_equal(to_host(target), expected_tile(raw, 8, 64, 0))
    other = runtime.load(hand_ptx.tile(types.f16 if element is types.bf16 else types.ue8m0, 0))
    assert rules(lambda: other.launch(1, source, target, 8, 64)) == ["launch.dtype"]


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_dlpack_alone_gives_the_same_description(library: str) -> None:
    array = to_device(library, numpy.zeros((6, 32), "float16"))

    class Exporter:
        def __dlpack_device__(self) -> Any:
            return array.__dlpack_device__()

        def __dlpack__(self, **keywords: Any) -> Any:
            return array.__dlpack__(**keywords)

    seen, exported = runtime.read_array(array), runtime.read_array(Exporter())
    assert seen is not None
    assert exported is not None
    fields = ("pointer", "shape", "strides", "dtype", "item_bytes")
    assert [getattr(exported, name) for name in fields] == [getattr(seen, name) for name in fields]
    assert exported.device == 0


def test_wrong_arguments_are_found_before_the_launch() -> None:
    loaded = runtime.load(hand_ptx.affine())
    good = zeros(64)
    host = numpy.zeros(64, "float32")
    assert rules(lambda: loaded.launch(1, host, zeros(64, "float64"), "3", 2**31)) == [
        "launch.device",
        "launch.dtype",
        "launch.argument-kind",
        "launch.scalar-range",
    ]
    assert rules(lambda: loaded.launch(1, zeros(128)[::2], good, 1.0, 64)) == ["launch.stride"]
    assert rules(lambda: loaded.launch(1, zeros(65)[1:], good, 1.0, 64)) == ["launch.alignment"]
    loaded.launch(1, good, good, 1.0, 64)
    loaded.synchronize()


def test_host_address_is_no_device_memory() -> None:
    host = numpy.zeros(64, "float32")

    address = host.ctypes.data & -16
    loaded = runtime.load(hand_ptx.affine())
    assert rules(lambda: loaded.launch(1, FakeArray((64,), "<f4", pointer=address), zeros(64), 1.0, 64)) == [
        "launch.device"
    ]


def test_ptx_for_another_architecture_is_refused_by_name() -> None:
    kernel = dataclasses.replace(hand_ptx.affine(), target=Target.parse("sm_121a"))
    [diagnostic] = broken(lambda: runtime.load(kernel))
    assert diagnostic.rule_id == "launch.architecture"
    assert "sm_121a" in diagnostic.message


def test_broken_ptx_is_refused_by_name() -> None:
    kernel = dataclasses.replace(hand_ptx.affine(), ptx=hand_ptx.AFFINE.replace("fma.rn", "fma.no"))
    [diagnostic] = broken(lambda: runtime.load(kernel))
    assert diagnostic.rule_id == "launch.load-failed"
    assert "affine" in diagnostic.message
    assert "CUDA_ERROR" in diagnostic.message


CRASHING = """
from nvbackend import runtime
from nvbackend.diagnostics import DiagnosticError
from tests.support import hand_ptx
import numpy
from numba import cuda

good, bad = runtime.load(hand_ptx.affine()), runtime.load(hand_ptx.crash())
array = cuda.to_device(numpy.zeros(64, "float32"))
good.launch(1, array, array, 1.0, 64)
good.synchronize()
bad.launch(1, 0x10)
try:
    runtime.synchronize()
except DiagnosticError as error:
    print("SYNCHRONIZE", error, flush=True)
try:
    good.launch(1, array, array, 1.0, 64)
except DiagnosticError as error:
    print("AFTER", error, flush=True)
import os
os._exit(0)  # The context is lost: what the libraries do at exit would only print more errors.
"""


def test_asynchronous_error_names_the_kernel() -> None:
    done = run_python(CRASHING)
    # In a process of its own: the error destroys the context.
    output = done.stdout + done.stderr
    first, _, second = done.stdout.partition("AFTER")
    assert "launch.asynchronous-error" in first, output
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in first, output
    assert "since it was last synchronised: crash" in first, output
    assert "<string>:12" in first, output
    assert "launch.failed" in second, output


FAILING = """
import nvbackend as nvb
from nvbackend import DiagnosticError, runtime
import numpy
from numba import cuda
from tests.support.asserting import KERNELS

loaded = runtime.load(KERNELS["{kind}"].compile(), device="gpu")
array = cuda.to_device(numpy.ones(256, "float32"))
loaded.launch(2, array, 128)
loaded.synchronize()
print("FIRST", flush=True)
loaded.launch(2, array, 100)
try:
    loaded.synchronize()
except DiagnosticError as error:
    print("SYNCHRONIZE", error, flush=True)
import os
os._exit(0)  # The context is lost: what the libraries do at exit would only print more errors.
"""


@pytest.mark.parametrize("kind", ["assertion", "trap"])
def test_a_failure_names_kernel_line_and_values(kind: str) -> None:
    done = run_python(FAILING.format(kind=kind))
    output = done.stdout + done.stderr
    printed, _, said = done.stdout.partition("SYNCHRONIZE")
    assert "launch.assertion" in said, output
    assert re.search(rf"kernel {kind}ed: the {kind} 'index \d+ of 100: 1'", said), output
    assert "asserting.py:" in said, output
    assert "launched: " in said, output
    assert "thread 0 has 1.00" in printed, output


def test_prepared_launch_runs_as_often_as_wanted() -> None:
    loaded = runtime.load(hand_ptx.affine())
    array = zeros(64)
    prepared = loaded.prepare(1, array, array, 1.0, 64)
    for _ in range(100):
        prepared.run()
    loaded.synchronize()
    assert to_host(array).tolist() == [100.0] * 64


def test_timing_with_events() -> None:
    loaded = runtime.load(hand_ptx.affine())
    small, large = zeros(1024), zeros(1 << 22)
    short = loaded.prepare(8, small, small, 1.0, 1024)
    long = loaded.prepare(1 << 15, large, large, 1.0, 1 << 22)
    timings = runtime.time_launches({"short": short.run, "long": long.run}, rounds=5, repeats=4)
    assert [*timings] == ["short", "long"]
    assert all(len(timing.samples) == 5 and timing.best > 0 for timing in timings.values())
    assert to_host(small)[0] == 4 * (5 + 3)
