"""What addresses become: pointers and descriptors, a step from an earlier one where a constant lies between them.

Such a step is a part of the instruction that takes a pointer, and one addition to a descriptor. Made anew, each is
added to as a number, and every sum is widened or packed.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from nvbackend.builder.lower.live_builder import LiveBuilder
from nvbackend.builder.lower.registers import ByteStep

_NUMBER, _WORD = ir.IntType(32), ir.IntType(64)
_NUMBERS = 1 << _NUMBER.width


def pointer_to(builder: ir.IRBuilder, address: ir.Value, space: int) -> ir.Value:
    """The pointer of `space` to the number `address`."""

    def made() -> ir.Value:
        return builder.inttoptr(address, ir.PointerType(addrspace=space))

    def step(pointer: ir.Value, bytes: int) -> ir.Value:
        further = ByteStep(builder.block, pointer, ir.Constant(_NUMBER, bytes))
        builder._insert(further)
        return further

    return _from_earlier(builder, ("pointer", space), [address], made, step)


def descriptor_of(
    builder: ir.IRBuilder, address: list[ir.Value], word: int, unit: int, made: Callable[[], ir.Value]
) -> ir.Value:
    """The descriptor of what is at the sum `address`, which it has in units; `made` packs it with the rest, `word`."""

    def step(descriptor: ir.Value, bytes: int) -> ir.Value:
        # No carry leaves the address: it has more bits than there is shared memory.
        return made() if bytes % unit else builder.add(descriptor, ir.Constant(_WORD, bytes // unit))

    return _from_earlier(builder, ("descriptor", word), address, made, step)


def _from_earlier(
    builder: ir.IRBuilder,
    kind: tuple[object, ...],
    address: list[ir.Value],
    made: Callable[[], ir.Value],
    step: Callable[[ir.Value, int], ir.Value],
) -> ir.Value:
    """What `step` makes of an earlier value of this kind, else what is `made`."""
    if not isinstance(builder, LiveBuilder) or any(each.type != _NUMBER for each in address):
        return made()  # another's code may move what is there
    terms, number = _sum(address)
    key = (*kind, *terms)
    earlier = builder.starts().get(key)
    if earlier is None:
        value = made()
        builder.starts()[key] = value, number
        return value
    value, start = earlier
    between = (number - start + _NUMBERS // 2) % _NUMBERS - _NUMBERS // 2
    return step(value, between) if between else value


def _sum(address: list[ir.Value]) -> tuple[tuple[object, ...], int]:
    """A sum as its terms, in an order of their own, and the constant that is added to them."""
    terms: list[object] = []
    number, waiting = 0, [*address]
    while waiting:
        value = waiting.pop()
        if isinstance(value, ir.Constant):
            if isinstance(value.constant, int):
                number += value.constant
            else:
                terms.append(value.get_reference())  # where an allocation begins
        elif getattr(value, "opname", "") == "add" and any(isinstance(each, ir.Constant) for each in value.operands):
            waiting += value.operands
        else:
            terms.append(value)
    return tuple(terms), number


def base_of(pointer: ir.Value) -> ir.Value:
    """What a pointer is a step from, or another type of."""
    while isinstance(pointer, (ir.GEPInstr, ir.CastInstr)):
        pointer = pointer.operands[0]
    return pointer
