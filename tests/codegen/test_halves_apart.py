"""Maxima of 16 bits with 0, packed with others: ptxas takes one instruction for both, with 0 or without."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, runtime, s8, s16, u16, u32, u64
from nvbackend.codegen.llvm import compile_ir
from nvbackend.codegen.sass import disassemble
from nvbackend.isel.target.target import Target
from tests.support.devices import on_devices

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
def test_a_maximum_with_zero_is_an_instruction_of_its_own(target, kind):
    sass = disassemble(kernel_of(kind, target).compile(cache=nvb.Cache.disabled()).cubin.data)
    packed = re.findall(r"VIMNMX\.S16x2(?:\.RELU)?", sass)
    if kind == OF_TEXT:
        assert sorted(packed) == ["VIMNMX.S16x2", "VIMNMX.S16x2.RELU"]
        assert re.search(r"PRMT R\d+, R\d+, 0x3210, RZ", sass)
    else:
        assert set(packed) == {"VIMNMX.S16x2"}
        assert re.search(r"VIMNMX R\d+, (?:PT, PT, )?(?:RZ, R\d+|R\d+, RZ), !PT", sass)


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


@pytest.mark.parametrize("optimize", [0, 3])
def test_of_vectors_each_element_is_a_maximum_of_32_bits(optimize):
    text = """target triple = "nvptx64-nvidia-cuda"
declare <2 x i16> @llvm.smax.v2i16(<2 x i16>, <2 x i16>)
define ptx_kernel void @k(ptr addrspace(1) %out, <2 x i16> %halves.9.wide) {
  %r = call <2 x i16> @llvm.smax.v2i16(<2 x i16> %halves.9.wide, <2 x i16> zeroinitializer)
  store <2 x i16> %r, ptr addrspace(1) %out
  ret void
}
"""
    ptx = compile_ir(text, Target.parse("sm_90a"), optimize=optimize).ptx
    assert re.findall(r"max\.\w+", ptx) == ["max.s32", "max.s32"]
