"""Arithmetic of several words, by a carry flag. PTX ISA 9.7.2."""

from __future__ import annotations

from nvbackend.simulator.scalar.integers import product_high
from nvbackend.simulator.scalar.pure import Bits, Pure, Spelling, Unknown

_WORDS = ("u32", "s32", "u64", "s64")
CARRY = "cc"


def _sum(a: Bits, b: Bits, carry: Bits | None) -> tuple[Bits, Bits]:
    found = a + b
    if carry is None:
        return found, found < a
    found += carry
    return found, (found < a) | (carry & (found == a))


def _difference(a: Bits, b: Bits, carry: Bits | None) -> tuple[Bits, Bits]:
    """As a + ~b + 1, of which the flag is the carry: set where nothing is borrowed, as an addc after it sees it."""
    if carry is None:
        return a - b, a >= b
    return a - b - ~carry, (a > b) | (carry & (a == b))


def _chained(spelling: Spelling) -> Pure:
    """add.cc, addc, sub.cc, subc, mad.lo.cc, madc.hi and so on."""
    name = spelling.name
    reads = name.endswith("c")
    operation = _difference if name.startswith("sub") else _sum
    part = spelling.must("lo", "hi") if name.startswith("mad") else ""
    writes = spelling.has("cc")
    if not (reads or writes):
        raise Unknown
    kind = spelling.must(*_WORDS)
    results = (kind, CARRY) if writes else (kind,)

    def call(*given: Bits) -> tuple[Bits, ...]:
        carry = given[-1] if reads else None
        a, b = given[:2]
        if part:
            a, b = product_high(a, b, kind) if part == "hi" else a * b, given[2]
        return operation(a, b, carry)[: len(results)]

    operands = (kind,) * (3 if part else 2) + ((CARRY,) if reads else ())
    return Pure(results, operands, call)


MAKERS = dict.fromkeys(("add", "addc", "sub", "subc", "mad", "madc"), _chained)
