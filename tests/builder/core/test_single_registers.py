"""A register that is given in a list of its own: the analyses and the assembler see what they see of the register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nvbackend import f16, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.copy import cp_async, matrix_move
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.signature import Parameter, Pointer

Scene = tuple[KernelBuilder, Any, Any]
"""A kernel, a tile and an mbarrier of its own."""
COPY = next(row for row in cp_async.rows() if row.opcode == "cp.async")
LDMATRIX = next(row for row in matrix_move.rows() if row.opcode == "ldmatrix")
CASES: dict[str, tuple[Row, Callable[[Scene], dict[str, Any]]]] = {
    "a parity": (mbarrier.try_wait_parity(), lambda s: {"barrier": s[2].bytes.ir, "parity": s[0].const(0, i32).ir}),
    "arrivals": (mbarrier.arrive(), lambda s: {"barrier": s[2].bytes.ir}),
    "a place": (LDMATRIX, lambda s: {"address": (s[1] + s[0].lane_id() * 8).bytes.ir}),
    "a copy": (
        COPY,
        lambda s: {"destination": (s[1] + s[0].lane_id() * 8).bytes.ir, "source": s[0].arguments[0].pointer()},
    ),
}


def built(name: str, given: Callable[[Any], Any]) -> tuple[str, list[Any], str]:
    """The machine form, what is known of its instructions, and the PTX."""
    k = KernelBuilder("single", "sm_90a", threads=32, parameters=[Parameter("x", Pointer(f16, align=16))])
    tile, barrier = k.shared(f16, 32 * 8, align=128), k.mbarrier.array(2, arrivals=32)
    k.mbarrier.ready()
    row, operands = CASES[name]
    immediates = {operand.name: 16 for operand in row.immediates}
    k.emit(row, {**{key: given(value) for key, value in operands((k, tile, barrier)).items()}, **immediates})
    done = k.finish(check=False)
    known = [(one.memory, one.facts, one.sources, one.words) for one in done.machine.instructions()]
    return str(done.machine), known, done.compile(assemble=False).ptx


@pytest.mark.parametrize("name", CASES)
def test_a_list_of_one_register_is_that_register(name: str) -> None:
    alone = built(name, lambda value: value)
    assert built(name, lambda value: [value]) == alone
    assert built(name, lambda value: (value,)) == alone
    _, known, _ = alone
    assert any(memory for memory, *_ in known), "the place is known"
