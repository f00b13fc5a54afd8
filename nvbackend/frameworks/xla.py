"""The C interface of XLA's foreign functions: the frame of a call, as ctypes reads it.

Source: xla/ffi/api/c_api.h of jaxlib (version 0.x of the interface), of which the fields here are the beginning.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import Any

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.runtime.arguments.arrays import DeviceArray, row_major_strides

_METADATA = 1
"""The extension of a call that asks for the handler's version."""
_EXECUTE = 3
_INTERNAL = 13
"""Error codes and stages."""
_NAMES = {
    1: "bool",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "uint8",
    7: "uint16",
    8: "uint32",
    9: "uint64",
    10: "float16",
    11: "float32",
    12: "float64",
    16: "bfloat16",
    19: "float8_e5m2",
    20: "float8_e4m3fn",
    33: "float8_e8m0fnu",
}
"""Of XLA_FFI_DataType."""
_BITS = re.compile(r"\d+")
_Pointer, _Size, _Long, _Int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int


def _struct(name: str, **fields: Any) -> Any:
    every = {"struct_size": _Size, "extension": _Pointer, **fields}
    return type(name, (ctypes.Structure,), {"_fields_": list(every.items())})


_Extension: Any = type(
    "_Extension",
    (ctypes.Structure,),
    {"_fields_": [("struct_size", _Size), ("kind", _Int), ("next", _Pointer), ("metadata", _Pointer)]},
)
_Version = _struct("_Version", major=_Int, minor=_Int)
_Metadata: Any = type("_Metadata", (ctypes.Structure,), {"_fields_": [("struct_size", _Size), ("version", _Version)]})
_Api = _struct(
    "_Api",
    version=_Version,
    internal=_Pointer,
    error_create=_Pointer,
    error_message=_Pointer,
    error_destroy=_Pointer,
    handler_register=_Pointer,
    stream_get=_Pointer,
)
_Buffers = _struct("_Buffers", size=_Long, types=_Pointer, places=ctypes.POINTER(_Pointer))
_Attributes = _struct(
    "_Attributes", size=_Long, types=_Pointer, names=ctypes.POINTER(_Pointer), places=ctypes.POINTER(_Pointer)
)
_Frame = _struct(
    "_Frame", api=_Pointer, context=_Pointer, stage=_Int, arguments=_Buffers, results=_Buffers, attributes=_Attributes
)
_Buffer = _struct("_Buffer", dtype=_Int, data=_Pointer, rank=_Long, extents=ctypes.POINTER(_Long))
_Words: Any = type(
    "_Words", (ctypes.Structure,), {"_fields_": [("dtype", _Int), ("size", _Size), ("data", ctypes.POINTER(_Long))]}
)
_Error = _struct("_Error", message=ctypes.c_char_p, code=_Int)
_Stream = _struct("_Stream", context=_Pointer, stream=_Pointer)
_FUNCTION = ctypes.CFUNCTYPE(_Pointer, _Pointer)


@dataclass(frozen=True)
class HandlerCall:
    """One call of a handler: arrays of arguments and results, the words of its attribute, the stream of a GPU."""

    arguments: tuple[DeviceArray, ...]
    results: tuple[DeviceArray, ...]
    words: tuple[int, ...]
    stream: int


def handler(execute: Callable[[HandlerCall], None], *, on_gpu: bool) -> Any:
    """A function of C that XLA calls, and that calls `execute`; an exception becomes XLA's error with its text."""

    def called(address: int) -> int | None:
        frame = _Frame.from_address(address)
        if frame.extension:
            extension = _Extension.from_address(frame.extension)
            if extension.kind == _METADATA:
                _answer(_Metadata.from_address(extension.metadata), frame.api)
                return None
        api = _Api.from_address(frame.api)
        try:
            if frame.stage == _EXECUTE:
                execute(_call(frame, api, on_gpu=on_gpu))
        except BaseException as error:  # noqa: BLE001 nothing of Python's may pass through the frames of C
            said = _Error(struct_size=ctypes.sizeof(_Error), message=str(error).encode(), code=_INTERNAL)
            created: int | None = _FUNCTION(api.error_create)(ctypes.addressof(said))
            return created
        return None

    return _FUNCTION(called)


def _answer(metadata: Any, api: int | None) -> None:
    """The version of the interface: that of the caller, whose structs begin with the fields that are read here."""
    version = _Api.from_address(api).version if api else _Version(major=0, minor=0)
    metadata.version.major, metadata.version.minor = version.major, version.minor


def _call(frame: Any, api: Any, *, on_gpu: bool) -> HandlerCall:
    stream = 0
    if on_gpu:
        asked = _Stream(struct_size=ctypes.sizeof(_Stream), context=frame.context)
        if _FUNCTION(api.stream_get)(ctypes.addressof(asked)):
            raise RuntimeError("XLA gave no stream")
        stream = asked.stream or 0
    places = frame.attributes.places
    words = _Words.from_address(places[0])
    return HandlerCall(_arrays(frame.arguments), _arrays(frame.results), tuple(words.data[: words.size]), stream)


def _arrays(buffers: Any) -> tuple[DeviceArray, ...]:
    return tuple(_array(_Buffer.from_address(buffers.places[index])) for index in range(buffers.size))


def _array(buffer: Any) -> DeviceArray:
    shape: Sequence[int] = tuple(buffer.extents[: buffer.rank])
    dtype = _NAMES.get(buffer.dtype, f"XLA's type {buffer.dtype}")
    bits = _BITS.search(dtype) if buffer.dtype in _NAMES else None
    item_bytes = int(bits[0]) // 8 if bits else 1
    strides = row_major_strides(tuple(shape), item_bytes)
    return DeviceArray(buffer.data or 0, tuple(shape), strides, dtype, item_bytes)
