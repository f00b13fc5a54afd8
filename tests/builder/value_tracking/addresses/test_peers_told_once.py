"""Variables that get an address of another CTA later in a loop: each is told once."""

from __future__ import annotations

import pytest

from nvbackend import f32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer


@pytest.mark.parametrize("uses", [1, 2])
@pytest.mark.parametrize("variables", [1, 2])
def test_a_variable_that_gets_a_peers_address_later_is_told_once(uses, variables):
    """In the second round it is a peer's; each variable is one cause, however often it is used."""
    k = KernelBuilder("later", "sm_90a", threads=128, cluster=2, parameters=[Parameter("out", Pointer(f32, align=16))])
    own = k.shared(f32, 512, align=16)
    peer = k.cluster.map_shared_rank(own, k.cluster.peer_rank())
    cells = [k.var(own.bytes) for _ in range(variables)]
    k.cluster.sync()
    with k.range(4):
        for cell in cells:
            for _ in range(uses):
                k.cp_async.copy(k.shared_address(cell.value, f32, 16), k.arguments[0], 16)
            cell.set(peer.bytes)
    k.cluster.sync()
    assert [found.rule_id for found in k.core.peers.faults()] == ["cluster.peer-address"] * variables
