"""DLPack capsules, read without a copy and without any array library.

cuda.core's StridedMemoryView refuses element types that NumPy lacks (bfloat16 without ml_dtypes, all 8-bit floats);
the C structures are few, so they are read here. Source: dlpack.h of DLPack 1.1.
"""

from __future__ import annotations

import ctypes
import enum
from typing import Any

from nvbackend.diagnostics.classes.dataclass import dataclass


class DeviceType(enum.IntEnum):
    """DLDeviceType, as far as CUDA uses it."""

    CPU = 1
    CUDA = 2
    CUDA_HOST = 3
    CUDA_MANAGED = 13


_TYPE_CODES = {
    0: "int{bits}",
    1: "uint{bits}",
    2: "float{bits}",
    4: "bfloat{bits}",
    5: "complex{bits}",
    6: "bool",
    7: "float8_e3m4",
    8: "float8_e4m3",
    9: "float8_e4m3b11fnuz",
    10: "float8_e4m3fn",
    11: "float8_e4m3fnuz",
    12: "float8_e5m2",
    13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
    15: "float6_e2m3fn",
    16: "float6_e3m2fn",
    17: "float4_e2m1fn",
}
_READ_ONLY_FLAG = 1


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


@dataclass(frozen=True, slots=True)
class DLTensor:
    """A capsule's content: address, extents, strides in elements (None: row-major without gaps), element type."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    item_bits: int
    device_type: int
    device: int
    readonly: bool
    capsule: object


def export(argument: Any, stream: int) -> DLTensor:
    """The capsule of `argument.__dlpack__`; the exporter orders its pending work before `stream`, a CUDA handle.

    The capsule stays unconsumed and owns the memory for as long as the result lives.
    """
    # DLPack forbids the ambiguous handle 0: 1 is the legacy default stream.
    handle = stream or 1
    try:
        capsule = argument.__dlpack__(max_version=(1, 1), stream=handle)
    except TypeError:
        capsule = argument.__dlpack__(stream=handle)
    return read(capsule)


def read(capsule: object) -> DLTensor:
    """The content of a `dltensor` or `dltensor_versioned` capsule."""
    readonly = False
    if _is_valid(capsule, b"dltensor_versioned"):
        holder = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        readonly, tensor = bool(holder.flags & _READ_ONLY_FLAG), holder.tensor
    else:
        tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    rank = tensor.ndim
    return DLTensor(
        pointer=(tensor.data or 0) + tensor.byte_offset,
        shape=tuple(tensor.shape[:rank]),
        strides=tuple(tensor.strides[:rank]) if tensor.strides else None,
        dtype=_dtype_name(tensor.dtype),
        item_bits=tensor.dtype.bits * tensor.dtype.lanes,
        device_type=tensor.device.type,
        device=tensor.device.id,
        readonly=readonly,
        capsule=capsule,
    )


def _dtype_name(dtype: _DataType) -> str:
    name = _TYPE_CODES.get(dtype.code, "dlpack{code}:{bits}").format(code=dtype.code, bits=dtype.bits)
    return name if dtype.lanes == 1 else f"{name}_x{dtype.lanes}"


def _is_valid(capsule: object, name: bytes) -> bool:
    # A prototype of its own: argument types set on ctypes.pythonapi would be seen by the whole process.
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
    return bool(prototype(("PyCapsule_IsValid", ctypes.pythonapi))(capsule, name))


def _pointer(capsule: object, name: bytes) -> int:
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return int(prototype(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, name))
