"""One element of a tensor core's sum, in fractions: MMA-Sim's algorithm (arXiv 2511.10909), written a second time."""

from __future__ import annotations

import math
from fractions import Fraction


def exponent(value: Fraction, least: int) -> int:
    """The exponent of the leading bit, or that of subnormal numbers; of zero one that counts for nothing."""
    if not value:
        return -100000
    size = abs(value)
    found = size.numerator.bit_length() - size.denominator.bit_length()
    while size < Fraction(2) ** found:
        found -= 1
    while size >= Fraction(2) ** (found + 1):
        found += 1
    return max(found, least)


def dot_add(row, column, start, *, leasts, fraction, group, kept, d):
    """start + row . column; the numbers are fractions, `leasts` the least exponents of A, B and D's format."""
    total = start
    size = group or len(row)
    for first in range(0, len(row), size):
        terms = [(total, exponent(total, leasts[2]))]
        for a, b in list(zip(row, column, strict=True))[first : first + size]:
            terms.append((a * b, exponent(a, leasts[0]) + exponent(b, leasts[1])))
        unit = Fraction(2) ** (max(place for _, place in terms) - fraction)
        total = rounded(sum(int(value / unit) for value, _ in terms) * unit, kept, d)
    return total


def rounded(value: Fraction, kept: int, d: str) -> Fraction:
    """Cut to float32 with `kept` bits of mantissa, or to the nearest float16, ties to even."""
    least, bits = (-14, 10) if d == "f16" else (-126, kept)
    if not value:
        return value
    unit = Fraction(2) ** (exponent(value, least) - bits)
    scaled = value / unit
    whole = round(scaled) if d == "f16" else math.trunc(scaled)
    return whole * unit
