"""k.integer against formulas on Python's integers, and what the analyses know of its results."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import i32, s64, u16, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.arithmetic import integers
from nvbackend.intrinsics.row.row import Role
from nvbackend.signature import Parameter, Pointer
from nvbackend.simulator.scalar import find
from tests.support.devices import on_devices

THREADS = 256
EDGES = (0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
WIDE = (*EDGES, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0x0123456789ABCDEF)


def drawn(bits, seed, count=THREADS):
    rng = np.random.default_rng(seed)
    edges = [one for one in WIDE if one < 1 << bits]
    words = rng.integers(0, (1 << bits) - 1, count, np.uint64, endpoint=True)
    chosen = rng.integers(0, 3, count) == 0
    return np.where(chosen, rng.choice(np.array(edges, np.uint64), count), words).astype(f"u{bits // 8}")


def signed(number, bits):
    return number - (1 << bits) if number >> (bits - 1) else number


def field(a, start, length, bits, is_signed):
    text = f"{a:0{bits}b}"[::-1]
    start, length = start % 256, length % 256
    fill = text[min(start + length, bits) - 1] if is_signed and length else "0"
    found = "".join(text[place] if place < bits else fill for place in range(start, start + length))
    return int((found[:bits].ljust(bits, fill))[::-1], 2) if length else 0


def inserted(a, base, start, length, bits):
    places = range(start % 256, min(start % 256 + length % 256, bits))
    mask = sum(1 << place for place in places)
    return base & ~mask | (a << start % 256) & mask if start % 256 < bits else base


def _upper(k, a, b, c):
    _, carry = k.integer.add_carry(c, b)
    _, carry = k.integer.add_carry(b, a, carry)
    return k.integer.add_carry(a, c, carry)[0]


def _less(k, a, b, c):
    _, borrow = k.integer.sub_borrow(c, b)
    _, borrow = k.integer.sub_borrow(b, a, borrow)
    return k.integer.sub_borrow(a, c, borrow)[0]


M = 0xFFFFFFFF
CALLS = {
    "popc": (lambda k, a, b, c: k.integer.popc(a), lambda a, b, c: bin(a).count("1")),
    "clz": (lambda k, a, b, c: k.integer.clz(a), lambda a, b, c: f"{a:032b}".find("1") if a else 32),
    "ffs": (lambda k, a, b, c: k.integer.ffs(a), lambda a, b, c: f"{a:032b}"[::-1].find("1") + 1),
    "brev": (lambda k, a, b, c: k.integer.brev(a), lambda a, b, c: int(f"{a:032b}"[::-1], 2)),
    "bfe": (
        lambda k, a, b, c: k.integer.bfe(a, b.to(i32), c.to(i32)),
        lambda a, b, c: field(a, b, c, 32, False),
    ),
    "bfe of constants": (lambda k, a, b, c: k.integer.bfe(a, 5, 7), lambda a, b, c: a >> 5 & 127),
    "signed bfe": (
        lambda k, a, b, c: k.integer.bfe(a.to(i32), b.to(i32), c.to(i32)),
        lambda a, b, c: field(a, b, c, 32, True),
    ),
    "signed bfe of constants": (
        lambda k, a, b, c: k.integer.bfe(a.to(i32), 5, 7),
        lambda a, b, c: signed(a >> 5 & 127, 7) & M,
    ),
    "bfi": (
        lambda k, a, b, c: k.integer.bfi(a, b, c.to(i32), (c >> 8).to(i32)),
        lambda a, b, c: inserted(a, b, c, c >> 8, 32),
    ),
    "bfi of constants": (lambda k, a, b, c: k.integer.bfi(a, b, 8, 4), lambda a, b, c: b & ~0xF00 | (a & 15) << 8),
    "funnel": (
        lambda k, a, b, c: k.integer.funnel(a, b, c),
        lambda a, b, c: ((b << 32 | a) << c % 32) >> 32 & M,
    ),
    "clamped funnel": (
        lambda k, a, b, c: k.integer.funnel(a, b, c, direction="r", clamp=True),
        lambda a, b, c: (b << 32 | a) >> min(c, 32) & M,
    ),
    "lop3": (
        lambda k, a, b, c: k.integer.lop3(a, b, c, (0xF0 & 0xCC) ^ 0xAA),
        lambda a, b, c: a & b ^ c,
    ),
    "lop3 select": (
        lambda k, a, b, c: k.integer.lop3(a, b, c, 0xCA),
        lambda a, b, c: a & b | ~a & c & M,
    ),
    "mulhi": (lambda k, a, b, c: k.integer.mulhi(a, b), lambda a, b, c: a * b >> 32),
    "signed mulhi": (
        lambda k, a, b, c: k.integer.mulhi(a.to(i32), b.to(i32)),
        lambda a, b, c: signed(a, 32) * signed(b, 32) >> 32 & M,
    ),
    "mad_wide": (
        lambda k, a, b, c: (k.integer.mad_wide(a, b, c.to(u64)) >> 16).to(u32),
        lambda a, b, c: (a * b + c) >> 16 & M,
    ),
    "mul_wide of halves": (
        lambda k, a, b, c: k.integer.mul_wide(a.to(u16), b.to(u16)),
        lambda a, b, c: (a & 0xFFFF) * (b & 0xFFFF),
    ),
    "dp4a": (
        lambda k, a, b, c: k.integer.dp4a(a, b, c),
        lambda a, b, c: c + sum((a >> s & 255) * (b >> s & 255) for s in (0, 8, 16, 24)) & M,
    ),
    "signed dp4a": (
        lambda k, a, b, c: k.integer.dp4a(a.to(i32), b, c.to(i32)),
        lambda a, b, c: c + sum(signed(a >> s & 255, 8) * (b >> s & 255) for s in (0, 8, 16, 24)) & M,
    ),
    "dp2a": (
        lambda k, a, b, c: k.integer.dp2a(a, b, c, half="hi"),
        lambda a, b, c: c + (a & 0xFFFF) * (b >> 16 & 255) + (a >> 16) * (b >> 24) & M,
    ),
    "sad": (lambda k, a, b, c: k.integer.sad(a, b, c), lambda a, b, c: abs(a - b) + c & M),
    "add_sat": (
        lambda k, a, b, c: k.integer.add_sat(a.to(i32), b.to(i32)),
        lambda a, b, c: max(-(1 << 31), min((1 << 31) - 1, signed(a, 32) + signed(b, 32))) & M,
    ),
    "sub_sat": (
        lambda k, a, b, c: k.integer.sub_sat(a.to(i32), b.to(i32)),
        lambda a, b, c: max(-(1 << 31), min((1 << 31) - 1, signed(a, 32) - signed(b, 32))) & M,
    ),
    "three words": (
        _upper,
        lambda a, b, c: ((a << 64 | b << 32 | c) + (c << 64 | a << 32 | b)) >> 64 & M,
    ),
    "less three words": (
        _less,
        lambda a, b, c: ((a << 64 | b << 32 | c) - (c << 64 | a << 32 | b)) >> 64 & M,
    ),
}


@on_devices
def test_every_call_is_its_formula():
    from numba import cuda

    from nvbackend import runtime

    columns = [drawn(32, seed) for seed in (1, 2, 3)]
    columns[2][::2] &= 63
    parameters = [Parameter(name, Pointer(u32)) for name in ("x", "y", "z", "out")]
    k = KernelBuilder("integers", "sm_90a", threads=THREADS, parameters=parameters)
    x, y, z, out = k.arguments
    t = k.thread_id()
    for place, (call, _) in enumerate(CALLS.values()):
        out[t + place * THREADS] = call(k, x[t], y[t], z[t]).to(u32)
    made = cuda.to_device(np.zeros(len(CALLS) * THREADS, np.uint32))
    kernel = runtime.load(k.compile())
    kernel.launch(1, *(cuda.to_device(column) for column in columns), made)
    kernel.synchronize()
    got = np.array(made.copy_to_host()).reshape(len(CALLS), THREADS)
    for (name, (_, formula)), row in zip(CALLS.items(), got, strict=True):
        wanted = [formula(*(int(one) for one in lane)) for lane in zip(*columns, strict=True)]
        assert row.tolist() == wanted, name


PLACES = [(start, length) for start in (-1, 0, 5, 31, 32) for length in (-1, 0, 1, 7, 27, 28, 32)]
"""Fields of 32 bits; of a negative number the low 8 bits count."""


def test_a_field_of_constants_is_that_of_the_instruction():
    x = drawn(32, 4, count=32)
    k = KernelBuilder(
        "fields", "sm_90a", threads=32, parameters=[Parameter(name, Pointer(u32)) for name in ("x", "out")]
    )
    words, out = k.arguments
    word = words[k.thread_id()]
    for place, (start, length) in enumerate(PLACES):
        made = (
            k.integer.bfe(word, start, length),
            k.integer.bfe(word.to(i32), start, length).to(u32),
            k.integer.bfi(word, word ^ 0x5A5A5A5A, start, length),
        )
        for kind, value in enumerate(made):
            out[k.thread_id() + (3 * place + kind) * 32] = value
    outside = [not 0 <= start < start + length <= 32 for start, length in PLACES]
    finished = k.finish()
    assert [finished.ir.count(f'"{name}.') for name in ("bfe", "bfi")] == [2 * sum(outside), sum(outside)]
    got = np.zeros((len(PLACES), 3, 32), np.uint32)
    nvb.runtime.load(finished.compile(assemble=False), device="simulator").launch(1, x, got)
    for (start, length), rows in zip(PLACES, got, strict=True):
        wanted = [
            [field(word, start, length, 32, False) for word in map(int, x)],
            [field(word, start, length, 32, True) for word in map(int, x)],
            [inserted(word, word ^ 0x5A5A5A5A, start, length, 32) for word in map(int, x)],
        ]
        assert rows.tolist() == wanted, (start, length)


def test_what_rows_say_they_compute_is_what_the_simulator_computes():
    """Two transcriptions of the PTX ISA, of which the simulator's is compared with GPUs."""
    tried = 0
    for row in integers.rows():
        if row.semantics.computes is None:
            continue
        inputs = [drawn(one.type.bits, 10 + place) for place, one in enumerate(row.operands) if one.role is Role.INPUT]
        if len(inputs) > 2:
            inputs[-1][::2] &= 63 if inputs[-1].dtype == np.uint32 else inputs[-1].dtype.type(255)
        more = [np.full(THREADS, 0x96, np.uint32)] if row.immediates else []
        with np.errstate(all="ignore"):
            wanted = find(tuple(row.ptx.split("."))).call(*inputs, *more)[0]
        got = [row.semantics.computes(*(int(one) for one in lane)) for lane in zip(*inputs, *more, strict=True)]
        assert got == wanted.tolist(), row.ptx
        tried += 1
    assert tried > 40


def test_the_evaluator_and_the_dry_run_compute_them_of_thread_ids():
    """A barrier that only some lanes reach by these numbers is seen; one that all reach is not."""

    def kernel(wrong):
        @nvb.kernel("sm_90a", threads=64)
        def counted(k, out: Pointer[i32]):
            t = k.thread_id()
            word = t.to(u32)
            low = k.integer.bfe(word, 0, 2).to(i32)
            bits = k.integer.popc(word & 3) + k.integer.clz(word | 1 << 31)
            total = k.integer.sad(low, 0) + bits
            with k.if_(total < (3 if wrong else 6)):
                k.barrier.sync()
            out[t] = total

        return counted

    kernel(False).build()
    with pytest.raises(nvb.DiagnosticError):
        kernel(True).build()


def test_a_count_has_few_bits_and_division_by_powers_of_two_keeps_alignment():
    k = KernelBuilder("aligned", "sm_90a", threads=64, parameters=[Parameter("x", Pointer(i32)), Parameter("n", i32)])
    x, n = k.arguments
    assert (x + k.integer.bfe(n, 4, 8) * 4).align == 16
    assert (x + n // 8 * 8).align == 16
    assert (x + n * 16 % 64).align == 16
    assert (x + n * 16 // 4).align == 16
    counted = k.integer.popc(n)
    mask, known = k.core.places.bits.known(counted.ir)
    assert (mask, known) == (M & ~127, 0)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda k, x: k.integer.popc(1.5), "value.operation"),
        (lambda k, x: k.integer.popc(x.to(u16)), "value.operation"),
        (lambda k, x: k.integer.mul_wide(x.to(s64), x.to(s64)), "value.operation"),
        (lambda k, x: k.integer.dp4a(x.to(s64), x, x), "value.operation"),
        (lambda k, x: k.integer.add_sat(x.to(u32), 1), "value.type"),
        (lambda k, x: k.integer.lop3(1, 2, 3, 256), "value.constant"),
        (lambda k, x: k.integer.lop3(1, 2, 3, ~(0xF0 & 0xCC)), "value.constant"),
        (lambda k, x: k.integer.funnel(1, 2, 3, direction="up"), "instruction.variant"),
        (lambda k, x: k.integer.dp2a(x, x, x, half="mid"), "instruction.variant"),
        (lambda k, x: k.packed.add("f16", 1, 2), "instruction.variant"),
        (lambda k, x: k.packed.add("f32x2", k.const(1, u64), k.const(2, u64)), "target.feature"),
        (lambda k, x: k.packed.add("f16x2", 1, 2, rounding="rz"), "instruction.variant"),
        (lambda k, x: k.packed.pack(x, x), "value.operation"),
        (lambda k, x: k.math.add(x, x), "value.operation"),
        (lambda k, x: k.math.fma(1.0, 2.0, 3.0, rounding="up"), "instruction.variant"),
        (lambda k, x: k.math.tanh(x), "value.operation"),
        (lambda k, x: k.math.gelu(1.5, form="fast"), "value.operation"),
    ],
)
def test_a_wrong_use_is_a_diagnostic(call, rule):
    k = KernelBuilder("wrong", "sm_90a", threads=32, parameters=[Parameter("x", Pointer(i32))])
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(k, k.arguments[0][0])
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]


@pytest.mark.parametrize("operation", ["add_carry", "sub_borrow"])
def test_a_chain_through_a_loop(operation):
    """A sum that a loop carries comes in and goes out in one register."""

    @nvb.kernel("sm_80", threads=32)
    def chained(k, x: nvb.Pointer[u32], y: nvb.Pointer[u32], n: i32):
        t = k.thread_id()
        total, carried = k.var(x[t]), k.var(0, u32)
        with k.range(n):
            result, out = getattr(k.integer, operation)(total.value, x[t], carried.value)
            total.set(result)
            carried.set(out)
        y[t], y[t + 32] = total.value, carried.value

    x, y = drawn(32, 11, 32), np.zeros(64, np.uint32)
    nvb.runtime.load(chained.compile(), device="simulator").launch(1, x, y, 5)
    for place, number in enumerate(map(int, x)):
        total, carried = number, 0
        for _ in range(5):
            whole = total + number + carried if operation == "add_carry" else total - number - carried
            total, carried = whole & M, int(whole not in range(1 << 32))
        assert (y[place], y[place + 32]) == (total, carried), number


def test_counts_of_a_mask_that_is_known_in_one_lane_alone() -> None:
    """Ranks among equal digits: `same & lower` is 0 in lane 0, and unknown in the others."""

    @nvb.kernel("sm_80", threads=64)
    def ranks(k: nvb.KernelBuilder, x: nvb.Pointer[u32], out: nvb.Pointer[u32]) -> None:
        lower = (k.const(1, u32) << k.lane_id().to(u32)) - 1
        rank = k.integer.popc(k.warp.match("any", x[k.thread_id()]) & lower)
        with k.if_(rank == 0):
            out[k.thread_id()] = 1

    x = np.arange(64, dtype=np.uint32) % 5
    out = np.zeros(64, np.uint32)
    nvb.runtime.load(ranks.compile(assemble=False), device="simulator").launch(1, x, out)
    assert out.tolist() == [1 if t % 32 < 5 else 0 for t in range(64)]
