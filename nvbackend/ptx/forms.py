"""The forms of branches, calls and guards: which operands they have, and of which kind. PTX ISA 9.3, 9.7.12."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import UnionType

from nvbackend.ptx.printer import print_operand
from nvbackend.ptx.syntax import (
    Address,
    Arguments,
    BranchTargets,
    Function,
    Instruction,
    Label,
    Name,
    Operand,
    Pair,
    Position,
    Prototype,
    Variable,
    Vector,
)

Declared = Variable | Label | Function | BranchTargets | Prototype
SINK = "_"
"""The destination that takes no value."""
CONSTANTS = frozenset({"WARP_SZ"})


def form_breach(instruction: Instruction, of: Mapping[Position, Declared]) -> tuple[str, str] | None:
    """What is wrong with the form of an instruction whose names are declared, and how one is written."""
    guard, opcode = instruction.guard, instruction.parts[0]
    if guard is not None and getattr(of.get(guard.register.position), "type", None) != "pred":
        return f"the guard {print_operand(guard.register)} is not a predicate", "@predicate, or without a guard"
    check = _CHECKS.get(opcode)
    breach = None if check is None else check(list(instruction.operands), of)
    return None if breach is None else (breach, _FORMS[opcode])


def _branch(operands: list[Operand], of: Mapping[Position, Declared]) -> str | None:
    if len(operands) == 1 and _means(operands[0], Label, of):
        return None
    return "the branch does not name one label"


def _indexed_branch(operands: list[Operand], of: Mapping[Position, Declared]) -> str | None:
    if len(operands) == 2 and _means(operands[1], BranchTargets, of):
        return None
    return "the indexed branch does not have an index and a list of labels"


def _end(operands: list[Operand], _of: Mapping[Position, Declared]) -> str | None:
    return "the instruction has operands, and takes none" if operands else None


def _call(operands: list[Operand], of: Mapping[Position, Declared]) -> str | None:
    passed = [*_taken(operands)]
    if not operands or isinstance(operands[0], Arguments):
        return "the call names no function"
    function = operands.pop(0)
    passed += _taken(operands)
    if not _means(function, Function | Variable, of):
        return f"{print_operand(function)} is neither a function nor a register with the address of one"
    if isinstance(called := of.get(function.position), Function) and called.is_entry:
        return f"{called.name} is a kernel, which cannot be called"
    if len(operands) > 1 or not all(_means(each, BranchTargets | Prototype | Variable, of) for each in operands):
        rest = ", ".join(map(print_operand, operands))
        return f"{rest} is not a list of functions or a prototype"
    wrong = [print_operand(each) for each in passed if not _can_pass(each, of)]
    return f"a call cannot pass {wrong[0]}" if wrong else None


def _taken(operands: list[Operand]) -> tuple[Operand, ...]:
    """The list in parentheses that comes first, taken away."""
    if operands and isinstance(first := operands[0], Arguments):
        del operands[0]
        return first.elements
    return ()


def _can_pass(operand: Operand, of: Mapping[Position, Declared]) -> bool:
    """Whether a call can give or take an operand: a number, a register or a variable, an address as a number."""
    if isinstance(operand, Name):
        return operand.text == SINK or operand.text in CONSTANTS or _means(operand, Variable, of)
    return not isinstance(operand, Vector | Pair | Arguments | Address)


def _means(operand: Operand, kinds: type | UnionType, of: Mapping[Position, Declared]) -> bool:
    return isinstance(operand, Name) and isinstance(of.get(operand.position), kinds)


_CHECKS: Mapping[str, Callable[[list[Operand], Mapping[Position, Declared]], str | None]] = {
    "bra": _branch,
    "brx": _indexed_branch,
    "ret": _end,
    "exit": _end,
    "call": _call,
}
_FORMS: Mapping[str, str] = {
    "bra": "bra label;",
    "brx": "brx.idx index, list_of_labels;",
    "ret": "ret;",
    "exit": "exit;",
    "call": "call (results), function, (arguments), list_of_functions;",
}
