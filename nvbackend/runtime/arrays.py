"""Arrays of any library as one description: address, shape, strides, element type, place. Nothing is copied."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from nvbackend.intrinsics.types import ElementType
from nvbackend.runtime import dlpack

_KIND_NAMES = {"b": "bool", "i": "int{bits}", "u": "uint{bits}", "f": "float{bits}", "c": "complex{bits}"}
_TYPESTR = re.compile(r"(?P<order>[<>|=])(?P<kind>[a-zA-Z])(?P<bytes>\d+)")

_DTYPE_NAMES: dict[str, tuple[str, ...]] = {
    # what array libraries call the types that NumPy lacks; "void" is how the array interface spells such a type
    "bf16": ("bfloat16", "void16"),
    "e4m3": ("float8_e4m3fn", "void8"),
    "e5m2": ("float8_e5m2", "void8"),
    "e2m3": ("float6_e2m3fn",),
    "e3m2": ("float6_e3m2fn",),
    "e2m1": ("float4_e2m1fn_x2",),
    "ue8m0": ("float8_e8m0fnu", "void8"),
    "ue4m3": ("float8_e4m3fn", "void8"),
}


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array as a kernel sees it.

    `strides` are in bytes; `dtype` is the library-neutral name (NumPy's, or ml_dtypes' where NumPy has none);
    `device` is the ordinal where the protocol tells it; `host` names the place of an array that no kernel can read;
    `stream` is the CUDA handle of the producer's stream, where the caller has to wait for it; `owner` keeps the
    memory alive.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    item_bytes: int
    device: int | None = None
    host: str = ""
    readonly: bool = False
    stream: int | None = None
    owner: object = None

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def contiguous_strides(self) -> tuple[int, ...]:
        """The strides in bytes that this shape has in row-major order without gaps."""
        return row_major_strides(self.shape, self.item_bytes)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps; the stride of an extent of 1 does not matter."""
        expected = self.contiguous_strides
        return all(
            extent == 1 or stride == wanted
            for extent, stride, wanted in zip(self.shape, self.strides, expected, strict=True)
        )


def row_major_strides(shape: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    """The byte strides of `shape` in row-major order without gaps."""
    strides: list[int] = []
    step = item_bytes
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def accepted_dtypes(element: ElementType) -> tuple[str, ...]:
    """The array element types that hold `element`: its own name where a library has one, and its NumPy storage."""
    return (*_DTYPE_NAMES.get(element.name, ()), element.storage)


def read_array(argument: Any, stream: int = 0) -> DeviceArray | None:
    """The description of `argument`, or None where it is no array.

    PyTorch's own attributes come first (they know 8-bit floats), then `__cuda_array_interface__`, then DLPack, which
    is told to order the producer's pending work before `stream` (a CUDA handle). A host array is described as such.
    """
    if isinstance(argument, DeviceArray):
        return argument
    if all(hasattr(argument, name) for name in ("data_ptr", "element_size", "stride")):
        return _from_torch(argument)
    interface = _cuda_array_interface(argument)
    if interface is not None:
        return _from_interface(argument, interface)
    if hasattr(argument, "__dlpack_device__"):
        return _from_dlpack(argument, stream)
    if hasattr(argument, "__array_interface__"):
        return _on_host(argument)
    return None


def describe(argument: object) -> str:
    """The type of `argument` as people write it: numpy.ndarray, torch.Tensor, int."""
    kind = type(argument)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.split('.')[0]}.{kind.__name__}"


def _from_torch(tensor: Any) -> DeviceArray:
    item_bytes = int(tensor.element_size())
    on_gpu = tensor.device.type == "cuda"
    return DeviceArray(
        pointer=int(tensor.data_ptr()),
        shape=tuple(int(extent) for extent in tensor.shape),
        strides=tuple(int(step) * item_bytes for step in tensor.stride()),
        dtype=str(tensor.dtype).rpartition(".")[2],
        item_bytes=item_bytes,
        device=tensor.device.index if on_gpu else None,
        host="" if on_gpu else f"{tensor.device.type} memory ({describe(tensor)})",
        owner=tensor,
    )


def _cuda_array_interface(argument: Any) -> dict[str, Any] | None:
    # Libraries say "not this array" (a host one, a type that the interface lacks) with exceptions of their own.
    try:
        interface = argument.__cuda_array_interface__
    except Exception:  # noqa: BLE001
        return None
    return interface if isinstance(interface, dict) else None


def _from_interface(argument: Any, interface: dict[str, Any]) -> DeviceArray | None:
    """The array of an interface; None where that is not what the protocol says."""
    try:
        return _described(argument, interface)
    except (KeyError, TypeError, ValueError):
        return None


def _described(argument: Any, interface: dict[str, Any]) -> DeviceArray:
    pointer, readonly = interface["data"]
    shape = tuple(int(extent) for extent in interface["shape"])
    dtype, item_bytes = _typestr_dtype(interface["typestr"], argument)
    strides = interface.get("strides")
    stream = interface.get("stream")
    if strides is not None and len(strides) != len(shape):
        raise ValueError("a stride for each extent")
    return DeviceArray(
        pointer=int(pointer or 0),
        shape=shape,
        strides=row_major_strides(shape, item_bytes) if strides is None else tuple(int(step) for step in strides),
        dtype=dtype,
        item_bytes=item_bytes,
        readonly=bool(readonly),
        stream=None if stream is None else int(stream),
        owner=argument,
    )


def _typestr_dtype(typestr: str, argument: Any) -> tuple[str, int]:
    """The element type that an array-interface type string (NumPy's `dtype.str`) means, and its size in bytes."""
    match = _TYPESTR.fullmatch(typestr)
    if match is None:
        return typestr, 1
    item_bytes = int(match["bytes"])
    if match["order"] == ">":
        return f"{typestr} (big-endian)", item_bytes
    if match["kind"] == "V":
        name = getattr(getattr(argument, "dtype", None), "name", None)
        return str(name) if name else f"void{8 * item_bytes}", item_bytes
    return _KIND_NAMES.get(match["kind"], typestr).format(bits=8 * item_bytes), item_bytes


def _from_dlpack(argument: Any, stream: int) -> DeviceArray:
    device_type, _ = argument.__dlpack_device__()
    if device_type == dlpack.DeviceType.CPU:
        return _on_host(argument)
    reachable = (dlpack.DeviceType.CUDA, dlpack.DeviceType.CUDA_HOST, dlpack.DeviceType.CUDA_MANAGED)
    if device_type not in reachable:
        return _on_host(argument, f"memory of DLPack device type {int(device_type)}")
    tensor = dlpack.export(argument, stream)
    item_bytes = -(-tensor.item_bits // 8)
    strides = tensor.strides
    return DeviceArray(
        pointer=tensor.pointer,
        shape=tensor.shape,
        strides=row_major_strides(tensor.shape, item_bytes)
        if strides is None
        else tuple(step * item_bytes for step in strides),
        dtype=tensor.dtype,
        item_bytes=item_bytes,
        device=tensor.device if tensor.device_type == dlpack.DeviceType.CUDA else None,
        readonly=tensor.readonly,
        owner=(argument, tensor.capsule),
    )


def _on_host(argument: Any, place: str = "host memory") -> DeviceArray:
    shape = tuple(int(extent) for extent in getattr(argument, "shape", ()))
    dtype = getattr(argument, "dtype", None)
    item_bytes = int(getattr(dtype, "itemsize", 1))
    return DeviceArray(
        pointer=0,
        shape=shape,
        strides=row_major_strides(shape, item_bytes),
        dtype=str(getattr(dtype, "name", dtype)),
        item_bytes=item_bytes,
        host=f"{place} ({describe(argument)})",
        owner=argument,
    )
