"""The origins of a number that is used as an address: moved addresses, variables, and unknown values.

Variables are stack slots. A read may see each value that is stored on some path to it, along the blocks that the
function has so far.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from llvmlite import ir

from nvbackend.builder.values.values import CLUSTER_SPACE, SHARED_SPACE
from nvbackend.dry_run.successors import successors_of

_SUMS = ("add", "or", "xor")
_CASTS = ("trunc", "zext", "sext", "inttoptr", "ptrtoint", "bitcast", "addrspacecast")
_SHIFTS = ("shl", "lshr", "ashr")
_TAKEN_OUT = ("extractvalue", "extractelement")
_PARTS = ("sub", *_TAKEN_OUT)
_SHUFFLE = "llvm.nvvm.shfl.sync"
_SHUFFLED = 1
"""The argument of a shuffle that is the value."""
_REGISTERS = "llvm.nvvm.read.ptx.sreg."
_GENERAL = "llvm."
_TARGETS = "llvm.nvvm."
_OFFSET_BITS = 24
"""Bits of an address from here on say which CTA it is in; in a CTA's own memory they are clear."""
_FACTOR_BITS = 16
"""What a number at run time that an index is multiplied by has at most: with a rank it is still an offset."""
_OF_PEER = "is computed from a peer's address"


def shifted_left(value: ir.Instruction) -> int:
    """How far `value` is shifted left from its first operand, if it is a shift by a constant."""
    if value.opname not in _SHIFTS:
        return 0
    by = _amount(value)
    return 0 if by is None else by if value.opname == "shl" else -by


def _amount(value: ir.Instruction) -> int | None:
    by = value.operands[1].constant if isinstance(value.operands[1], ir.Constant) else None
    return by if isinstance(by, int) and 0 <= by < value.type.width else None


def origins(value: ir.Instruction, shift: int) -> list[ir.Value]:
    """The operands from which an address may have been moved, and how far `value` is then shifted left."""
    if value.opname in _SHIFTS:
        return [] if _amount(value) is None else [value.operands[0]]
    if value.opname in (*_SUMS, *_CASTS):
        return list(value.operands)
    if value.opname in _PARTS:
        return [value.operands[0]]
    if value.opname == "and":
        masks = [operand.constant for operand in value.operands if isinstance(operand, ir.Constant)]
        keeps = all(type(mask) is int and _shifted(mask, shift) >> _OFFSET_BITS for mask in masks)
        return list(value.operands) if masks and keeps else []
    return _shuffled(value) or _alternatives(value)


def _shuffled(value: ir.Instruction) -> list[ir.Value]:
    """The operand of a shuffle, if `value` is a shuffle's result."""
    shuffles = isinstance(value, ir.CallInstr) and _called(value).startswith(_SHUFFLE)
    return [value.args[_SHUFFLED]] if shuffles else []


def _alternatives(value: ir.Instruction) -> list[ir.Value]:
    """The values that `value` may be, or may contain."""
    if isinstance(value, ir.PhiInstr):
        return [incoming for incoming, _ in value.incomings]
    if value.opname == "select":
        return list(value.operands[1:])
    return list(value.operands[:2]) if value.opname == "insertelement" else []


def _shifted(number: int, shift: int) -> int:
    return number << shift if shift >= 0 else number >> -shift


def reaching(read: ir.LoadInstr) -> list[ir.Value]:
    """The values that a variable may have where it is read."""
    slot, home = read.operands[0], read.parent
    before: dict[ir.Block, list[ir.Block]] = {}
    for block in home.parent.blocks:
        for target in successors_of(block.terminator):
            before.setdefault(target, []).append(block)
    stored: dict[ir.Value, None] = {}
    seen: set[ir.Block] = set()
    waiting = [(home, home.instructions[: home.instructions.index(read)])]
    while waiting:
        block, instructions = waiting.pop()
        last = next((instruction for instruction in reversed(instructions) if _sets(instruction, slot)), None)
        if last is not None:
            stored[last.operands[0]] = None
            continue
        fresh = [earlier for earlier in before.get(block, ()) if earlier not in seen]
        seen.update(fresh)
        waiting += ((earlier, earlier.instructions) for earlier in fresh)
    return list(stored)


def _sets(instruction: ir.Instruction, slot: ir.Value) -> bool:
    return isinstance(instruction, ir.StoreInstr) and instruction.operands[1] is slot


def is_unknown(number: ir.Value, mapped: Container[ir.Value]) -> str:
    """Why it is unknown whose shared memory `number` is in, as text; empty if it is certainly this CTA's.

    It is certain for a sum with an address of this CTA's as one part, and for arithmetic on constants and indices. A
    select needs it on both sides. A part of such a sum may come from a `mapped` address, a peer's, if it is too small
    to be an address; `number` itself is not directly moved from one.
    """
    if _has_window_of(number, mapped):
        return _OF_PEER
    waiting, seen = [number], {number}
    while waiting:
        problem, choices = _sum(waiting.pop(), mapped)
        if problem:
            return problem
        fresh = [choice for choice in choices if choice not in seen]
        seen.update(fresh)
        waiting += fresh
    return ""


_CERTAIN: tuple[str, Sequence[ir.Value]] = "", ()


def _sum(number: ir.Value, mapped: Container[ir.Value]) -> tuple[str, Sequence[ir.Value]]:
    """What is unknown of the parts of a sum, and the parts that are selects; neither if one part is an address."""
    problem, choices = "", []
    waiting, seen = [number], {number}
    while waiting:
        term = waiting.pop()
        if _is_address(term):
            return _CERTAIN
        if term in mapped:
            problem = problem or _OF_PEER
        several = _choices(term)
        if several:
            choices += several
            continue
        problem = problem or _problem(term)
        fresh = [each for each in _operands(term) if each not in seen]
        seen.update(fresh)
        waiting += fresh
    return problem, [] if problem else choices


def _has_window_of(number: ir.Value, mapped: Container[ir.Value]) -> bool:
    """Whether the bits that say which CTA a `mapped` address is in may come into `number`, by whatever arithmetic."""
    start = (number, 0)
    waiting, seen = [start], {start}
    while waiting:
        term, raised = waiting.pop()
        if term in mapped:
            return True
        if not isinstance(term, ir.Instruction) or _width(term) + raised <= _OFFSET_BITS:
            continue
        inside = min(raised + _raised(term), _OFFSET_BITS)
        fresh = [each for each in ((part, inside) for part in _choices(term) or _operands(term)) if each not in seen]
        seen.update(fresh)
        waiting += fresh
    return False


def _width(value: ir.Instruction) -> int:
    """An upper bound of the bits of `value`, from its operation."""
    width = int(getattr(value.type, "width", _OFFSET_BITS + 1))
    numbers = [_number(operand) for operand in value.operands]
    if value.opname == "and":
        return min((number.bit_length() for number in numbers if number is not None and number >= 0), default=width)
    by = next(reversed(numbers), None) or 0
    if value.opname == "lshr":
        return width - min(by, width)
    if value.opname == "udiv":
        return width + 1 - max(by, 1).bit_length()
    return (by - 1).bit_length() if value.opname == "urem" and by > 0 else width


def _raised(value: ir.Instruction) -> int:
    """How many bits an operation adds to its operand; an unknown factor counts as an index."""
    if value.opname not in ("mul", "shl"):
        return 0
    numbers = [_number(operand) for operand in value.operands]
    if value.opname == "shl":
        return _FACTOR_BITS if numbers[-1] is None else numbers[-1]
    return max(((number - 1).bit_length() for number in numbers if number is not None), default=_FACTOR_BITS)


def _number(value: ir.Value) -> int | None:
    return value.constant if isinstance(value, ir.Constant) and type(value.constant) is int else None


def _is_address(value: ir.Value) -> bool:
    """Whether it is an address in a known shared window."""
    if isinstance(value, ir.Constant):
        return "ptrtoint" in str(value.constant)
    if isinstance(value, ir.Instruction) and value.opname == "ptrtoint":
        return value.operands[0].type.addrspace in (SHARED_SPACE, CLUSTER_SPACE)
    return False


def _choices(value: ir.Value) -> list[ir.Value]:
    """The values that `value` may be, if it is a select, a phi or a variable's value."""
    if isinstance(value, ir.LoadInstr) and isinstance(value.operands[0], ir.AllocaInstr):
        return reaching(value)
    if isinstance(value, ir.CallInstr) and _is_general(value):
        return list(value.args)
    return _alternatives(value) if isinstance(value, ir.Instruction) else []


def _operands(value: ir.Value) -> list[ir.Value]:
    """The operands of `value`, unless it is a load or a call."""
    if isinstance(value, ir.CallInstr):
        return _shuffled(value)
    if not isinstance(value, ir.Instruction) or isinstance(value, ir.LoadInstr | ir.CompareInstr) or _problem(value):
        return []
    return [value.operands[0]] if value.opname in _TAKEN_OUT else list(value.operands)


def _problem(value: ir.Value) -> str:
    """Why nothing is known of `value`, a leaf of the expression; empty for other values."""
    if isinstance(value, ir.Argument):
        return "is an argument of the function"
    if isinstance(value, ir.LoadInstr):
        return "" if isinstance(value.operands[0], ir.AllocaInstr) else "is loaded from memory"
    if isinstance(value, ir.CallInstr):
        name = _called(value)
        return "" if name.startswith((_REGISTERS, _SHUFFLE)) or _is_general(value) else "an instruction returns"
    if isinstance(value, ir.Instruction) and value.opname in ("atomicrmw", "cmpxchg"):
        return "an atomic returns"
    return ""


def _is_general(call: ir.CallInstr) -> bool:
    """Whether it is one of LLVM's own intrinsics, such as a minimum, which selects an argument or computes."""
    name = _called(call)
    return name.startswith(_GENERAL) and not name.startswith(_TARGETS)


def _called(call: ir.CallInstr) -> str:
    return str(getattr(call.callee, "name", ""))
