"""Elements as the 32-bit registers that instructions and wide stores take, the first element in the lowest bits."""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import result
from nvbackend.builder.values.values import Value
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.row.types import BY_NAME, REGISTER_BITS, ElementType, bf16, e4m3, e5m2, f16, f32, u32
from nvbackend.isel.select.rows import general_faults
from nvbackend.isel.target.target import Target

_PAIR = 2
_PAIRED = (f16, bf16, e4m3, e5m2)


def packed(k: Core, values: Sequence[Value], element: ElementType) -> list[Value]:
    """`values` converted to `element`, as registers: u32 of several elements, or a value of 32 bits or more each."""
    if element.bits >= REGISTER_BITS:
        return [value.to(element) for value in values]
    if values[0].type is f32 and _has_pairs(k.target, element):
        pair, word, filled = f"{element}x{_PAIR}", BY_NAME[f"u{_PAIR * element.bits}"], REGISTER_BITS // element.bits
        if filled > _PAIR and not len(values) % filled:
            return [_of_two_pairs(k, pair, four) for four in zip(*[iter(values)] * filled, strict=True)]
        row, pairs = matrix_move.pack(pair), zip(values[::_PAIR], values[1::_PAIR], strict=True)
        return _joined([result(k, row, word, high=high, low=low) for low, high in pairs], word.bits)
    bits = [value.to(element).bitcast(BY_NAME[f"u{element.bits}"]) for value in values]
    return _joined(bits, element.bits)


def _of_two_pairs(k: Core, pair: str, values: Sequence[Value]) -> Value:
    low, second, third, high = values
    return result(k, matrix_move.pack_two(pair), u32, high=high, third=third, second=second, low=low)


def _has_pairs(target: Target, element: ElementType) -> bool:
    """Whether cvt makes a pair of `element` of two f32."""
    return element in _PAIRED and not general_faults(matrix_move.pack(f"{element}x2"), target, {})


def _joined(parts: Sequence[Value], bits: int) -> list[Value]:
    """Parts of `bits` bits as registers of 32."""
    registers, count = [], REGISTER_BITS // bits
    if count == 1 and all(part._type is u32 for part in parts):
        return [*parts]
    for at in range(0, len(parts), count):
        register, *others = (part.to(u32) for part in parts[at : at + count])
        for number, part in enumerate(others, 1):
            register = register | part << number * bits
        registers.append(register)
    return registers
