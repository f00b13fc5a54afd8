"""PTX's integer instructions on numbers: on one that all threads have, or on an array with one for each thread.

Numbers are the bits of registers, without a sign. What an instruction computes of them is None where it is not known
here: numbers of floating point, and forms that compilers do not address memory with.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from nvbackend.intrinsics.arithmetic.relations import RELATIONS

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
    Number: TypeAlias = int | Array
    Compute: TypeAlias = Callable[[Sequence[str], Sequence[Number]], "Number | None"]

MASK = (1 << 64) - 1
_WORD, _DOUBLE = 32, 64
_SIZES = {f"{kind}{bits}": bits for kind in "sub" for bits in (8, 16, 32, 64)} | {"pred": 1}


def width(parts: Sequence[str]) -> int:
    """The bits of the type that an instruction ends in; 0 for one that is not of integers."""
    return _SIZES.get(parts[-1], 0)


def result_width(parts: Sequence[str]) -> int:
    """The bits of what such an instruction computes."""
    if parts[0] == "cvt":
        return width(parts[:-1])
    return 2 * width(parts) if "wide" in parts else width(parts)


def narrowed(value: Number) -> Number:
    """One number where all threads have the same."""
    if isinstance(value, int):
        return value
    first = int(value[0])
    return first if bool((value == first).all()) else value


def masked(value: Number, bits: int) -> Number:
    """The low bits alone."""
    return (
        value & MASK
        if bits == _DOUBLE and isinstance(value, int)
        else value
        if bits == _DOUBLE
        else value & ((1 << bits) - 1)
    )


def signed(value: Number, bits: int) -> Any:
    """The number that the bits are with a sign."""
    if isinstance(value, int):
        return value - (1 << bits) if value >> (bits - 1) & 1 else value
    return (value << (_DOUBLE - bits)).view("int64") >> (_DOUBLE - bits)


def added(left: Number, right: Number, bits: int) -> Number:
    """The sum, as a register holds it."""
    return masked(left + right, bits)


def where(condition: Number, left: Number, right: Number) -> Number:
    """One of two, by a predicate."""
    if isinstance(condition, int):
        return left if condition else right
    import numpy as np

    return narrowed(np.where(condition != 0, left, right).astype(np.uint64))


def _bits(value: Any) -> Number:
    """A number with a sign as bits of 64."""
    if isinstance(value, int):
        return value & MASK
    bits: Number = value.view("uint64")
    return bits


def _extended(value: Number, kind: str) -> Number:
    """A register's number in 64 bits, by the sign where its type has one."""
    bits = _SIZES[kind]
    return _bits(signed(masked(value, bits), bits)) if kind.startswith("s") else masked(value, bits)


def _sum(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    return None if "cc" in parts or "sat" in parts else masked(sources[0] + sources[1], width(parts))


def _difference(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    return None if "cc" in parts or "sat" in parts else masked(sources[0] - sources[1], width(parts))


def _product(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    kind, bits = parts[-1], width(parts)
    left, right = (_extended(value, kind) for value in sources[:2])
    if "wide" in parts:
        return masked(left * right, 2 * bits)
    if "hi" not in parts:
        return masked(left * right, bits)
    if bits == _WORD:
        product = masked(left * right, _DOUBLE)
        return masked(product >> _WORD, bits)
    return _high(left, right, is_signed=kind.startswith("s")) if bits == _DOUBLE else None


def _high(left: Number, right: Number, *, is_signed: bool) -> Number:
    """The high 64 bits of a product of 128, from those of the halves."""
    low = (1 << _WORD) - 1
    cross = (left >> _WORD) * (right & low) + ((left & low) * (right & low) >> _WORD)
    other = (left & low) * (right >> _WORD) + (cross & low)
    high = (left >> _WORD) * (right >> _WORD) + (cross >> _WORD) + (other >> _WORD)
    if is_signed:  # a negative number is its bits less 2 ** 64
        top = _DOUBLE - 1
        high = high - (left >> top) * right - (right >> top) * left
    return masked(high, _DOUBLE)


def _sum_of_product(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    product = None if "cc" in parts or "sat" in parts else _product(parts, sources)
    bits = 2 * width(parts) if "wide" in parts else width(parts)
    return None if product is None else masked(product + sources[2], bits)


def _left(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    bits, (value, count) = width(parts), sources
    if isinstance(count, int):
        return masked(value << count, bits) if count < bits else 0
    if isinstance(value, int):
        value = value + (count & 0)
    return where((count < bits) * 1, masked(value << (count & (bits - 1)), bits), 0)


def _right(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    kind, bits, (value, count) = parts[-1], width(parts), sources
    if not isinstance(count, int):
        return None
    count = min(count, bits - 1) if kind.startswith("s") else count
    if kind.startswith("s"):
        return masked(_bits(signed(value, bits) >> count), bits)
    return value >> count if count < bits else 0


def _bitwise(compute: Callable[[Any, Any], Any]) -> Compute:
    def of(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
        return masked(compute(sources[0], sources[1]), width(parts))

    return of


def _field(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    value, start, count = sources
    if not isinstance(start, int) or not isinstance(count, int) or not count > 0 or start + count > width(parts):
        return None
    field = (value >> start) & ((1 << count) - 1)
    return masked(_bits(signed(field, count)), width(parts)) if parts[-1].startswith("s") else field


def _inserted(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    value, into, start, count = sources
    if not isinstance(start, int) or not isinstance(count, int) or start + count > width(parts):
        return None
    mask = (1 << count) - 1
    return (into & (MASK ^ mask << start)) | (value & mask) << start


def _chosen(_: Sequence[str], sources: Sequence[Number]) -> Number | None:
    return where(sources[2], sources[0], sources[1])


def _extreme(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    is_less = _compared(parts[-1], "lt", sources[0], sources[1])
    first, second = sources if parts[0] == "min" else (sources[1], sources[0])
    return None if is_less is None else where(is_less, first, second)


_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    **RELATIONS,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}
_JOINED: Mapping[str, Callable[[Any, Any], Any]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def _compared(kind: str, comparison: str, left: Number, right: Number) -> Number | None:
    compare, bits = _COMPARISONS.get(comparison), _SIZES.get(kind, 0)
    if compare is None or not bits:
        return None
    if kind.startswith("s"):
        left, right = signed(left, bits), signed(right, bits)
    answer = compare(left, right)
    return int(answer) if isinstance(answer, bool) else narrowed(answer.astype("uint64"))


def _predicate(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    answer = _compared(parts[-1], parts[1], sources[0], sources[1])
    if answer is None or len(sources) == 2:
        return answer
    join = _JOINED.get(parts[2])
    return None if join is None else narrowed(join(answer, sources[2]))


def _moved(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    """A number, or the elements of a vector packed, the lowest first."""
    each = width(parts) // len(sources)
    packed = sources[0]
    for number, value in enumerate(sources[1:], start=1):
        packed = packed | masked(value, each) << each * number
    return packed


def _converted(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    if "sat" in parts or parts[-2] not in _SIZES:
        return None
    return masked(_extended(sources[0], parts[-1]), _SIZES[parts[-2]])


def _quotient(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    left, right = sources
    if parts[-1].startswith("s") or not isinstance(right, int) or right == 0:
        return None
    return left // right if parts[0] == "div" else left % right


def _logic(_: Sequence[str], sources: Sequence[Number]) -> Number | None:
    """`lop3`: bit 4a + 2b + c of the table is the answer for the bits a, b, c."""
    table = sources[3]
    if not isinstance(table, int):
        return None
    answer: Number = 0
    for case in range(8):
        if table >> case & 1:
            bits = [value if case >> 2 - at & 1 else value ^ 0xFFFFFFFF for at, value in enumerate(sources[:3])]
            answer = answer | bits[0] & bits[1] & bits[2]
    return answer


def _inverted(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    return sources[0] ^ ((1 << width(parts)) - 1)


def _negated(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    return masked((sources[0] ^ MASK) + 1, width(parts))


_OF_INTEGERS: Mapping[str, Compute] = {
    "add": _sum,
    "sub": _difference,
    "mul": _product,
    "mad": _sum_of_product,
    "shl": _left,
    "shr": _right,
    "and": _bitwise(operator.and_),
    "or": _bitwise(operator.or_),
    "xor": _bitwise(operator.xor),
    "not": _inverted,
    "neg": _negated,
    "bfe": _field,
    "bfi": _inserted,
    "selp": _chosen,
    "min": _extreme,
    "max": _extreme,
    "setp": _predicate,
    "mov": _moved,
    "cvt": _converted,
    "div": _quotient,
    "rem": _quotient,
    "lop3": _logic,
}
COMPUTED = frozenset(_OF_INTEGERS)
"""The first parts of the instructions that `computed` knows."""


def computed(parts: Sequence[str], sources: Sequence[Number]) -> Number | None:
    """What an instruction computes of known operands, of vectors their elements; None where that is not known."""
    if not width(parts):
        return None
    answer = _OF_INTEGERS[parts[0]](parts, sources)
    return None if answer is None else narrowed(answer)
