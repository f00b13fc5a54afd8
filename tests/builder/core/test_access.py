"""Memory orders, cache hints, const and restrict pointers and wide vectors of `Address.load` and `Address.store`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, f64, u8, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import DiagnosticError
from nvbackend.signature import Parameter, Pointer

TARGET = "sm_100a"


def _kernel(body: Any, *kinds: Any, target: str = TARGET) -> Any:
    parameters = [Parameter(f"p{index}", kind) for index, kind in enumerate(kinds)]
    k: Any = KernelBuilder("accesses", target, threads=32, parameters=parameters)
    body(k, *k.arguments)
    return k.finish()


def _ptx(body: Any, *kinds: Any, target: str = TARGET) -> str:
    return str(_kernel(body, *kinds, target=target).compile(assemble=False).ptx)


def _accesses(ptx: str) -> list[str]:
    return re.findall(r"^\s+((?:ld|st)\.(?!param)\S+)", ptx, re.M)


def test_each_argument_is_its_word_of_the_instruction() -> None:
    def body(k: Any, x: Any, out: Any) -> None:
        policy = k.cache.policy("L2::evict_first")
        values = [
            *x.load(order="acquire", scope="gpu"),
            *(x + 4).load(order="relaxed", scope="cluster", evict="L1::no_allocate", prefetch=128),
            *(x + 8).load(4, cache="cs", cache_policy=policy),
            *(x + 16).load(8, evict=("L1::evict_last", "L2::evict_first"), prefetch=256),
            *(x + 32).load(order="volatile"),
            *(x + 33).load(cache_policy=policy),
        ]
        out.store(values[0], order="release", scope="sys")
        (out + 4).store(*values[2:6], cache="wt", cache_policy=policy)
        (out + 8).store(*values[6:14], evict="L2::evict_last")
        (out + 16).store(values[1], order="volatile")
        (out + 20).store(values[14], order="relaxed", scope="cta", evict="L1::evict_first")
        (out + 21).store(values[15], cache_policy=policy)

    assert _accesses(_ptx(body, Pointer(f32, 32), Pointer(f32, 32))) == [
        "ld.acquire.gpu.global.b32",
        "ld.relaxed.cluster.global.L1::no_allocate.L2::128B.b32",
        "ld.global.cs.L2::cache_hint.v4.b32",
        "ld.global.L1::evict_last.L2::evict_first.L2::256B.v8.b32",
        "ld.volatile.global.b32",
        "ld.global.L2::cache_hint.b32",
        "st.release.sys.global.b32",
        "st.global.wt.L2::cache_hint.v4.b32",
        "st.global.L2::evict_last.v8.b32",
        "st.volatile.global.b32",
        "st.relaxed.cta.global.L1::evict_first.b32",
        "st.global.L2::cache_hint.b32",
    ]


@pytest.mark.parametrize(
    ("element", "count"),
    [
        *(
            (element, count)
            for element in (u8, f16, u32, f64)
            for count in (1, 2, 4, 8, 16)
            if element.bits * count <= 128
        ),
        (u64, 4),
    ],
)
def test_every_type_comes_back_as_it_was(element: Any, count: int) -> None:
    """By rows, whose registers are bits: the bytes of a vector that was loaded are those that are stored."""

    def body(k: Any, x: Any, out: Any) -> None:
        place = k.thread_id() * count
        options = {"order": "relaxed", "scope": "gpu"}
        (out + place).store(*(x + place).load(count, **options), **options)

    size = count * element.bits // 8
    compiled = _kernel(body, Pointer(element, 32), Pointer(element, 32)).compile(assemble=False)
    source = np.random.default_rng(size).integers(0, 256, 32 * size, np.uint8)
    out = np.zeros(32 * size, np.uint8)
    kind = element.numpy_dtype()
    nvb.runtime.load(compiled, device="simulator").launch(1, source.view(kind), out.view(kind))
    assert np.array_equal(out, source)
    assert len(_accesses(compiled.ptx)) == 2


def test_const_pointers_are_read_by_the_non_coherent_path() -> None:
    def body(k: Any, x: Any, out: Any) -> None:
        lane = k.thread_id()
        (out + lane * 4).store(*(x.cast(f32) + lane * 4).load(4))
        out[lane + 256] = (x + lane + 512).load(cache="cs")[0]
        out[lane + 512] = x[lane]

    compiled = _kernel(body, Pointer(f32, const=True), Pointer(f32, restrict=True), target="sm_90a").compile()
    assert "ld.global.b" not in compiled.ptx
    assert compiled.sass().count(".CONSTANT") == 3
    assert ".param .u64 .ptr .global .align 16 accesses_param_0," in compiled.ptx


def test_restrict_lets_llvm_keep_a_value_over_a_store() -> None:
    """The second load of x is the first one's value, where stores to out cannot change it."""

    def body(k: Any, x: Any, out: Any) -> None:
        before = x[0]
        out[0] = 2.0
        out[1] = before + x[0]

    def loads(**promise: bool) -> int:
        return _accesses(_ptx(body, Pointer(f32), Pointer(f32, **promise))).count("ld.global.b32")

    assert (loads(), loads(restrict=True)) == (2, 1)


@pytest.mark.parametrize("align", [4, 16, 256])
def test_the_ptx_states_the_alignment_that_is_promised(align: int) -> None:
    ptx = _ptx(lambda k, x: None, Pointer(f32, align, restrict=True))
    assert f".ptr .global .align {align} " in ptx


def test_a_vector_of_32_bytes_is_one_access_from_sm_100_on() -> None:
    def body(k: Any, x: Any, out: Any) -> None:
        (out + k.thread_id() * 8).store(*(x + k.thread_id() * 8).load(8))

    kinds = Pointer(f32, 32), Pointer(f32, 32)
    assert len(_accesses(_ptx(body, *kinds))) == 2
    with pytest.raises(DiagnosticError) as refused:
        _kernel(body, *kinds, target="sm_90a")
    assert [one.rule.id for one in refused.value.diagnostics] == ["memory.vector"]
    assert "moves 1, 2, 4, 8 or 16" in str(refused.value)


def test_shared_memory_takes_no_32_bytes() -> None:
    with pytest.raises(DiagnosticError, match="moves 1, 2, 4, 8 or 16"):
        _kernel(lambda k: k.shared(f32, 64, align=32).load(8))


@pytest.mark.parametrize(
    ("rule", "said", "call"),
    [
        ("memory.order", "loads acquire and stores release", lambda k, x: x.load(order="release", scope="gpu")),
        ("memory.order", "loads acquire and stores release", lambda k, x: x.store(1, order="acquire", scope="gpu")),
        ("memory.order", "it needs a scope", lambda k, x: x.load(order="acquire")),
        ("memory.order", "'warp' is not a scope", lambda k, x: x.load(order="acquire", scope="warp")),
        ("memory.order", "weak accesses have no scope", lambda k, x: x.load(scope="gpu")),
        ("memory.order", "volatile accesses have no scope", lambda k, x: x.load(order="volatile", scope="gpu")),
        ("memory.order", "only fences and atomics", lambda k, x: x.load(order="acq_rel", scope="gpu")),
        ("memory.order", "only fences and atomics", lambda k, x: x.store(1, order="sc", scope="gpu")),
        ("memory.order", "there is no such order", lambda k, x: x.load(order="strong", scope="gpu")),
        ("memory.caching", "there is no cache operator", lambda k, x: x.load(cache="wb")),
        ("memory.caching", "there is no cache operator", lambda k, x: x.store(1, cache="ca")),
        ("memory.caching", "there is no eviction priority", lambda k, x: x.load(evict="evict_last")),
        ("memory.caching", "there is no eviction priority", lambda k, x: x.load(evict="L2::no_allocate")),
        ("memory.caching", "two priorities of L1", lambda k, x: x.load(evict=("L1::evict_last", "L1::evict_first"))),
        ("memory.caching", "32 bytes are not prefetched", lambda k, x: x.load(prefetch=32)),
        ("memory.caching", "cannot have both .cs and L1", lambda k, x: x.load(cache="cs", evict="L1::evict_last")),
        ("memory.caching", "L2::evict_last is for accesses of 32", lambda k, x: x.load(4, evict="L2::evict_last")),
        ("memory.caching", "a volatile store", lambda k, x: x.store(1, order="volatile", evict="L1::evict_last")),
        ("memory.caching", "the cache operator .cg", lambda k, x: x.load(order="relaxed", scope="gpu", cache="cg")),
        ("memory.caching", "shared memory, which is not", lambda k, x: k.shared(u32, 4).load(evict="L1::evict_last")),
        ("memory.constant", "a store to", lambda k, x: k.global_address(x.pointer(), u32, 4, const=True).store(1)),
        (
            "memory.constant",
            "a load with order='relaxed' from",
            lambda k, x: k.global_address(x.pointer(), u32, 4, const=True).load(order="relaxed", scope="gpu"),
        ),
        ("memory.alignment", "a multiple of 16", lambda k, x: (x + 1).load(4, order="relaxed", scope="gpu")),
    ],
)  # fmt: skip
def test_what_no_instruction_does_is_refused(rule: str, said: str, call: Any) -> None:
    with pytest.raises(DiagnosticError) as refused:
        _kernel(call, Pointer(u32))
    assert [one.rule.id for one in refused.value.diagnostics] == [rule]
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("target", "call"),
    [
        ("sm_80", lambda x: x.load(order="acquire", scope="cluster")),
        ("sm_75", lambda x: x.load(prefetch=256)),
        ("sm_70", lambda x: x.load(prefetch=64)),
    ],
)
def test_a_chip_without_it_is_named(target: str, call: Any) -> None:
    with pytest.raises(DiagnosticError, match=target) as refused:
        _kernel(lambda k, x: call(x), Pointer(u32), target=target)
    assert {one.rule.id for one in refused.value.diagnostics} == {"target.feature"}


def test_nothing_writes_through_a_const_pointer() -> None:
    """Not by an address derived from it, nor by an atomic or an instruction that writes there."""

    def refused(call: Any) -> list[str]:
        with pytest.raises(DiagnosticError) as error:
            _kernel(call, Pointer(u32, const=True), target="sm_90a")
        return [one.rule.id for one in error.value.diagnostics]

    calls: list[Any] = [
        lambda k, x: (x.cast(f32) + 4).byte_offset(16).store(1.0),
        lambda k, x: x.atomic("add", 1),
        lambda k, x: k.bulk.store(x, k.shared(u32, 16), 64),
    ]
    assert [refused(call) for call in calls] == [["memory.constant"]] * 3


def test_an_instruction_reads_through_a_const_pointer() -> None:
    k = nvb.KernelBuilder("read", "sm_90a", threads=32, parameters=[nvb.Parameter("x", Pointer(u32, const=True))])
    (x,) = k.arguments
    shared = k.shared(u32, 16)
    k.bulk.load(shared, x, 64, k.shared(nvb.u64, 1, align=8))
    k.bulk.prefetch(x, 64)
    k.cp_async.copy(shared, x, 16)
    k.cache.prefetch(x)
    assert {one.row.opcode for one in k.machine.instructions() if one.row} >= {"cp.async", "cp.async.bulk", "prefetch"}


def test_an_order_of_shared_memory_and_of_a_peer() -> None:
    def body(k: Any, out: Any) -> None:
        own = k.shared(u32, 32)
        own[k.thread_id()] = 0
        k.cluster.sync()
        peer = k.cluster.map_shared_rank(own, k.cluster.peer_rank())
        (peer + k.thread_id()).store(7, order="release", scope="cluster")
        k.cluster.sync()
        out[k.thread_id()] = (own + k.thread_id()).load(order="acquire", scope="cluster")[0]
        k.cluster.sync()

    parameters = [Parameter("out", Pointer(u32))]
    k: Any = KernelBuilder("orders", "sm_90a", threads=32, cluster=2, parameters=parameters)
    body(k, *k.arguments)
    compiled = k.finish().compile(assemble=False)
    assert {"st.release.cluster.shared::cluster.b32", "ld.acquire.cluster.shared.b32"} <= set(_accesses(compiled.ptx))
    out = np.zeros(32, np.uint32)
    nvb.runtime.load(compiled, device="simulator").launch(2, out)
    assert (out == 7).all()


def test_the_index_of_a_strided_loop_takes_no_64_bit_multiplication() -> None:
    """Products of indices are of 32 bits; what becomes of 64 is an index times the bytes of an element, in one IMAD."""

    def body(k: Any, x: Any, out: Any, n: Any, stride: Any) -> None:
        place, total = k.block_id() * k.threads + k.thread_id(), k.var(0.0)
        with k.range(n) as i:
            total += x[i * stride + place] + x[place * stride + i + 1]
        out[place] = total

    kinds = Pointer(f32, const=True), Pointer(f32, restrict=True), nvb.i32, nvb.i32
    compiled = _kernel(body, *kinds, target="sm_90a").compile()
    assert re.findall(r"(?:mul|mad)\.(?:lo|hi)\.[sub]64", compiled.ptx) == []
    lines = [line for line in compiled.sass().splitlines() if "IMAD.WIDE" in line or "IMAD.HI" in line]
    assert lines
    assert all(re.search(r"IMAD\.WIDE(\.U32)? R\d+, R\d+(\.reuse)?, 0x4, ", line) for line in lines)
