"""Expressions of unknown values as code: what they are of numbers, by the arithmetic of registers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from functools import cache
from typing import Any

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.values import arithmetic, floats
from nvbackend.dry_run.values.arithmetic import Operation
from nvbackend.dry_run.values.unknown import Expression, Unknown
from nvbackend.intrinsics.arithmetic import integers

_ADDRESS = 64
"""Bits of what has no width in its name."""
_LOAD = "load"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value that follows from no other, as one from memory does not: register `to`, so many bits wide.

    `operands` are registers, as of the address; what depends on it, and on those like it, has its `root`. Of a float
    there is the `format`.
    """

    operation: str
    operands: tuple[int, ...]
    to: int
    bits: int
    root: Hashable
    format: str = ""


@dataclass(slots=True)
class Code:
    """An expression: the last register has its value after all steps.

    Where it is computed of one other expression, `inner`, and numbers, the first register has the value of that one.
    """

    inner: Expression | None = None
    registers: list[Any] = field(default_factory=list)
    steps: list[Operation | Leaf] = field(default_factory=list)
    roots: set[Hashable] = field(default_factory=set)
    constants: dict[tuple[int, str], None] = field(default_factory=dict)
    """The floats that others are compared with or computed from, as bits of a format."""
    has_floats: bool = False

    def new(self, value: Any) -> int:
        """A register."""
        self.registers.append(value)
        return len(self.registers) - 1


def code_of(expression: Expression) -> Code:
    """The code of an expression."""
    code, places = Code(), dict[Unknown, int]()
    for node in nodes(expression):
        operands = [places[one] if isinstance(one, Unknown) else code.new(one) for one in node.key[1:]]
        _add(code, node, operands, code.new(None))
        places[node] = len(code.registers) - 1
    return code


def code_around(expression: Expression, inner: Expression, inside: Code) -> Code | None:
    """The code of what is computed of `inner`, whose code is `inside`, and numbers alone; None for what is not."""
    operation, *given = expression.key
    made = _operation(operation, tuple(given[1:]) if operation in _CASTS else ())
    if made is None:
        return None
    code = Code(inner, [None], roots=inside.roots, constants=dict(inside.constants), has_floats=inside.has_floats)
    operands = [0 if one is inner else code.new(one) for one in given]
    _add(code, expression, operands, code.new(None))
    return code


def _add(code: Code, node: Expression, operands: list[int], to: int) -> None:
    operation, *given = node.key
    made = _operation(operation, tuple(given[1:]) if operation in _CASTS else ())
    name, _, width = operation.rpartition(" ")
    if floats.function_of(operation) is not None:
        code.has_floats = True
        code.constants |= {(one, width): None for one in given if type(one) is int and width in floats.SIZES}
    if made is not None:
        code.steps.append(made(to, *operands))
        return
    bits = floats.SIZES.get(width) or (int(width[1:]) if width[:1] == "i" and width[1:].isdigit() else _ADDRESS)
    if name == _LOAD:  # loads of several widths at one address read bits of one number
        operation = _LOAD
    root = operation if given and isinstance(given[0], Unknown) else node
    code.steps.append(Leaf(operation, tuple(operands), to, bits, root, width if width in floats.SIZES else ""))
    code.roots.add(root)


def nodes(expression: Expression) -> list[Expression]:
    """The expressions that one is made of, each after its operands; it is the last one."""
    found: dict[Expression, None] = {}
    waiting: list[tuple[Expression, bool]] = [(expression, False)]
    while waiting:
        one, done = waiting.pop()
        if done:
            found[one] = None
        elif one not in found:
            waiting.append((one, True))
            waiting += [(each, False) for each in one.key[1:] if isinstance(each, Expression)]
    return list(found)


@cache
def _operation(operation: str, widths: tuple[int, ...]) -> Callable[..., Operation] | None:
    """What makes an operation of its register and those of its operands; None where it computes nothing."""
    if operation in _CASTS:
        return lambda d, a, *_: _CASTS[operation](d, a, *widths)
    kind, _, rest = operation.partition(" ")
    if kind in arithmetic.BINARY:
        return lambda d, a, b: arithmetic.BINARY[kind](d, a, b, int(rest[1:]) if rest else _ADDRESS)
    if kind == "icmp":
        predicate, _, width = rest.partition(" i")
        return lambda d, a, b: arithmetic.compare(d, a, b, predicate, int(width))
    if kind == "select":
        return arithmetic.select
    if kind == arithmetic.ELEMENT:
        return _element
    function = _computing().get(operation) or floats.function_of(operation)
    return None if function is None else lambda d, *given: arithmetic.computed(d, operation, function, given)


def _element(d: int, index: int, table: int) -> Operation:
    def run(r: arithmetic.Registers) -> None:
        i = r[index]
        r[d] = i if isinstance(i, Unknown) else arithmetic.taken(i, r[table])

    return run


@cache
def _computing() -> dict[str, Callable[..., int]]:
    return {asm.partition(" ")[0]: function for asm, function in integers.computing().items()}


_CASTS: dict[str, Callable[..., Operation]] = {"trunc": arithmetic.trunc, "sext": arithmetic.sext}
"""Their last operands are numbers of bits."""
