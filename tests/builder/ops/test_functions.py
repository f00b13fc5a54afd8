"""Functions of f32 and atomics: the instructions that they become, and those that ptxas takes."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import f32, f64, i32, i64, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import ELEMENT_TYPES, pred
from nvbackend.signature import Parameter, Pointer

SPELLED = {
    "exp2": "ex2.approx.f32",
    "log2": "lg2.approx.f32",
    "sqrt": "sqrt.rn.f32",
    "rsqrt": "rsqrt.approx.f32",
    "reciprocal": "rcp.approx.ftz.f32",
}


def build(element, body, target="sm_90a"):
    k = KernelBuilder("functions", target, threads=32, parameters=[Parameter("x", Pointer(element))])
    body(k, k.arguments[0])
    return k.compile()


@pytest.mark.parametrize("name", SPELLED)
@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_120a"])
def test_a_function_is_one_instruction(name, target):
    def body(k, x):
        x[0] = getattr(k.math, name)(x[0])

    lines = [line.split()[0] for line in build(f32, body, target).ptx.splitlines() if line.startswith("\t")]
    begin, end = (next(at for at, word in enumerate(lines) if word.startswith(f"{op}.global")) for op in ("ld", "st"))
    assert lines[begin + 1 : end] == [SPELLED[name]]


@pytest.mark.parametrize("name", ["exp2", "log2"])
def test_approximate_forms_are_of_f32(name):
    with pytest.raises(nvb.DiagnosticError, match=rf"k\.math\.{name}\(approx=True\) is not defined for f64") as caught:
        build(f64, lambda k, x: getattr(k.math, name)(x[0], approx=True))
    assert caught.value.diagnostics[0].rule_id == "value.operation"


ATOMICS = [
    *(
        (element, name)
        for element in (i32, u32, i64, u64)
        for name in ("add", "min", "max", "exch", "and", "or", "xor")
    ),
    *((f32, "add"), (f64, "add")),
]


@pytest.mark.parametrize(("element", "name"), ATOMICS, ids=str)
def test_an_atomic_is_one_instruction(element, name):
    def body(k, x):
        x[1] = x.atomic(name, x[0])

    (found,) = re.findall(r"atom\S*", build(element, body).ptx)
    kind = {"and": "b", "or": "b", "xor": "b", "exch": "b"}.get(name, "")
    letter = kind or str(element)[0] if name != "add" else "u" if element.is_integer else "f"
    assert found == f"atom.global.{name}.{letter}{element.bits}"


@pytest.mark.parametrize("element", [one for one in ELEMENT_TYPES if one.bits >= 8 and one is not pred], ids=str)
def test_atomics_that_there_are_not(element):
    x = KernelBuilder("k", "sm_90a", threads=32, parameters=[Parameter("x", Pointer(element))]).arguments[0]
    for name in ("add", "min", "max", "exch", "and", "or", "xor", "inc", "nand", ""):
        if (element, name) not in ATOMICS:
            with pytest.raises(nvb.DiagnosticError) as caught:
                x.atomic(name, 1)
            assert [one.rule_id for one in caught.value.diagnostics] == ["memory.atomic"]


def test_an_atomic_in_shared_memory_is_an_access_for_the_analyses():
    def body(k, x):
        k.shared(i32, 1).atomic("add", 1)

    k = KernelBuilder("shared", "sm_90a", threads=32)
    body(k, None)
    opcodes = [one.opcode for one in k.finish(check=False).machine.instructions()]
    assert [one for one in opcodes if "shared" in one] == ["atom.shared"]


def test_arithmetic_shows_what_an_address_is_a_multiple_of():
    """A step of a known multiple keeps that much of the alignment, however it is written."""

    def body(k, x):
        t = k.thread_id()
        assert (x + t * 4).align == 16
        assert (x + t).align == 4
        assert (x + (t * 8 + 2)).align == 8
        assert (x + (t << 1)).align == 8
        assert (x + 3).align == 4
        assert (x + 0).align == 16
        assert x.byte_offset(t * 6).align == 2
        assert (k.shared(f32, 512, align=128) + t * 12).align == 16
        (x + t * 64 * 5).load(4)
        pitch = (k.block_id() * 8 + 16).to(i64) << 1
        assert (x + t.to(i64) * pitch).align == 16
        assert (x + (t & ~3)).align == 16
        assert (x + (t & 1)).align == 4
        assert (x + ((t * 4) ^ 8)).align == 16
        assert (x + ((t * 4) ^ 2 | 4)).align == 8
        assert (x + k.select(t == 0, 0, t * 2)).align == 8
        assert (x + k.select(t == 0, 1, t * 2)).align == 4
        assert (x + t // 4 * 4).align == 16
        assert (x + t % 4).align == 4

    build(f32, body)
