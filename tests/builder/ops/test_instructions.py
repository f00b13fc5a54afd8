"""Rows as calls: operands by name, generic addresses, and what is refused."""

from __future__ import annotations

import re

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics import spellings
from nvbackend.intrinsics.row.types import f32, u32, u64
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import cluster, mbarrier, mbarrier_phases
from nvbackend.signature import Parameter, Pointer
from tests.support.said import rule_here


class Using:
    """A kernel with a pointer, shared memory and a barrier."""

    def __init__(self, target="sm_90a", cluster=2):
        self.k = KernelBuilder("use", target, threads=32, cluster=cluster, parameters=[Parameter("out", Pointer(u32))])
        (self.out,) = self.k.arguments
        self.barrier = self.k.shared(u64, 1, align=8)

    def ptx(self):
        return re.sub(r"[ \t]+", " ", self.k.finish().compile().ptx)


def generic(row):
    (found,) = [one for one in spellings.other_spellings(row) if one.axes["spelling"] == "generic"]
    return found


def test_a_shared_address_becomes_a_generic_one_where_the_row_wants_it():
    u = Using()
    u.barrier = u.k.mbarrier.array(1, arrivals=32)
    u.k.mbarrier.ready()
    state = u.k.instruction(generic(mbarrier.arrive_state()), barrier=u.barrier)["state"][0]
    done = u.k.instruction(generic(mbarrier_phases.wait("test_wait", "state")), barrier=u.barrier, state=state)["done"]
    u.out[0] = u.k.select(done[0], 1, 0).to(u32)
    text = u.ptx()
    (shared,) = set(re.findall(r"cvta\.shared\.u64 (%rd\d+), ", text))
    (arrived,) = re.findall(r"mbarrier\.arrive\.b64 (%rd\d+), \[%rd\d+\];", text)
    assert f"mbarrier.arrive.b64 {arrived}, [{shared}];" in text
    assert re.search(rf"mbarrier\.test_wait\.b64 %p\d+, \[{shared}\], {arrived};", text)


def test_addresses_go_to_peers_and_back():
    u = Using()
    here = u.k.generic_address(u.barrier)
    there = u.k.instruction(cluster.mapa(None, 64), address=here, rank=1)["mapped"][0]
    u.out[0] = u.k.instruction(cluster.getctarank(None, 64), address=there)["rank"][0]
    text = u.ptx()
    (mapped,) = re.findall(r"mapa\.u64 (%rd\d+), %rd\d+, (?:1|%r\d+);", text)
    assert re.search(rf"getctarank\.u64 %r\d+, {mapped};", text)
    assert str(there.type) == "u64"


def test_an_address_in_global_memory_is_its_own_generic_address():
    u = Using()
    assert str(u.k.generic_address(u.out).type) == "u64"


def test_what_the_row_does_not_take_is_refused():
    u = Using("sm_80", cluster=1)
    k, row = u.k, generic(mbarrier.init())
    assert rule_here(lambda: k.instruction(row, barrier=u.barrier)) == "instruction.operands"
    assert rule_here(lambda: k.instruction(row, barrier=u.barrier, count=1, bytes=2)) == "instruction.operands"
    assert rule_here(lambda: k.instruction(row, barrier=u.barrier, count=[1, 2])) == "instruction.operands"
    assert rule_here(lambda: k.instruction(row, barrier=u.barrier, count=k.const(1.0, f32))) == "value.type"
    assert rule_here(lambda: k.instruction(sync.elect(), mask=1)) == "target.feature"
