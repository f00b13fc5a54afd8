"""Transfer functions of the evaluator: an instruction's result from what is known of its operands.

Floats that hold integers are kept as doubles, exactly; a rounded result is unknown.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

from llvmlite import ir

from nvbackend.builder.thread_tables import tables
from nvbackend.builder.thread_tables.table import Table, chosen, holds
from nvbackend.builder.thread_tables.tables import NATIVE, Cta, Mask, Numbers, Result, signed
from nvbackend.builder.value_tracking.calls import PURE, called
from nvbackend.builder.value_tracking.known import Known
from nvbackend.intrinsics.arithmetic.relations import RELATIONS
from nvbackend.intrinsics.row.semantics import Scope

Key: TypeAlias = "tuple[object, ...] | None"
_PRECISION = {"half": 11, "bfloat": 8, "float": 24, "double": 53}
"""By LLVM's types: the bits up to which each integer is a number of the type."""
_LEAST, _LARGEST = 2.0**-14, 2.0**15
FLOAT_NAMES = ("sitofp", "uitofp", "fpext", "fcmp")


def float_constant(value: ir.Constant) -> Numbers | None:
    """A constant that is a number of its type, of a size that each type has; None for another."""
    precision, number = _PRECISION.get(str(value.type)), value.constant
    if precision is None or not isinstance(number, float) or not (number == 0 or _LEAST <= abs(number) <= _LARGEST):
        return None
    significand, _ = math.frexp(number)
    return Table.of(number) if math.ldexp(significand, precision).is_integer() else None


def float_result(instruction: ir.Instruction, operands: Sequence[Known]) -> Result | None:
    """What one of `FLOAT_NAMES` gives, where it is exact."""
    if instruction.opname == "fcmp":
        return _compared(instruction, *operands)
    (operand,) = operands
    if operand.numbers is None or instruction.opname == "fpext":
        return None if operand.numbers is None else (operand.numbers, operand.where)
    width = instruction.operands[0].type.width
    precision = _PRECISION.get(str(instruction.type))
    if precision is None or width > NATIVE:
        return None
    limit = 1 << precision
    if instruction.opname == "sitofp":
        numbers = signed(operand.numbers, width)
        exact = numbers.holds(lambda number: -limit <= number <= limit)
    else:
        numbers = operand.numbers
        exact = numbers.holds(lambda number: number <= limit)
    return numbers.map(float), _together(_only(exact), operand.where)


def _compared(instruction: ir.Instruction, left: Known, right: Known) -> Result | None:
    """A comparison: of what is known nothing is NaN, so ordered and unordered ones give the same."""
    compare = RELATIONS.get(instruction.op[1:])
    if compare is None or left.numbers is None or right.numbers is None:
        return None
    return holds(compare, left.numbers, right.numbers), _together(left.where, right.where)


_SHARED = 3
"""The address space of a CTA's own shared memory."""
_SAME_BITS = ("bitcast", "freeze")
MEMORY = ("load", "phi", "alloca", "atomicrmw", "cmpxchg")
"""Instructions whose results differ between threads although their operands are equal."""
_ZERO_RULES = ("and", "mul")


def constant_of(value: ir.Value) -> Known:
    """What is known of a value that no instruction makes: constants, addresses, parameters."""
    if isinstance(value, ir.Constant) and isinstance(value.constant, int) and isinstance(value.type, ir.IntType):
        return Known(tables.constant(int(value.constant), value.type.width))
    if isinstance(value, ir.Constant) and (number := float_constant(value)) is not None:
        return Known(number)
    return Known(certain=Scope.GRID)


def inputs(node: ir.Instruction) -> tuple[ir.Value, ...]:
    """The values that an instruction is computed from."""
    if isinstance(node, ir.PhiInstr):
        return tuple([value for value, _ in node.incomings])
    if isinstance(node, ir.ExtractValue):
        return (node.aggregate,)
    return tuple(node.args if isinstance(node, ir.CallInstr) else node.operands)


def result_of(instruction: ir.Instruction, operands: Sequence[Known], cta: Cta) -> Known:
    """What is known of a result, given what is known of each of the `inputs`."""
    name = instruction.opname
    if name == "call":
        if not _name(instruction).startswith(PURE):
            return called(cta, instruction, operands)
        result = _binary(_name(instruction).split(".")[1], instruction, operands)
    elif name == "extractvalue":
        return _part(instruction, operands[0])
    elif name == "select":
        result = selected(*operands)
    elif name in FLOAT_NAMES:
        result = float_result(instruction, operands)
    elif name in tables.CASTS or name in _SAME_BITS:
        result = _cast(name, instruction, operands[0])
    else:
        result = _binary(instruction.op if name == "icmp" else name, instruction, operands)
    if result is not None and result[1] is None:
        return Known(result[0])
    apparent = min((operand.apparent for operand in operands), default=Scope.GRID)
    if name == "load" and getattr(instruction.operands[0].type, "addrspace", 0) == _SHARED:
        apparent = min(apparent, Scope.CTA)
    certain = Scope.THREAD if name in MEMORY else min((operand.certain for operand in operands), default=Scope.THREAD)
    numbers, where = result or (None, None)
    return Known(numbers, where, certain=certain, apparent=apparent)


def _name(call: ir.CallInstr) -> str:
    return str(getattr(call.callee, "name", ""))


def _part(instruction: ir.ExtractValue, aggregate: Known) -> Known:
    indices = instruction.indices
    if len(indices) == 1 and indices[0] < len(aggregate.parts):
        part: Known = aggregate.parts[indices[0]]
        return part
    return Known(certain=aggregate.certain, apparent=aggregate.apparent)


def _width(value: ir.Value) -> int | None:
    return value.type.width if isinstance(value.type, ir.IntType) else None


def selected(condition: Known, yes: Known, no: Known) -> tables.Result | None:
    """The number of the side that is taken; of both sides, where they are the same."""
    if condition.numbers is None:
        if yes.numbers is None or no.numbers is None:
            return None
        return yes.numbers, _only(_sure(yes) & _sure(no) & holds(operator.eq, yes.numbers, no.numbers))
    if yes.numbers is None and no.numbers is None:
        return None
    a = no.numbers if yes.numbers is None else yes.numbers
    b = yes.numbers if no.numbers is None else no.numbers
    assert a is not None
    assert b is not None
    truth = condition.numbers.is_set()
    taken = chosen(truth, _sure(yes), _sure(no)) & _sure(condition)
    either = _sure(yes) & _sure(no) & holds(operator.eq, a, b)
    return chosen(truth, a, b), _only(taken | either)


def _sure(known: Known) -> Mask:
    """The threads in which a number is known."""
    if known.numbers is None:
        return ~Table.where_all()
    return Table.where_all() if known.where is None else known.where


def _together(*masks: Mask | None) -> Mask | None:
    """Where all of them hold; None for everywhere."""
    limiting = [mask for mask in masks if mask is not None]
    return reduce(operator.and_, limiting) if limiting else None


def _only(where: Mask) -> Mask | None:
    return None if where.all() else where


def _cast(name: str, instruction: ir.Instruction, operand: Known) -> tables.Result | None:
    width, to = _width(instruction.operands[0]), _width(instruction)
    if operand.numbers is None or width is None or to is None:
        return None
    return tables.cast(name, operand.numbers, width, to), operand.where


def _binary(operation: str, instruction: ir.Instruction, operands: Sequence[Known]) -> tables.Result | None:
    """An operation on two integers; one of them decides where it is 0 in a product or `and`, all ones in an `or`."""
    if not tables.is_binary(operation):
        return None
    left, right = operands
    width, to = _width(inputs(instruction)[0]), _width(instruction)
    if width is None or to is None:
        return None
    if left.numbers is None or right.numbers is None:
        decided = _decided(operation, left, right, width)
        return None if decided is None else (decided[0], _only(decided[1]))
    numbers, defined = tables.binary(operation, left.numbers, right.numbers, width, to)
    flags = getattr(instruction, "flags", ())
    kept = (tables.kept(operation, flag, left.numbers, right.numbers, width) for flag in flags)
    where = _together(left.where, right.where, defined, *kept)
    decided = None if where is None else _decided(operation, left, right, width)
    if where is None or decided is None:
        return numbers, where
    return chosen(where, numbers, decided[0]), _only(where | decided[1])


def _decided(operation: str, left: Known, right: Known, width: int) -> tuple[Numbers, Mask] | None:
    """The result, and where one operand is enough to know it; None for nowhere."""
    if operation in _ZERO_RULES:
        number = 0
    elif operation == "or":
        number = (1 << width) - 1
    else:
        return None
    sides = [
        holds(operator.eq, side.numbers, number) & _sure(side) for side in (left, right) if side.numbers is not None
    ]
    if not sides:
        return None
    where = reduce(operator.or_, sides)
    return (tables.constant(number, width), where) if where.any() else None


def key_of(node: object, sources: tuple[int, ...]) -> Key:
    """What is the same for equal expressions, and in words as well; None for what equals nothing else.

    The types of operands are theirs.
    """
    if not isinstance(node, ir.Instruction):
        if isinstance(node, ir.Constant) and isinstance(node.type, ir.IntType):
            return type(node.constant), node.constant, node.type.width
        return None
    if isinstance(node, ir.CallInstr):
        return node.opname, id(node.callee), sources
    if isinstance(node, ir.LoadInstr):
        return (node.opname, id(node.operands[0]), sources) if sources else None
    if isinstance(node, ir.PhiInstr):
        return None
    return _operation(node, sources)


def _operation(node: ir.Instruction, sources: tuple[int, ...]) -> Key:
    if isinstance(node, ir.ExtractValue):
        return node.opname, tuple(node.indices), sources
    kind = node.type.width if isinstance(node.type, ir.IntType) else id(node.type)
    return node.opname, getattr(node, "op", None), kind, sources
