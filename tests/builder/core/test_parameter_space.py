"""How many parameters a kernel takes: each at a multiple of its alignment, 32,764 bytes in all (PTX ISA 11.2.1)."""

from __future__ import annotations

import itertools

import pytest

import nvbackend as nvb
from nvbackend import f16, u8, u16, u32, u64
from nvbackend.builder.core.parameters import check_parameters
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap

MOST = 32764
MAP, POINTER = TensorMap(f16, box=(64, 64)), Pointer(f16)
SIZES = {id(MAP): (128, 64), id(POINTER): (8, 8)}
MIXES = [
    (MAP, Scalar(u8)),
    (Scalar(u32), POINTER),
    (Scalar(u8), Scalar(u64), Scalar(u16), MAP),
    (POINTER,),
    (Scalar(f16), Scalar(u8), Scalar(u32)),
]


def end(kinds: list[object]) -> int:
    """Where the last byte is, found by trying one place after another."""
    place = 0
    for kind in kinds:
        size, align = SIZES[id(kind)] if id(kind) in SIZES else (kind.element.bits // 8,) * 2  # type: ignore[attr-defined]
        while place % align:
            place += 1
        place += size
    return place


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: f"{len(mix)} kinds")
def test_as_many_as_there_is_room_for(mix: tuple[object, ...]) -> None:
    low, high = 1, 40000
    whole = [*itertools.islice(itertools.cycle(mix), high)]
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if end(whole[:middle]) <= MOST else (low, middle - 1)
    parameters = [Parameter(f"p{place}", kind) for place, kind in enumerate(whole[: low + 1])]  # type: ignore[arg-type]
    check_parameters("k", parameters[:low])
    with pytest.raises(nvb.DiagnosticError, match=f"these are {end(whole[: low + 1])}"):
        check_parameters("k", parameters)
