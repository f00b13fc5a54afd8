"""Calls of device functions: arguments and results through bytes that both sides know. PTX ISA 7.1 (ABI), 9.7.12.5.

The caller copies its `.param` variables to the transfer slots, the called function copies them to its own parameters;
results come back alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nvbackend.ptx.names import names_in
from nvbackend.ptx.syntax import Arguments, Function, Instruction, Name, Operand, Variable
from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.symbols import Symbols, size_of
from nvbackend.simulator.machine.wave import Step, Wave
from nvbackend.simulator.program import flow
from nvbackend.simulator.program.device_heap import Allocating, Freeing
from nvbackend.simulator.program.ends import Call, Callee, Outside, Return
from nvbackend.simulator.program.layout import Layout
from nvbackend.simulator.program.listing import Listing
from nvbackend.simulator.program.printing import Failing, Printing


class Linkage:
    """The functions of one program and how they call each other."""

    def __init__(
        self, functions: Sequence[Function], texts: dict[str, Listing], layout: Layout, symbols: Symbols
    ) -> None:
        self.functions = {function.name: function for function in functions}
        self.texts = texts
        self.layout = layout
        self.symbols = symbols
        self.callees: dict[str, Callee] = {}
        self.leaving = Return(symbols.frame_slot)
        """The end of every function that is called."""
        self._edges = {name: self._called_by(name) for name in texts}

    def transfer(self, kind: str, index: int) -> int:
        """The slot through which argument or result `index` goes, wide enough for that of every function."""
        width = 8  # the addresses that vprintf takes
        for function in self.functions.values():
            variables = function.parameters if kind == "argument" else function.results
            if index < len(variables) and not function.is_entry:
                width = max(width, size_of(variables[index]))
        return self.symbols.slots.named((kind, index), lambda wave: np.zeros((wave.size, width), np.uint8))

    def enter(self, name: str, place: int) -> None:
        """The function starts at `place`."""
        self.callee(name).entry = place

    def callee(self, name: str) -> Callee:
        """What calls must know of a function."""
        if name not in self.callees:
            is_recursive = name in self._recursive()
            self.callees[name] = Callee(name, is_recursive, -1, self._kept(name) if is_recursive else ())
        return self.callees[name]

    def by_address(self) -> dict[int, Callee]:
        """All functions by their addresses."""
        places = self.layout.places
        return {
            places[function.position].address: self.callee(name)
            for name, function in self.functions.items()
            if function.position in places
        }

    def named(self, operand: Operand) -> Function | None:
        """The function that an operand of a call names."""
        declared = self.symbols.names.of.get(operand.position) if isinstance(operand, Name) else None
        return self.functions.get(declared.name) if isinstance(declared, Function) else None

    def callees_first(self) -> list[str]:
        """The functions, those that are called before those that call them: they run first."""
        names = list(self.texts)
        graph = [[names.index(one) for one in sorted(self._edges[name])] for name in names]
        parts = flow.components(graph, range(len(names)))
        return [names[one] for part in parts for one in sorted(part)]

    def _recursive(self) -> set[str]:
        names = list(self.texts)
        graph = [[names.index(one) for one in sorted(self._edges[name])] for name in names]
        parts = flow.components(graph, range(len(names)))
        return {names[one] for part in parts for one in part if len(part) > 1 or names[one] in self._edges[names[one]]}

    def _called_by(self, name: str) -> set[str]:
        found: set[str] = set()
        for instruction, _ in self.texts[name].lines:
            mentioned = {
                function.name
                for operand in instruction.operands
                for one in names_in(operand)
                if (function := self.named(one)) is not None
            }
            if instruction.parts[0] == "call" and not mentioned:
                mentioned = {other for other, function in self.functions.items() if not function.is_entry}
            found |= mentioned
        return found

    def _kept(self, name: str) -> tuple[int, ...]:
        """The slots of a function's registers and `.param` variables but its results."""
        symbols, function = self.symbols, self.functions[name]
        found = {symbols.parameter(variable) for variable in function.parameters}
        for variable in self.texts[name].variables:
            if variable.space == "param":
                found.add(symbols.parameter(variable))
        for instruction, _ in self.texts[name].lines:
            operands = [*instruction.operands, *((instruction.guard.register,) if instruction.guard else ())]
            for one in (one for operand in operands for one in names_in(operand)):
                register = symbols.register(one) if symbols.bits(one) is not None else None
                if register is not None:
                    found.add(register[0])
        return tuple(sorted(found))


def _copy(source: int, target: int) -> Step:
    """Copy bytes from one slot to another one, as many as both have."""

    def step(wave: Wave, lanes: Lanes) -> None:
        values = wave.registers[target].copy()
        given = wave.registers[source][lanes.index]
        width = min(values.shape[1], given.shape[1])
        values[lanes.index, :width] = given[:, :width]
        wave.registers[target] = values

    return step


def _all(steps: list[Step]) -> Step | None:
    if len(steps) <= 1:
        return steps[0] if steps else None

    def run(wave: Wave, lanes: Lanes) -> None:
        for step in steps:
            step(wave, lanes)

    return run


def entry_step(function: Function, linkage: Linkage) -> Step | None:
    """What a function does first: take its arguments."""
    if function.is_entry:
        return None
    return _all([_accept(one, linkage.transfer("argument", at), linkage) for at, one in enumerate(function.parameters)])


def result_step(function: Function, linkage: Linkage) -> Step | None:
    """What a function does last: give its results."""
    return _all([_leave(one, linkage.transfer("result", at), linkage) for at, one in enumerate(function.results)])


def _accept(variable: Variable, transfer: int, linkage: Linkage) -> Step:
    """Take what is given for a parameter, which is a register or a `.param` variable."""
    if variable.space == "reg":
        return _to_register(transfer, *linkage.symbols.of_register(variable, variable.name))
    return _copy(transfer, linkage.symbols.parameter(variable))


def _leave(variable: Variable, transfer: int, linkage: Linkage) -> Step:
    """Give what a result is."""
    if variable.space == "reg":
        return _from_register(linkage.symbols.of_register(variable, variable.name)[0], transfer)
    return _copy(linkage.symbols.parameter(variable), transfer)


_OUTSIDE = ("vprintf", "__assertfail", "malloc", "free")
"""The functions without a body that calls may name."""


def _parts(instruction: Instruction) -> tuple[tuple[Operand, ...], Operand, tuple[Operand, ...]]:
    """Results, the function and arguments, of a call with the form of one."""
    operands = list(instruction.operands)
    results = operands.pop(0) if isinstance(operands[0], Arguments) else None
    function = operands.pop(0)
    arguments = operands.pop(0) if operands and isinstance(operands[0], Arguments) else None
    return (
        results.elements if isinstance(results, Arguments) else (),
        function,
        arguments.elements if isinstance(arguments, Arguments) else (),
    )


def compile_arguments(instruction: Instruction, linkage: Linkage) -> Step | None:
    """Give the arguments of a call."""
    _, _, arguments = _parts(instruction)
    return _all([_give(one, linkage.transfer("argument", place), linkage) for place, one in enumerate(arguments)])


def compile_after(instruction: Instruction, linkage: Linkage) -> Step | None:
    """Take the results of a call."""
    results, _, _ = _parts(instruction)
    steps = [_take(one, linkage.transfer("result", place), linkage) for place, one in enumerate(results)]
    return _all([step for step in steps if step is not None])


def _slot(operand: Operand, linkage: Linkage) -> tuple[int, Any] | None:
    return linkage.symbols.register(operand)


def _give(operand: Operand, transfer: int, linkage: Linkage) -> Step:
    """An argument is a `.param` variable, a register, or a constant."""
    declared = linkage.symbols.declared(operand)
    if declared is not None and declared.space == "param":
        return _copy(linkage.symbols.parameter(declared), transfer)
    found = linkage.symbols.slot(operand, declared.type if declared is not None else "b64")
    assert found is not None
    return _from_register(found.slot, transfer)


def _from_register(slot: int, transfer: int) -> Step:
    def step(wave: Wave, lanes: Lanes) -> None:
        given = _bytes(wave.registers[slot][lanes.index])
        values = wave.registers[transfer].copy()
        width = min(values.shape[1], given.shape[1])
        values[lanes.index, :width] = given[:, :width]
        wave.registers[transfer] = values

    return step


def _take(operand: Operand, transfer: int, linkage: Linkage) -> Step | None:
    declared = linkage.symbols.declared(operand)
    if declared is not None and declared.space == "param":
        return _copy(transfer, linkage.symbols.parameter(declared))
    register = _slot(operand, linkage)
    return None if register is None else _to_register(transfer, *register)


def _to_register(transfer: int, slot: int, dtype: Any) -> Step:
    def step(wave: Wave, lanes: Lanes) -> None:
        given = np.ascontiguousarray(wave.registers[transfer][lanes.index][:, : np.dtype(dtype).itemsize])
        values = wave.registers[slot].copy()
        values[lanes.index] = given.view(dtype)[:, 0]
        wave.registers[slot] = values

    return step


def _bytes(values: Bits) -> Bits:
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)


def _outside(name: str, place: Compiling, linkage: Linkage) -> Printing | Failing | Allocating | Freeing:
    """What a function of CUDA does."""
    first = linkage.transfer("argument", 0)
    if name == "vprintf":
        return Printing(place.site, first, linkage.transfer("argument", 1))
    if name == "malloc":
        return Allocating(first, linkage.transfer("result", 0))
    return Failing(place.site, first) if name == "__assertfail" else Freeing()


def call_end(
    instruction: Instruction, place: Compiling, linkage: Linkage, back: int, guard: tuple[int, bool] | None
) -> Call | Outside:
    """The end of a block that calls."""
    _, function, _ = _parts(instruction)
    external = place.symbols.names.of.get(function.position) if isinstance(function, Name) else None
    named = linkage.named(function)
    if named is None and isinstance(external, Function) and external.name in _OUTSIDE:
        return Outside(back, place.site, guard, _outside(external.name, place, linkage))
    caller_bytes = linkage.layout.frames[place.site.function]
    linkage.leaving.frames[back] = caller_bytes
    if named is not None:
        callees, target = {0: linkage.callee(named.name)}, None
    elif isinstance(function, Name) and place.symbols.bits(function) is not None:
        callees, target = linkage.by_address(), place.read(function, "u64")
    else:
        place.unknown(f"the function {getattr(function, 'text', function)}, which has no body")
    found = Call(callees, target, back, place.symbols.frame_slot, caller_bytes, place.site)
    if guard is not None:
        found.predicate, found.negated = guard
    return found
