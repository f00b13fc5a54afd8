"""Arrays of any library as one description: address, shape, strides, element type, place. Nothing is copied."""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from nvbackend.diagnostics import record, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.runtime.arguments import dlpack

ADDRESSES = 1 << 64
"""Every address is less."""

_NUMBA_ARRAYS = "numba.cuda.cudadrv.devicearray"
_KIND_NAMES = {"b": "bool", "i": "int{bits}", "u": "uint{bits}", "f": "float{bits}", "c": "complex{bits}"}
_TYPESTR = re.compile(r"(?P<order>[<>|=])(?P<kind>[a-zA-Z])(?P<bytes>[0-9]{1,9})")

_RAW = "void"
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


@record
@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array as a kernel sees it.

    `strides` are in bytes; `dtype` is the library-neutral name (NumPy's, or ml_dtypes' where NumPy has none);
    `device` is the ordinal where the protocol gives it; `host` names the place of an array that no kernel can read;
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
    owner: object = field(default=None, repr=False)

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


def shown_dtypes(accepted: Iterable[str]) -> str:
    """The accepted names that a user can ask a library for: raw bytes of a type have none."""
    return " or ".join(name for name in accepted if not name.startswith(_RAW))


def big_endian(typestr: str) -> str:
    """What an element type is called whose bytes are in the other order than a GPU's: no parameter has it."""
    return f"{typestr} (big-endian)"


def accepted_dtypes(element: ElementType) -> tuple[str, ...]:
    """The array element types that hold `element`: its own name where a library has one, and its NumPy storage."""
    return (*_DTYPE_NAMES.get(element.name, ()), element.storage)


TorchFacts = tuple[int, tuple[int, ...], tuple[int, ...], Any, Any]
"""What PyTorch says of a tensor: address, shape, strides in elements, dtype (with it, bytes an element), device."""
InterfaceFacts = tuple[int, bool, tuple[int, ...], tuple[int, ...] | None, str, str, int | None]
"""What `__cuda_array_interface__` says: address, read-only, shape, strides in bytes, typestr, the dtype's name where
the typestr has none, stream. Two facts more than TorchFacts, so never equal to them."""
Facts = TorchFacts | InterfaceFacts


TensorKey = tuple[int, tuple[int, ...], bool | tuple[int, ...], Any, int, bool]
"""What tells a tensor of PyTorch from another: address, shape, strides where they are not row-major, dtype, ordinal of
the device, and whether it is a negated view. It takes half the time of TorchFacts."""
_KEY_CALLS = ("data_ptr", "is_contiguous", "stride", "get_device", "is_neg")


def has_key(kind: type) -> bool:
    """Whether objects of this type have a TensorKey: PyTorch's tensors and what is derived from them."""
    return all(callable(getattr(kind, name, None)) for name in _KEY_CALLS)


def tensor_key(tensor: Any) -> TensorKey:
    """The key of a tensor whose type has one. Raises what PyTorch does where it has no plain memory."""
    strides = tensor.is_contiguous() or tensor.stride()
    return (tensor.data_ptr(), tensor.shape, strides, tensor.dtype, tensor.get_device(), tensor.is_neg())


@user_facing
def read_array(argument: Any, stream: int = 0) -> DeviceArray | None:
    """The description of `argument`, or None for any other object.

    PyTorch's own attributes come first (they know 8-bit floats), then `__cuda_array_interface__`, then DLPack, which
    orders the producer's pending work before `stream` (a CUDA handle). A host array is described as such.
    """
    facts = array_facts(argument)
    return read_other(argument, stream) if facts is None else described(facts, argument)


def array_facts(argument: Any) -> Facts | None:
    """What a PyTorch tensor or an object with `__cuda_array_interface__` says of itself; None for anything else.

    `described` makes the array of these facts and of nothing else, so that equal facts are equal arrays.
    """
    # Cheap on purpose: each launch asks each of its arrays, and compares the answer with earlier ones.
    address = getattr(argument, "data_ptr", None)
    if address is not None:
        try:
            dtype = argument.dtype
            is_negated = getattr(argument, "is_neg", None)
            if is_negated is not None and is_negated():
                # The memory has the opposite sign: z.conj().imag is such a view.
                dtype = f"{dtype} (a negated view; resolve_neg() makes it plain)"
            return (address(), argument.shape, argument.stride(), dtype, argument.device)
        except (AttributeError, TypeError, RuntimeError):  # no tensor; or one without a plain address, a sparse one
            pass
    kind = type(argument)
    if kind.__name__ == "DeviceNDArray" and kind.__module__ == _NUMBA_ARRAYS:
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            return _numba_facts(argument)
    # Libraries say "not this array" (a host one, a type that the interface lacks) with exceptions of their own.
    try:
        interface = argument.__cuda_array_interface__
    except Exception:  # noqa: BLE001
        return None
    try:
        return _interface_facts(argument, interface)
    except (AttributeError, KeyError, TypeError, ValueError):  # not what the protocol says
        return None


def _numba_facts(array: Any) -> InterfaceFacts:
    """What numba's array makes its interface of, which takes it longer than a launch: it looks whether it has gaps."""
    dtype, stream = array.dtype, array.stream
    typestr = dtype.str
    return (
        array.device_ctypes_pointer.value or 0,
        False,
        array.shape,
        array.strides,
        typestr,
        dtype.name if "V" in typestr else "",
        int(stream) if stream != 0 else None,
    )


def _interface_facts(argument: Any, interface: dict[str, Any]) -> InterfaceFacts:
    pointer, readonly = interface["data"]
    strides, stream, typestr = interface.get("strides"), interface.get("stream"), interface["typestr"]
    return (
        int(pointer or 0),
        bool(readonly),
        tuple(interface["shape"]),
        None if strides is None else tuple(strides),
        typestr,
        str(getattr(getattr(argument, "dtype", None), "name", "")) if "V" in typestr else "",
        None if stream is None else int(stream),
    )


def described(facts: Facts, owner: object) -> DeviceArray | None:
    """The array that `owner` says to be by `facts`; None where they are not what the protocol says."""
    try:
        return _of_torch(facts, owner) if len(facts) == 5 else _of_interface(facts, owner)
    except (AttributeError, TypeError, ValueError):
        return None


def _of_torch(facts: TorchFacts, tensor: Any) -> DeviceArray:
    pointer, shape, strides, dtype, device = facts
    item_bytes, on_gpu = int(tensor.element_size()), device.type == "cuda"
    return DeviceArray(
        pointer=int(pointer),
        shape=tuple(int(extent) for extent in shape),
        strides=tuple(int(step) * item_bytes for step in strides),
        dtype=str(dtype).rpartition(".")[2],
        item_bytes=item_bytes,
        device=device.index if on_gpu else None,
        host="" if on_gpu else f"{device.type} memory ({describe(tensor)})",
        owner=tensor,
    )


def _of_interface(facts: InterfaceFacts, owner: object) -> DeviceArray:
    pointer, readonly, extents, steps, typestr, name, stream = facts
    shape = tuple(operator.index(extent) for extent in extents)
    dtype, item_bytes = _typestr_dtype(typestr, name)
    if not 0 <= pointer < ADDRESSES or any(extent < 0 for extent in shape):
        raise ValueError("an address has 64 bits, and an extent no sign")
    if steps is not None and len(steps) != len(shape):
        raise ValueError("a stride for each extent")
    return DeviceArray(
        pointer=pointer,
        shape=shape,
        strides=row_major_strides(shape, item_bytes)
        if steps is None
        else tuple(operator.index(step) for step in steps),
        dtype=dtype,
        item_bytes=item_bytes,
        readonly=readonly,
        stream=stream,
        owner=owner,
    )


def read_other(argument: Any, stream: int) -> DeviceArray | None:
    """The description of an array without facts: of DLPack, on the host, or a DeviceArray itself; None for others."""
    if isinstance(argument, DeviceArray):
        return argument
    if hasattr(argument, "__dlpack_device__"):
        return _from_dlpack(argument, stream)
    if hasattr(argument, "__array_interface__"):
        return _on_host(argument)
    return None


def describe(argument: object) -> str:
    """The type of `argument` as people write it: numpy.ndarray, torch.Tensor, int; of an array, that of its owner."""
    kind = type(argument)
    if isinstance(argument, DeviceArray) and argument.owner is not None:
        kind = type(argument.owner)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.split('.')[0]}.{kind.__name__}"


def _typestr_dtype(typestr: str, name: str) -> tuple[str, int]:
    """The element type that an array-interface type string (NumPy's `dtype.str`) means, and its size in bytes.

    `name` is the dtype's own, for types that a type string has no kind for.
    """
    match = _TYPESTR.fullmatch(typestr)
    if match is None:
        return typestr, 1
    item_bytes = int(match["bytes"])
    if match["order"] == ">":
        return big_endian(typestr), item_bytes
    if match["kind"] == "V":
        return name or f"void{8 * item_bytes}", item_bytes
    return _KIND_NAMES.get(match["kind"], typestr).format(bits=8 * item_bytes), item_bytes


def _from_dlpack(argument: Any, stream: int) -> DeviceArray | None:
    device_type, _ = argument.__dlpack_device__()
    if device_type == dlpack.DeviceType.CPU:
        return _on_host(argument)
    reachable = (dlpack.DeviceType.CUDA, dlpack.DeviceType.CUDA_HOST, dlpack.DeviceType.CUDA_MANAGED)
    if device_type not in reachable:
        return _on_host(argument, f"memory of DLPack device type {int(device_type)}")
    try:
        tensor = dlpack.export(argument, stream)
    except BufferError:  # how an exporter says that this array has no plain memory
        return None
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
