"""A mistake that verify finds in a function that holds `k` shows the lines that led there, as in a kernel."""

from __future__ import annotations

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError, Location, f32
from nvbackend.builder.kernel.kernel import TRIPLE


def attached() -> tuple[nvb.KernelBuilder, ir.IRBuilder]:
    module = ir.Module("owner")
    module.triple = TRIPLE
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "own")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    return nvb.attach(builder, "sm_90a", threads=128), builder


def mirrored(k: nvb.KernelBuilder, box: nvb.Address) -> None:
    box[k.thread_id()] = 1.0
    box[127 - k.thread_id()].to(nvb.f16)


def halfway(k: nvb.KernelBuilder) -> None:
    mirrored(k, k.shared(f32, 128))


def place_of_the_mistake(*, states: bool) -> Location:
    k, builder = attached()
    if states:
        with k.location("model.dsl", 7):
            halfway(k)
    else:
        halfway(k)
    builder.ret_void()
    with pytest.raises(DiagnosticError) as caught:
        k.verify()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "shared.missing-barrier"
    assert found.location is not None
    return found.location


def test_the_lines_that_led_to_a_mistake_are_its_callers() -> None:
    place = place_of_the_mistake(states=False)
    assert [place.source, *(each.source for each in place.callers)][:3] == [
        "box[127 - k.thread_id()].to(nvb.f16)",
        "mirrored(k, k.shared(f32, 128))",
        "halfway(k)",
    ]


def test_a_stated_place_is_called_from_pythons() -> None:
    place = place_of_the_mistake(states=True)
    assert (place.file, place.line) == ("model.dsl", 7)
    assert [each.function for each in place.callers][:3] == ["mirrored", "halfway", "place_of_the_mistake"]
