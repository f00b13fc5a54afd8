"""Reading arrays: the array interface, DLPack capsules and torch-like objects give the same description."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy
import pytest

from nvbackend.intrinsics.row import types
from nvbackend.runtime.arguments import dlpack
from nvbackend.runtime.arguments.arrays import DeviceArray, accepted_dtypes, read_array, row_major_strides, shown_dtypes
from tests.support.runtime import FakeArray


def read(argument: Any) -> DeviceArray:
    array = read_array(argument)
    assert array is not None
    return array


class Exported:
    """An object that exports a NumPy array's memory by DLPack as if it were a CUDA array."""

    def __init__(self, array: numpy.ndarray[Any, Any], versions: bool, device: tuple[int, int] = (2, 3)) -> None:
        self.array, self.versions, self.device = array, versions, device
        self.asked: list[dict[str, object]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **keywords: object) -> object:
        if "max_version" in keywords and not self.versions:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.asked.append(keywords)
        return self.array.__dlpack__(max_version=(1, 0)) if self.versions else self.array.__dlpack__()


NUMBA = "numba.cuda.cudadrv.devicearray"


@pytest.mark.parametrize(
    ("module", "name", "asked"),
    [(NUMBA, "DeviceNDArray", 0), (NUMBA, "MappedNDArray", 1), ("users.module", "DeviceNDArray", 1)],
)
def test_an_array_of_numba_is_not_asked_for_its_interface(module: str, name: str, asked: int) -> None:
    """It says the same by its attributes, and making the interface takes longer than a launch; others are asked."""
    count = []

    def interface(_: object) -> dict[str, object]:
        count.append(1)
        return {"shape": (4, 2), "strides": None, "typestr": "<f2", "data": (4096, False), "version": 3}

    members = {"__cuda_array_interface__": property(interface), "__module__": module}
    made = type(name, (), members)()
    pointer = SimpleNamespace(value=4096)
    made.__dict__.update(
        dtype=numpy.dtype("float16"), shape=(4, 2), strides=(4, 2), stream=0, device_ctypes_pointer=pointer
    )
    array = read(made)
    assert (array.pointer, array.shape, array.strides, array.dtype) == (4096, (4, 2), (4, 2), "float16")
    assert len(count) == asked


@pytest.mark.parametrize("versions", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint16", "int64", "bool", "complex64"])
def test_dlpack_capsule_says_what_numpy_says(dtype: str, versions: bool) -> None:
    base = numpy.zeros((6, 8, 5), dtype)
    view = base[1::2, ::3, :4]
    exported = Exported(view, versions)
    array = read(exported)
    assert array.pointer == view.ctypes.data
    assert (array.shape, array.strides) == (view.shape, view.strides)
    assert (array.dtype, array.item_bytes) == (view.dtype.name, view.dtype.itemsize)
    assert exported.asked == [{"stream": 1} | ({"max_version": (1, 1)} if versions else {})], (
        "handle 0 is not allowed in DLPack; 1 is the legacy default stream"
    )


def test_dlpack_read_only_flag_only_exists_in_versioned_capsules() -> None:
    frozen = numpy.zeros(4)
    frozen.flags.writeable = False
    assert read(Exported(frozen, True)).readonly
    assert not read(Exported(numpy.zeros(4), True)).readonly


def test_an_interface_says_whether_it_may_be_written() -> None:
    array = FakeArray((4,), "<f4")
    assert not read(array).readonly
    array.__cuda_array_interface__["data"] = (0x7F0000000000, True)
    assert read(array).readonly


def test_only_memory_of_a_device_has_one() -> None:
    """Of managed memory, and of the host's that CUDA knows, the driver is asked: NumPy's capsules are of the host."""
    for device in ((3, 5), (13, 5)):
        assert read(Exported(numpy.zeros(4), True, device)).device is None


@pytest.mark.parametrize("kind", range(20))
def test_memory_that_no_kernel_reaches_is_of_the_host(kind: int) -> None:
    """dlpack.h, DLDeviceType: kDLCUDA is 2, kDLCUDAHost 3, kDLCUDAManaged 13."""
    assert (read(Exported(numpy.zeros(4), True, (kind, 0))).host == "") == (kind in (2, 3, 13))


def test_dlpack_capsule_is_left_unconsumed_and_owned() -> None:
    owned = read(Exported(numpy.arange(4), False)).owner
    assert isinstance(owned, tuple)
    assert '"dltensor"' in repr(owned[1]), "a consumed capsule is renamed and would leak its memory"


class Managed(ctypes.Structure):
    """DLManagedTensor, transcribed from dlpack.h: a DLTensor first."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("code", ctypes.c_ubyte),
        ("bits", ctypes.c_ubyte),
        ("lanes", ctypes.c_ushort),
        ("shape", ctypes.POINTER(ctypes.c_longlong)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_ulonglong),
    )


def exported(data: int | None, offset: int, code: int, bits: int, lanes: int, rows: int = 4) -> tuple[Any, object]:
    """An object of device 1 that exports `rows` by 6 elements at `data`, and its capsule."""
    managed = Managed(data, 2, 1, 2, code, bits, lanes, (ctypes.c_longlong * 2)(rows, 6), None, offset)
    label = ctypes.create_string_buffer(b"dltensor")
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    capsule = make(ctypes.addressof(managed), ctypes.addressof(label), None)
    kept = managed, label
    return SimpleNamespace(__dlpack_device__=lambda: (2, 1), __dlpack__=lambda **_: capsule, kept=kept), capsule


@pytest.mark.parametrize(("data", "offset"), [(None, 0), (None, 64), (0x1000, 0)])
def test_dlpack_of_no_elements_may_be_the_null_pointer(data: int | None, offset: int) -> None:
    """dlpack.h, DLTensor.data: "in case of a zero-size tensor, it may be NULL"."""
    exporter, _ = exported(data, offset, 2, 32, 1, rows=0)
    array = read(exporter)
    assert (array.pointer, array.size, array.shape) == ((data or 0) + offset, 0, (0, 6))


@pytest.mark.parametrize(
    ("code", "bits", "name"),
    [
        (4, 16, "bfloat16"),
        (7, 8, "float8_e3m4"),
        (8, 8, "float8_e4m3"),
        (9, 8, "float8_e4m3b11fnuz"),
        (10, 8, "float8_e4m3fn"),
        (11, 8, "float8_e4m3fnuz"),
        (12, 8, "float8_e5m2"),
        (13, 8, "float8_e5m2fnuz"),
        (14, 8, "float8_e8m0fnu"),
        (15, 6, "float6_e2m3fn"),
        (16, 6, "float6_e3m2fn"),
        (17, 4, "float4_e2m1fn"),
        (2, 32, "float32_x3"),
        (1, 8, "uint8_x2"),
    ],
)
def test_dlpack_types_that_numpy_lacks(code: int, bits: int, name: str) -> None:
    """dlpack.h, DLDataTypeCode and lanes; the names of scalars are those of ml_dtypes."""
    scalar, _, lanes = name.partition("_x")
    assert lanes or numpy.dtype(getattr(ml_dtypes, scalar)).name == name
    size = -(-bits // 8) * int(lanes or 1)

    exporter, capsule = exported(0x1000, 32, code, bits, int(lanes or 1))
    array = read(exporter)
    assert (array.dtype, array.item_bytes, array.shape) == (name, size, (4, 6))
    assert (array.pointer, array.device) == (0x1000 + 32, 1), "byte_offset counts"
    assert array.strides == (6 * size, size), "no strides means row-major"
    tensor = dlpack.read(capsule)
    assert (tensor.device_type, tensor.readonly) == (2, False)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint32", "int64", "bool", "complex128"])
def test_cuda_array_interface(dtype: str) -> None:
    model = numpy.zeros((3, 5), dtype)
    array = read(FakeArray(model.shape, model.dtype.str, stream=7))
    assert (array.dtype, array.strides, array.stream) == (dtype, model.strides, 7)
    assert array.is_contiguous
    column = read(FakeArray((3, 5), model.dtype.str, strides=model.T.copy().T.strides))
    assert not column.is_contiguous


def test_cuda_array_interface_of_types_that_numpy_lacks() -> None:
    kind = numpy.dtype(ml_dtypes.float8_e4m3fn)
    assert read(FakeArray((4,), kind.str, dtype=kind)).dtype == "float8_e4m3fn"
    assert read(FakeArray((4,), "<V2")).dtype == "void16"
    assert "big-endian" in read(FakeArray((4,), ">f4")).dtype


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float16", "int32"])
def test_torch_like(name: str) -> None:
    item = 4 if name == "int32" else 1 if "8" in name else 2
    tensor = SimpleNamespace(
        data_ptr=lambda: 0x2000,
        element_size=lambda: item,
        stride=lambda: (1, 64),
        shape=(64, 32),
        dtype=f"torch.{name}",
        device=SimpleNamespace(type="cuda", index=2),
    )
    array = read(tensor)
    assert (array.pointer, array.dtype, array.strides, array.device) == (0x2000, name, (item, 64 * item), 2)
    assert not array.readonly
    tensor.device = SimpleNamespace(type="cpu", index=None)
    assert read(tensor).host.startswith("cpu memory")


def test_host_arrays_are_named_as_such() -> None:
    assert read(numpy.zeros((2, 3), "float32")).host == "host memory (numpy.ndarray)"
    assert read(numpy.zeros(3, ml_dtypes.bfloat16)).host == "host memory (numpy.ndarray)"
    assert "type 10" in read(Exported(numpy.zeros(2), True, device=(10, 0))).host


@pytest.mark.parametrize("make", [lambda array: array, lambda array: Exported(array, True, device=(1, 0))])
@pytest.mark.parametrize("dtype", ["float16", "float64", "bool", "bfloat16"])
def test_host_arrays_are_otherwise_what_numpy_says(make: Any, dtype: str) -> None:
    model = numpy.zeros((3, 5), getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    given = make(model)
    if given is not model:
        given.shape, given.dtype = model.shape, model.dtype
    array = read(given)
    assert (array.shape, array.strides) == (model.shape, model.strides)
    assert (array.dtype, array.item_bytes, array.pointer) == (dtype, model.itemsize, 0)
    assert (array.device, array.owner) == (None, given)


def test_a_host_array_that_says_nothing_of_its_elements() -> None:
    array = read(Exported(numpy.zeros(4), True, device=(1, 0)))
    assert (array.shape, array.strides, array.item_bytes) == ((), (), 1)
    assert array.host.startswith("host memory")


def test_a_description_describes_itself() -> None:
    array = DeviceArray(0x7000, (4, 6), (12, 2), "float16", 2, device=3, stream=9)
    assert read_array(array) is array


@pytest.mark.parametrize("argument", [3, 2.5, "text", None, [1, 2], object()])
def test_what_is_no_array(argument: object) -> None:
    assert read_array(argument) is None


def test_interface_that_raises_falls_back_to_dlpack() -> None:
    class Jax(Exported):
        @property
        def __cuda_array_interface__(self) -> dict[str, object]:
            raise RuntimeError("bfloat16 is not supported")

    assert read(Jax(numpy.zeros((2, 2), "int16"), True)).dtype == "int16"


@pytest.mark.parametrize("shape", [(), (5,), (1, 7), (3, 1, 4), (2, 3, 4, 5), (0, 4)])
def test_row_major_strides_are_numpys(shape: tuple[int, ...]) -> None:
    model = numpy.empty(shape, "float64")
    if model.size:
        assert row_major_strides(shape, 8) == model.strides
    # NumPy calls any strides contiguous where the extent is 1 or 0.
    assert DeviceArray(0, shape, row_major_strides(shape, 8), "float64", 8).is_contiguous == model.flags.c_contiguous


def test_stride_of_an_extent_of_one_does_not_matter() -> None:
    assert read(FakeArray((1, 8), "<f4", strides=(12345, 4))).is_contiguous
    assert not read(FakeArray((2, 8), "<f4", strides=(64, 4))).is_contiguous


@pytest.mark.parametrize(
    ("element", "shown"),
    [
        (types.e4m3, "float8_e4m3fn or uint8"),
        (types.bf16, "bfloat16 or uint16"),
        (types.f32, "float32"),
    ],
)
def test_a_type_is_shown_by_names_that_libraries_know(element: types.ElementType, shown: str) -> None:
    assert shown_dtypes(accepted_dtypes(element)) == shown


@pytest.mark.parametrize("element", types.ELEMENT_TYPES, ids=str)
def test_every_element_takes_its_storage_and_types_of_its_width(element: types.ElementType) -> None:
    names = accepted_dtypes(element)
    assert names[-1] == numpy.dtype(element.storage).name
    for name in names[:-1]:
        if hasattr(ml_dtypes, name):
            assert numpy.dtype(getattr(ml_dtypes, name)).itemsize == element.numpy_dtype().itemsize
    assert "float16" not in accepted_dtypes(types.bf16)
    assert "float8_e5m2" not in accepted_dtypes(types.e4m3)


def test_an_empty_array_of_numba_is_at_no_address() -> None:
    """ctypes has None for the pointer 0."""
    made = type("DeviceNDArray", (), {"__module__": NUMBA})()
    made.__dict__.update(
        dtype=numpy.dtype("float32"), shape=(0,), strides=(4,), stream=0, device_ctypes_pointer=ctypes.c_void_p(0)
    )
    assert (read(made).pointer, read(made).shape) == (0, (0,))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "int32", "uint8"])
def test_the_types_of_numbas_arrays_are_numpys_with_names_for_those_it_lacks(name: str) -> None:
    dtype = numpy.dtype(getattr(ml_dtypes, name, name))
    made = type("DeviceNDArray", (), {"__module__": NUMBA})()
    made.__dict__.update(
        dtype=dtype, shape=(4,), strides=(dtype.itemsize,), stream=7, device_ctypes_pointer=ctypes.c_void_p(4096)
    )
    array = read(made)
    assert (array.dtype, array.item_bytes, array.pointer) == (name, dtype.itemsize, 4096)
