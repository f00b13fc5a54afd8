"""Integers of 16 bits that ptxas gets wrong: maxima with 0 that are packed with others, and -32768 negated.

Of two packed maxima ptxas makes one instruction, with 0 or without. A ptxas before 13.5 takes 32768 for the negative
and the absolute value of -32768.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import bf16, e4m3, f16, f32, runtime, s8, s16, s32, u8, u16, u32, u64
from nvbackend.codegen.llvm import compile_ir
from nvbackend.codegen.sass import disassemble
from nvbackend.isel.target.target import Target
from tests.support.devices import on_devices
from tests.support.ptxas import old_ptxas

THREADS = 32
OWN_TEXT = (
    "{{ .reg .b32 left, right, greater; mov.b32 left, {a}; mov.b32 right, {b}; "
    "max.relu.s16x2 greater, left, right; mov.b32 {greater}, greater; }}"
)
SIGNED, BYTES, SMALLER, OF_TEXT = "max", "max of bytes", "min", "text"


def _with_zero(k, kind, x, t):
    a, b = x[t], x[t + THREADS]
    if kind == OF_TEXT:
        words = {"a": a.bitcast(u16).to(u32), "b": b.bitcast(u16).to(u32)}
        return k.ptx(OWN_TEXT, outputs={"greater": u32}, inputs=words).to(u16).bitcast(s16)
    if kind == BYTES:
        return k.math.max(k.math.max(a.to(s8), b.to(s8)), 0).to(s16)
    return k.math.max(k.math.min(a, b) if kind == SMALLER else k.math.max(a, b), 0)


def kernel_of(kind, target):
    @nvb.kernel(target, threads=THREADS)
    def beside(k, x: nvb.Pointer[s16], n: nvb.Pointer[u64], pairs: nvb.Pointer[s16], others: nvb.Pointer[f16]):
        t = k.thread_id()
        both = k.math.min if kind == SMALLER else k.math.max
        other = both(x[t + 2 * THREADS], x[t + 3 * THREADS])
        (pairs + t * 2).store(_with_zero(k, kind, x, t), other)
        (others + t * 2).store(other.bitcast(f16), n[t].to(f16))

    return beside


@pytest.mark.parametrize("kind", [SIGNED, BYTES, SMALLER, OF_TEXT])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_maximum_is_an_instruction_of_its_own(target, kind):
    sass = disassemble(kernel_of(kind, target).compile(cache=nvb.Cache.disabled()).cubin.data)
    packed = re.findall(r"VIMNMX\.S16x2(?:\.RELU)?", sass)
    if kind == OF_TEXT:
        assert packed == ["VIMNMX.S16x2.RELU"]
        assert re.search(r"PRMT R\d+, R\d+, 0x3210, RZ", sass)
    else:
        assert not packed
        assert len(re.findall(r"VIMNMX(?:\.RELU)? ", sass)) in (2, 3)


@on_devices
@pytest.mark.parametrize("kind", [SIGNED, SMALLER, BYTES])
def test_each_half_is_what_the_program_says(kind):
    from numba import cuda

    x = np.random.default_rng(5).integers(-100, 40, 4 * THREADS, dtype=np.int16)
    a, b, c, d = x.reshape(4, THREADS)
    both = np.minimum if kind == SMALLER else np.maximum
    pairs, others = cuda.to_device(np.zeros(2 * THREADS, np.int16)), cuda.to_device(np.zeros(2 * THREADS, np.float16))
    loaded = runtime.load(kernel_of(kind, "sm_90").compile())
    loaded.launch(1, cuda.to_device(x), cuda.to_device(np.arange(THREADS, dtype=np.uint64)), pairs, others)
    loaded.synchronize()
    expected = np.stack([np.maximum(both(a, b), 0), both(c, d)], axis=1)
    np.testing.assert_array_equal(np.asarray(pairs.copy_to_host()).reshape(THREADS, 2), expected)


OPERATIONS = {
    "max": ("call {t} @llvm.smax.{n}({t} %{value}, {t} {zero})", "max.s32"),
    "smin": ("call {t} @llvm.smin.{n}({t} %{value}, {t} {zero})", "min.s32"),
    "umin": ("call {t} @llvm.umin.{n}({t} %{value}, {t} {power})", "min.u32"),
    "umax": ("call {t} @llvm.umax.{n}({t} %{value}, {t} {power})", "max.u32"),
    "neg": ("sub {t} {zero}, %{value}", "neg.s32"),
    "abs": ("call {t} @llvm.abs.{n}({t} %{value}, i1 false)", "abs.s32"),
    "product": ("mul {t} %{value}, {power}", "neg.s32"),
}


@pytest.mark.parametrize("optimize", [0, 3])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_operation_is_one_on_words(operation, count, optimize):
    kind, name = (f"<{count} x i16>", f"v{count}i16") if count > 1 else ("i16", "i16")
    zero, value = "zeroinitializer" if count > 1 else "0", "word.9"
    power = "splat (i16 -16384)" if count > 1 else "-16384"
    called, expected = OPERATIONS[operation]
    text = f"""target triple = "nvptx64-nvidia-cuda"
declare {kind} @llvm.smax.{name}({kind}, {kind})
declare {kind} @llvm.smin.{name}({kind}, {kind})
declare {kind} @llvm.umin.{name}({kind}, {kind})
declare {kind} @llvm.umax.{name}({kind}, {kind})
declare {kind} @llvm.abs.{name}({kind}, i1)
define ptx_kernel void @k(ptr addrspace(1) %out, {kind} %{value}) {{
  %r = {called.format(t=kind, n=name, value=value, zero=zero, power=power)}
  store {kind} %r, ptr addrspace(1) %out
  ret void
}}
"""
    ptx = compile_ir(text, Target.parse("sm_90a"), optimize=optimize).ptx
    if operation == "max" and count > 1:
        assert len(re.findall(r"max\.s16x2 \t(%\w+),.*; prmt\.b32 \1, \1, 0, 0x3210;", ptx)) == count // 2
    elif operation in ("smin", "umin", "umax") and count > 1:
        assert len(re.findall(rf"{expected[:5]}16x2", ptx)) == count // 2
    else:
        assert re.findall(r"(?:min|max|neg|abs)\.\w+", ptx) == [expected] * count
        assert "49152" in ptx or operation != "umin"


@on_devices
@pytest.mark.parametrize("element", [bf16, f16, e4m3, f32], ids=str)
def test_the_bits_of_a_converted_number_are_masked(element):
    """`f32`: two numbers of e4m3 in one register."""
    from numba import cuda

    @nvb.kernel("sm_90", threads=THREADS)
    def kernel(k, x: nvb.Pointer[f32], out: nvb.Pointer[u16]):
        t = k.thread_id()
        if element is f32:
            bits = k.convert.pack("e4m3x2", x[t], x[t] * 2.0).bitcast(u16)
        else:
            bits = x[t].to(element).bitcast(u8 if element is e4m3 else u16).to(u16)
        (out + t * 4).store(bits & 0x7F, t.to(u16))
        (out + t * 4 + 2).store(bits & 0x7FF0, k.math.min(bits, 0x3C00))

    x = np.random.default_rng(3).uniform(-100, 100, THREADS).astype(np.float32)
    out = cuda.to_device(np.zeros(4 * THREADS, np.uint16))
    loaded = runtime.load(kernel.compile())
    loaded.launch(1, cuda.to_device(x), out)
    loaded.synchronize()
    if element is f32:
        low, high = (part.astype(ml_dtypes.float8_e4m3fn).view(np.uint8).astype(np.uint16) for part in (x, x * 2))
        bits = low | high << 8
    else:
        dtype = {bf16: ml_dtypes.bfloat16, f16: np.float16, e4m3: ml_dtypes.float8_e4m3fn}[element]
        bits = x.astype(dtype).view(np.uint8 if element is e4m3 else np.uint16).astype(np.uint16)
    expected = np.stack([bits & 0x7F, np.arange(THREADS, dtype=np.uint16), bits & 0x7FF0, np.minimum(bits, 0x3C00)], 1)
    np.testing.assert_array_equal(np.asarray(out.copy_to_host()).reshape(THREADS, 4), expected)


@on_devices
def test_the_low_byte_of_a_float_is_stored():
    from numba import cuda

    @nvb.kernel("sm_90", threads=THREADS)
    def kernel(k, x: nvb.Pointer[s16], out: nvb.Pointer[u8]):
        t = k.thread_id()
        half, rounded = x[t].to(f16) + 0.25, x[t].to(bf16)
        out[t] = half.bitcast(u16).to(u8)
        (out + THREADS + t * 2).store(x[t].to(u8), rounded.bitcast(u16).to(u8))

    x, out = np.arange(1000, 1000 + THREADS, dtype=np.int16), cuda.to_device(np.zeros(3 * THREADS, np.uint8))
    loaded = runtime.load(kernel.compile())
    loaded.launch(1, cuda.to_device(x), out)
    loaded.synchronize()
    half, rounded = x.astype(np.float16) + np.float16(0.25), x.astype(np.float32).astype(ml_dtypes.bfloat16)
    pairs = np.stack([x.astype(np.uint8), rounded.view(np.uint16).astype(np.uint8)], 1).ravel()
    expected = np.concatenate([half.view(np.uint16).astype(np.uint8), pairs])
    np.testing.assert_array_equal(np.asarray(out.copy_to_host()), expected)


def old_sass(kernel):
    """The code that an installed ptxas of CUDA 12 makes."""
    tools = old_ptxas()
    if not tools:
        pytest.skip("no package with the ptxas of CUDA 12 is installed")
    target = Target.parse("sm_90", (8, 8))
    return disassemble(kernel.compile(target=target, tool=tools[0], cache=nvb.Cache.disabled()).cubin.data)


def test_a_ptxas_of_cuda_12_keeps_masks_bytes_and_signs():
    @nvb.kernel("sm_90", threads=THREADS)
    def kernel(k, x: nvb.Pointer[f32], y: nvb.Pointer[s16], out: nvb.Pointer[u16], byte: nvb.Pointer[u8]):
        t = k.thread_id()
        (out + t * 2).store(x[t].to(bf16).bitcast(u16) & 0x7F, t.to(u16))
        byte[t] = (y[t].to(f16) + 0.25).bitcast(u16).to(u8)
        y[t] = -y[t] >> 2

    sass = old_sass(kernel)
    assert "F2I" not in sass
    assert re.search(r"LOP3\.LUT R\d+, R\d+, 0x7f,", sass)
    (shifted,) = re.findall(r"SHF\.R\.S32\.HI R\d+, RZ, 0x2, (R\d+) ", sass)
    assert re.findall(rf"(\S+) {shifted}, .*;", sass[: sass.index("SHF.R.S32.HI")])[-1] == "PRMT"


@on_devices
def test_the_least_number_negated_is_itself():
    from numba import cuda

    @nvb.kernel("sm_90", threads=THREADS)
    def kernel(k, x: nvb.Pointer[s16], out: nvb.Pointer[s32]):
        t = k.thread_id()
        negated_bytes = (-x[t].to(s8)).to(s16)
        for place, value in enumerate((-x[t], k.math.abs(x[t]), x[t] * -16384, negated_bytes)):
            out[t + place * 3 * THREADS] = value.to(s32)
            out[t + (place * 3 + 1) * THREADS] = (value < 7).to(s32)
            out[t + (place * 3 + 2) * THREADS] = (value >> 3).to(s32)

    x = np.resize(np.array([-32768, -32767, 32767, -1, 0, 8, -128, 2], np.int16), THREADS)
    out = cuda.to_device(np.zeros(12 * THREADS, np.int32))
    loaded = runtime.load(kernel.compile())
    loaded.launch(1, cuda.to_device(x), out)
    loaded.synchronize()
    values = [-x, np.abs(x), x * np.int16(-16384), (-x.astype(np.int8)).astype(np.int16)]
    expected = np.concatenate([part for value in values for part in (value, value < 7, value >> 3)])
    np.testing.assert_array_equal(np.asarray(out.copy_to_host()), expected)
