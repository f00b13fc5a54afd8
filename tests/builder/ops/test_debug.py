"""Prints, assertions, traps and clocks: what the simulator shows, what ptxas takes, and what one switch removes."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import BY_NAME, ElementType
from nvbackend.isel.machine.assertions import DONE, THREAD, WORDS
from nvbackend.isel.target.target import Target
from nvbackend.runtime.launch import raise_failures, watch
from nvbackend.signature import Parameter, Pointer
from tests.support.ptxas import assemble

NARROW = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
}
PLAIN = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "f32", "f64")


def shown(element: ElementType, data: np.ndarray, capsys: pytest.CaptureFixture[str], text: str = "{}") -> list[str]:
    """What each thread prints of its element of `data`, whose bytes are the register's."""
    stored = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}[data.itemsize]
    kind = element if element.bits == 8 * data.itemsize and element.name in PLAIN else BY_NAME[stored]
    count = len(data)
    data = np.resize(data, -(-count // 32) * 32)
    k = KernelBuilder("show", "sm_90a", threads=len(data), parameters=[Parameter("data", Pointer(kind))])
    value = k.arguments[0][k.thread_id()]
    k.print(text, value if kind is element else k.core.wrap(value.ir, element))
    simulated(k, data.view(kind.numpy_dtype()))
    return capsys.readouterr().out.splitlines()[:count]


def simulated(k: KernelBuilder, *arguments: object) -> None:
    nvb.runtime.load(k.compile(assemble=False), device="simulator").launch(1, *arguments)


def same(text: str, number: float) -> bool:
    return math.isnan(number) if "nan" in text else float(text) == number


@pytest.mark.parametrize("name", PLAIN)
def test_every_type_is_printed_as_its_number(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    bits = np.random.default_rng(1).integers(0, 256, 64 * 8, np.uint8)
    data = bits.view(BY_NAME[name].numpy_dtype())[:64].copy()
    for text, number in zip(shown(BY_NAME[name], data, capsys), data.tolist(), strict=True):
        if isinstance(number, int):
            assert int(text) == number
        else:  # the digits tell it from its neighbours
            assert same(text, number) or data.dtype.type(text) == data.dtype.type(number), text


@pytest.mark.parametrize("name", NARROW)
def test_every_number_of_a_narrow_type(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = np.arange(1 << BY_NAME[name].bits, dtype=np.uint8)
    wanted = data.view(NARROW[name]).astype(np.float64)
    printed = shown(BY_NAME[name], data, capsys, "{:.17g}")
    assert len(printed) == len(wanted)
    for text, number in zip(printed, wanted.tolist(), strict=True):
        assert same(text, number), (text, number)


def test_scale_factors_have_no_sign(capsys: pytest.CaptureFixture[str]) -> None:
    data = np.arange(128, dtype=np.uint8)
    wanted = data.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    for text, number in zip(shown(BY_NAME["ue4m3"], data, capsys, "{:.9g}"), wanted.tolist(), strict=True):
        assert same(text, number)


def test_bf16_and_tf32(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = np.array([1.0, -2.5, 3e38, 1e-38], np.float32)
    high = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    exact = (high.astype(np.uint32) << 16).view(np.float32)
    k = KernelBuilder("show", "sm_90a", threads=32, parameters=[Parameter("data", Pointer(BY_NAME["bf16"]))])
    with k.if_(k.thread_id() < 4):
        k.print("{:.9g}", k.arguments[0][k.thread_id()])
    simulated(k, high)
    assert [np.float32(text) for text in capsys.readouterr().out.split()] == exact.tolist()
    assert shown(BY_NAME["tf32"], np.array([0x3F9FFFFF], np.uint32), capsys) == [f"{1.2490234375:.9g}"]


@pytest.mark.parametrize(
    "spec", ["", ":d", ":8d", ":<8d", ":08d", ":+d", ": d", ":x", ":#x", ":08X", ":o", ":.4d", ":>6"]
)
def test_forms_of_integers_are_pythons(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = np.array([0, 7, 12345], np.int32)
    wanted = [f"[{{{spec}}}]".format(number) if "." not in spec else f"[{number:04d}]" for number in numbers.tolist()]
    assert shown(i32, numbers, capsys, f"[{{{spec}}}]") == wanted


@pytest.mark.parametrize("spec", [":f", ":.2f", ":10.3f", ":<10.3e", ":+g", ":08.1f", ":G", ":.3E"])
def test_forms_of_floats_are_pythons(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = np.array([0.0, -1.5, 1234.5678], np.float32)
    assert shown(f32, numbers, capsys, f"[{{{spec}}}]") == [f"[{{{spec}}}]".format(one) for one in numbers.tolist()]


def test_constants_numbers_of_arguments_and_chosen_threads(capsys: pytest.CaptureFixture[str]) -> None:
    @nvb.kernel("sm_90a", threads=64)
    def chosen(k, n: i32):
        thread = k.thread_id()
        k.print("{1}: {0} of {2:>5}%, {{{3}}} é", thread, "here", 50, f32, when=thread % 16 == 3)
        k.print("{} {}", thread < 2, n, when=thread < 3, end="; ")

    nvb.runtime.load(chosen.compile(), device="simulator").launch(1, -5)
    lines = [f"here: {thread} of    50%, {{f32}} é\n" for thread in range(3, 64, 16)]
    first, second = "".join(lines[:2]), "".join(lines[2:])
    assert capsys.readouterr().out in (
        first + "1 -5; 1 -5; 0 -5; " + second,
        first + second + "1 -5; 1 -5; 0 -5; ",
    )


@pytest.mark.parametrize(
    ("text", "values", "problem"),
    [
        ("{} {}", 1, "asks for 2 values and gets 1"),
        ("{}", 2, "shows 1 of 2 values"),
        ("{0} {2}", 3, "shows 2 of 3 values"),
        ("{", 0, "a brace is open"),
        ("{x}", 1, "{x} names a value"),
        ("{!r}", 1, "not a form of a value"),
        ("{:{}}", 2, "{} is not a form of a value"),
        ("{:.3f}", 1, "{:.3f} is not a form of a value of s32"),
        ("{:^9}", 1, "{:^9} is not a form"),
        ("{0} {}", 1, "places with and without numbers"),
        ("a\0b", 0, "zero byte"),
        ("{0}" * 33, 1, "33 values"),
    ],
)
def test_texts_that_do_not_fit_their_values(text: str, values: int, problem: str) -> None:
    k = KernelBuilder("wrong", "sm_90a", threads=32)
    thread = k.thread_id()
    before = str(k.function)
    with pytest.raises(DiagnosticError) as caught:
        k.print(text, *[thread] * values)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "debug.format"
    assert problem in diagnostic.message
    assert str(k.function) == before


@pytest.mark.parametrize("spec", ["", "d", "x", "c", ".2f", "07", ">4"])
@pytest.mark.parametrize("value", [37, -1, 2**40, 1.5, "text"], ids=repr)
def test_what_is_known_at_build_is_shown_as_python_shows_it(spec: str, value: object) -> None:
    k = KernelBuilder("known", "sm_90a", threads=32)
    text = f"<{{:{spec}}}>"
    try:
        shown, problem = text.format(value), None
    except (ValueError, OverflowError) as error:
        shown, problem = "", str(error)
    if problem is None:
        k.print(text, value)
        assert re.search(r'c"(<.*?>)', str(k.function.module))[1] == shown.replace("%", "%%")  # type: ignore[index]
    else:
        refused = failure(lambda: k.print(text, value))
        assert refused.rule_id == "debug.format"
        assert refused.message == f"k.print({text!r}, ...): Python says of {value!r}: {problem}"


def test_a_print_shows_as_many_values_as_vprintf_takes() -> None:
    k = KernelBuilder("many", "sm_90a", threads=32)
    k.print("{}" * 32, *[k.thread_id()] * 32)
    with pytest.raises(DiagnosticError, match="vprintf takes 32"):
        k.print("{}" * 33, *[k.thread_id()] * 33)


def test_values_are_passed_as_c_promotes_them() -> None:
    """To four bytes at least, and floats to eight: the GPU's vprintf reads that many."""

    k = KernelBuilder("promoted", "sm_90a", threads=32)
    word, kinds = k.thread_id(), (nvb.u8, nvb.s16, nvb.f16, nvb.bf16, f32, nvb.s64)
    k.print("{} " * 8, word > 3, word, *(word.to(kind) for kind in kinds))
    (buffer,) = re.findall(r"alloca \{(.*)\}", k.finish().ir)
    assert buffer == "i32, i32, i32, i32, double, double, double, i64"


@pytest.mark.parametrize("name", ["f16x2", "bf16x2", "f32x2"])
@pytest.mark.parametrize("form", ["{}", "{:x}"])
def test_a_pair_is_shown_as_the_word_of_its_bits(name: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    stored = BY_NAME[name].numpy_dtype()
    data = np.array([0, 1, 0x80000000, 0x3C004000, 0xFFFFFFFF], np.uint64).astype(stored)
    data[-1] = np.iinfo(stored).max
    assert shown(BY_NAME[name], data, capsys, form) == [form.format(number) for number in data.tolist()]


@nvb.kernel("sm_90a", threads=64)
def guarded(k, x: nvb.Pointer[f32], n: i32):
    thread, block = k.thread_id(), k.block_id()
    at = block * 64 + thread
    k.assert_(at < n, "index {:>3} of {}: {}", at, n, x[at])
    with k.if_(x[at] == 3.0):
        k.trap("never", at)


def failure(call) -> nvb.Diagnostic:
    with pytest.raises(DiagnosticError) as caught:
        call()
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


@nvb.kernel("sm_90a", threads=32)
def positive(k, x: nvb.Pointer[f32]):
    at = k.thread_id()
    k.assert_(x[at] > 0.0, "{} is not positive", x[at])


@pytest.mark.parametrize("failing", [(), (0,), (1,), (0, 1)])
def test_of_several_kernels_of_a_device_those_that_failed_are_told(failing: tuple[int, ...]) -> None:
    """A record without a failure is all zeros, which would be the first assertion in thread 0."""
    kernels = [each.compile(assemble=False) for each in (guarded, positive)]
    records = [memoryview(bytearray(8 * WORDS)).cast("Q") for _ in kernels]
    device: Any = SimpleNamespace(notes={}, record=lambda number, *_: records[number])
    for number, kernel in enumerate(kernels):
        watch(device, number, kernel.name, kernel.assertions)
    raise_failures(device)
    for number in failing:
        records[number][DONE] = 1
        records[number][THREAD] = 5 + number
    if failing:
        with pytest.raises(DiagnosticError) as caught:
            raise_failures(device)
        for number, found in zip(failing, caught.value.diagnostics, strict=True):
            assert f"kernel {kernels[number].name}: the assertion" in found.message
            assert f"failed in thread {5 + number} of CTA 0" in found.message
    raise_failures(device)


def test_an_assertion_is_an_exception_with_place_thread_and_values() -> None:
    loaded = nvb.runtime.load(guarded.compile(), device="simulator")
    x = np.full(256, 2.5, np.float32)
    loaded.launch(2, x, 128)
    found = failure(lambda: loaded.launch(2, x, 100))
    assert found.rule_id == "launch.assertion"
    assert "kernel guarded: the assertion 'index 100 of 100: 2.5' failed in thread 36 of CTA 1" in found.message
    assert found.location is not None
    assert found.location.source.startswith("k.assert_(at < n")
    loaded.launch(2, x, 128)  # nothing of it is left
    x[70] = 3.0
    found = failure(lambda: loaded.launch(2, x, 128))
    assert "kernel guarded: the trap 'never: 70' in thread 6 of CTA 1" in found.message


@pytest.mark.parametrize(("x", "y", "z", "said"), [(1, 1, 2, "(1, 1, 2)"), (0, 0, 1, "(0, 0, 1)"), (1, 0, 0, "1")])
def test_the_cta_of_an_assertion_has_all_its_indices(x: int, y: int, z: int, said: str) -> None:
    @nvb.kernel("sm_90a", threads=32)
    def placed(k):
        here = [k.block_id(axis) == index for axis, index in zip("xyz", (x, y, z), strict=True)]
        with k.if_(here[0] & here[1] & here[2] & (k.thread_id() == 5)):
            k.trap("here")

    found = failure(lambda: nvb.runtime.load(placed.compile(), device="simulator").launch((2, 2, 3)))
    assert f"the trap 'here' in thread 5 of CTA {said}" in found.message


def test_a_trap_says_its_text() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def trapping(k, n: i32):
        with k.if_(k.thread_id() == n):
            k.trap("no way", *[n.to(each) - 10 for each in (nvb.i64, i32, nvb.s8, nvb.u32, nvb.u16)], f32)

    found = failure(lambda: nvb.runtime.load(trapping.compile(), device="simulator").launch(1, 7))
    assert "the trap 'no way: -3, -3, -3, 4294967293, 65533, f32' in thread 7 of CTA 0" in found.message


def test_ptx_alone_says_text_and_line() -> None:
    module = nvb.simulator.Simulator().load(guarded.compile().ptx)
    with pytest.raises(DiagnosticError) as caught:
        module.launch("guarded", block=(64,), args=(np.ones(64, np.float32), 8))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "simulator.assertion"
    assert "index {:>3} of {}: {}" in diagnostic.message
    assert diagnostic.location.source.startswith("k.assert_(at < n")
    built = guarded.build()  # the last parameters of CUDA's function: line, name and the bytes of a character
    call = re.search(r'@"__assertfail"\(.*, i32 (\d+), .*, i64 (\d+)\)', built.ir)
    assert call and call.groups() == (str(built.machine.assertions[0].location.line), "1")


def without_lines(ptx: str) -> list[str]:
    return [line for line in ptx.splitlines() if line.strip() and not re.match(r"\s*(\.loc|\.file|//|\$L__tmp)", line)]


def everything(k, x, plain: bool) -> None:
    thread = k.thread_id()
    value = x[thread]
    if not plain:
        k.print("{} {}", thread, value * 3.0, when=value > 0.0)
        k.assert_(value >= 0.0, "negative", value)
        k.assert_(True)
        k.breakpoint()
        x[thread] = k.clock("clock").to(f32)
        with k.if_(value == 7.0):
            k.trap()
    else:
        x[thread] = k.const(0.0, f32)
    x[thread] = value + 1.0


@nvb.kernel("sm_90a", threads=32)
def kernel(k, x: nvb.Pointer[f32], *, plain: bool = False):
    everything(k, x, plain)


def test_one_switch_removes_all() -> None:
    assert without_lines(kernel.compile(debug=False).ptx) == without_lines(kernel.compile(plain=True).ptx)
    debugging = kernel.compile().ptx
    for call in ("vprintf", "__assertfail", "trap;", "brkpt;", "%clock"):
        assert call in debugging, call
    assert kernel.build(debug=False).machine.assertions == []


def test_the_switch_hides_no_mistake() -> None:
    k = KernelBuilder("wrong", "sm_90a", threads=32, debug=False)
    thread = k.thread_id()
    for call in (lambda: k.print("{}"), lambda: k.print("", thread), lambda: k.assert_(thread > 0, "{x}", thread)):
        assert failure(call).rule_id == "debug.format"
    assert failure(lambda: k.print("{}", object())).rule_id == "debug.value"
    assert failure(lambda: k.clock("wall")).rule_id == "instruction.variant"
    assert failure(lambda: k.assert_(thread)).rule_id == "value.type"


def test_a_constant_called_debug_is_given_among_constants() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def own(k, out: nvb.Pointer[i32], *, debug: int = 3):
        out[0] = debug

    assert failure(lambda: own.build(debug=False)).rule_id == "kernel.function"
    own.build(constants={"debug": 4})


def test_no_else_follows_an_assertion() -> None:
    k = KernelBuilder("wrong", "sm_90a", threads=32)
    k.assert_(k.thread_id() < 8)
    with pytest.raises(DiagnosticError) as caught, k.else_():
        pass
    assert caught.value.diagnostics[0].rule_id == "control.else"


def test_more_values_than_a_failure_records() -> None:
    k = KernelBuilder("wrong", "sm_90a", threads=32)
    thread = k.thread_id()
    k.assert_(thread < 8, "", *[thread] * 8, 9)
    assert failure(lambda: k.assert_(thread < 8, "", *[thread] * 9)).rule_id == "debug.format"


TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a")


@pytest.mark.parametrize("target", TARGETS)
def test_ptxas_takes_it_on_every_chip(target: str) -> None:
    compiled = kernel.compile(target=target, assemble=False)
    assert assemble(compiled.ptx, target) == (True, "")


def test_clocks_count(capsys: pytest.CaptureFixture[str]) -> None:
    @nvb.kernel("sm_90a", threads=32)
    def timed(k, x: nvb.Pointer[f32], n: i32):
        for register in ("clock", "clock64", "globaltimer"):
            start = k.clock(register)
            with k.range(n):
                x[k.thread_id()] = x[k.thread_id()] * 3.0
            k.print("{}", k.clock(register) - start)

    nvb.runtime.load(timed.compile(), device="simulator").launch(1, np.ones(32, np.float32), 3)
    assert all(int(line) > 0 for line in capsys.readouterr().out.split())


def test_the_dry_run_goes_through_assertions_of_data() -> None:
    """Nothing is said of a ring whose stages are checked."""

    @nvb.kernel("sm_90a", threads=256)
    def turned(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32], rows: i32(minimum=1)):
        ring = k.pipeline(2, consumers=1, row=(f32, nvb.layout.make_layout(128)))
        k.mbarrier.ready()
        with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(rows) as row, ring.fill() as stage:
            k.print("row {} of {}", row, rows)
            k.bulk.load(stage.row.at(0), x + row * 128, 512, stage.full)
        with k.else_(), k.range(rows) as row, ring.drain() as stage:
            thread = k.thread_id() - 128
            value = stage.row.at(thread)[0]
            k.assert_(value <= 1e9, "row {} has NaN", row)
            y[row * 128 + 127 - thread] = value
            k.barrier.sync(1, 128)

    loaded = nvb.runtime.load(turned.compile(), device="simulator")
    x, y = np.arange(3 * 128, dtype=np.float32), np.zeros(3 * 128, np.float32)
    loaded.launch(1, x, y, 3)
    assert (y.reshape(3, 128)[:, ::-1] == x.reshape(3, 128)).all()
    x[200] = np.nan
    assert "row 1 has NaN" in failure(lambda: loaded.launch(1, x, y, 3)).message


def test_every_target_name_is_one() -> None:
    assert [Target.parse(target).name for target in TARGETS] == list(TARGETS)


@pytest.mark.parametrize(
    "call",
    [
        lambda k: k.print("\ud800"),
        lambda k: k.print("x", end="\udfff"),
        lambda k: k.print("x", end="\0"),
        lambda k: k.print("{}", "a\0b"),
        lambda k: k.print("{} {}", k.thread_id(), "\ud800"),
        lambda k: k.print("{:\ud800>4}", 1),
        lambda k: k.assert_(k.thread_id() < 3, "\ud800"),
        lambda k: k.trap("\ud800"),
        lambda k: k.print("{:999999999}", 1),
        lambda k: k.print("{:.1001f}", 1.0),
        lambda k: k.print("{:1001}", k.thread_id()),
        lambda k: k.print("{:" + "9" * 5000 + "}", k.thread_id()),
        lambda k: k.assert_(k.thread_id() < 3, "{:2000}", k.thread_id()),
    ],
)
def test_texts_without_bytes_and_forms_beyond_a_line_are_refused(call: object) -> None:
    k = KernelBuilder("show", "sm_90a", threads=32)
    with pytest.raises(DiagnosticError, match=r"debug\.format"):
        call(k)


def test_a_form_of_a_thousand_characters_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    k = KernelBuilder("show", "sm_90a", threads=32)
    k.print("{:1000}", 1)
    simulated(k)
    assert capsys.readouterr().out == f"{1:1000}\n" * 32


def test_the_machine_form_has_prints_and_assertions() -> None:
    """Rules of a user's own look for them there."""
    k = KernelBuilder("told", "sm_90a", threads=32)
    k.print("one")
    k.assert_(k.thread_id() < 32)
    k.print("two", when=k.thread_id() == 0)
    assert [each.opcode for each in k.machine.instructions() if each.row is None] == ["print", "assert", "print"]
