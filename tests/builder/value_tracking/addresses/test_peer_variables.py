"""Variables that are addresses of another CTA on some ways, and are set back to this CTA's own on others."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError, f32, u64
from tests.builder.value_tracking.addresses.test_peer_memory import builder, compiled


def test_a_variable_that_is_set_back_on_the_way_to_its_use():
    """What it is at the end of a round does not come to the loads, which have their own address in front of them."""

    def body(k, out, own, peer):
        at = k.var(own.bytes)
        with k.range(k.thread_id()) as i:
            with k.if_(i == 3):
                at.set(own.bytes + 16)
                with k.range(4) as j:
                    out[j] = k.shared_address(at.value, f32, 4)[0]
            at.set(peer.bytes)
            with k.if_(i == 2):
                out[i] = k.shared_address(at.value, f32, 4)[0]

    assert {"ld.shared.b32", "ld.shared::cluster.b32"} <= {*compiled(body)}


def test_a_variable_that_is_set_back_on_one_way_alone():
    def body(k, out, own, peer):
        at = k.var(own.bytes)
        with k.range(k.thread_id()) as i:
            with k.if_(i == 3):
                at.set(own.bytes + 16)
            out[i] = k.shared_address(at.value, f32, 4)[0]
            at.set(peer.bytes)

    with pytest.raises(DiagnosticError, match=r"cluster\.peer-address") as raised:
        compiled(body)
    assert len(raised.value.diagnostics) == 1


def test_a_variable_that_gets_a_peers_address_from_another():
    def body(k, out, own, peer):
        first, second = k.var(own.bytes), k.var(own.bytes)
        with k.range(k.thread_id()) as i:
            out[i] = k.shared_address(second.value, f32, 4)[0]
            second.set(first.value)
            first.set(peer.bytes)

    with pytest.raises(DiagnosticError, match=r"cluster\.peer-address"):
        compiled(body)


def test_an_mbarrier_whose_variable_was_a_peers_before():
    """What takes the CTA's own addresses alone takes the variable after it is set back."""
    k = builder()
    full = k.mbarrier.array(1, 128)
    at = k.var(k.cluster.map_to_peer(full.bytes, 1))
    at.set(full.bytes)
    with k.range(4):
        k.mbarrier.arrive(k.shared_address(at.value, u64, 8))
    again = builder()
    full = again.mbarrier.array(1, 128)
    at = again.var(full.bytes)
    with again.if_(again.thread_id() == 0):
        at.set(again.cluster.map_to_peer(full.bytes, 1))
    with pytest.raises(DiagnosticError, match=r"cluster\.peer-address"):
        again.mbarrier.arrive(again.shared_address(at.value, u64, 8))
