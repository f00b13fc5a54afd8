"""LLVM's integer instructions as closures over a list of registers: `operation(registers)` sets one from others.

Numbers are the register's bits, without a sign. What LLVM leaves undefined is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from nvbackend.dry_run.values.lanes import numbers_of, tidy
from nvbackend.dry_run.values.unknown import UNKNOWN, Expression, Unknown, combine
from nvbackend.dry_run.values.vectors import Lanes
from nvbackend.intrinsics.arithmetic.relations import RELATIONS

ELEMENT = "element"
"""What an element of an array of constants is called, at an unknown index."""
Registers: TypeAlias = list[Any]
Operation: TypeAlias = Callable[[Registers], None]


def signed(value: Any, bits: int) -> Any:
    """The number, or those of the lanes, with a sign."""
    sign = 1 << bits - 1
    return (value ^ sign) - sign


# -- what is the same for numbers, lanes and unknown values ----------------------------------------------------------


def _add(d: int, a: int, b: int, bits: int) -> Operation:
    mask = (1 << bits) - 1

    def run(r: Registers) -> None:
        x, y = r[a], r[b]
        if type(x) is Lanes and type(y) is int:  # as of most addresses: in one go
            r[d] = Lanes([number + y & mask for number in x.numbers])
        elif type(x) is Expression and type(y) is int:
            r[d] = _moved(x, y, mask)
        elif type(y) is Expression and type(x) is int:
            r[d] = _moved(y, x, mask)
        else:
            r[d] = (x + y) & mask

    return run


def _sub(d: int, a: int, b: int, bits: int) -> Operation:
    mask = (1 << bits) - 1

    def run(r: Registers) -> None:
        x, y = r[a], r[b]
        if type(x) is not Expression:
            r[d] = (x - y) & mask
        elif type(y) is int:
            r[d] = _moved(x, -y, mask) if _apart(x, mask)[1] else (x - y) & mask
        else:
            r[d] = _distance(x, y, mask) if type(y) is Expression else (x - y) & mask

    return run


def _moved(value: Expression, by: int, mask: int) -> Unknown:
    """A sum with a number: those with the same value and the same numbers in all are one expression."""
    base, offset = _apart(value, mask)
    total = offset + by & mask
    return (base + total) & mask if total else base


def _distance(value: Expression, other: Expression, mask: int) -> Any:
    """The difference: a number for sums with the same value, as of a counter and the number that it begins at."""
    (base, offset), (same, start) = _apart(value, mask), _apart(other, mask)
    return offset - start & mask if base is same else (value - other) & mask


def _apart(value: Expression, mask: int) -> tuple[Expression, int]:
    """The value and the number of which an expression is the sum."""
    if value.key[0] == "and" and value.key[2] == mask and type(total := value.key[1]) is Expression:
        operation, *parts = total.key
        if operation in ("add", "sub") and type(parts[0]) is Expression and type(parts[1]) is int:
            return parts[0], parts[1] if operation == "add" else -parts[1]
    return value, 0


def _mul(d: int, a: int, b: int, bits: int) -> Operation:
    mask = (1 << bits) - 1

    def run(r: Registers) -> None:
        r[d] = (r[a] * r[b]) & mask

    return run


def _and(d: int, a: int, b: int, bits: int) -> Operation:
    del bits

    def run(r: Registers) -> None:
        value = r[a] & r[b]
        r[d] = value if type(value) is int or isinstance(value, Unknown) else tidy(value)

    return run


def _or(d: int, a: int, b: int, bits: int) -> Operation:
    del bits

    def run(r: Registers) -> None:
        r[d] = r[a] | r[b]

    return run


def _xor(d: int, a: int, b: int, bits: int) -> Operation:
    del bits

    def run(r: Registers) -> None:
        r[d] = r[a] ^ r[b]

    return run


def copy(d: int, a: int) -> Operation:
    """Operations that keep the bits."""

    def run(r: Registers) -> None:
        r[d] = r[a]

    return run


def trunc(d: int, a: int, bits: int) -> Operation:
    """The low bits."""
    mask = (1 << bits) - 1

    def run(r: Registers) -> None:
        value = r[a]
        r[d] = combine("trunc", value, bits) if isinstance(value, Unknown) else value & mask

    return run


def sext(d: int, a: int, source: int, bits: int) -> Operation:
    """The sign bit, repeated."""
    sign, mask = 1 << source - 1, (1 << bits) - 1

    def run(r: Registers) -> None:
        value = r[a]
        if type(value) is Lanes:
            r[d] = Lanes([(number ^ sign) - sign & mask for number in value.numbers])
        elif isinstance(value, Unknown):
            r[d] = combine("sext", value, source, bits)
        else:
            r[d] = ((value ^ sign) - sign) & mask

    return run


# -- what needs to know which -----------------------------------------------------------------------------------------


_Rule = Callable[[Any, Any, int], Any]
_Maker = Callable[[int, int, int, int], Operation]


def _with(name: str, number: _Rule, lanes: _Rule) -> _Maker:
    def make(d: int, a: int, b: int, bits: int) -> Operation:
        said = f"{name} i{bits}"

        def run(r: Registers) -> None:
            x, y = r[a], r[b]
            if type(x) is int and type(y) is int:
                r[d] = number(x, y, bits)
            elif isinstance(x, Unknown) or isinstance(y, Unknown):
                r[d] = combine(said, x, y)
            else:
                r[d] = lanes(x, y, bits)

        return run

    return make


def _udiv(x: int, y: int, bits: int) -> Any:
    del bits
    return x // y if y else UNKNOWN


def _urem(x: int, y: int, bits: int) -> Any:
    del bits
    return x % y if y else UNKNOWN


def _sdiv(x: int, y: int, bits: int) -> Any:
    if not y:
        return UNKNOWN
    left, right = signed(x, bits), signed(y, bits)
    quotient = abs(left) // abs(right)
    return (quotient if (left < 0) == (right < 0) else -quotient) & (1 << bits) - 1


def _srem(x: int, y: int, bits: int) -> Any:
    if not y:
        return UNKNOWN
    left, right = signed(x, bits), signed(y, bits)
    rest = abs(left) % abs(right)
    return (-rest if left < 0 else rest) & (1 << bits) - 1


def _shl(x: int, y: int, bits: int) -> Any:
    return x << y & (1 << bits) - 1 if y < bits else UNKNOWN


def _lshr(x: int, y: int, bits: int) -> Any:
    return x >> y if y < bits else UNKNOWN


def _ashr(x: int, y: int, bits: int) -> Any:
    return signed(x, bits) >> y & (1 << bits) - 1 if y < bits else UNKNOWN


def _pairwise(number: Callable[[int, int, int], Any]) -> Callable[[Any, Any, int], Any]:
    """Lane by lane."""

    def run(x: Any, y: Any, bits: int) -> Any:
        found = [number(left, right, bits) for left, right in zip(numbers_of(x), numbers_of(y), strict=True)]
        return UNKNOWN if UNKNOWN in found else tidy(Lanes(found))

    return run


def _shift_right(x: Any, y: Any, bits: int) -> Any:
    if type(y) is not int:
        return _pairwise(_lshr)(x, y, bits)
    return tidy(x >> y) if y < bits else UNKNOWN


def _shift_arithmetic(x: Any, y: Any, bits: int) -> Any:
    if type(y) is not int or y >= bits:
        return _pairwise(_ashr)(x, y, bits)
    sign, mask = 1 << bits - 1, (1 << bits) - 1
    return tidy(Lanes([(number ^ sign) - sign >> y & mask for number in x.numbers]))


def _shift_left(x: Any, y: Any, bits: int) -> Any:
    if type(y) is not int:
        return _pairwise(_shl)(x, y, bits)
    return x << y & (1 << bits) - 1 if y < bits else UNKNOWN


BINARY: dict[str, _Maker] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "and": _and,
    "or": _or,
    "xor": _xor,
    "udiv": _with("udiv", _udiv, _pairwise(_udiv)),
    "urem": _with("urem", _urem, _pairwise(_urem)),
    "sdiv": _with("sdiv", _sdiv, _pairwise(_sdiv)),
    "srem": _with("srem", _srem, _pairwise(_srem)),
    "shl": _with("shl", _shl, _shift_left),
    "lshr": _with("lshr", _lshr, _shift_right),
    "ashr": _with("ashr", _ashr, _shift_arithmetic),
    "umin": _with("umin", lambda x, y, _: min(x, y), _pairwise(lambda x, y, _: min(x, y))),
    "umax": _with("umax", lambda x, y, _: max(x, y), _pairwise(lambda x, y, _: max(x, y))),
    "smin": _with(
        "smin",
        lambda x, y, bits: x if signed(x, bits) < signed(y, bits) else y,
        _pairwise(lambda x, y, bits: x if signed(x, bits) < signed(y, bits) else y),
    ),
    "smax": _with(
        "smax",
        lambda x, y, bits: x if signed(x, bits) > signed(y, bits) else y,
        _pairwise(lambda x, y, bits: x if signed(x, bits) > signed(y, bits) else y),
    ),
}
"""Instructions and intrinsics of two operands, by name: `(destination, left, right, bits)`."""

_OF_SAME = {"eq": 1, "ne": 0, "lt": 0, "le": 1, "gt": 0, "ge": 1}


def compare(d: int, a: int, b: int, predicate: str, bits: int) -> Operation:
    """icmp; `predicate` as LLVM spells it: eq, ne, slt, ult, ..."""
    with_sign = predicate[0] == "s"
    kind = predicate if predicate in ("eq", "ne") else predicate[1:]
    said = f"icmp {predicate} i{bits}"
    holds = RELATIONS[kind]
    sign = 1 << bits - 1 if with_sign else 0

    def run(r: Registers) -> None:
        x, y = r[a], r[b]
        if type(x) is int and type(y) is int:
            r[d] = 1 if holds(x ^ sign, y ^ sign) else 0
        elif isinstance(x, Unknown) or isinstance(y, Unknown):
            if x is y and x is not UNKNOWN:
                r[d] = _OF_SAME[kind]
            else:
                r[d] = combine(said, x, y)
        else:
            pairs = zip(numbers_of(x), numbers_of(y), strict=True)
            r[d] = tidy(Lanes([1 if holds(left ^ sign, right ^ sign) else 0 for left, right in pairs]))

    return run


def select(d: int, condition: int, yes: int, no: int) -> Operation:
    """select."""

    def run(r: Registers) -> None:
        c = r[condition]
        if type(c) is int:
            r[d] = r[yes] if c else r[no]
            return
        x, y = r[yes], r[no]
        if x is y or (type(x) is int and type(y) is int and x == y):
            r[d] = x
        elif isinstance(c, Unknown):
            r[d] = combine("select", c, x, y)
        elif isinstance(x, Unknown) or isinstance(y, Unknown):
            r[d] = UNKNOWN
        else:
            several = zip(c.numbers, numbers_of(x), numbers_of(y), strict=True)
            r[d] = tidy(Lanes([left if chosen else right for chosen, left, right in several]))

    return run


def funnel(d: int, high: int, low: int, amount: int, bits: int, *, left: bool) -> Operation:
    """fshl and fshr."""
    mask = (1 << bits) - 1

    def run(r: Registers) -> None:
        x, y, n = r[high], r[low], r[amount]
        if type(x) is int and type(y) is int and type(n) is int:
            both, n = x << bits | y, n % bits
            r[d] = (both << n >> bits if left else both >> n) & mask
        else:
            r[d] = UNKNOWN

    return run


def computed(d: int, name: str, function: Callable[..., int], operands: Sequence[int]) -> Operation:
    """An instruction that `function` is on numbers; what it gives of unknown ones is called `name`."""

    def run(r: Registers) -> None:
        given = [r[operand] for operand in operands]
        if all(type(one) is int for one in given):
            r[d] = function(*given)
        elif any(isinstance(one, Unknown) for one in given):
            r[d] = combine(name, *given)
        else:
            r[d] = tidy(Lanes([*map(function, *map(numbers_of, given))]))

    return run


def element(d: int, index: int, numbers: Sequence[int]) -> Operation:
    """The number at an index."""
    table = Lanes([*numbers])

    def run(r: Registers) -> None:
        i = r[index]
        r[d] = combine(ELEMENT, i, table) if isinstance(i, Unknown) else taken(i, table)

    return run


def taken(index: Any, table: Any) -> Any:
    """The number at an index, or those at several, unknown where there is none."""
    if type(index) is int:
        return table.numbers[index] if index < len(table) else UNKNOWN
    if max(index.numbers) >= len(table):
        return UNKNOWN
    return tidy(Lanes([table.numbers[one] for one in index.numbers]))


def named(d: int, name: str, operands: Sequence[int]) -> Operation:
    """What a function called `name` gives of its operands: another unknown value for others."""

    def run(r: Registers) -> None:
        given = [r[operand] for operand in operands]
        r[d] = combine(name, *given) if any(isinstance(one, Unknown) for one in given) else UNKNOWN

    return run


def unknown(d: int) -> Operation:
    """Operations whose results are unknown."""

    def run(r: Registers) -> None:
        r[d] = UNKNOWN

    return run
