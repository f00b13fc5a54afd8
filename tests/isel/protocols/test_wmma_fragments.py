"""Wmma on the machine form: what single `emit` calls put together, held to the rules of the builder's own calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.mma import wmma
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import bf16, f16, f32, s8, u8
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target
from nvbackend.isel.verify.verify import verify
from nvbackend.signature import Parameter, Pointer

CUBE, FLAT, TALL = (16, 16, 16), (32, 8, 16), (8, 32, 16)
Registers = list[Any]


class Emitted:
    """A kernel of one warp whose wmma instructions are emitted one by one."""

    def __init__(self) -> None:
        parameters = [Parameter("memory", Pointer(f32, align=32))]
        self.k: Any = KernelBuilder("k", "sm_90a", threads=32, parameters=parameters)
        self.address = self.k.arguments[0].bytes.ir

    def load(self, row: Row, **more: Any) -> Registers:
        loaded: Registers = self.k.emit(row, {"address": self.address, **more})["fragment"]
        return loaded

    def mma(self, row: Row, a: Registers, b: Registers, c: Registers) -> Registers:
        product: Registers = self.k.emit(row, {"a": a, "b": b, "c": c})["d"]
        return product

    def store(self, row: Row, fragment: Registers, **more: Any) -> None:
        self.k.emit(row, {"address": self.address, "fragment": fragment, **more})

    def found(self) -> list[tuple[str, str]]:
        try:
            self.k.finish()
        except DiagnosticError as error:
            return [(one.rule_id, one.message) for one in error.diagnostics if function_of(one.location)]
        return []


def function_of(place: Any) -> str:
    """The method of Emitted that stands at a place."""
    methods = (Emitted.load, Emitted.mma, Emitted.store)
    lines = {one.__name__: inspect.getsourcelines(one) for one in methods}
    return next(name for name, (text, first) in lines.items() if first <= place.line < first + len(text))


def load(fragment: str, element: Any = f16, shape: Any = CUBE, layout: str = "row") -> Row:
    return wmma.load(fragment, shape, element, layout, None, strided=False)


MULTIPLY = wmma.mma(CUBE, f16, f32, f32, ("row", "row"))
A, B, C = load("a"), load("b"), load("c", f32)
STORE = wmma.store(CUBE, f32, "row", None, strided=False)


def test_what_fits_passes_whatever_the_layouts_of_c_and_d() -> None:
    u = Emitted()
    a, b, c = u.load(A), u.load(B), u.load(load("c", f32, layout="col"))
    d = u.mma(MULTIPLY, a, b, u.mma(MULTIPLY, a, b, c))
    u.store(STORE, d)
    u.store(STORE, c)
    assert u.found() == []


def test_what_ordinary_code_made_is_not_looked_at() -> None:
    u = Emitted()
    halves = [u.k.core.wrap(one, nvb.u32) for one in u.load(A)]
    b = [(one ^ 0x8000_8000).ir for one in halves]
    u.store(STORE, u.mma(MULTIPLY, u.load(A), b, u.load(C)))
    assert u.found() == []


WRONG: list[tuple[Callable[[Emitted], object], str]] = [
    (
        lambda u: u.mma(MULTIPLY, u.load(B), u.load(B), u.load(C)),
        "operand A of wmma.mma m16n16k16 is a fragment B of m16n16k16 f16 row",
    ),
    (
        lambda u: u.mma(MULTIPLY, u.load(load("a", layout="col")), u.load(B), u.load(C)),
        "operand A of wmma.mma m16n16k16 is a fragment A of m16n16k16 f16 col",
    ),
    (
        lambda u: u.mma(MULTIPLY, u.load(A), u.load(load("b", layout="col")), u.load(C)),
        "operand B of wmma.mma m16n16k16 is a fragment B of m16n16k16 f16 col",
    ),
    (
        lambda u: u.mma(MULTIPLY, u.load(load("a", shape=FLAT)), u.load(B), u.load(C)),
        "operand A of wmma.mma m16n16k16 is a fragment A of m32n8k16 f16 row",
    ),
    (
        lambda u: u.mma(MULTIPLY, u.load(A), u.load(B), u.load(load("c", f32, FLAT))),
        "operand C of wmma.mma m16n16k16 is an accumulator of m32n8k16 f32",
    ),
    (
        lambda u: u.mma(INTEGER_MMA, *map(u.load, INTEGERS)),
        "operand B of wmma.mma m16n16k16 is a fragment B of m16n16k16 u8 col",
    ),
    (
        lambda u: u.store(TALL_STORE, u.mma(MULTIPLY, *map(u.load, (A, B, C)))),
        "operand D of wmma.store m8n32k16 is an accumulator of m16n16k16 f32",
    ),
]
INTEGER_MMA = wmma.mma(CUBE, s8, nvb.s32, nvb.s32, ("row", "col"))
INTEGERS = (load("a", s8), load("b", u8, layout="col"), load("c", nvb.s32))
TALL_STORE = wmma.store(TALL, f32, "row", None, strided=False)


@pytest.mark.parametrize(("call", "text"), WRONG, ids=[text[:60] for _, text in WRONG])
def test_a_fragment_in_the_wrong_place_is_found(call: Callable[[Emitted], object], text: str) -> None:
    u = Emitted()
    call(u)
    assert u.found() == [("wmma.operand", text)]


def test_the_note_says_where_the_fragment_was_made() -> None:
    u = Emitted()
    wrong = u.load(B)
    u.mma(MULTIPLY, wrong, u.load(B), u.load(C))
    with pytest.raises(DiagnosticError) as error:
        u.k.finish()
    (found,) = error.value.diagnostics
    ((text, place),) = found.notes
    assert text == "it is made here"
    assert (function_of(place), function_of(found.location)) == ("load", "mma")


def test_constant_strides_are_checked_again() -> None:
    u = Emitted()
    strided = wmma.load("a", CUBE, bf16, "row", None, strided=True)
    u.load(strided, stride=20)
    u.load(strided, stride=24)
    u.store(wmma.store(CUBE, f32, "row", None, strided=True), u.load(C), stride=8)
    assert [rule for rule, _ in u.found()] == ["wmma.stride", "wmma.overlap"]


@pytest.mark.parametrize(("align", "rules"), [(16, ["wmma.alignment"]), (32, []), (None, [])])
def test_a_promised_alignment_is_checked_again(align: int | None, rules: list[str]) -> None:
    known = {} if align is None else {facts.ALIGNMENT: align}
    function = MachineFunction("k", Target.parse("sm_90a"))
    function.block("entry").instructions.append(MachineInstr(A.opcode, A, facts=known))
    assert [one.rule_id for one in verify(function)] == rules


def test_the_builders_calls_say_what_the_machine_form_is_checked_by() -> None:
    k: Any = KernelBuilder("k", "sm_90a", threads=32, parameters=[Parameter("memory", Pointer(f16, align=32))])
    k.wmma.load("a", "m16n16k16", f16, k.arguments[0], stride=24)
    held = k.wmma.load("c", "m16n16k16", f16, k.arguments[0], stride=24)
    k.wmma.store(k.arguments[0], held, stride=24)
    moved = [one for one in k.finish().machine.instructions() if one.row is not None]
    assert [dict(one.facts) for one in moved] == [{facts.ALIGNMENT: 32, facts.STRIDE: 24}] * 3
