"""Rows of integer and bit instructions that no operator of LLVM is, with what each computes.

PTX ISA 9.7.1 (integers), 9.7.2 (carries), 9.7.8 (logic and shifts). By asm, so that each is the instruction that was
asked for. `Semantics.computes` is the instruction on Python's integers: the evaluator of per-thread numbers and the dry
run execute it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

from nvbackend.intrinsics.row.row import Asm, RegisterClass, Row, chosen, immediate, operand, output
from nvbackend.intrinsics.row.semantics import Semantics
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, s32, u32

WORDS = ("u32", "s32", "u64", "s64")
_REGISTERS = {16: RegisterClass.B16, 32: RegisterClass.B32, 64: RegisterClass.B64}
_HALVES = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
"""Factors and what their product is, of mul.wide and mad.wide."""
FACTORS = tuple(_HALVES)
BYTE_KINDS = ("u32", "s32")
Computes = Callable[..., int]


def signed(number: int, bits: int) -> int:
    """The number that these bits are in two's complement."""
    return number - (1 << bits) if number >> bits - 1 & 1 else number


def _as(kind: str, number: int) -> int:
    bits = int(kind[1:])
    return signed(number, bits) if kind[0] == "s" else number


def _row(
    ptx: str, result: ElementType, inputs: dict[str, ElementType], computes: Computes, section: str, summary: str
) -> Row:
    """An instruction that gives one integer."""
    names = ", ".join(f"{{{name}}}" for name in inputs)
    return Row(
        family="integers",
        opcode=ptx.partition(".")[0],
        ptx=ptx,
        operands=(
            output("result", _REGISTERS[result.bits], element=result),
            *(operand(name, _REGISTERS[kind.bits], element=kind) for name, kind in inputs.items()),
        ),
        lowering=Asm(f"{{ptx}} {{result}}, {names};"),
        semantics=Semantics(computes=computes),
        section=section,
        summary=summary,
        axes={"instruction": ptx},
    )


# -- counting and moving bits -----------------------------------------------------------------------------------------


def _leading(bits: int, a: int) -> int:
    return bits - a.bit_length()


def _reversed(bits: int, a: int) -> int:
    return int(f"{a:0{bits}b}"[::-1], 2)


@cache
def count(operation: str, kind: str) -> Row:
    """popc or clz of u32, s32, u64 or s64: how many bits are set, or clear above the highest one. An s32."""
    element = BY_NAME[chosen("type", kind, WORDS)]
    computes: Computes = int.bit_count if operation == "popc" else partial(_leading, element.bits)
    ptx = f"{chosen('operation', operation, ('popc', 'clz'))}.b{element.bits}"
    return _row(ptx, s32, {"a": element}, computes, f"9.7.1 ({operation})", "Counts bits.")


@cache
def reverse(kind: str) -> Row:
    """brev of u32, s32, u64 or s64: the bits from the last to the first."""
    element = BY_NAME[chosen("type", kind, WORDS)]
    computes = partial(_reversed, element.bits)
    return _row(f"brev.b{element.bits}", element, {"a": element}, computes, "9.7.1 (brev)", "Reverses the bits.")


def _field(bits: int, start: int, length: int) -> tuple[int, int]:
    """Of 32-bit fields the low 8 bits count, of 64-bit ones all, though PTX says eight (docs/divergences.md)."""
    counted = 255 if bits == 32 else 0xFFFFFFFF
    return min(start & counted, bits), min(length & counted, bits)


def _extract(kind: str, a: int, start: int, length: int) -> int:
    bits = int(kind[1:])
    start, length = _field(bits, start, length)
    if not length:
        return 0
    sign = a >> min(start + length - 1, bits - 1) & 1 if kind[0] == "s" else 0
    field = (a >> start) & ((1 << length) - 1)
    known = max(0, min(length, bits - start))
    return (field | (-sign << known)) & ((1 << bits) - 1)


@cache
def extract(kind: str) -> Row:
    """bfe: `length` bits of u32, s32, u64 or s64 from bit `start` on; of a signed type with the highest as the sign."""
    element = BY_NAME[chosen("type", kind, WORDS)]
    inputs = {"a": element, "start": s32, "length": s32}
    return _row(f"bfe.{kind}", element, inputs, partial(_extract, kind), "9.7.1 (bfe)", "Extracts a bit field.")


def _insert(bits: int, a: int, base: int, start: int, length: int) -> int:
    start, length = _field(bits, start, length)
    mask = ((1 << length) - 1) << start & ((1 << bits) - 1)
    return (base & ~mask) | (a << start & mask)


@cache
def insert(kind: str) -> Row:
    """bfi: the low `length` bits of `a` in place of those of `base` from bit `start` on."""
    element = BY_NAME[chosen("type", kind, WORDS)]
    inputs = {"a": element, "base": element, "start": s32, "length": s32}
    computes = partial(_insert, element.bits)
    return _row(f"bfi.b{element.bits}", element, inputs, computes, "9.7.1 (bfi)", "Inserts a bit field.")


def _shift(direction: str, mode: str, low: int, high: int, by: int) -> int:
    by = by & 31 if mode == "wrap" else min(by, 32)
    both = high << 32 | low
    return (both << by >> 32 if direction == "l" else both >> by) & 0xFFFFFFFF


@cache
def funnel(direction: str, mode: str) -> Row:
    """shf: a word of `high` and `low`, shifted together to the left ("l": the upper word) or right ("r": the lower).

    The distance wraps at 32, or is at most 32 ("clamp").
    """
    computes = partial(_shift, chosen("direction", direction, ("l", "r")), chosen("mode", mode, ("wrap", "clamp")))
    inputs = {"low": u32, "high": u32, "by": u32}
    return _row(f"shf.{direction}.{mode}.b32", u32, inputs, computes, "9.7.8 (shf)", "Shifts two words together.")


def _looked_up(a: int, b: int, c: int, table: int) -> int:
    word = 0
    for place in range(8):
        if table >> place & 1:
            parts = (x if place >> 2 - n & 1 else ~x for n, x in enumerate((a, b, c)))
            first, second, third = parts
            word |= first & second & third
    return word & 0xFFFFFFFF


@cache
def logic() -> Row:
    """lop3: any function of three bits, by its table: bit 4a + 2b + c of `table` is the result for a, b and c."""
    return Row(
        family="integers",
        opcode="lop3",
        ptx="lop3.b32",
        operands=(
            output("result", RegisterClass.B32),
            *(operand(name, RegisterClass.B32) for name in "abc"),
            immediate("table", range(256), meaning="the results for a, b and c, a bit each"),
        ),
        lowering=Asm("{ptx} {result}, {a}, {b}, {c}, {table};"),
        semantics=Semantics(computes=_looked_up),
        section="9.7.8 (lop3)",
        summary="Computes a logic function of three words.",
        axes={"instruction": "lop3.b32"},
    )


# -- arithmetic -------------------------------------------------------------------------------------------------------


def _high(kind: str, a: int, b: int) -> int:
    bits = int(kind[1:])
    return (_as(kind, a) * _as(kind, b) >> bits) & ((1 << bits) - 1)


@cache
def multiply_high(kind: str) -> Row:
    """mul.hi of u32, s32, u64 or s64: the upper half of the product."""
    element = BY_NAME[chosen("type", kind, WORDS)]
    inputs = {"a": element, "b": element}
    return _row(f"mul.hi.{kind}", element, inputs, partial(_high, kind), "9.7.1 (mul)", "Multiplies: the upper half.")


def _wide(kind: str, a: int, b: int, c: int = 0) -> int:
    return (_as(kind, a) * _as(kind, b) + c) & ((1 << 2 * int(kind[1:])) - 1)


@cache
def wide(kind: str, added: bool = False) -> Row:
    """mul.wide or, with `added`, mad.wide of u16, s16, u32 or s32: a * b, or a * b + c, in twice the bits."""
    element, twice = BY_NAME[chosen("type", kind, _HALVES)], BY_NAME[_HALVES[kind]]
    inputs = {"a": element, "b": element, **({"c": twice} if added else {})}
    name = "mad" if added else "mul"
    return _row(f"{name}.wide.{kind}", twice, inputs, partial(_wide, kind), f"9.7.1 ({name})", "Multiplies: all bits.")


def _parts(kind: str, word: int, bits: int) -> list[int]:
    parts = [word >> place & ((1 << bits) - 1) for place in range(0, 32, bits)]
    return [signed(part, bits) for part in parts] if kind[0] == "s" else parts


def _dot(kinds: tuple[str, str], half: str, a: int, b: int, c: int) -> int:
    left = _parts(kinds[0], a, 16 if half else 8)
    right = _parts(kinds[1], b, 8)
    right = right[2:] if half == "hi" else right
    return (c + sum(x * y for x, y in zip(left, right, strict=False))) & 0xFFFFFFFF


@cache
def dot(left: str, right: str, half: str = "") -> Row:
    """dp4a: c + the products of four bytes of u32 or s32; dp2a with `half` ("lo", "hi"): of two halves and bytes."""
    kinds = (chosen("type", left, BYTE_KINDS), chosen("type", right, BYTE_KINDS))
    total = BY_NAME["s32" if "s32" in kinds else "u32"]
    ptx = f"dp2a.{chosen('half', half, ('', 'lo', 'hi'))}.{left}.{right}" if half else f"dp4a.{left}.{right}"
    inputs = {"a": BY_NAME[left], "b": BY_NAME[right], "c": total}
    return _row(ptx, total, inputs, partial(_dot, kinds, half), f"9.7.1 ({ptx[:4]})", "Multiplies and adds parts.")


def _difference(kind: str, a: int, b: int, c: int) -> int:
    return (abs(_as(kind, a) - _as(kind, b)) + c) & ((1 << int(kind[1:])) - 1)


@cache
def difference(kind: str) -> Row:
    """sad of u32, s32, u64 or s64: |a - b| + c."""
    element = BY_NAME[chosen("type", kind, WORDS)]
    inputs = dict.fromkeys("abc", element)
    return _row(f"sad.{kind}", element, inputs, partial(_difference, kind), "9.7.1 (sad)", "Adds a difference.")


def _saturated(operation: str, a: int, b: int) -> int:
    left, right = signed(a, 32), signed(b, 32)
    exact = left + right if operation == "add" else left - right
    return min(max(exact, -(1 << 31)), (1 << 31) - 1) & 0xFFFFFFFF


@cache
def saturating(operation: str) -> Row:
    """add.sat or sub.sat of s32: it stops at the ends of the type."""
    computes = partial(_saturated, chosen("operation", operation, ("add", "sub")))
    inputs = {"a": s32, "b": s32}
    return _row(f"{operation}.sat.s32", s32, inputs, computes, f"9.7.1 ({operation})", "Computes without wrapping.")


@cache
def carry(operation: str, with_carry: bool) -> Row:
    """add.cc or sub.cc of u32, and the carry of a sum or the borrow of a difference: 1 or 0.

    `with_carry`: one is given, too. It is one asm statement, since LLVM may put others between two.
    """
    chosen("operation", operation, ("add", "sub"))
    chosen("with_carry", with_carry, (False, True))
    carried = (operand("carry", RegisterClass.B32, meaning="1 or 0"),) if with_carry else ()
    own = f"{operation}c.cc.u32" if with_carry else "{ptx}"
    # What only starts the carry goes to a register of its own: LLVM may give {result} the register of {a} or {b}.
    started = {"add": "{ptx} dropped, {carry}, -1; ", "sub": "{ptx} dropped, 0, {carry}; "}[operation]
    ended = "addc.u32 {carry_out}, 0, 0;"
    if operation == "sub":
        ended = "subc.u32 {carry_out}, 0, 0; neg.s32 {carry_out}, {carry_out};"
    body = f"{own} {{result}}, {{a}}, {{b}}; {ended}"
    return Row(
        family="integers",
        opcode=f"{operation}.cc",
        ptx=f"{operation}.cc.u32",
        operands=(
            output("result", RegisterClass.B32),
            output("carry_out", RegisterClass.B32),
            operand("a", RegisterClass.B32),
            operand("b", RegisterClass.B32),
            *carried,
        ),
        lowering=Asm(f"{{{{ .reg .u32 dropped; {started}{body} }}}}" if with_carry else body),
        section="9.7.2 (addc, subc)",
        summary="Adds or subtracts with a carry.",
        axes={"operation": operation, "with_carry": with_carry},
    )


def rows() -> Iterator[Row]:
    """Every row of this module; PTX has one popc for signed and unsigned words."""
    for kind in ("u32", "u64"):
        yield from (count(operation, kind) for operation in ("popc", "clz"))
        yield from (reverse(kind), insert(kind))
    for kind in WORDS:
        yield from (extract(kind), multiply_high(kind), difference(kind))
    for direction in "lr":
        yield from (funnel(direction, mode) for mode in ("wrap", "clamp"))
    yield logic()
    for kind in _HALVES:
        yield from (wide(kind, added) for added in (False, True))
    for left in BYTE_KINDS:
        for right in BYTE_KINDS:
            yield from (dot(left, right, half) for half in ("", "lo", "hi"))
    yield from (saturating(operation) for operation in ("add", "sub"))
    for operation in ("add", "sub"):
        yield from (carry(operation, with_carry) for with_carry in (False, True))


_COMPUTING = frozenset(
    ("popc", "clz", "brev", "bfe", "bfi", "shf", "lop3", "mul", "mad", "sad", "dp2a", "dp4a", "add", "sub")
)
"""The opcodes of rows that compute: for no other is the table of them all made."""


def function_of(asm: str) -> Computes | None:
    """What the row with this asm computes; None where there is no such row."""
    return computing().get(asm) if asm.partition(".")[0] in _COMPUTING else None


@cache
def computing() -> dict[str, Computes]:
    """What the rows compute, by their asm."""
    return {row.asm: row.semantics.computes for row in rows() if row.semantics.computes is not None}
