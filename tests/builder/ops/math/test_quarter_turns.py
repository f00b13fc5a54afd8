"""The quarter turns of an f64: how many, and the rest as a sum of two numbers, against pi as a long integer."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from nvbackend import f64
from nvbackend.builder.ops.math import double_waves, waves
from nvbackend.builder.ops.math.double_waves import _turns
from nvbackend.builder.ops.math.doubles import Doubles
from tests.builder.ops.math.exact import pi_times
from tests.builder.ops.math.test_accuracy import computed
from tests.builder.ops.math.test_doubles import NEAR_A_QUARTER
from tests.support.devices import on_devices

BITS = 1400
QUARTER = Fraction(pi_times(BITS), 1 << BITS + 1)
OF_THE_WINDOW = Fraction(1, 1 << 123)
"""The turns are held in 128 bits, of which 126 are of the rest; the last of them are rounded."""
OF_THE_SUM = Fraction(1, 1 << 102)
"""Two numbers of 53 bits hold some 106, and two operations round."""


def part(number):
    """The low bits of the number of quarter turns (0), or a summand of the rest (1 and 2)."""

    def of(k, x):
        d = Doubles(k.core)
        turned = _turns(d, d.bits(d.abs(x.ir)))[number]
        return k.core.wrap(d.of_wide(d.wide_masked(turned, 3)) if number == 0 else turned, f64)

    return of


@on_devices
def test_the_rest_is_exact_to_more_than_a_number_holds():
    rng = np.random.default_rng(29)
    x = np.concatenate([NEAR_A_QUARTER, rng.uniform(1, 1e4, 20), 2.0 ** rng.uniform(4, 1023, 40)])
    quarters, high, low = (computed(part(number), x, elements=(f64, f64)) for number in range(3))
    for one, count, first, second in zip(map(float, x), quarters, high, low, strict=True):
        turns = round(Fraction(one) / QUARTER)
        rest = Fraction(one) - turns * QUARTER
        assert (int(count) - turns) % 4 == 0, one
        lost = abs(Fraction(float(first)) + Fraction(float(second)) - rest)
        assert lost <= abs(rest) * OF_THE_SUM + OF_THE_WINDOW, (one, float(lost))


@pytest.mark.parametrize(
    ("table", "word", "largest"), [(double_waves._TWO_OVER_PI, 64, 1023 + 10), (waves._TWO_OVER_PI, 32, 127 + 7)]
)
def test_the_bits_of_two_over_pi_are_those_that_the_largest_number_needs(table, word, largest):
    """The window of the largest number begins at its exponent, and three words are shifted out of four."""
    assert len(table) == largest // word + 4
    bits = word * (len(table) - 1)
    assert table == (
        0,
        *(((2 << bits + BITS) // pi_times(BITS) >> place) % (1 << word) for place in range(bits - word, -1, -word)),
    )


@pytest.mark.parametrize("bits", [64, 400])
def test_pi_is_that_of_its_first_digits(bits):
    assert abs(pi_times(bits) / (1 << bits) - 3.141592653589793) <= 2.0**-51
