"""Rows emitted as they stand."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import u32
from nvbackend.intrinsics.sync import cluster
from tests.rules.example import kernel


@kernel("instruction.operands", cluster=2)
def rank_left_out(k, out: nvb.Pointer[u32]):
    here = k.generic_address(k.shared(u32, 1, align=16))
    k.instruction(cluster.mapa(None, 64), address=here)  # breaks
    k.instruction(cluster.mapa(None, 64), address=here, rank=1)  # keeps


@kernel("shuffle.lanes")
def segments_of_no_power_of_two(k):
    width = 12  # breaks
    width = 16  # keeps
    k.warp.shuffle(k.thread_id(), "bfly", 1, width=width)


@kernel("warp.members")
def neighbour_that_takes_no_part(k):
    members = 0xFFFF  # breaks
    members = 0xFFFFFFFF  # keeps
    k.warp.vote("any", k.lane_id() == 3, members=members)
