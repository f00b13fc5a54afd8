"""mma.sync as a user writes it: what is legal compiles and assembles, each mistake is reported at its line."""

from __future__ import annotations

import inspect
import re

import pytest

import nvbackend as nvb
from nvbackend import b1, bf16, e2m1, e4m3, f16, f32, f64, s8, s32, tf32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import ue4m3
from nvbackend.signature import Parameter, Pointer
from tests.support.mma_kernel import mma_kernel

F16 = nvb.mma.sync("m16n8k16", f16, f16, f32)
SPARSE = nvb.mma.sync("m16n8k32", f16, f16, f32, sparse=True)
SCALED = nvb.mma.sync("m16n8k64", e2m1, e2m1, f32, kind="mxf4nvf4", scale=ue4m3, scale_vec=4, scale_b_at=(0, 2))


class Scene:
    """A kernel of one warp with a word and an f32 of global memory."""

    def __init__(self, target="sm_90a"):
        parameters = [Parameter("words", Pointer(u32)), Parameter("numbers", Pointer(f32))]
        self.k = KernelBuilder("scene", target, threads=32, parameters=parameters)
        self.words, self.numbers = self.k.arguments
        self.word, self.number = self.words[self.k.thread_id()], self.numbers[self.k.thread_id()]

    def mma(self, request=F16, a=4, b=2, c=4, **operands):
        return self.k.mma.sync(request, [self.word] * a, [self.word] * b, [self.number] * c, **operands)


KINDS = [
    (F16, "sm_80"),
    (nvb.mma.sync("m8n8k4", f16, f16, f32, c=f16, b_layout="row"), "sm_75"),
    (nvb.mma.sync("m16n8k16", bf16, bf16, f32), "sm_90a"),
    (nvb.mma.sync("m16n8k8", tf32, tf32, f32), "sm_90a"),
    (nvb.mma.sync("m16n8k8", f64, f64, f64), "sm_90a"),
    (nvb.mma.sync("m16n8k32", s8, s8, s32, satfinite=True), "sm_90a"),
    (nvb.mma.sync("m16n8k256", b1, b1, s32, popc="and"), "sm_90a"),
    (nvb.mma.sync("m8n8k128", b1, b1, s32, popc="xor"), "sm_75"),
    (nvb.mma.sync("m16n8k32", e4m3, e2m1, f16, kind="f8f6f4"), "sm_120f"),
    (SPARSE, "sm_90a"),
    (SCALED, "sm_120a"),
]


@pytest.mark.parametrize(("request_", "target"), KINDS, ids=lambda value: str(value)[:40])
def test_every_kind_goes_from_registers_to_registers(request_, target):
    compiled = mma_kernel(request_, target=target).compile()
    assert compiled.cubin is not None
    (name,) = re.findall(r"mma\.s\S+", compiled.ptx)
    shape, one = "m{}n{}k{}".format(*request_.instruction.shape), request_.instruction
    assert name.startswith(f"mma.{one.sparsity or 'sync'}")
    assert f".{shape}." in name
    assert f".{one.d}.{one.a}.{one.b}.{one.c}" in name


def test_results_are_values_of_the_accumulator():
    s = Scene()
    integers = s.k.mma.sync(
        nvb.mma.sync("m16n8k16", s8, s8, s32), [s.word] * 2, [s.word], [0, s.word.bitcast(s32), 1, 2]
    )
    assert [value.type for value in integers] == [s32] * 4
    assert [value.type for value in s.mma()] == [f32] * 4
    halves = s.k.mma.sync(nvb.mma.sync("m16n8k8", f16, f16, f16), [s.word] * 2, [s.word], [s.word, s.word])
    assert [value.type for value in halves] == [u32] * 2


def test_tf32_comes_as_the_f32_that_it_is_cut_from():
    s = Scene()
    request = nvb.mma.sync("m16n8k4", tf32, tf32, f32)
    d = s.k.mma.sync(request, [s.number, 1.0], [s.word], [0.0] * 4)
    s.numbers[0] = d[0]
    assert "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32" in s.k.compile().ptx


def test_an_accumulator_is_carried_by_a_loop():
    s = Scene()
    acc = [s.k.var(0.0, f32) for _ in range(4)]
    with s.k.range(s.words[0].bitcast(s32)):
        for register, value in zip(acc, s.k.mma.sync(F16, [s.word] * 4, [s.word] * 2, acc), strict=True):
            register.set(value)
    s.numbers[0] = acc[0].value + acc[3].value
    ptx = s.k.compile().ptx
    d, *_, c = re.findall(r"\{.*?\}", ptx[ptx.index("mma.sync") :].split(";")[0])
    assert d == c, "the accumulator stays in its registers"


def bad_target(s):
    Scene("sm_75").mma()


def bad_ptx_version(s):
    old = Scene(nvb.Target.parse("sm_89", (8, 3)))
    old.mma(nvb.mma.sync("m16n8k32", e4m3, e4m3, f32))


def bad_shape_text(s):
    s.mma(nvb.mma.sync("16x8x16", f16, f16, f32))


def bad_extent(s):
    s.mma(nvb.mma.sync("m16n16k16", f16, f16, f32))


def bad_types(s):
    s.mma(nvb.mma.sync("m16n8k16", f16, bf16, f32))


def bad_selector(s):
    s.mma(nvb.mma.sync("m16n8k32", f16, f16, f32, sparse=True, selector=2), metadata=s.word)


def too_few_registers(s):
    s.mma(a=2)


def too_many_registers(s):
    s.mma(c=8)


def no_metadata(s):
    s.mma(SPARSE, b=4)


def needless_metadata(s):
    s.mma(metadata=s.word)


def no_scale_factors(s):
    Scene("sm_120a").mma(SCALED)


def packed_as_f32(s):
    s.k.mma.sync(F16, [s.number] * 4, [s.word] * 2, [0.0] * 4)


def accumulator_as_words(s):
    s.k.mma.sync(F16, [s.word] * 4, [s.word] * 2, [s.word] * 4)


MISTAKES = {
    bad_target: ["mma.target"],
    bad_ptx_version: ["mma.ptx-version"],
    bad_shape_text: ["mma.shape"],
    bad_extent: ["mma.extent"],
    bad_types: ["mma.types"],
    bad_selector: ["mma.immediate"],
    too_few_registers: ["mma.registers"],
    too_many_registers: ["mma.registers"],
    no_metadata: ["mma.operands"],
    needless_metadata: ["mma.operands"],
    no_scale_factors: ["mma.operands", "mma.operands"],
    packed_as_f32: ["value.type"],
    accumulator_as_words: ["value.type"],
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_told_where_it_is_made(mistake):
    with pytest.raises(nvb.DiagnosticError) as caught:
        mistake(Scene())
    found = caught.value.diagnostics
    assert [one.rule_id for one in found] == MISTAKES[mistake]
    assert {one.location.file for one in found} == {__file__}
    assert all(one.fix for one in found)


def test_the_count_that_is_needed_is_told():
    with pytest.raises(nvb.DiagnosticError) as caught:
        Scene().k.mma.sync(F16, [], [1, 2], [0.0] * 3)
    messages = [one.message for one in caught.value.diagnostics]
    assert messages[0].startswith("A of mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 is 4 registers of u32")
    assert messages[1].startswith("C of")
    assert len(messages) == 2


def test_the_line_is_that_of_the_call():
    lines, first = inspect.getsourcelines(packed_as_f32)
    with pytest.raises(nvb.DiagnosticError) as caught:
        packed_as_f32(Scene())
    (found,) = caught.value.diagnostics
    assert found.location.line == first + len(lines) - 1


REGISTERS = {
    "f16": (nvb.mma.sync("m16n8k8", f16, f16, f32), "a", {"word", 7, "f16x2"}),
    "bf16": (nvb.mma.sync("m16n8k8", bf16, bf16, f32), "b", {"word", 7, "bf16x2"}),
    "tf32": (nvb.mma.sync("m16n8k4", tf32, tf32, f32), "a", {"word", "number", 7, 1.5, "tf32"}),
    "s8": (nvb.mma.sync("m16n8k16", s8, s8, s32), "a", {"word", 7}),
    "s32": (nvb.mma.sync("m16n8k16", s8, s8, s32), "c", {"word", "integer", 7}),
    "f32": (nvb.mma.sync("m16n8k8", f16, f16, f32), "c", {"number", 1.5, 7}),
}
"""An instruction, an operand of it, and what a register of that operand may be given as."""


@pytest.mark.parametrize("kind", REGISTERS)
@pytest.mark.parametrize("given", ["word", "number", "integer", "half", 7, 1.5, "f16x2", "bf16x2", "tf32"])
def test_what_a_register_may_be_given_as(kind, given):
    """Its own bits; pairs of its elements; tf32 as itself or the f32 that it is cut from, s32 as itself; a number."""
    request, name, legal = REGISTERS[kind]
    s = Scene()
    values = {"word": s.word, "number": s.number, "integer": s.word.bitcast(s32), "half": s.word.to(f16)}
    values |= {pair: s.k.convert.pack(pair, s.number, s.number) for pair in ("f16x2", "bf16x2")}
    values["tf32"] = s.k.convert.single(s.number, tf32, rounding="rna")
    value = values.get(given, given)
    sums = s.word if kind in ("s8", "s32") else s.number
    operands = {"a": [s.word] * 2, "b": [s.word], "c": [sums] * 4}
    operands[name] = [value] * len(operands[name])
    if given in legal:
        assert len(s.k.mma.sync(request, *operands.values())) == 4
        return
    with pytest.raises(nvb.DiagnosticError) as caught:
        s.k.mma.sync(request, *operands.values())
    assert {each.rule_id for each in caught.value.diagnostics} <= {"value.type", "value.constant"}
    if kind in ("f16", "bf16") and given in ("f16x2", "bf16x2"):
        assert "bitcast" not in str(caught.value)  # their bits are other numbers
