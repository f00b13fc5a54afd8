"""Where a program's variables are: shared and local memory of the functions that it has, parameters of the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.names import Names, names_in
from nvbackend.ptx.syntax import Function, Module, Name, Position, Variable
from nvbackend.simulator.machine.symbols import Place, alignment_of, size_of
from nvbackend.simulator.machine.wave import Shared
from nvbackend.simulator.memory import windows
from nvbackend.simulator.program.listing import Listing, listing

_DYNAMIC_ALIGNMENT = 16
_FRAME_ALIGNMENT = 16


@dataclass(slots=True)
class Layout:
    """The places of variables, and what they take."""

    places: dict[Position, Place] = field(default_factory=dict)
    static_shared: int = windows.SHARED_START
    """Where the dynamic shared memory begins."""
    frames: dict[str, int] = field(default_factory=dict)
    """The bytes of local memory of each function."""
    parameters: tuple[tuple[Variable, int], ...] = ()
    """The kernel's parameters with their addresses."""
    shared: list[Shared] = field(default_factory=list)
    """The variables in shared memory, by their addresses."""


def lay_out(module: Module, names: Names, listings: Iterable[Listing], fixed: Mapping[Position, Place]) -> Layout:
    """The places of what the functions of a program use; `fixed` are those of the module: global memory, constants and
    functions. The first listing is the kernel's."""
    found = Layout(dict(fixed))
    listings = list(listings)
    kernel = listings[0].function
    _parameters(found, kernel)
    shared = [one for one in module.items if isinstance(one, Variable) and one.space == "shared"]
    used = {declared.position for declared in _used(names, listings)}
    shared = [one for one in shared if one.position in used]
    for each in listings:
        shared += [one for one in each.variables if one.space == "shared"]
        found.frames[each.function.name] = _frame(found, each)
    sized = [one for one in shared if size_of(one)]
    for variable in sized:
        offset = _aligned(found.static_shared, alignment_of(variable))
        found.places[variable.position] = Place("shared", offset)
        found.static_shared = offset + size_of(variable)
        found.shared.append(Shared(variable.name, offset, size_of(variable)))
    dynamic = [one for one in shared if not size_of(one)]
    if dynamic:
        most = max(_DYNAMIC_ALIGNMENT, *(alignment_of(one) for one in dynamic))
        found.static_shared = _aligned(found.static_shared, most)
    for variable in dynamic:
        found.places[variable.position] = Place("shared", found.static_shared)
        found.shared.append(Shared(variable.name, found.static_shared, 0))
    return found


def _parameters(found: Layout, kernel: Function) -> None:
    address, parameters = windows.PARAMETERS, []
    for variable in kernel.parameters:
        address = _aligned(address, max(alignment_of(variable), 64))
        found.places[variable.position] = Place("param", address)
        parameters.append((variable, address))
        address += size_of(variable) + windows.GAP
    found.parameters = tuple(parameters)


def _frame(found: Layout, listing: Listing) -> int:
    offset = 0
    for variable in listing.variables:
        if variable.space == "local":
            offset = _aligned(offset, alignment_of(variable))
            found.places[variable.position] = Place("local", offset)
            offset += size_of(variable)
    return _aligned(offset, _FRAME_ALIGNMENT)


def _used(names: Names, listings: Iterable[Listing]) -> Iterator[Variable]:
    """The variables that the instructions name."""
    for each in listings:
        for instruction, _ in each.lines:
            for name in (name for operand in instruction.operands for name in names_in(operand)):
                declared = names.of.get(name.position)
                if isinstance(declared, Variable):
                    yield declared


def _aligned(value: int, to: int) -> int:
    return -(-value // to) * to


def functions_of(module: Module, names: Names, kernel: Function) -> list[Function]:
    """The kernel and every function that it may call, by name or by address."""
    bodies = {function.name: function for function in module.functions}
    found = {kernel.name: kernel}
    todo = [kernel]
    while todo:
        for name in sorted(_named_functions(todo.pop(), module, names)):
            if name not in found and name in bodies:
                found[name] = bodies[name]
                todo.append(bodies[name])
    return list(found.values())


def _named_functions(function: Function, module: Module, names: Names) -> set[str]:
    """The functions that a function names; and where it calls an address, all that a variable's initial value names."""
    found = set()
    for instruction, _ in listing(module, function).lines:
        for name in (name for operand in instruction.operands for name in names_in(operand)):
            declared = names.of.get(name.position)
            if isinstance(declared, Function):
                found.add(declared.name)
        if instruction.parts[0] == "call":
            found |= {name.text for name in _in_initial_values(module)}
    return found


def _in_initial_values(module: Module) -> Iterator[Name]:
    for item in module.items:
        if isinstance(item, Variable) and item.initial is not None:
            yield from names_in(item.initial)
