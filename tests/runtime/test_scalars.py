"""Scalars: bits against NumPy's and ml_dtypes' own conversions, and the edges of every range."""

from __future__ import annotations

import ctypes
import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvbackend.intrinsics.row import types
from nvbackend.runtime.arguments.scalars import Misfit, range_text, scalar_argument

FLOATS = {
    types.f16: numpy.float16,
    types.bf16: ml_dtypes.bfloat16,
    types.f32: numpy.float32,
    types.tf32: numpy.float32,
    types.f64: numpy.float64,
}
LARGEST = {types.f16: 65504.0, types.bf16: 255 * 2.0**120, types.f32: (2**24 - 1) * 2.0**104}
"""(2 - last step) * 2**(largest exponent) of each format."""
INTEGERS: dict[types.ElementType, Any] = {
    types.s8: numpy.int8,
    types.u8: numpy.uint8,
    types.s16: numpy.int16,
    types.u16: numpy.uint16,
    types.s32: numpy.int32,
    types.u32: numpy.uint32,
    types.s64: numpy.int64,
    types.u64: numpy.uint64,
}


def stored(argument: Any) -> bytes:
    """The bytes the driver copies."""
    stored = argument.tobytes()
    assert type(stored) is bytes
    return stored


@given(st.sampled_from([*FLOATS]), st.floats())
def test_floats_round_as_numpy_rounds(element: types.ElementType, value: float) -> None:
    with numpy.errstate(over="ignore", under="ignore"):
        if element is types.bf16 and math.isfinite(value):
            # ml_dtypes converts a double by way of float32; where that step is exact there is one rounding.
            value = float(numpy.float32(value))
        expected = numpy.array(value, "float64").astype(FLOATS[element])
    got = scalar_argument(element, value)
    if math.isfinite(value) and not numpy.isfinite(expected):
        assert got is Misfit.RANGE
    elif math.isnan(value):
        assert math.isnan(float(numpy.frombuffer(stored(got), FLOATS[element])[0]))
    else:
        assert stored(got) == expected.tobytes()


@pytest.mark.parametrize("element", [*FLOATS], ids=str)
@pytest.mark.parametrize("value", [math.nan, -math.nan, math.inf, -math.inf], ids=str)
def test_nans_are_quiet_and_keep_their_sign(element: types.ElementType, value: float) -> None:
    """IEEE 754, 6.2.1: the first bit after the exponent is set, and it is the only one of Python's own NaN."""
    assert stored(scalar_argument(element, value)) == numpy.array(value, "float64").astype(FLOATS[element]).tobytes()


def test_bfloat_rounds_once() -> None:
    # Just above the middle between 1 and 1 + 2**-7: float32 would round it onto the middle, then down to even.
    assert stored(scalar_argument(types.bf16, 1 + 2**-8 + 2**-40)) == (0x3F81).to_bytes(2, "little")
    assert stored(scalar_argument(types.bf16, 1 + 2**-8)) == (0x3F80).to_bytes(2, "little")
    assert stored(scalar_argument(types.bf16, -(2.0**-133))) == (0x8001).to_bytes(2, "little")


def _nearest(value: float, fraction_bits: int, lowest: int, highest: int) -> Fraction | None:
    """The nearest number with so many bits after the first and an exponent in this range, ties to even; None past it.

    Exact: the definition of rounding, in fractions (IEEE 754, 4.3.1).
    """
    exact = Fraction(value)
    exponent = max(math.frexp(value)[1] - 1, lowest)
    step = Fraction(2) ** (exponent - fraction_bits)
    rounded = round(exact / step) * step  # of a Fraction: to nearest, ties to even
    return None if abs(rounded) >= Fraction(2) ** (highest + 1) else rounded


@pytest.mark.parametrize(
    ("element", "fraction_bits", "lowest", "highest"),
    [(types.f16, 10, -14, 15), (types.bf16, 7, -126, 127), (types.f32, 23, -126, 127)],
    ids=str,
)
def test_doubles_of_every_exponent_are_rounded_once(
    element: types.ElementType, fraction_bits: int, lowest: int, highest: int
) -> None:
    for exponent in range(-1074, 1024):
        for significand in (1.0, 1.5, 1 + 2.0**-fraction_bits, 1 + 2.0 ** -(fraction_bits + 1), 2 - 2.0**-52):
            for value in (math.ldexp(significand, exponent), -math.ldexp(significand, exponent)):
                got, expected = scalar_argument(element, value), _nearest(value, fraction_bits, lowest, highest)
                if expected is None:
                    assert got is Misfit.RANGE
                else:
                    assert Fraction(float(numpy.frombuffer(stored(got), FLOATS[element])[0])) == expected
                    assert stored(got)[-1] >> 7 == (value < 0), "zeros keep their sign"


@pytest.mark.parametrize("element", [types.f16, types.bf16, types.f32], ids=str)
def test_largest_float_and_the_first_that_rounds_to_infinity(element: types.ElementType) -> None:
    largest = LARGEST[element]
    # Half of the distance to the next power of two's last step: the tie goes to even, which is infinity.
    tie = largest + (2.0 ** math.ceil(math.log2(largest)) - largest) / 2
    assert stored(scalar_argument(element, largest)) == numpy.array(largest, FLOATS[element]).tobytes()
    assert stored(scalar_argument(element, math.nextafter(tie, 0))) == stored(scalar_argument(element, largest))
    assert scalar_argument(element, tie) is Misfit.RANGE
    assert scalar_argument(element, -tie) is Misfit.RANGE


def test_ranges_of_floats_are_told_by_their_largest() -> None:
    for element, largest in LARGEST.items():
        assert range_text(element) == f"-{largest:g} to {largest:g}"
    assert range_text(types.tf32) == range_text(types.f32)
    assert range_text(types.f64) == "a floating-point number"


@pytest.mark.parametrize("element", [*INTEGERS], ids=str)
def test_integers_at_their_edges(element: types.ElementType) -> None:
    kind = numpy.iinfo(INTEGERS[element])
    for value in (int(kind.min), int(kind.max), 0, 1):
        assert stored(scalar_argument(element, value)) == numpy.array(value, INTEGERS[element]).tobytes()
        assert stored(scalar_argument(element, INTEGERS[element](value))) == stored(scalar_argument(element, value))
    assert scalar_argument(element, int(kind.min) - 1) is Misfit.RANGE
    assert scalar_argument(element, int(kind.max) + 1) is Misfit.RANGE
    assert f"{kind.min} to {kind.max}" == range_text(element)


def test_narrow_integers_keep_their_sign_in_a_byte() -> None:
    assert stored(scalar_argument(types.s4, -8)) == b"\xf8"
    assert stored(scalar_argument(types.u4, 15)) == b"\x0f"
    assert scalar_argument(types.s4, 8) is Misfit.RANGE
    assert scalar_argument(types.u4, 16) is Misfit.RANGE


def test_narrow_floats_are_raw_bits_or_their_own_scalars() -> None:
    assert stored(scalar_argument(types.e4m3, 0x7E)) == b"\x7e"
    assert stored(scalar_argument(types.e4m3, ml_dtypes.float8_e4m3fn(448))) == b"\x7e"
    assert scalar_argument(types.e4m3, 256) is Misfit.RANGE
    assert scalar_argument(types.e4m3, 1.0) is Misfit.KIND
    assert scalar_argument(types.e2m1, 16) is Misfit.RANGE
    assert "raw bits" in range_text(types.e4m3)


def test_predicates() -> None:
    for truth in (True, 1, numpy.True_):
        assert stored(scalar_argument(types.pred, truth)) == b"\x01"
    assert scalar_argument(types.pred, 2) is Misfit.RANGE


@pytest.mark.parametrize("value", ["4", None, 1j, [1], numpy.zeros(1), numpy.zeros(2), object(), numpy.complex64(1)])
@pytest.mark.parametrize("element", [types.s32, types.f32, types.bf16, types.f16], ids=str)
def test_what_is_not_a_number(element: types.ElementType, value: object) -> None:
    assert scalar_argument(element, value) is Misfit.KIND


def test_a_float_is_no_integer_but_an_integer_is_a_float() -> None:
    assert scalar_argument(types.s32, 4.0) is Misfit.KIND
    assert scalar_argument(types.s32, numpy.float32(4)) is Misfit.KIND
    assert stored(scalar_argument(types.f32, 4)) == numpy.float32(4).tobytes()
    assert stored(scalar_argument(types.f32, ml_dtypes.bfloat16(1.5))) == numpy.float32(1.5).tobytes()
    assert stored(scalar_argument(types.bf16, ml_dtypes.bfloat16(1.5))) == ml_dtypes.bfloat16(1.5).tobytes()


class Tensor:
    """As PyTorch's of no dimension: a number for Python, without NumPy's calls."""

    shape = ()
    dtype = numpy.dtype("float32")

    def __float__(self) -> float:
        return 1.5

    def __int__(self) -> int:
        return 1


@pytest.mark.parametrize("element", [types.s32, types.f32, types.bf16, types.f16], ids=str)
def test_only_numpys_own_arrays_without_dimensions_are_scalars(element: types.ElementType) -> None:
    assert scalar_argument(element, Tensor()) is Misfit.KIND
    taken = scalar_argument(element, numpy.array(1.5, "float32"))
    assert (taken is Misfit.KIND) == element.is_integer


def test_packed_bits_fill_their_register() -> None:
    assert scalar_argument(types.b1, 2**32 - 1) == 2**32 - 1
    assert scalar_argument(types.b1, 2) == 2
    for wrong in (2**32, -1):
        assert scalar_argument(types.b1, wrong) is Misfit.RANGE


@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS, types.s4, types.b1, types.pred], ids=str)
def test_cuda_core_copies_exactly_these_bytes(element: types.ElementType) -> None:
    """What cuda.core lays out for the driver: the address of each argument, in its own memory."""
    handler = pytest.importorskip("cuda.core._kernel_arg_handler")
    for number in (0, 1, -1, 2):
        argument = scalar_argument(element, number)
        if isinstance(argument, Misfit):
            continue
        holder = handler.ParamHolder((0x1234, argument))
        address = (ctypes.c_void_p * 2).from_address(holder.ptr)[1]
        assert address is not None
        assert ctypes.string_at(address, argument.nbytes) == stored(argument)
