"""Shared memory of another CTA of the cluster: plain loads, stores and atomics, and what may not take its addresses."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, Major, SmemLayout, SwizzleMode, f16, f32, i32, u32, u64
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.copy.matrix_move import ldmatrix
from nvbackend.layout import Layout
from nvbackend.signature import Parameter, Pointer, TensorMap


def builder(element=f32, cluster=2, target="sm_90a") -> KernelBuilder:
    parameters = [Parameter("out", Pointer(element, align=16))]
    return KernelBuilder("peers", target, threads=128, cluster=cluster, parameters=parameters)


def instructions(ptx: str) -> list[str]:
    """The accesses to shared memory and the mapping, without their operands."""
    return re.findall(r"\b((?:ld|st|atom|mapa)\.shared[\w.:]*)", ptx)


def compiled(body, element=f32, **options) -> list[str]:
    """What `body(k, out, own, peer)` becomes between two barriers of the cluster; ptxas takes it."""
    k = builder(element, **options)
    own = k.shared(element, 512, align=16)
    peer = k.cluster.map_shared_rank(own, k.cluster.peer_rank())
    k.cluster.sync()
    body(k, k.arguments[0], own, peer)
    k.cluster.sync()
    done = k.finish(check=False).compile()
    assert done.cubin
    return instructions(done.ptx)


def test_one_element():
    def body(k, out, own, peer):
        out[k.thread_id()] = peer[k.thread_id()]
        peer[k.thread_id() + 128] = 2.0

    assert compiled(body) == ["mapa.shared::cluster.u32", "ld.shared::cluster.b32", "st.shared::cluster.b32"]


@pytest.mark.parametrize("target", ["sm_90", "sm_100a", "sm_120a"])
def test_vectors(target):
    def body(k, out, own, peer):
        mine = k.thread_id() * 4
        (out + mine).store(*(peer + mine).load(4))
        (peer + mine).store(1.0, 2.0, 3.0, 4.0)

    load, store = compiled(body, target=target)[1:]
    assert load in ("ld.shared::cluster.v4.b32", "ld.shared::cluster.v2.b64")
    assert store == "st.shared::cluster.v4.b32"


@pytest.mark.parametrize(
    ("element", "operation"), [(i32, "add"), (u32, "max"), (u64, "exch"), (f32, "add"), (i32, "xor")]
)
def test_atomics(element, operation):
    def body(k, out, own, peer):
        out[k.thread_id()] = peer.atomic(operation, k.const(1, element))

    kind = {"add": f"add.{'u32' if element is i32 else 'f32'}", "max": "max.u32", "exch": "exch.b64", "xor": "xor.b32"}
    assert compiled(body, element)[1:] == [f"atom.shared::cluster.{kind[operation]}"]


def test_an_address_from_its_number():
    def body(k, out, own, peer):
        mapped = k.cluster.map_to_peer(own.bytes, 1)
        moved = k.shared_address(mapped + 16, f32, 4)
        out[0] = moved[k.thread_id()]

    assert compiled(body) == ["mapa.shared::cluster.u32", "ld.shared::cluster.b32"]


def test_an_address_kept_in_a_variable():
    def body(k, out, own, peer):
        at = k.var(k.cluster.map_to_peer(own.bytes, 0))
        with k.range(k.thread_id()) as i:
            at += 4
            out[i] = k.shared_address(at.value, f32, 4)[0]

    assert "ld.shared::cluster.b32" in compiled(body)


@pytest.mark.parametrize(
    "moved",
    [
        lambda k, m: k.uniform(m),
        lambda k, m: (m >> 4) << 4,
        lambda k, m: ((m >> 4) & 0x0FFFFFFF) << 4,
        lambda k, m: k.uniform((m >> 7) << 7) + 16,
    ],
)
def test_an_address_that_is_shuffled_or_rounded_down(moved):
    def body(k, out, own, peer):
        mapped = k.cluster.map_to_peer(own.bytes, 1)
        out[0] = k.shared_address(moved(k, mapped), f32, 4)[0]

    assert "ld.shared::cluster.b32" in compiled(body)


def test_the_rank_in_an_address_is_no_address():
    def body(k, out, own, peer):
        rank = k.cluster.map_to_peer(own.bytes, 1) >> 24
        out[0] = k.shared_address(own.bytes + (rank & 4), f32, 4)[0]

    assert "ld.shared.b32" in compiled(body)


def test_a_variable_that_is_a_peers_address_in_the_next_round():
    def body(k, out, own, peer):
        at = k.var(own.bytes)
        with k.range(k.thread_id()) as i:
            out[i] = k.shared_address(at.value, f32, 4)[0]
            at.set(k.cluster.map_to_peer(own.bytes, 1))

    with pytest.raises(DiagnosticError, match=r"cluster\.peer-address"):
        compiled(body)


def test_an_instruction_by_a_number_that_is_a_peers_address_in_the_next_round():
    def body(k, out, own, peer):
        at = k.var(own.bytes)
        with k.range(4):
            k.instruction(ldmatrix(1), address=at.value)
            at.set(k.cluster.map_to_peer(own.bytes, 1))

    with pytest.raises(DiagnosticError, match=r"cluster\.peer-address"):
        compiled(body)


def test_a_variable_that_is_a_peers_address_after_its_use():
    def body(k, out, own, peer):
        with k.range(k.thread_id()) as i:
            at = k.var(own.bytes)
            out[i] = k.shared_address(at.value, f32, 4)[0]
            at.set(k.cluster.map_to_peer(own.bytes, 1))
            out[i + 128] = k.shared_address(at.value, f32, 4)[0]

    assert {"ld.shared.b32", "ld.shared::cluster.b32"} <= {*compiled(body)}


def test_a_tensor_of_a_peer():
    def body(k, out, own, peer):
        tensor = k.tensor(peer, Layout((16, 32), (32, 1)))
        out[0] = tensor[k.thread_id() % 16, 3]

    assert compiled(body)[1:] == ["ld.shared::cluster.b32"]


def test_the_generic_address_of_a_peer():
    def body(k, out, own, peer):
        k.arguments[0].cast(u64)[0] = k.generic_address(peer)

    assert compiled(body) == ["mapa.shared::cluster.u32"]


TILE = SmemLayout(Major.K, SwizzleMode.NONE, f16, 64, 64)
PRODUCT = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
REFUSED = {
    "ldmatrix": lambda k, own, peer: k.mma.ldmatrix(peer, 1),
    "stmatrix": lambda k, own, peer: k.mma.stmatrix(peer, [k.const(0, u32)]),
    "wmma": lambda k, own, peer: k.wmma.load("a", "m16n16k16", f16, peer.cast(f16), stride=16),
    "cp.async": lambda k, own, peer: k.cp_async.copy(peer, k.arguments[0], 16),
    "map again": lambda k, own, peer: k.cluster.map_to_peer(peer.bytes, 1),
    "descriptor": lambda k, own, peer: k.wgmma.mma_async(
        k.wgmma.accumulator(64), SharedTile(peer, TILE), SharedTile(own, TILE), PRODUCT
    ),
    "bulk source": lambda k, own, peer: k.bulk.store(k.arguments[0], peer, 64),
    "barrier of a copy": lambda k, own, peer: k.bulk.load(own, k.arguments[0], 64, peer.cast(u64), space="cta"),
    "barrier of cp.async": lambda k, own, peer: k.cp_async.mbarrier_arrive(peer.cast(u64)),
    "wait": lambda k, own, peer: k.mbarrier.wait(peer.cast(u64), 0),
    "init": lambda k, own, peer: k.mbarrier.init(peer.cast(u64), 1),
    "inval": lambda k, own, peer: k.mbarrier.inval(peer.cast(u64)),
    "arrive": lambda k, own, peer: k.mbarrier.arrive(peer.cast(u64)),
}


@pytest.mark.parametrize(("window", "what"), [(window, what) for window in (False, True) for what in REFUSED])
def test_what_takes_addresses_of_its_own_cta_alone(what, window):
    k = builder()
    own = k.shared(f32, 4096, align=1024)
    number = k.arguments[0].cast(u32)[3]
    peer = k.shared_address(number, f32, 1024, window="cluster") if window else k.cluster.map_shared_rank(own, 1)
    with pytest.raises(DiagnosticError) as raised:
        REFUSED[what](k, own, peer)
    assert [one.rule.id for one in raised.value.diagnostics] == ["cluster.peer-address"]


def test_the_barrier_of_a_pair_may_be_the_peers():
    """With cta_group 2 a copy completes on the barrier of either CTA (PTX ISA 9.7.9, cp.async.bulk.tensor)."""
    parameters = [Parameter("a", TensorMap(f16, (64, 64), 128))]
    k = KernelBuilder("pair", "sm_100a", threads=128, cluster=2, parameters=parameters)
    tile, full = k.shared_tile(SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)), k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.one_thread():
        k.tma.load_box(tile.address, k.arguments[0], (0, 0), k.cluster.map_shared_rank(full, 0), cta_group=2)
    with pytest.raises(DiagnosticError, match=r"cluster\.peer-address"):
        k.mbarrier.wait(k.cluster.map_shared_rank(full, 0), 0)


def verified(body, **options) -> list[str]:
    k = builder(**options)
    own = k.shared(f32, 128)
    body(k, k.arguments[0], own, k.cluster.map_shared_rank(own, k.cluster.peer_rank()))
    try:
        k.finish(check=False)
    except DiagnosticError as error:
        return sorted(one.rule.id for one in error.diagnostics)
    return []


def test_an_access_outside_of_the_peers_memory():
    def body(k, out, own, peer):
        k.cluster.sync()
        out[0] = peer[k.thread_id() + 1]
        k.cluster.sync()

    assert verified(body) == ["shared.bounds"]


EARLY, LATE = "cluster.access-before-start", "cluster.exit-before-access"


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("use", ["load", "store", "atomic"])
def test_the_peer_is_there_before_and_after(before, after, use):
    def body(k, out, own, peer):
        if before:
            k.cluster.sync()
        {"load": peer.load, "store": lambda: peer.store(1.0), "atomic": lambda: peer.atomic("add", 1.0)}[use]()
        if after:
            k.cluster.sync()

    assert verified(body) == [EARLY] * (not before) + [LATE] * (not after)


def test_some_path_ends_without_a_barrier():
    def body(k, out, own, peer):
        k.cluster.sync()
        with k.range(4) as i:
            out[i] = peer[k.thread_id()]
            with k.if_(k.block_id("y") == i):
                k.return_()
        k.cluster.sync()

    assert verified(body) == [LATE]


def test_threads_that_access_and_threads_that_do_not():
    def body(k, out, own, peer):
        own[k.thread_id()] = 1.0
        k.cluster.sync()
        with k.if_(k.thread_id() < 32), k.range(4) as i:
            out[i] = peer[k.thread_id()]
        k.cluster.sync()

    assert verified(body) == []


def test_mbarriers_may_do_it_instead():
    def body(k, out, own, peer):
        full = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        k.mbarrier.arrive(full, rank=k.cluster.peer_rank(), when=k.thread_id() == 0)
        k.mbarrier.wait(full, 0)
        out[k.thread_id()] = peer[k.thread_id()]
        k.cluster.sync()

    assert verified(body) == []


SIGNALS = {
    "init": lambda k, full: None,
    "arrive": lambda k, full: k.mbarrier.arrive(full),
    "expect": lambda k, full: k.mbarrier.expect_tx(full, 16),
    "complete": lambda k, full: k.mbarrier.complete_tx(full, 16),
    "test": lambda k, full: k.mbarrier.test(full),
    "wait": lambda k, full: k.mbarrier.wait(full, 0),
    "arrive at one from memory": lambda k, full: k.mbarrier.arrive(from_memory(k)),
    "wait at one from memory": lambda k, full: k.mbarrier.wait(from_memory(k), 0),
}


def from_memory(k):
    return k.shared_address(k.arguments[0].cast(u32)[3], u64, 8, window="cta")


@pytest.mark.parametrize("signal", SIGNALS)
def test_only_who_waits_at_an_mbarrier_may_know_that_the_peer_has_read(signal):
    """PTX ISA 9.7.13.15: the other operations on an mbarrier never hold up the thread, and tell it nothing."""

    def body(k, out, own, peer):
        full = k.mbarrier.array(1, 1)
        k.mbarrier.ready()  # where the peer has started
        out[k.thread_id()] = peer[k.thread_id()]
        SIGNALS[signal](k, full)

    assert (LATE in verified(body)) is (signal not in ("test", "wait", "wait at one from memory"))


def test_writes_to_a_peer_are_no_race_with_ones_own():
    """Each thread writes its own element here, and its neighbour's there."""

    def body(k, out, own, peer):
        k.cluster.sync()
        own[k.thread_id()] = 1.0
        peer[k.thread_id() ^ 32] = 2.0
        k.cluster.sync()

    assert verified(body) == []


def test_without_a_cluster():
    k = builder(cluster=1)
    with pytest.raises(DiagnosticError, match=r"cluster\.no-peer"):
        k.cluster.map_shared_rank(k.shared(f32, 1), k.thread_id())


# -- an address from memory -----------------------------------------------------------------------------------------


def from_a_table(k, out, own, peer):
    """The addresses of both CTAs, stored in shared memory, loaded again by an index."""
    table = k.shared(u32, 2)
    with k.if_(k.thread_id() == 0):
        table[0], table[1] = own.bytes, peer.bytes
    k.barrier.sync()
    return table[k.thread_id() & 1]


WINDOW = r"cluster\.window"
OPEN = {
    "a table in shared memory": from_a_table,
    "a table in global memory": lambda k, out, own, peer: out.cast(u32)[3],
    "a vector of addresses": lambda k, out, own, peer: out.cast(u32).load(2)[1],
    "what an atomic returns": lambda k, out, own, peer: k.shared(u32, 1).atomic("exch", peer.bytes),
    "moved": lambda k, out, own, peer: out.cast(u32)[3] + k.thread_id().to(u32) * 4,
    "chosen": lambda k, out, own, peer: k.select(k.thread_id() == 0, own.bytes, out.cast(u32)[3]),
    "shuffled": lambda k, out, own, peer: k.uniform(out.cast(u32)[3]),
    "a variable": lambda k, out, own, peer: in_a_variable(k, out.cast(u32)[3], own.bytes),
}


def in_a_variable(k, first, then):
    at = k.var(first)
    with k.if_(k.thread_id() == 0):
        at.set(then)
    return at.value


@pytest.mark.parametrize("what", OPEN)
def test_a_number_that_does_not_show_whose_it_is(what):
    with pytest.raises(DiagnosticError, match=WINDOW):
        compiled(lambda k, *given: k.shared_address(OPEN[what](k, *given), f32, 4)[0])


@pytest.mark.parametrize("what", OPEN)
@pytest.mark.parametrize(("window", "space"), [("cta", ""), ("cluster", "::cluster")])
def test_its_window_is_named(what, window, space):
    def body(k, out, own, peer):
        k.shared_address(OPEN[what](k, out, own, peer), f32, 4, window=window)[0] = 1.0

    assert compiled(body)[-1] == f"st.shared{space}.b32"


def test_a_list_that_is_followed():
    """The next address is loaded in the loop that reads at it."""

    def body(k, out, own, peer, window=None):
        at = k.var(own.bytes)
        with k.range(4) as i:
            node = k.shared_address(at.value, u32, 4, window=window)
            out[i] = node[1].bitcast(f32)
            at.set(node[0])

    with pytest.raises(DiagnosticError, match=WINDOW):
        compiled(body)
    assert "ld.shared::cluster.b32" in compiled(lambda *given: body(*given, window="cluster"))


KNOWN = {
    "an offset from memory": lambda k, out, own: own.bytes + out.cast(u32)[3],
    "an index": lambda k, out, own: k.thread_id().to(u32) * 4,
    "a number": lambda k, out, own: k.const(1024, u32),
    "either of two": lambda k, out, own: k.select(out[0] > 1.0, own.bytes, own.bytes + 4),
    "a variable": lambda k, out, own: in_a_variable(k, own.bytes, own.bytes + out.cast(u32)[3]),
    "a minimum": lambda k, out, own: k.math.min(own.bytes, own.bytes + 16),
}


@pytest.mark.parametrize("what", KNOWN)
def test_a_number_that_shows_that_it_is_the_ctas_own(what):
    def body(k, out, own, peer):
        k.shared_address(KNOWN[what](k, out, own), f32, 4)[0] = 1.0

    assert compiled(body)[-1:] == ["st.shared.b32"]


def test_no_window_is_asked_for_without_a_cluster():
    k = builder(cluster=1)
    k.shared_address(k.arguments[0].cast(u32)[0], f32, 4)[0] = 1.0
    k.finish()
    alone = builder(cluster=1)
    with pytest.raises(DiagnosticError, match=r"(?s)cluster\.no-peer.*clusters of 1\n.*cluster=2"):
        alone.shared_address(alone.const(0, u32), f32, 4, window="cluster")


def test_a_window_that_there_is_not():
    k = builder()
    with pytest.raises(DiagnosticError, match=r"instruction\.variant"):
        k.shared_address(k.const(0, u32), f32, 4, window="gpu")


def test_a_peers_address_in_the_window_of_this_cta():
    with pytest.raises(DiagnosticError, match=r"cluster\.peer-address"):
        compiled(lambda k, out, own, peer: k.shared_address(peer.bytes, f32, 4, window="cta"))


def test_a_chain_of_a_thousand_steps_is_a_peers():
    def body(k, out, own, peer):
        at = peer.bytes
        for _ in range(1000):
            at = (at + 4) ^ k.thread_id().to(u32)
        k.shared_address(at, f32, 4)[0] = 1.0

    assert compiled(body)[1:] == ["st.shared::cluster.b32"]


def test_a_pointer_for_llvmlite_is_of_the_cluster():
    k = builder()
    own = k.shared(f32, 512)
    assert str(k.cluster.map_shared_rank(own, k.cluster.peer_rank()).pointer().type) == "ptr addrspace(7)"
    wrong = k.cluster.map_shared_rank(own, k.cluster.rank() + 2)
    with pytest.raises(DiagnosticError) as caught:
        wrong.pointer()
    assert [each.rule_id for each in caught.value.diagnostics] == ["cluster.rank"]
