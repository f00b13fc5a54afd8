"""What a module has in memory before anything runs: global variables and constants with their initial values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.names import Names
from nvbackend.ptx.syntax import Float, Function, Integer, Module, Name, Operand, Position, Sum, Variable, Vector
from nvbackend.simulator.machine.symbols import Place, alignment_of, size_of
from nvbackend.simulator.machine.types import bits
from nvbackend.simulator.memory import Heap, windows

_FUNCTION_BYTES = 16


@dataclass(slots=True)
class Image:
    """A module's global memory and constants, and where everything of it is."""

    globals: Heap = field(default_factory=lambda: Heap(windows.GLOBALS))
    constants: Heap = field(default_factory=lambda: Heap(windows.CONSTANTS))
    places: dict[Position, Place] = field(default_factory=dict)


def image(module: Module, names: Names) -> Image:
    """The image of a module. Functions get addresses, too: they may be called by them."""
    found = Image()
    by_name: dict[str, int] = {}
    for number, function in enumerate(item for item in module.items if isinstance(item, Function)):
        address = by_name.setdefault(function.name, windows.CODE + _FUNCTION_BYTES * number)
        found.places[function.position] = Place("code", address)
    variables = [item for item in _variables(module, names) if item.space in ("global", "const")]
    for variable in variables:
        heap = found.constants if variable.space == "const" else found.globals
        data = np.zeros(max(size_of(variable), 1), np.uint8)
        align = max(alignment_of(variable), 256)
        allocation = heap.add(variable.name, data, is_writable=variable.space == "global", align=align)
        found.places[variable.position] = Place(variable.space, allocation.base)
        by_name[variable.name] = allocation.base
        _fill(data, variable, by_name)
    for variable in variables:
        if variable.initial is not None:
            base = found.places[variable.position].address
            heap = found.constants if variable.space == "const" else found.globals
            allocation_now = heap.at(base)
            assert allocation_now is not None
            _fill(allocation_now.data, variable, by_name)
    return found


def _variables(module: Module, names: Names) -> Iterator[Variable]:
    """Of the module and of its functions' bodies."""
    yield from (item for item in module.items if isinstance(item, Variable))
    inside = {declared.position: declared for declared in names.of.values() if isinstance(declared, Variable)}
    outside = {item.position for item in module.items if isinstance(item, Variable)}
    yield from (inside[position] for position in sorted(inside) if position not in outside)


def _fill(data: NDArray[np.uint8], variable: Variable, addresses: Mapping[str, int]) -> None:
    """Set the initial value; elements that it does not give are zero."""
    if variable.initial is None:
        return
    size = max((bits(variable.type) or 8) // 8, 1)
    values = [_value(one, size, addresses) for one in _elements(variable.initial)]
    text = b"".join((value & (1 << 8 * size) - 1).to_bytes(size, "little") for value in values)
    data[: len(text)] = np.frombuffer(text, np.uint8)


def _elements(operand: Operand) -> Iterator[Operand]:
    if isinstance(operand, Vector):
        for element in operand.elements:
            yield from _elements(element)
    else:
        yield operand


def _value(operand: Operand, size: int, addresses: Mapping[str, int]) -> int:
    """The bits of one element: a number, or an address of a variable or function."""
    if isinstance(operand, Integer):
        return operand.value
    if isinstance(operand, Float):
        if operand.width == 8 * size:
            return operand.bits
        number = np.array([operand.bits], np.uint64).view(np.float64)
        return int(number.astype(np.float32).view(np.uint32)[0])
    if isinstance(operand, Sum):
        return addresses.get(operand.name.text, 0) + operand.offset
    return addresses.get(operand.text, 0) if isinstance(operand, Name) else 0
