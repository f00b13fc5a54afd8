"""wmma as a user writes it: what is legal compiles and assembles, and each mistake is reported at its line."""

from __future__ import annotations

import inspect
import re

import pytest

import nvbackend as nvb
from nvbackend import b1, bf16, f16, f32, f64, s4, s8, s32, tf32, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.fragments.wmma import contiguous
from nvbackend.intrinsics.mma import wmma
from nvbackend.isel.operands.wmma import address_violations, stride_violations
from nvbackend.signature import Parameter, Pointer, Scalar

CUBE = "m16n16k16"


class Scene:
    """A kernel of one warp with an address of f16, one of f32, and fragments of them."""

    def __init__(self, target="sm_90a"):
        parameters = [
            Parameter("a", Pointer(f16, align=32)),
            Parameter("c", Pointer(f32, align=32)),
            Parameter("raw", Scalar(u64)),
            Parameter("n", Scalar(nvb.i32)),
        ]
        self.k = KernelBuilder("scene", target, threads=32, parameters=parameters)
        self.a, self.c, self.raw, self.n = self.k.arguments

    def fragments(self, shape=CUBE):
        a = self.k.wmma.load("a", shape, f16, self.a)
        b = self.k.wmma.load("b", shape, f16, self.a, layout="col")
        c = self.k.wmma.load("c", shape, f32, self.c)
        return a, b, c

    def ptx(self):
        compiled = self.k.compile(check=False)
        assert compiled.cubin is not None
        return compiled.ptx


def names(ptx):
    return re.findall(r"\bwmma\.\S+", ptx)


def test_load_multiply_store():
    s = Scene()
    s.k.wmma.store(s.c, s.k.wmma.mma(*s.fragments()))
    assert names(s.ptx()) == [
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16",
        "wmma.load.b.sync.aligned.col.m16n16k16.global.f16",
        "wmma.load.c.sync.aligned.row.m16n16k16.global.f32",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
        "wmma.store.d.sync.aligned.row.m16n16k16.global.f32",
    ]


def test_an_accumulator_is_carried_by_a_loop():
    s = Scene()
    acc = s.k.wmma.accumulator(CUBE)
    a, b, _ = s.fragments()
    with s.k.range(s.n):
        acc.set(s.k.wmma.mma(a, b, acc))
    s.k.wmma.store(s.c, acc.map(lambda value: value * 2.0), layout="col", stride=16)
    ptx = s.ptx()
    loop = ptx[ptx.index("wmma.mma") :].split(";")[0]
    d, *_, c = re.findall(r"\{.*?\}", loop)
    assert d == c, "the accumulator stays in its registers"
    assert "wmma.store.d.sync.aligned.col.m16n16k16.global.f32" in ptx
    assert ptx.count("add.rn.f32") == acc.count == 8


def test_state_spaces_follow_the_address():
    s = Scene()
    shared = s.k.shared(f16, 256, align=32)
    a = s.k.wmma.load("a", CUBE, f16, shared)
    b = s.k.wmma.load("b", CUBE, f16, s.raw, stride=s.n)
    d = s.k.wmma.mma(a, b, s.k.wmma.accumulator(CUBE, f16, 1.0))
    s.k.wmma.store(shared, d)
    s.k.wmma.store(s.raw, d, stride=24)
    ptx = s.ptx()
    assert names(ptx) == [
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16",
        "wmma.load.b.sync.aligned.row.m16n16k16.f16",
        "wmma.mma.sync.aligned.row.row.m16n16k16.f16.f16",
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.f16",
        "wmma.store.d.sync.aligned.row.m16n16k16.f16",
    ]
    assert str(0x3C003C00) in ptx, "two halves of 1.0"


def test_loads_of_addresses_that_differ_are_not_made_one():
    s = Scene()
    first = s.k.wmma.load("a", CUBE, f16, s.a)
    second = s.k.wmma.load("a", CUBE, f16, s.a + 256)
    b = s.k.wmma.load("b", CUBE, f16, s.a)
    acc = s.k.wmma.accumulator(CUBE)
    s.k.wmma.store(s.c, s.k.wmma.mma(second, b, s.k.wmma.mma(first, b, acc)))
    assert sum("load.a" in name for name in names(s.ptx())) == 2


KINDS = [
    (CUBE, f16, f16, {}),
    ("m8n32k16", f16, f32, {}),
    ("m32n8k16", bf16, f32, {}),
    ("m16n16k8", tf32, f32, {}),
    ("m8n8k4", f64, f64, {"rounding": "rz"}),
    (CUBE, s8, s32, {"satfinite": True}),
    ("m8n8k32", s4, s32, {}),
    ("m8n8k128", b1, s32, {"popc": "and"}),
]


@pytest.mark.parametrize(("shape", "element", "result", "options"), KINDS, ids=str)
def test_every_kind_goes_from_memory_to_memory(shape, element, result, options):
    s = Scene()
    a = s.k.wmma.load("a", shape, element, s.a.cast(element))
    b = s.k.wmma.load("b", shape, element, s.a.cast(element), layout="col")
    acc = s.k.wmma.accumulator(shape, result)
    s.k.wmma.store(s.c.cast(result), s.k.wmma.mma(a, b, acc, **options))
    ptx = s.ptx()
    assert [name.split(".")[1] for name in names(ptx)] == ["load", "load", "mma", "store"]
    assert not any(one.startswith("llvm.") for one in ptx.split())


@pytest.mark.parametrize("layouts", [("row", "row"), ("row", "col"), ("col", "row"), ("col", "col")])
def test_layouts_are_those_of_the_loads(layouts):
    s = Scene()
    a, b = (s.k.wmma.load(which, CUBE, f16, s.a, layout=one) for which, one in zip("ab", layouts, strict=True))
    s.k.wmma.store(s.c, s.k.wmma.mma(a, b, s.k.wmma.accumulator(CUBE)))
    first, second, multiplication, _ = names(s.ptx())
    assert (first.split(".")[5], second.split(".")[5]) == layouts
    assert f".aligned.{'.'.join(layouts)}.{CUBE}." in multiplication


@pytest.mark.parametrize("loaded", ["row", "col"])
@pytest.mark.parametrize("stored", ["row", "col"])
def test_layouts_of_c_and_d_are_their_own(loaded, stored):
    s = Scene()
    a, b, _ = s.fragments()
    c = s.k.wmma.load("c", CUBE, f32, s.c, layout=loaded)
    s.k.wmma.store(s.c, s.k.wmma.mma(a, b, c), layout=stored)
    found = [one.split(".")[1:6:4] for one in names(s.ptx()) if ".c." in one or ".d." in one]
    assert found == [["load", loaded], ["store", stored]]


def test_registers_of_ones_own_make_a_fragment():
    s = Scene()
    a, b, c = s.fragments()
    carried = s.k.wmma.fragment("b", CUBE, f16, b.values(), layout="col")
    sums = s.k.wmma.fragment("c", CUBE, f32, [value + 1.0 for value in c.values()])
    s.k.wmma.store(s.c, s.k.wmma.mma(a, carried, sums))
    assert "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32" in names(s.ptx())


def test_f16_and_f32_accumulators_mix():
    s = Scene()
    a, b, c = s.fragments()
    s.k.wmma.store(s.c.cast(f16), s.k.wmma.mma(a, b, c, f16))
    assert "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32" in names(s.ptx())


def bad_target(s):
    Scene("sm_75").k.wmma.load("a", CUBE, bf16, s.a.cast(bf16))


def bad_shape(s):
    s.k.wmma.load("a", "16x16x16", f16, s.a)


def bad_fragment(s):
    s.k.wmma.load("d", CUBE, f32, s.c)


def bad_fragment_type(s):
    s.k.wmma.load("a", CUBE, tf32, s.a.cast(tf32))


def bad_layout(s):
    s.k.wmma.load("a", "m8n8k32", s4, s.a.cast(s4), layout="col")


def bad_store(s):
    s.k.wmma.store(s.a, s.fragments()[0])


def bad_alignment(s):
    s.k.wmma.load("a", CUBE, f16, s.a + 8)


def bad_stride(s):
    s.k.wmma.load("a", CUBE, f16, s.a, stride=17)


def bad_negative_stride(s):
    s.k.wmma.load("a", CUBE, f16, s.a, stride=-16)


def bad_overlap(s):
    s.k.wmma.store(s.c, s.fragments()[2], stride=8)


def bad_element(s):
    s.k.wmma.load("a", CUBE, f16, s.c)


def bad_place(s):
    a, b, c = s.fragments()
    s.k.wmma.mma(b, a, c)


def bad_accumulator(s):
    a, b, _ = s.fragments()
    s.k.wmma.mma(a, b, a)


def bad_mix_of_shapes(s):
    a, _, c = s.fragments()
    s.k.wmma.mma(a, s.fragments("m8n32k16")[1], c)


def bad_set(s):
    acc = s.k.wmma.accumulator(CUBE, f16)
    acc.set(s.fragments()[2])


def bad_types(s):
    a, b, c = s.fragments()
    s.k.wmma.mma(a, b, c, s32)


def bad_satfinite(s):
    s.k.wmma.mma(*s.fragments(), satfinite=True)


def bad_rounding(s):
    s.k.wmma.mma(*s.fragments(), rounding="rn")


def bad_arity(s):
    a, _, _ = s.fragments()
    s.k.wmma.fragment("a", CUBE, f16, a.values()[:4])


def bad_popc(s):
    s.k.wmma.mma(*s.fragments(), popc="xor")


def bad_position(s):
    s.fragments()[2].position(0, 0)


def bad_fill(s):
    s.k.wmma.accumulator(CUBE, f16, 1e6)


def bad_accumulator_type(s):
    s.k.wmma.accumulator(CUBE, f64)


def bad_generic_address(s):
    s.k.wmma.load("a", CUBE, f16, s.n)


MISTAKES = [
    (bad_target, "wmma.target"),
    (bad_shape, "mma.shape"),
    (bad_fragment, "wmma.fragment"),
    (bad_fragment_type, "wmma.fragment-type"),
    (bad_layout, "wmma.layout"),
    (bad_store, "wmma.fragment"),
    (bad_alignment, "wmma.alignment"),
    (bad_stride, "wmma.stride"),
    (bad_negative_stride, "wmma.stride"),
    (bad_overlap, "wmma.overlap"),
    (bad_element, "wmma.element"),
    (bad_place, "wmma.operand"),
    (bad_accumulator, "wmma.operand"),
    (bad_mix_of_shapes, "wmma.operand"),
    (bad_set, "wmma.operand"),
    (bad_types, "wmma.types"),
    (bad_satfinite, "wmma.satfinite"),
    (bad_rounding, "wmma.rounding"),
    (bad_popc, "wmma.popc"),
    (bad_arity, "wmma.arity"),
    (bad_position, "wmma.opaque"),
    (bad_fill, "value.constant"),
    (bad_accumulator_type, "wmma.fragment-type"),
    (bad_generic_address, "value.type"),
]


@pytest.mark.parametrize(("mistake", "rule"), MISTAKES, ids=[mistake.__name__ for mistake, _ in MISTAKES])
def test_a_mistake_is_told_at_its_line(mistake, rule):
    scene = Scene()
    with pytest.raises(nvb.DiagnosticError) as caught:
        mistake(scene)
    found = caught.value.diagnostics[0]
    assert found.rule_id == rule
    lines, first = inspect.getsourcelines(mistake)
    assert found.location.file == __file__
    assert first < found.location.line < first + len(lines)


def test_texts_name_the_way_out():
    s = Scene()
    with pytest.raises(nvb.DiagnosticError, match=r"multiple of 32 bytes; this one promises 16"):
        bad_alignment(s)
    with pytest.raises(nvb.DiagnosticError, match=r"stride of 17 f16 is 272 bits.*multiples of 8 elements"):
        bad_stride(s)
    with pytest.raises(nvb.DiagnosticError, match=r"use a stride of 16 or 24"):
        bad_stride(s)
    with pytest.raises(nvb.DiagnosticError, match=r"operand A of wmma.mma m16n16k16 is a fragment B .* f16 col"):
        bad_place(s)


@pytest.mark.parametrize(("stride", "fix"), [(3, "use a stride of 8:"), (-9, "use a stride of 8:"), (9, "8 or 16:")])
def test_the_nearest_strides_are_those_that_are_legal(stride: int, fix: str) -> None:
    """No row is 0 or fewer elements long."""
    (found,) = stride_violations("wmma.load", "a", (16, 16, 16), f16, stride, 16)
    assert fix in found.fix


def test_the_isas_own_default_strides_are_legal():
    for row in wmma.rows():
        if row.opcode != "wmma.mma":
            which, shape, element, layout = (row.axes[name] for name in ("fragment", "shape", "element", "layout"))
            extent = contiguous(which, shape, layout)
            assert stride_violations(row.ptx, which, shape, element, extent, extent) == []


def test_the_isas_own_example_of_alignment():
    """PTX ISA 9.7.14.4.2: f16 A of m16n16k16 is a fragment of 32 bytes, and starts at a multiple of it."""
    cube = (16, 16, 16)
    assert address_violations("", "a", cube, f16, f16, 32) == []
    assert [one.rule_id for one in address_violations("", "a", cube, f16, f16, 16)] == ["wmma.alignment"]
    both = address_violations("", "a", cube, f16, u32, 16)
    assert [one.rule_id for one in both] == ["wmma.element", "wmma.alignment"]


def rules_of(call):
    try:
        call()
    except nvb.DiagnosticError as error:
        return [each.rule_id for each in error.diagnostics]
    return []


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("shape", [CUBE, "m32n8k16", "m8n8k4", "m16n16k8", "m8n8k128"])
def test_a_fragment_of_registers_is_one_that_could_be_loaded(target, shape):
    """The same is wrong with both; where nothing is, the fragment has too few registers here."""
    s = Scene(target)
    legal = 0
    for fragment, layout in (("a", "row"), ("b", "col"), ("a", "diagonal"), ("c", "row"), ("d", "row")):
        for element in (f16, bf16, tf32, f32, f64, s8, s32, b1):
            stride = None if fragment == "c" else 256
            loaded = rules_of(lambda: s.k.wmma.load(fragment, shape, element, s.raw, stride=stride, layout=layout))  # noqa: B023
            made = rules_of(lambda: s.k.wmma.fragment(fragment, shape, element, [], layout=layout))  # noqa: B023
            legal += not loaded
            assert made == (loaded or ["wmma.arity"]), (fragment, layout, element)
    assert (legal > 0) == (shape not in ("m16n16k8", "m8n8k4") or target != "sm_75")
