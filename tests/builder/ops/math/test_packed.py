"""k.packed against the simulator's scalar instructions: each half of a result is the scalar operation of the halves."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import bf16, bf16x2, f16, f16x2, f32, f32x2, runtime, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.arithmetic import packed
from nvbackend.signature import Parameter, Pointer
from nvbackend.simulator.scalar import find
from tests.support.devices import on_devices

THREADS = 256


def halves(seed, most=1 << 16):
    """Numbers of f16 and bf16 alike: any bits, and middling ones."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, most, 2 * THREADS, np.uint64).astype(np.uint16)


@on_devices
def test_pairs_of_f16_are_numpy_on_each_half():
    from numba import cuda

    a, b, c = (halves(seed).view(np.float16) for seed in (1, 2, 3))
    calls = {
        "add": (lambda k, x, y, z: k.packed.add("f16x2", x, y), lambda x, y, z: x + y),
        "sub": (lambda k, x, y, z: k.packed.sub("f16x2", x, y), lambda x, y, z: x - y),
        "mul": (lambda k, x, y, z: k.packed.mul("f16x2", x, y), lambda x, y, z: x * y),
        "min": (lambda k, x, y, z: k.packed.min("f16x2", x, y), lambda x, y, z: np.fmin(x, y)),
        "max": (lambda k, x, y, z: k.packed.max("f16x2", x, y, nan=True), lambda x, y, z: np.maximum(x, y)),
        "abs": (lambda k, x, y, z: k.packed.abs("f16x2", x), lambda x, y, z: np.abs(x)),
        "neg": (lambda k, x, y, z: k.packed.neg("f16x2", x), lambda x, y, z: -x),
        "lt": (lambda k, x, y, z: k.packed.compare("f16x2", "lt", x, y), lambda x, y, z: (x < y).astype(np.float16)),
        "nan": (
            lambda k, x, y, z: k.packed.compare("f16x2", "nan", x, y),
            lambda x, y, z: (np.isnan(x) | np.isnan(y)).astype(np.float16),
        ),
        "fma": (
            lambda k, x, y, z: k.packed.fma("f16x2", x, y, z),
            lambda x, y, z: (x.astype(np.longdouble) * y.astype(np.longdouble) + z.astype(np.longdouble)).astype(
                np.float16
            ),
        ),
        "swap": (
            lambda k, x, y, z: k.packed.pack(*reversed(k.packed.unpack("f16x2", x))),
            lambda x, y, z: x.reshape(-1, 2)[:, ::-1].reshape(-1),
        ),
        "broadcast": (
            lambda k, x, y, z: k.packed.broadcast(k.packed.unpack("f16x2", x)[1]),
            lambda x, y, z: np.repeat(x[1::2], 2),
        ),
    }
    parameters = [Parameter(name, Pointer(f16x2)) for name in ("x", "y", "z", "out")]
    k = KernelBuilder("pairs", "sm_90a", threads=THREADS, parameters=parameters)
    x, y, z, out = k.arguments
    t = k.thread_id()
    for place, (call, _) in enumerate(calls.values()):
        out[t + place * THREADS] = call(k, x[t], y[t], z[t])
    made = cuda.to_device(np.zeros(len(calls) * THREADS, np.uint32))
    kernel = runtime.load(k.compile())
    kernel.launch(1, *(cuda.to_device(column.view(np.uint32)) for column in (a, b, c)), made)
    kernel.synchronize()
    got = np.array(made.copy_to_host()).view(np.float16).reshape(len(calls), 2 * THREADS)
    for (name, (_, formula)), row in zip(calls.items(), got, strict=True):
        with np.errstate(all="ignore"):
            assert np.array_equal(row, formula(a, b, c), equal_nan=True), name


def test_every_pair_instruction_is_one_that_the_simulator_runs():
    for row in packed.rows():
        assert find(tuple(row.ptx.split("."))) is not None, row.ptx


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_pairs_of_f32_keep_their_order(target):
    k = KernelBuilder(
        "pairs", target, threads=32, parameters=[Parameter("x", Pointer(f32x2)), Parameter("y", Pointer(f32))]
    )
    x, y = k.arguments
    t = k.thread_id()
    pair = k.packed.fma("f32x2", x[t], k.packed.broadcast(y[t]), k.packed.pack(y[t], k.const(1.0, f32)))
    low, high = k.packed.unpack("f32x2", pair)
    y[t] = low - high
    compiled = k.compile()
    assert "fma.rn.f32x2" in compiled.ptx
    values = np.arange(64, dtype=np.float32)
    factors = np.linspace(-2, 3, 32, dtype=np.float32)
    expected = (values[::2] * factors + factors) - (values[1::2] * factors + 1)
    out = factors.copy()
    runtime.load(compiled, device="simulator").launch(1, values.view(np.uint64), out)
    assert np.allclose(out, expected, rtol=1e-6, atol=1e-5)


def test_packing_puts_the_first_element_into_the_lower_half():
    parameters = [Parameter("x", Pointer(f16)), Parameter("y", Pointer(f16x2))]
    k = KernelBuilder("pairs", "sm_75", threads=32, parameters=parameters)
    x, y = k.arguments
    y[0] = k.packed.pack(x[1], x[0])
    out = np.zeros(1, np.uint32)
    runtime.load(k.compile(), device="simulator").launch(1, np.array([1.5, -2.25], np.float16), out)
    assert out[0] == 0x3E00C080


WRONG = {
    "another pair": ("value.type", lambda k, p: k.packed.add("bf16x2", p, p)),
    "a pair that was converted": (
        "value.type",
        lambda k, p: k.packed.neg("f16x2", k.convert.pack("bf16x2", k.const(1.0, f32), k.const(2.0, f32))),
    ),
    "another pair unpacked": ("value.type", lambda k, p: k.packed.unpack("bf16x2", p)),
    "unpacked by convert": ("value.type", lambda k, p: k.convert.unpack(p, "bf16x2")),
    "from a variable": ("value.type", lambda k, p: k.packed.abs("bf16x2", k.var(p))),
    "stored as another": ("value.type", lambda k, p: k.arguments[1].store(p)),
    "a number": ("value.operation", lambda k, p: k.packed.sub("f16x2", p, 1032.0)),
    "an operator": ("value.operation", lambda k, p: p + p),
    "a comparison": ("value.operation", lambda k, p: p < k.var(p)),
    "a bitwise operator": ("value.operation", lambda k, p: ~p),
    "a sum of a warp": ("value.operation", lambda k, p: k.warp.reduce("add", p)),
    "converted": ("value.operation", lambda k, p: p.to(u32)),
    "made by to": ("value.operation", lambda k, p: k.const(1.0, f16).to(f16x2)),
    "of fewer bits": ("value.type", lambda k, p: k.packed.add("f32x2", p, p)),
    "added to another in memory": (
        "instruction.variant",
        lambda k, p: k.atomic.add(k.arguments[0], p, element="bf16x2"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_pair_is_of_one_type(name):
    rule, call = WRONG[name]
    parameters = [Parameter("x", Pointer(f16x2)), Parameter("y", Pointer(bf16x2))]
    k = KernelBuilder("pairs", "sm_100a", threads=32, parameters=parameters)
    with pytest.raises(nvb.DiagnosticError) as error:
        call(k, k.arguments[0][0])
    assert [each.rule_id for each in error.value.diagnostics] == [rule]
    assert "x2" in str(error.value)


def test_pairs_go_where_values_go():
    """Variables, selections, shuffles, atomics, prints and inline PTX; bits are a bitcast away."""

    @nvb.kernel("sm_90a", threads=32)
    def pairs(k, x: nvb.Pointer[f16x2], y: nvb.Pointer[bf16], word: nvb.Pointer[u32], sums: nvb.Pointer[f16x2]):
        t = k.thread_id()
        pair = k.var(x[t])
        pair.set(k.select(t < 16, pair.value, k.packed.neg("f16x2", pair)))
        k.atomic.add(sums, pair.value)
        moved = k.warp.shuffle(pair.value, "bfly", 1)
        same = k.ptx("mov.b32 {d}, {a};", outputs={"d": f16x2}, inputs={"a": moved})
        word[t] = same.bitcast(u32) + 1
        y[2 * t], y[2 * t + 1] = k.packed.unpack("bf16x2", k.packed.broadcast(y[t + 64]))

    x = np.arange(64, dtype=np.float16)
    y = np.arange(96, dtype=np.uint16)
    word, sums = np.zeros(32, np.uint32), np.zeros(1, np.uint32)
    runtime.load(pairs.compile(), device="simulator").launch(1, x.view(np.uint32), y, word, sums)
    kept = np.where(np.arange(64) < 32, x, -x)
    assert np.array_equal((word - 1).view(np.float16).reshape(-1, 2), kept.reshape(-1, 2)[np.arange(32) ^ 1])
    assert np.array_equal(sums.view(np.float16), kept.reshape(-1, 2).sum(axis=0))
    assert np.array_equal(y[:64], np.repeat(np.arange(64, 96), 2))
