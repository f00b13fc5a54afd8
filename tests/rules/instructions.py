"""Rows emitted as they stand."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import u32
from nvbackend.intrinsics.sync import cluster
from nvbackend.rows import Asm, Effect, RegisterClass, Row, Semantics, operand, output, writes
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


@kernel("row.text")
def a_row_that_changes_its_input(k, x: nvb.Pointer[u32]):
    text = "add.u32 {a}, {a}, 1; mov.u32 {d}, {a};"  # breaks
    text = "add.u32 {d}, {a}, 1;"  # keeps
    registers = (output("d", RegisterClass.B32), operand("a", RegisterClass.B32))
    more = Row("mine", "more", "add.u32", registers, Asm(text), summary="One more.")
    x[0] = k.instruction(more, a=x[1])["d"][0]


@kernel("row.semantics")
def a_row_that_stores_in_silence(k, x: nvb.Pointer[u32]):
    box = k.shared(u32, 128)
    thread = k.thread_id()
    said = Semantics()  # breaks
    said = Semantics(memory=(writes("p", 4),))  # keeps
    registers = (operand("p", RegisterClass.SHARED), operand("v", RegisterClass.B32))
    text = Asm("st.shared.u32 [{p}], {v};")
    put = Row("mine", "put", "st.shared.u32", registers, text, effects=Effect.WRITES_MEMORY, semantics=said)
    k.instruction(put, p=box + thread, v=x[thread])
    k.barrier.sync()
    x[thread] = box[127 - thread]
