"""A user's own PTX: what it computes, what is refused, and what the analyses see of it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, bf16, f16, f32, f64, i32, pred, u16, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Asm, Effect, RegisterClass, operand
from nvbackend.intrinsics.row.semantics import writes
from nvbackend.signature import Parameter, Pointer


def run(kernel: nvb.KernelDefinition, *arguments: object) -> None:
    nvb.runtime.load(kernel.compile(), device="simulator").launch(1, *arguments)


def failure(call) -> nvb.Diagnostic:
    with pytest.raises(DiagnosticError) as caught:
        call()
    (diagnostic, *_) = caught.value.diagnostics
    assert diagnostic.location.file == __file__
    return diagnostic


def test_operands_of_every_register() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def every(k, x: nvb.Pointer[f32], y: nvb.Pointer[f64], z: nvb.Pointer[u32], w: nvb.Pointer[f16]):
        i = k.thread_id()
        x[i] = k.ptx("fma.rn.f32 {out}, {a}, {b}, {a};", outputs={"out": f32}, inputs={"a": x[i], "b": x[i] + 1.0})
        y[i] = k.ptx("add.f64 {out}, {a}, {a};", outputs={"out": f64}, inputs={"a": y[i]})
        low, high = k.ptx("mov.b64 {{{l}, {h}}}, {v};", outputs={"l": u32, "h": u32}, inputs={"v": z[i].to(u64) * 5})
        less = k.ptx("setp.lt.u32 {p}, {a}, {n};", outputs={"p": pred}, inputs={"a": low, "n": 40})
        z[i] = k.select(less, low + high, 7)
        w[i] = k.ptx("neg.f16 {d}, {d};", outputs={"d": f16}, inputs={"d": w[i]})

    x, y = np.arange(32, dtype=np.float32), np.arange(32, dtype=np.float64) / 3
    z, w = np.arange(32, dtype=np.uint32), np.arange(32, dtype=np.float16)
    wanted = x * (x + 1) + x, y + y, np.where(z * 5 < 40, z * 5, 7), -w
    run(every, x, y, z, w)
    for found, each in zip((x, y, z, w), wanted, strict=True):
        assert (found == each).all()


def test_memory_of_the_text() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def through(k, x: nvb.Pointer[f32]):
        box = k.shared(f32, 32)
        i = k.thread_id()
        value = k.ptx("ld.global.f32 {v}, [{p}];", outputs={"v": f32}, inputs={"p": x + i}, effects=("reads p",))
        k.ptx("st.shared.f32 [{p}], {v};", inputs={"p": box + i, "v": value}, effects=("writes p",))
        k.barrier.sync()
        x[i] = box[31 - i]

    x = np.arange(32, dtype=np.float32)
    run(through, x)
    assert (x == np.arange(32)[::-1]).all()


def test_the_analyses_see_a_race_of_the_text() -> None:
    @nvb.kernel("sm_90a", threads=128)
    def racing(k, x: nvb.Pointer[f32]):
        box = k.shared(f32, 128)
        i = k.thread_id()
        k.ptx("st.shared.f32 [{p}], {v};", inputs={"p": box + i, "v": x[i]}, effects=("writes p",))
        x[i] = box[127 - i]

    with pytest.raises(DiagnosticError) as caught:
        racing.build()
    assert [each.rule_id for each in caught.value.diagnostics] == ["shared.missing-barrier"]


def wrong(text: str, **options):
    k = KernelBuilder("wrong", options.pop("target", "sm_90a"), threads=32, parameters=[Parameter("x", Pointer(f32))])
    (x,) = k.arguments
    values = {"x": x, "s": k.shared(f32, 8), "i": k.thread_id(), "v": x[0], "h": x[0].to(bf16), "n": 3}
    wanted = options.pop("inputs", ())
    before = str(k.function)
    found = failure(lambda: k.ptx(text, inputs={name: values.get(name, name) for name in wanted}, **options))
    assert str(k.function) == before
    return found


@pytest.mark.parametrize(
    ("rule", "text", "inputs", "options"),
    [
        ("ptx.operand", "mov.b32 {d}, {a};", ("v",), {"outputs": {"d": f32}}),
        ("ptx.operand", "mov.b32 {d}, 1;", ("v",), {"outputs": {"d": f32}}),
        ("ptx.operand", "mov.b32 {d, 1;", (), {"outputs": {"d": f32}}),
        ("ptx.operand", "mov.b32 {d}, 1;", (), {"outputs": {"d": nvb.u8}}),
        ("ptx.operand", "mov.b32 {d}, 1;", (), {"outputs": {"d": 3}}),
        ("ptx.operand", "add.u32 {d}, {d}, {i};", ("i",), {"outputs": {"d": u32}}),
        ("ptx.operand", "{{ .reg .b32 t; add.u32 {d}, t, {i}; }}", ("i",), {"outputs": {"d": u32}}),
        ("ptx.operand", "{{ .reg .pred p; @p mov.u32 {d}, {i}; mov.u32 {d}, 1; }}", ("i",), {"outputs": {"d": u32}}),
        ("ptx.operand", "add.u32 {v}, {v}, 1;", ("v",), {"outputs": {"v": u32}}),
        ("ptx.operand", "add.u32 {n}, {n}, 1;", ("n",), {"outputs": {"n": u32}}),
        ("ptx.operand", "mov.u32 {n}, {i};", ("i", "n"), {"outputs": {"n": u32}}),
        ("ptx.operand", "add.u32 {d}, {text}, 1;", ("text",), {"outputs": {"d": u32}}),
        ("ptx.operand", "mov.b32 {d}, 1;", (), {"outputs": {"d": f32}, "effects": ("magic",)}),
        ("ptx.operand", "mov.b32 {d}, 1;", (), {"outputs": {"d": f32}, "effects": ("reads q",)}),
        ("ptx.operand", "mov.b32 {d}, 1;", (), {"outputs": {"d": f32}, "clobbers": ("cc",)}),
        ("ptx.syntax", "mov.b32 {d} 1;", (), {"outputs": {"d": f32}}),
        ("ptx.undeclared", "mov.b32 {d}, %r7;", (), {"outputs": {"d": f32}}),
        ("ptxas.error", "addd.f32 {d}, {v}, {v};", ("v",), {"outputs": {"d": f32}}),
        ("ptxas.error", "add.f32 {d}, {v};", ("v",), {"outputs": {"d": f32}}),
        ("ptxas.error", "add.u32 {d}, {v}, {v};", ("v",), {"outputs": {"d": u32}}),
        ("ptxas.error", "tanh.approx.bf16x2 {d}, {i};", ("i",), {"outputs": {"d": u32}, "target": "sm_80"}),
        ("ptx.effects", "ld.global.f32 {d}, [{x}];", ("x",), {"outputs": {"d": f32}}),
        ("ptx.effects", "st.shared.f32 [{s}], {v};", ("s", "v"), {"effects": ("reads s",)}),
        ("ptx.effects", "st.shared.f32 [{s}], {v};", ("s", "v"), {"effects": ("writes",)}),
        ("ptx.effects", "shfl.sync.bfly.b32 {d}, {i}, 1, 31, -1;", ("i",), {"outputs": {"d": u32}}),
        ("ptx.effects", "mov.u32 {d}, %clock;", (), {"outputs": {"d": u32}}),
        ("ptx.instruction", "bar.sync 0;", (), {}),
        ("ptx.instruction", "fence.acq_rel.gpu;", (), {}),
        ("ptx.instruction", "exit;", (), {}),
        ("ptx.instruction", "cp.async.commit_group;", (), {}),
        ("ptx.instruction", "L: mov.b32 {d}, 1;", (), {"outputs": {"d": u32}}),
        ("ptx.instruction", "st.shared.f32 [{s}+4], {v};", ("s", "v"), {"effects": ("writes s",)}),
        ("ptx.instruction", "st.shared.f32 [{i}], {v};", ("i", "v"), {"effects": ("writes i",)}),
    ],
)
def test_what_is_refused(rule: str, text: str, inputs: tuple[str, ...], options: dict[str, object]) -> None:
    assert wrong(text, inputs=inputs, **options).rule_id == rule


def test_the_braces_of_ptx_are_doubled() -> None:
    found = wrong("mov.b64 {d, e}, {n};", inputs=("n",), outputs={"d": u32, "e": u32})
    assert found.fix.endswith("{{{d}, {e}}}")


def test_an_operand_that_is_not_there_is_named_beside_those_that_are() -> None:
    texts = [wrong("mov.b32 {d}, {a};", inputs=("v",), outputs={"d": f32}), wrong("nanosleep.u32 {t};", inputs=())]
    assert ["{a} is not an operand; these are: d, v" in texts[0].message, "these are: none" in texts[1].message] == [
        True
    ] * 2


def test_the_fix_of_effects_is_taken() -> None:
    found = wrong("atom.global.add.f32 {d}, [{x}], {v};", inputs=("x", "v"), outputs={"d": f32})
    assert found.fix == "write effects=('reads x', 'writes x')"
    k = KernelBuilder("right", "sm_90a", threads=32, parameters=[Parameter("x", Pointer(f32))])
    (x,) = k.arguments
    k.ptx(
        "atom.global.add.f32 {d}, [{x}], {v};",
        outputs={"d": f32},
        inputs={"x": x, "v": k.const(1.0, f32)},
        effects=("reads x", "writes x"),
    )
    k.compile()


def test_a_pure_statement_is_dropped_and_a_volatile_one_stays() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def unused(k, x: nvb.Pointer[f32]):
        k.ptx("sqrt.approx.f32 {d}, {v};", outputs={"d": f32}, inputs={"v": x[0]})
        k.ptx("mov.u32 {d}, %clock;", outputs={"d": u32}, effects=("volatile",))

    ptx = unused.compile().ptx
    assert "sqrt" not in ptx
    assert "%clock" in ptx


def test_registers_of_its_own_and_signs_of_llvm() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def scoped(k, x: nvb.Pointer[u32]):
        i = k.thread_id()
        text = "{{ .reg .b32 $t; add.u32 $t, {a}, {n}; mul.lo.u32 {d}, $t, 3; }}"
        x[i] = k.ptx(text, outputs={"d": u32}, inputs={"a": x[i], "n": 5})
        x[i] = k.ptx(text, outputs={"d": u32}, inputs={"a": x[i], "n": -5})

    x = np.arange(32, dtype=np.uint32) + 10
    wanted = ((x + 5) * 3 - 5) * 3
    run(scoped, x)
    assert (x == wanted).all()


def test_it_is_in_the_machine_form_and_the_report() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def shown(k, x: nvb.Pointer[i32]):
        x[0] = k.ptx("popc.b32 {d}, {a};", outputs={"d": i32}, inputs={"a": x[0]})

    compiled = shown.compile()
    assert re.search(r"^  popc.b32 d=%\S+, a=%\S+$", str(compiled.machine), re.MULTILINE)
    assert compiled.selected["popc.b32"] == 1


def test_values_go_out_to_llvm_and_come_back() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def outside(k, x: nvb.Pointer[u32]):
        i = k.thread_id()
        doubled = k.llvm.shl(x[i].ir, x[i].ir.type(1))
        x[i] = k.value(doubled, u32)
        assert failure(lambda: k.value(doubled, f32)).rule_id == "value.llvm-type"
        assert k.value(k.llvm.trunc(doubled, k.const(0, u16).ir.type), u16).type is u16

    x = np.arange(32, dtype=np.uint32)
    run(outside, x)
    assert (x == 2 * np.arange(32)).all()


def test_a_row_of_the_user_is_judged_like_the_catalogues() -> None:
    """Its gate keeps it from other chips, and the analyses go by its semantics."""
    row = nvb.Row(
        family="mine",
        opcode="st.shared.mine",
        ptx="st.shared.b32",
        operands=(operand("p", RegisterClass.SHARED), operand("v", RegisterClass.B32)),
        lowering=Asm("{ptx} [{p}], {v};"),
        requires=Feature.SM_90,
        effects=Effect.WRITES_MEMORY,
        semantics=nvb.Semantics(memory=(writes("p", 4),)),
    )

    def body(k, x: nvb.Pointer[u32]):
        box = k.shared(u32, 128)
        i = k.thread_id()
        k.instruction(row, p=box + i, v=x[i])
        x[i] = box[127 - i]

    def refused(target: str) -> list[str]:
        with pytest.raises(DiagnosticError) as caught:
            nvb.kernel(target, threads=128)(body).build()
        return [each.rule_id for each in caught.value.diagnostics]

    assert refused("sm_90a") == ["shared.missing-barrier"]
    assert refused("sm_80") == ["target.feature"]
