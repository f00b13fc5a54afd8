"""What to pass to a call in place of an object that is not a value of the kernel."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager

from llvmlite import ir

from nvbackend.builder.values.uncalled import Uncalled
from nvbackend.intrinsics.row.types import ElementType

_USUAL = "pass a value of this kernel, a variable, or a Python number"
_OPERATIONS = ("add", "mul", "min", "max", "and", "or", "xor")
_BY_CLASS = {
    **dict.fromkeys(
        ("TileValues", "AxisValues", "AxisVariable", "Accumulator", "RegisterTensor"),
        "compute it of each element: .map(lambda value: ...)",
    ),
    **dict.fromkeys(
        ("list", "tuple"),
        "pass one value; a call that takes several has them one by one: store(*values); [k.var(x) for x in values] "
        "makes a variable of each",
    ),
    "Tensor": "read an element, tensor[row, column]; with the elements that a thread has of a tile compute by "
    "values.load(tensor)",
    "Address": "read what is there, address[0] or address[index]; to move it, keep an offset in a variable: x + offset",
}
"""For classes of the tiles and of memory, which are above, and for Python's."""


def instead(operand: object) -> str:
    """The fix: what to pass instead of an object that is not a value."""
    if isinstance(operand, ir.Value):
        return "pass the value itself, not its .ir; what k.llvm has made comes in by k.value(register, element)"
    if isinstance(operand, (Uncalled, AbstractContextManager)):
        opened = f"open it: `with {operand!r} as i:`, and use i inside"
        return operand.advice if isinstance(operand, Uncalled) else opened
    if inspect.ismethod(operand):
        return f"call it: {operand.__name__}(...)"
    if isinstance(operand, (str, slice)):
        return _instead_of_slice(operand) if isinstance(operand, slice) else _instead_of_text(operand)
    if isinstance(operand, ElementType):
        name = f"nvb.{operand}"
        return f"pass a number or a value; a type comes after it, k.var(0, {name}), or converts it, .to({name})"
    return _BY_CLASS.get(type(operand).__name__, _USUAL)


def _instead_of_text(text: str) -> str:
    policy = text.rpartition(":")[2]
    if text in _OPERATIONS:
        return f'name the operation first: reduce("{text}", value)'
    return f'pass the policy that it names: k.cache.policy("L2::{policy}")' if "evict" in text else _USUAL


def _instead_of_slice(places: slice) -> str:
    is_known = isinstance(places.start or 0, int) and isinstance(places.stop, int)
    count = places.stop - (places.start or 0) if is_known else "count"
    start = "" if places.start in (None, 0) else f" + {places.start if isinstance(places.start, int) else 'start'}"
    pointer = f"(pointer{start})" if start else "pointer"
    return f"load several elements at once, {pointer}.load({count}), and store them by {pointer}.store(a, b, ...)"
