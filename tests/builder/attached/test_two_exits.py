"""Two ends of one block: no thread reaches the second, in an owner's function as in a kernel."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError
from nvbackend.builder.kernel.kernel import TRIPLE, KernelBuilder

EXITS: dict[str, Callable[[KernelBuilder], None]] = {
    "return": lambda k: k.return_(),
    "break": lambda k: k.break_(),
    "continue": lambda k: k.continue_(),
}


def end_twice(
    k: KernelBuilder, first: Callable[[KernelBuilder], None], second: Callable[[KernelBuilder], None]
) -> None:
    with k.range(4), k.if_(k.thread_id() < 7):
        first(k)
        second(k)


def attached() -> KernelBuilder:
    module = ir.Module("owner")
    module.triple = TRIPLE
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "own")
    return nvb.attach(ir.IRBuilder(function.append_basic_block("entry")), "sm_90a", threads=128)


@pytest.mark.parametrize("made", [attached, lambda: KernelBuilder("own", "sm_90a", threads=128)])
@pytest.mark.parametrize(("first", "second"), [*product(EXITS, repeat=2)])
def test_a_second_end_is_not_reached(first: str, second: str, made: Callable[[], KernelBuilder]) -> None:
    k = made()
    with pytest.raises(DiagnosticError) as caught:
        end_twice(k, EXITS[first], EXITS[second])
    assert [each.rule_id for each in caught.value.diagnostics] == ["control.unreachable"]
