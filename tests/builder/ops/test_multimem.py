"""multimem from the builder: what the calls emit, and what they refuse. No GPU runs them: they take several."""

from __future__ import annotations

import re

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import f16, f32, u32
from nvbackend.signature import Parameter, Pointer
from tests.support.said import rule_here


class Using:
    """A kernel with a pointer to f32 and one to u32."""

    def __init__(self, target="sm_90a"):
        parameters = [Parameter("floats", Pointer(f32)), Parameter("words", Pointer(u32))]
        self.k = KernelBuilder("use", target, threads=32, parameters=parameters)
        self.floats, self.words = self.k.arguments

    def ptx(self):
        return re.sub(r"[ \t]+", " ", self.k.finish().compile().ptx)


def test_a_vector_is_loaded_combined_and_stored():
    u = Using()
    k = u.k
    total = k.multimem.load_reduce(u.floats, "add", "f32", 4, order=("acquire", "sys"))
    k.multimem.store(u.floats, [value * 2.0 for value in total], "f32", 4, order=("release", "sys"))
    k.multimem.reduce(u.words, "max", [k.thread_id()], "s32")
    text = u.ptx()
    (loaded,) = re.findall(r"multimem\.ld_reduce\.acquire\.sys\.global\.add\.v4\.f32 \{(.*?)\}, \[%rd\d+\];", text)
    (stored,) = re.findall(r"multimem\.st\.release\.sys\.global\.v4\.f32 \[%rd\d+\], \{(.*?)\};", text)
    assert len(set(loaded.split(", "))) == len(set(stored.split(", "))) == 4
    assert set(loaded.split(", ")).isdisjoint(stored.split(", "))
    assert re.search(r"multimem\.red\.global\.max\.s32 \[%rd\d+\], %r\d+;", text)


@pytest.mark.parametrize(
    ("element", "vector", "accumulator", "target", "registers", "kind"),
    [
        ("f16x2", 4, "f32", "sm_90a", 4, "u32"),
        ("bf16", 8, None, "sm_90a", 8, "u16"),
        ("f64", 1, None, "sm_90a", 1, "f64"),
        ("s32", 1, None, "sm_90a", 1, "s32"),
        ("u64", 1, None, "sm_90a", 1, "u64"),
        ("e4m3x4", 4, "f16", "sm_100a", 4, "u32"),
        ("e4m3x2", 8, None, "sm_100a", 8, "u16"),
        ("e4m3", 8, "f16", "sm_100a", 2, "u32"),
    ],
)
def test_registers_that_a_load_gives(element, vector, accumulator, target, registers, kind):
    u = Using(target)
    found = u.k.multimem.load_reduce(u.words, "add", element, vector, accumulator=accumulator)
    assert [str(value.type) for value in found] == [kind] * registers
    u.k.multimem.store(u.words, found, element, vector)
    wide, length = f".acc::{accumulator}" if accumulator else "", f".v{vector}" if vector > 1 else ""
    text = u.ptx()
    assert f"multimem.ld_reduce.global.add{wide}{length}.{element} " in text
    assert f"multimem.st.global{length}.{element} " in text


def test_what_there_is_not_is_refused_at_the_call():
    u = Using()
    k = u.k
    lane = k.thread_id()
    shared = k.shared(f32, 4, align=16)
    for call in (
        lambda: k.multimem.load_reduce(u.floats, "mul", "f32"),
        lambda: k.multimem.load_reduce(u.floats, "max", "f32"),
        lambda: k.multimem.load_reduce(u.floats, "add", "f16"),
        lambda: k.multimem.load_reduce(u.floats, "add", "f32", 8),
        lambda: k.multimem.load_reduce(u.floats, "max", "f16x2", accumulator="f32"),
        lambda: k.multimem.load_reduce(u.floats, "add", "f32", order=("release", "sys")),
        lambda: k.multimem.store(u.words, [lane], "s32", order=("acquire", "gpu")),
        lambda: k.multimem.reduce(u.words, "add", [lane], "s32", order=("weak",)),
        lambda: k.multimem.reduce(u.words, "min", [lane] * 2, "f16x2", 2),
    ):
        assert rule_here(call) == "instruction.variant"
    assert rule_here(lambda: k.multimem.load_reduce(u.floats, "add", "e5m2x4")) == "target.feature"
    assert rule_here(lambda: k.multimem.store(u.floats, [1.0], "f32", 2)) == "multimem.values"
    assert rule_here(lambda: k.multimem.reduce(u.words, "add", [lane] * 2, "s32")) == "multimem.values"
    assert rule_here(lambda: k.multimem.load_reduce(shared, "add", "f32")) == "multimem.address"
    assert rule_here(lambda: k.multimem.store(shared, [1.0], "f32")) == "multimem.address"
    assert rule_here(lambda: k.multimem.store(u.words, [k.const(1.0, f16)], "s32")) == "value.type"
    old = Using("sm_80")
    assert rule_here(lambda: old.k.multimem.store(old.floats, [1.0], "f32")) == "target.feature"
