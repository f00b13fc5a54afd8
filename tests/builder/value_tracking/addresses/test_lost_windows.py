"""Arithmetic on the address of a peer's shared memory: what it loses is asked for, and what is left is an offset."""

from __future__ import annotations

import re

import pytest
from llvmlite import ir

from nvbackend import DiagnosticError, f32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.value_tracking.addresses.origins import is_unknown
from nvbackend.isel.machine import facts
from nvbackend.signature import Parameter, Pointer, Scalar


def emitted(body) -> list[str]:
    """The loads and stores of shared memory that `body(k, out, own, peer)` becomes; ptxas takes it."""
    k = KernelBuilder("peers", "sm_90a", threads=128, cluster=2, parameters=[Parameter("out", Pointer(f32, align=16))])
    own = k.shared(f32, 512, align=16)
    peer = k.cluster.map_shared_rank(own, k.cluster.peer_rank())
    k.cluster.sync()
    body(k, k.arguments[0], own, peer)
    k.cluster.sync()
    done = k.finish(check=False).compile()
    assert done.cubin
    return re.findall(r"\b((?:ld|st)\.shared[\w.:]*)", done.ptx)


def of_number(k):
    """A number that no constant is."""
    return k.thread_id().to(u32) + 1


LOST = {
    "divided and multiplied": lambda k, own, peer: (peer.bytes // 16) * 16,
    "divided, multiplied and moved": lambda k, own, peer: (peer.bytes // 8 * 8) + 16,
    "divided by an index": lambda k, own, peer: peer.bytes // of_number(k) * of_number(k),
    "its remainder by an index": lambda k, own, peer: peer.bytes % of_number(k),
    "shifted and its remainder": lambda k, own, peer: (peer.bytes >> 1) % of_number(k) * 2,
    "itself in itself": lambda k, own, peer: peer.bytes & peer.bytes,
    "masked by an index": lambda k, own, peer: peer.bytes & of_number(k),
    "masked by what an index has not": lambda k, own, peer: peer.bytes & ~of_number(k),
    "negated twice": lambda k, own, peer: 0 - (0 - peer.bytes),
    "doubled and halved": lambda k, own, peer: (peer.bytes * 2) >> 1,
    "shifted by an index": lambda k, own, peer: (peer.bytes >> of_number(k)) << of_number(k),
    "shifted out and multiplied": lambda k, own, peer: (peer.bytes >> 8) * 256,
    "its offset alone": lambda k, own, peer: peer.bytes & 0xFFFFFF,
    "its remainder alone": lambda k, own, peer: peer.bytes % 65536,
    "its rank alone": lambda k, own, peer: peer.bytes >> 24,
    "a multiple of the distance": lambda k, own, peer: own.bytes + (peer.bytes - own.bytes) * of_number(k),
    "the lesser of two": lambda k, own, peer: k.math.min(peer.bytes // 16 * 16, own.bytes),
    "a variable": lambda k, own, peer: k.var(peer.bytes // 16 * 16).value,
}


@pytest.mark.parametrize("what", LOST)
@pytest.mark.parametrize("use", ["load", "store"])
def test_a_peers_address_of_which_the_window_may_be_lost(what, use):
    def body(k, out, own, peer):
        at = k.shared_address(LOST[what](k, own, peer), f32, 4)
        at.load() if use == "load" else at.store(1.0)

    with pytest.raises(DiagnosticError, match=r"cluster\.window"):
        emitted(body)


def test_its_window_is_named():
    def body(k, out, own, peer):
        for lost in LOST.values():
            k.shared_address(lost(k, own, peer), f32, 4, window="cluster")[0] = 1.0

    assert {*emitted(body)} == {"st.shared::cluster.b32"}


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_whose_memory_it_is_stays_known_where_the_window_is_named(rank):
    """Also by the call that says it; of a number from outside it is not known."""
    k = KernelBuilder("peers", "sm_90a", threads=128, cluster=3, parameters=[Parameter("n", Scalar(u32))])
    own = k.shared(f32, 512, align=16)
    k.cluster.sync()
    k.shared_address(k.cluster.map_to_peer(own.bytes, rank) + 16, f32, 4, window="cluster")[0] = 1.0
    k.shared_address(k.arguments[0], f32, 4, window="cluster")[0] = 1.0
    k.cluster.sync()
    stores = [one for one in k.finish(check=False).machine.instructions() if one.opcode == "st.shared::cluster"]
    known, unknown = stores
    assert facts.peers_of(known.facts[facts.PEERS], (rank + 1) % 3) == [rank]
    assert facts.PEERS not in unknown.facts


def test_a_variable_that_loses_the_window_in_the_next_round():
    def body(k, out, own, peer):
        at = k.var(own.bytes)
        with k.range(4) as i:
            out[i] = k.shared_address(at.value, f32, 4)[0]
            at.set(peer.bytes // 16 * 16)

    with pytest.raises(DiagnosticError, match=r"cluster\.window"):
        emitted(body)


OFFSETS = {
    "the rank": lambda k, own, peer: peer.bytes >> 24,
    "a row for each rank": lambda k, own, peer: (peer.bytes >> 24) * 64,
    "an index for each rank": lambda k, own, peer: (peer.bytes >> 24) * of_number(k),
    "by the rank's own instruction": lambda k, own, peer: k.cluster.rank_of(peer.bytes) * 16,
    "the part of a line": lambda k, own, peer: peer.bytes % 128,
    "the line it is in": lambda k, own, peer: (peer.bytes & 0xFFFF80) >> 7,
    "a field of a descriptor": lambda k, own, peer: (peer.bytes & 0x3FFFF) >> 4,
    "what is left of a line": lambda k, own, peer: 128 - (peer.bytes & 127),
    "by a comparison": lambda k, own, peer: k.select(peer.bytes > own.bytes, k.const(0, u32), k.const(16, u32)),
}


@pytest.mark.parametrize("what", OFFSETS)
def test_what_a_peers_address_is_good_for_as_an_offset(what):
    def body(k, out, own, peer):
        k.shared_address(own.bytes + OFFSETS[what](k, own, peer), f32, 4)[0] = 1.0

    assert emitted(body) == ["st.shared.b32"]


@pytest.mark.parametrize(("space", "known"), [(0, False), (1, False), (3, True), (7, True)])
@pytest.mark.parametrize("form", ["instruction", "constant"])
def test_a_sum_is_in_a_known_window_where_a_part_is_an_address_of_shared_memory(space, known, form):
    """Of the CTA's (3) or the cluster's (7), whatever is added to it; PTX ISA 5.1.7. Constants are of the CTA's own."""
    module = ir.Module()
    pointer = ir.PointerType(ir.IntType(32), addrspace=space)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.IntType(32), pointer]), "f")
    number, place = function.args
    code = ir.IRBuilder(function.append_basic_block())
    assert is_unknown(number, ()) == "is an argument of the function"
    if form == "constant":
        own = ir.GlobalVariable(module, ir.IntType(32), "own", addrspace=3)
        part, known = own.ptrtoint(ir.IntType(32)), True
    else:
        part = code.ptrtoint(place, ir.IntType(32))
    assert (is_unknown(code.add(number, part), ()) == "") is known
    assert is_unknown(code.add(number, ir.Constant(ir.IntType(32), 16)), ()) == "is an argument of the function"
