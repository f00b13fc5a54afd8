"""With-blocks that were never entered, torn, or open at the end: refused by whoever finishes the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError, i32

Mistake = Callable[[Any], object]
"""Uses a builder wrongly; what it returns must live until the function is finished."""


def never_entered(k: Any) -> None:
    k.if_(k.thread_id() < 32)


def open_at_the_end(k: Any) -> object:
    block = k.if_(k.thread_id() < 32)
    block.__enter__()
    return block


def torn(k: Any) -> None:
    try:
        with k.if_(k.thread_id() < 32):
            raise KeyError
    except KeyError:
        pass


def of_a_kernel(mistake: Mistake) -> None:
    k = nvb.KernelBuilder("own", "sm_90a", threads=64)
    _kept = mistake(k)
    k.finish()


def of_an_attached_builder(mistake: Mistake) -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "own")
    builder = ir.IRBuilder(function.append_basic_block())
    k = nvb.attach(builder, "sm_90a", threads=64)
    _kept = mistake(k)
    if not builder.block.is_terminated:
        builder.ret_void()
    for block in function.blocks:
        if not block.is_terminated:
            ir.IRBuilder(block).unreachable()
    k.verify()


def of_an_exported_function(mistake: Mistake) -> None:
    kept = []

    @nvb.function
    def own(k, x: i32):
        kept.append(mistake(k))

    own.compile("sm_90a", threads=64)


def of_a_called_function(mistake: Mistake, *, inline: bool = False) -> None:
    kept = []

    @nvb.function(inline=inline)
    def own(k, x: i32):
        kept.append(mistake(k))

    k = nvb.KernelBuilder("caller", "sm_90a", threads=64)
    own(k, 1)
    k.finish()


def of_a_function_in_place(mistake: Mistake) -> None:
    of_a_called_function(mistake, inline=True)


FINISHED = [
    of_a_kernel,
    of_an_attached_builder,
    of_an_exported_function,
    of_a_called_function,
    of_a_function_in_place,
]


def test_of_blocks_that_an_error_leaves_the_one_is_named_in_which_it_was_raised() -> None:
    k: Any = nvb.KernelBuilder("own", "sm_90a", threads=64)
    for error, inner in ((KeyError, "if"), (ValueError, "range")):
        with pytest.raises((KeyError, DiagnosticError)), k.range(3), k.if_(k.thread_id() < 32):
            raise error(inner)
        with pytest.raises(DiagnosticError, match=r"the if block(.|\n)*KeyError") as caught:
            k.thread_id()
        assert caught.value.diagnostics[0].rule_id == "control.torn"


RULES = {never_entered: "control.not-entered", open_at_the_end: "control.open", torn: "control.torn"}


@pytest.mark.parametrize("finished", FINISHED, ids=lambda finished: finished.__name__)
@pytest.mark.parametrize("mistake", RULES, ids=lambda mistake: mistake.__name__)
def test_a_block_that_is_not_whole_is_refused(finished: Callable[[Mistake], None], mistake: Mistake) -> None:
    with pytest.raises(DiagnosticError) as caught:
        finished(mistake)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == RULES[mistake]
