"""What is advised where a value has another type than is wanted: each advice is followed."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import ElementType, Value, i32, pred
from nvbackend.builder.lower.conversions import is_packed
from nvbackend.builder.values.values import as_value
from nvbackend.intrinsics.row.types import ELEMENT_TYPES, PAIR_TYPES
from nvbackend.signature import Parameter, Pointer

PLAIN = [each for each in ELEMENT_TYPES if each.bits >= 8 and not is_packed(each)]
PAIRS = [*PAIR_TYPES]
CALLS = {
    ".to({wanted})": lambda k, value, wanted: value.to(wanted),
    ".bitcast(nvb.{wanted})": lambda k, value, wanted: value.bitcast(wanted),
    "value != 0": lambda k, value, wanted: value != 0,
    "value.to(nvb.f32) != 0": lambda k, value, wanted: value.to(nvb.f32) != 0,
    'k.packed.unpack("{given}", value)[0] != 0': lambda k, value, wanted: (
        k.packed.unpack(str(value.type), value)[0] != 0
    ),
}


def advice(value: Value, wanted: ElementType) -> str:
    with pytest.raises(nvb.DiagnosticError, match=f"expected {wanted}, but the value is {value.type}") as caught:
        as_value(value._k, value, wanted)
    (found,) = caught.value.diagnostics
    return found.fix


@pytest.mark.parametrize("given", [*PLAIN, *PAIRS, pred], ids=str)
def test_a_value_becomes_what_is_wanted_as_advised(given: ElementType) -> None:
    """By one call where there is one; a pair keeps its bits, or is made of two numbers; others are bytes."""
    k = nvb.KernelBuilder(
        "k", "sm_100a", threads=32, parameters=[Parameter("x", Pointer(i32 if given is pred else given))]
    )
    value = k.arguments[0][0] > 0 if given is pred else k.arguments[0][0]
    for wanted in [*ELEMENT_TYPES, *PAIRS, pred]:
        if wanted is given:
            continue
        fix = advice(value, wanted)
        called = [call for text, call in CALLS.items() if text.format(wanted=wanted, given=given) in fix]
        assert [call(k, value, wanted).type for call in called] == [wanted] * len(called), fix
        pairs = (wanted in PAIRS) + (given in PAIRS)
        packed = wanted is not pred and not pairs and is_packed(wanted)
        one_call = wanted is pred or (wanted.bits == given.bits if pairs else not packed)
        assert len(called) == (one_call and pairs < 2), fix
        assert (f'use "{given}"' in fix) is (pairs == 2), fix
        assert ("makes a pair of two numbers" in fix) is (pairs == 1 and not one_call), fix
        assert ("pointer.cast(nvb.u8)" in fix) is packed, fix
        floats = not pairs and wanted.is_integer and given is not pred and not given.is_integer
        assert (".bitcast(...)" in fix) is floats, fix
