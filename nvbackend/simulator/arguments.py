"""Arguments of a launch: NumPy arrays become memory at an address, numbers become the bytes of their parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Variable
from nvbackend.simulator.machine.symbols import size_of
from nvbackend.simulator.machine.types import bits
from nvbackend.simulator.memory import Heap
from nvbackend.simulator.rules import LAUNCH

_FLOATS = ("f16", "f32", "f64")
_MAP_BYTES, _MAP_ALIGN = 128, 64
"""Of a tensor map that is a parameter (PTX ISA 5.5.8)."""


@runtime_checkable
class BoundMap(Protocol):
    """A tensor map over arrays: what a 128-byte parameter takes. `bytes_of(address)` encodes it, given where each array
    is; `arrays` are those that it reads and writes."""

    @property
    def arrays(self) -> Sequence[NDArray[Any]]:
        """The arrays that must be in memory."""

    def bytes_of(self, addresses: Any) -> bytes:
        """The 128 bytes of the map, given the address of each array's first element."""


@dataclass(slots=True)
class Arguments:
    """The bytes of each parameter."""

    parameters: list[bytes] = field(default_factory=list)


class Binder:
    """Converts the arguments of one launch."""

    def __init__(self, kernel: str, heap: Heap, names: Sequence[str] = ()) -> None:
        self._kernel = kernel
        self._names = names
        self._heap = heap
        self._spans: list[tuple[int, int, int]] = []
        """Memory of this process that is mapped: its first byte, the one after its last, its address in the kernel."""

    def bind(self, variables: Sequence[Variable], arguments: Sequence[object]) -> tuple[bytes, ...]:
        """The bytes of each parameter. Raises simulator.launch."""
        if len(variables) != len(arguments):
            names = ", ".join(one.name for one in variables) or "none"
            problem = f"it takes {len(variables)} argument(s) ({names}), not {len(arguments)}"
            self._fail(problem, "pass one argument per parameter, in the order of the PTX")
        if self._names and len(self._names) != len(arguments):
            problem = f"it takes {len(arguments)} argument(s), and names={list(self._names)} has {len(self._names)}"
            self._fail(problem, "pass one name per argument, or none")
        for variable, one in zip(variables, arguments, strict=True):
            self._check_types(variable, one)
        self._map([array for one in arguments for array in _arrays(one)], variables, arguments)
        return tuple(self._bytes(variable, one) for variable, one in zip(variables, arguments, strict=True))

    def _check_types(self, variable: Variable, argument: object) -> None:
        """Raises simulator.launch for an array whose bytes are not the numbers that a kernel would read."""
        for array in _arrays(argument):
            if array.dtype.hasobject or not array.dtype.isnative:
                text = f"{variable.name} is given an array of {array.dtype.str}"
                self._fail(text, "pass an array of numbers in the order of bytes of this machine")

    def _map(self, arrays: list[NDArray[Any]], variables: Sequence[Variable], arguments: Sequence[object]) -> None:
        """Give memory of this process addresses; arrays that overlap share theirs."""
        merged: list[list[Any]] = []
        for array in sorted(arrays, key=lambda one: np.lib.array_utils.byte_bounds(one)[0]):
            low, high = np.lib.array_utils.byte_bounds(array)
            if not array.size:
                continue
            if merged and low < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], high)
                merged[-1][2].append(array)
            else:
                merged.append([low, high, [array]])
        for low, high, owners in merged:
            name = self._name_of(owners[0], variables, arguments)
            data = _memory(low, high, owners)
            writable = all(one.flags.writeable for one in owners)
            allocation = self._heap.add(name, data, is_writable=writable)
            self._spans.append((low, high, allocation.base))

    def _name_of(self, array: NDArray[Any], variables: Sequence[Variable], arguments: Sequence[object]) -> str:
        names = self._names or [variable.name for variable in variables]
        for name, one in zip(names, arguments, strict=True):
            if any(each is array for each in _arrays(one)):
                return name
        return "array"

    def address(self, array: NDArray[Any]) -> int:
        """The address of an array's first element; 0 for an empty one."""
        pointer = int(array.__array_interface__["data"][0])
        return next((base + pointer - low for low, high, base in self._spans if low <= pointer < high), 0)

    def _bytes(self, variable: Variable, value: object) -> bytes:
        size = size_of(variable)
        if isinstance(value, np.ndarray) and value.ndim:
            if size != 8:
                is_map = size == _MAP_BYTES and (variable.alignment or 0) >= _MAP_ALIGN
                fix = "pass nvb.TensorMap(element, box).bind(array)" if is_map else "pass a number or bytes"
                self._fail(f"{variable.name} has {size} bytes, and is given an array", fix)
            return self.address(value).to_bytes(8, "little")
        if isinstance(value, BoundMap):
            data = value.bytes_of(tuple(self.address(one) for one in value.arrays))
        elif isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
        elif isinstance(value, np.generic | np.ndarray):
            data = self._scalar(variable, value, size)
        elif isinstance(value, bool | int | float):
            data = self._number(variable, value, size)
        else:
            kind = type(value).__name__
            self._fail(f"{variable.name} is given a {kind}", "pass a NumPy array, a number, or the bytes of a struct")
        if len(data) != size:
            self._fail(f"{variable.name} has {size} bytes, and is given {len(data)}", "pass as many bytes as it has")
        return data

    def _scalar(self, variable: Variable, value: Any, size: int) -> bytes:
        """A number of NumPy's: its bits where its type may be the parameter's, else its value."""
        is_float, kind = variable.type in _FLOATS, value.dtype.kind
        if value.nbytes == size and (kind not in "iuf" or variable.type.startswith("b") or is_float == (kind == "f")):
            return bytes(value.astype(value.dtype.newbyteorder("=")).tobytes())
        return self._number(variable, value.item(), size)

    def _number(self, variable: Variable, value: Any, size: int) -> bytes:
        """A number as the type of the parameter says."""
        if variable.shape or size > 8:
            self._fail(f"{variable.name} is a struct of {size} bytes, and is given {value!r}", "pass its bytes")
        if variable.type in _FLOATS:
            return np.array(value, f"f{size}").tobytes()
        if isinstance(value, float):
            if size in (4, 8) and variable.type.startswith("b"):
                return np.array(value, f"f{size}").tobytes()
            self._fail(f"{variable.name} is .{variable.type}, and is given {value!r}", "pass an integer")
        width = bits(variable.type) or 8 * size
        if not -(1 << width - 1) <= value < 1 << width:
            self._fail(f"{variable.name} has {width} bits, and is given {value}", f"pass a number of {width} bits")
        return (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")

    def _fail(self, problem: str, advice: str) -> Any:
        LAUNCH.fail(kernel=self._kernel, problem=problem, advice=advice)


def _arrays(value: object) -> list[NDArray[Any]]:
    if isinstance(value, np.ndarray) and value.ndim:
        return [value]
    return list(value.arrays) if isinstance(value, BoundMap) else []


def _memory(low: int, high: int, owners: list[NDArray[Any]]) -> NDArray[np.uint8]:
    """The bytes from `low` to `high` of this process, which `owners` keep alive, as an array that writes through."""
    whole = np.asarray(owners[0])  # of a np.matrix too, which would keep two axes
    if whole.flags.c_contiguous and whole.nbytes == high - low:
        return whole.reshape(-1).view(np.uint8)
    return np.asarray(_Span(low, high, owners))


class _Span:
    """Memory of this process, as NumPy takes it from any object."""

    def __init__(self, low: int, high: int, owners: list[NDArray[Any]]) -> None:
        self.owners = owners
        read_only = not all(one.flags.writeable for one in owners)
        self.__array_interface__ = {"shape": (high - low,), "typestr": "|u1", "data": (low, read_only), "version": 3}
