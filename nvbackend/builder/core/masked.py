"""Vector accesses of which a part is left out: the whole vector in one access where all of it is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nvbackend.builder.core import access
from nvbackend.builder.core.access import Accessed, How
from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.variables import make_variable
from nvbackend.builder.lower.conversions import is_packed
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.intrinsics.copy.load_store import LOAD, STORE
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, pred

At = Callable[[int], Accessed]
"""The address of each element of a vector."""


def load_where(
    k: Core, address: Accessed, at: At, count: int, how: How, where: Operand, otherwise: Operand
) -> list[Value]:
    """See `Address.load`."""
    _, size = access.kind_of(k, address, count)
    access.checked(LOAD, address, size, how)  # before the blocks: a refused call leaves nothing
    rest = _rest(k, otherwise, address.element)
    kept = [make_variable(k, rest, address.element, name="loaded") for _ in range(count)]

    def whole() -> None:
        for variable, value in zip(kept, access.load(k, address, count, how), strict=True):
            variable.set(value)

    def part(index: int) -> None:
        kept[index].set(access.load(k, at(index), 1, how)[0])

    _each(k, where, count, whole, part)
    return [variable.value for variable in kept]


def _rest(k: Core, otherwise: Operand, element: ElementType) -> Operand:
    """What the elements are that are not loaded. 0 is all bits 0 also of types that have no constants."""
    is_zero = type(otherwise) in (int, float) and str(otherwise) in ("0", "0.0")
    if is_zero and (element.is_pair or is_packed(element)):
        return as_value(k, 0, BY_NAME[f"u{element.bits}"]).bitcast(element)
    return otherwise


def store_where(k: Core, address: Accessed, at: At, values: Sequence[Operand], how: How, where: Operand) -> None:
    """See `Address.store`."""
    _, size = access.kind_of(k, address, len(values))
    access.check_writable(address, "a store to")
    access.checked(STORE, address, size, how)
    _each(
        *(k, where, len(values)),
        lambda: access.store(k, address, values, how),
        lambda index: access.store(k, at(index), values[index : index + 1], how),
    )


def _each(k: Core, where: Operand, count: int, whole: Callable[[], None], part: Callable[[int], None]) -> None:
    """Where a predicate holds, or a number reaches `count`, `whole`; else `part` of the elements below the number."""
    there, control = as_value(k, where), Control(k)
    if there.type is pred:
        with control.if_(there):
            whole()
        return
    if not there.type.is_integer:
        advice = "give a predicate, or how many elements from here on are there"
        rules.TYPE_MISMATCH.fail(problem=f"where is a value of {there.type}", advice=advice)
    with control.if_(there >= count):
        whole()
    if count == 1:
        return
    with control.else_():
        for index in range(count - 1):
            with Control(k).if_(there > index):
                part(index)
