"""Which device functions are open while a kernel is built, and what a called one cannot have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from llvmlite import ir

from nvbackend.builder.scopes.function_rules import INSTRUCTION
from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import Row

_REGISTERS = "it uses registers while the function's own instructions run, and a call moves registers"
_REFUSED = {
    "wgmma": _REGISTERS,
    "tcgen05": _REGISTERS,
    "register_budget": "a call passes registers by a fixed convention",
}
"""The families of instructions that no called function has."""
_OF_KERNELS = "what it needs is laid out once, by the kernel"
INLINE = "declare the function with inline=True"
EXPORTED = "leave it to the kernel that calls the function"


@dataclass(frozen=True, slots=True)
class Entered:
    """A device function whose body is open: its identity, its name, and whether it is called or expanded in place."""

    definition: object
    name: str
    called: bool
    advice: str = INLINE
    """What to do about an instruction that a called function cannot have."""


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """A function of the module, built for these constants; `code` is what its body does, to compare."""

    definition: object
    constants: Mapping[str, Any]
    function: ir.Function
    code: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call, as the blocks of its body between the block `before` and the block `after`."""

    before: ir.Block
    after: ir.Block
    body: tuple[ir.Block, ...]
    function: ir.Function
    arguments: tuple[ir.Value, ...]
    results: tuple[ir.Value, ...]
    place: Location | None


@dataclass(slots=True)
class Functions:
    """The device functions of one function that is built: those open, outermost first, and what its module calls."""

    open: tuple[Entered, ...] = ()
    built: list[CalledFunction] = field(default_factory=list)
    """The called functions of the module."""
    calls: list[Call] = field(default_factory=list)
    """The calls of this function, whose bodies are expanded."""
    declared: dict[int, tuple[object, object]] = field(default_factory=dict)
    """Each device function that was called, with what it takes and returns, by its identity."""


def called_function(functions: Sequence[Entered]) -> Entered | None:
    """The innermost called function among those that are open."""
    return next((entered for entered in reversed(functions) if entered.called), None)


def check_in_function(functions: Sequence[Entered], row: Row) -> None:
    """Raises function.instruction for an instruction that a called function cannot have."""
    if not functions or (called := called_function(functions)) is None:
        return
    because = _REFUSED.get(row.family)
    if because is not None:
        INSTRUCTION.fail(what=row.ptx, function=called.name, advice=called.advice, because=because)


def check_of_kernel(functions: Sequence[Entered], what: str, advice: str) -> None:
    """Raises function.instruction for what a kernel alone can have."""
    if functions and (called := called_function(functions)) is not None:
        INSTRUCTION.fail(what=what, function=called.name, advice=advice, because=_OF_KERNELS)
