"""Exchange within a warp and atomics, against one thread after another in Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
THREADS = 96
Lane = Callable[[int, list[int]], int]


def run(body: str, values: np.ndarray, out: np.ndarray, threads: int = THREADS) -> None:
    """`body` makes %r9 of %r1, the thread's element of `values`, and its number %r0."""
    text = f"""{HEAD}.visible .entry k(.param .u64 x, .param .u64 y) {{
        .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<10>; .shared .align 8 .b32 box[4];
        ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
        mov.u32 %r0, %tid.x;
        mul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
        ld.global.u32 %r1, [%rd4];
        {body}
        st.global.u32 [%rd5], %r9;
        ret; }}"""
    Simulator().load(text).launch("k", block=(threads,), args=[values, out])


def shuffled(mode: str, b: int, c: int) -> Lane:
    """PTX ISA 9.7.9.6, lane by lane."""

    def value(lane: int, values: list[int]) -> int:
        segment, clamp = c >> 8 & 31, c & 31
        most = (lane & segment) | (clamp & ~segment & 31)
        source = {
            "up": lane - b,
            "down": lane + b,
            "bfly": lane ^ b,
            "idx": (lane & segment) | (b & ~segment & 31),
        }[mode]
        inside = source >= most if mode == "up" else source <= most
        return values[source] if inside else values[lane]

    return value


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize(("b", "c"), [(1, 0), (1, 31), (5, 31), (16, 31), (3, 0x1C1F), (2, 0x1803), (7, 0x1807)])
def test_shuffles(mode: str, b: int, c: int) -> None:
    values = np.random.default_rng(0).integers(0, 2**32, THREADS, np.uint32)
    out = np.zeros_like(values)
    run(f"shfl.sync.{mode}.b32 %r9|%p1, %r1, {b}, {c}, -1;", values, out)
    warps = values.reshape(-1, 32).tolist()
    assert out.tolist() == [shuffled(mode, b, c)(lane, warp) for warp in warps for lane in range(32)]


REDUCTIONS = {
    "add.u32": lambda warp: sum(warp) & 0xFFFFFFFF,
    "min.u32": min,
    "max.u32": max,
    "and.b32": lambda warp: int(np.bitwise_and.reduce(warp)),
    "or.b32": lambda warp: int(np.bitwise_or.reduce(warp)),
    "xor.b32": lambda warp: int(np.bitwise_xor.reduce(warp)),
    "min.s32": lambda warp: min(warp, key=lambda one: one - (one >> 31 << 32)),
}


@pytest.mark.parametrize("operation", REDUCTIONS)
def test_reductions_of_two_halves(operation: str) -> None:
    """Each half of a warp is a group of its own."""
    values = np.random.default_rng(1).integers(0, 2**32, THREADS, np.uint32)
    out = np.zeros_like(values)
    halves = "and.b32 %r2, %r0, 16; shl.b32 %r3, 65535, %r2;"
    run(f"{halves} redux.sync.{operation} %r9, %r1, %r3;", values, out)
    assert out.tolist() == [REDUCTIONS[operation](half) for half in values.reshape(-1, 16).tolist() for _ in half]


def test_votes_and_matches() -> None:
    values = np.random.default_rng(2).integers(0, 3, THREADS, np.uint32)
    out = np.zeros_like(values)
    run("setp.eq.u32 %p1, %r1, 1; vote.sync.ballot.b32 %r9, %p1, -1;", values, out)
    warps = values.reshape(-1, 32).tolist()
    assert out.tolist() == [sum((one == 1) << n for n, one in enumerate(warp)) for warp in warps for _ in warp]
    run("match.any.sync.b32 %r9, %r1, -1;", values, out)
    assert out.tolist() == [sum((one == own) << n for n, one in enumerate(warp)) for warp in warps for own in warp]


def test_lanes_that_come_later_are_waited_for() -> None:
    """The odd lanes take another way to the same instruction."""
    values = np.arange(THREADS, dtype=np.uint32)
    out = np.zeros_like(values)
    body = """and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra MEET;
        add.u32 %r1, %r1, 100;
        MEET: shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;"""
    run(body, values, out)
    assert out.tolist() == [(n ^ 1) + (0 if n & 1 else 100) for n in range(THREADS)]


def test_lanes_that_never_come() -> None:
    values, out = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    body = """setp.ge.u32 %p1, %r0, 16; @%p1 bra OTHER;
        shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1; bra END;
        OTHER: shfl.sync.bfly.b32 %r9, %r1, 2, 31, -1; END:"""
    with pytest.raises(DiagnosticError, match="lanes 0x0000ffff of the warp are here") as caught:
        run(body, values, out, 32)
    assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.deadlock"]


ATOMICS = {
    "add.u32": lambda old, value: old + value & 0xFFFFFFFF,
    "max.s32": lambda old, value: max(old, value, key=lambda one: one - (one >> 31 << 32)),
    "xor.b32": lambda old, value: old ^ value,
    "exch.b32": lambda old, value: value,
    "inc.u32": lambda old, value: 0 if old >= value else old + 1,
    "dec.u32": lambda old, value: value if old == 0 or old > value else old - 1,
}


@pytest.mark.parametrize("operation", ATOMICS)
@pytest.mark.parametrize("space", ["shared", "generic"])
def test_atomics_on_few_places(operation: str, space: str) -> None:
    values = np.random.default_rng(3).integers(0, 2**32, THREADS, np.uint32)
    out = np.zeros_like(values)
    generic = "" if space == "shared" else "cvta.shared.u64 %rd6, %rd6;"
    dot = ".shared" if space == "shared" else ""
    body = f"""mov.u64 %rd6, box; {generic}
        setp.ge.u32 %p2, %r0, 4; @%p2 bra GO;
        mul.wide.u32 %rd8, %r0, 4; add.s64 %rd8, %rd6, %rd8; st{dot}.u32 [%rd8], 5;
        GO: bar.sync 0; and.b32 %r2, %r0, 3; mul.wide.u32 %rd7, %r2, 4; add.s64 %rd6, %rd6, %rd7;
        atom{dot}.{operation} %r9, [%rd6], %r1;"""
    run(body, values, out)
    places, expected = [5] * 4, []
    for thread, value in enumerate(values.tolist()):
        expected.append(places[thread % 4])
        places[thread % 4] = ATOMICS[operation](places[thread % 4], value)
    assert out.tolist() == expected


def test_reductions_into_global_memory() -> None:
    total = np.zeros(1, np.float32)
    text = f"""{HEAD}.visible .entry k(.param .u64 x) {{ .reg .b64 %rd1; .reg .f32 %f1;
        ld.param.u64 %rd1, [x]; mov.f32 %f1, 0f3F000000; red.global.add.f32 [%rd1], %f1; ret; }}"""
    Simulator().load(text).launch("k", grid=(10,), block=(100,), args=[total])
    assert total.tolist() == [500.0]
