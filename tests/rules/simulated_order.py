"""What running kernels do wrong with barriers, copies, tensor maps and the order of accesses: PTX that is simulated."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f16, u32
from nvbackend.simulator import Simulator
from tests.rules.example import program

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.entry k(.param .align 64 .b8 map[128]) {
.shared .align 1024 .b8 tile[4096]; .shared .b64 full; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;
mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0;
"""


def run(body: str, *, threads: int = 64, **options: object) -> None:
    """Run a body with a map of 64 x 64 f16 in boxes of 16 x 64."""
    tensor_map = nvb.TensorMap(f16, box=(16, 64)).bind(np.zeros((64, 64), np.float16))
    Simulator().load(f"{HEAD}{body} ret; }}").launch("k", block=(threads, 1, 1), args=[tensor_map], **options)


LOAD = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
START = "@%p0 mbarrier.init.shared.b64 [full], 1; bar.sync 0;"
FINISH = "W: mbarrier.try_wait.parity.shared.b64 %p1, [full], 0; @!%p1 bra W;"


@program("simulator.race", located=False)
def two_warps_store_to_one_word():
    order = ""  # breaks
    order = "bar.sync 0;"  # keeps
    run(f"@%p0 st.shared.u32 [tile], 1; {order} setp.eq.u32 %p1, %r0, 40; @%p1 st.shared.u32 [tile], 2;")


@program("simulator.relaxed-barrier", located=False)
def a_word_read_after_a_relaxed_barrier_of_the_cluster():
    how = ".relaxed"  # breaks
    how = ""  # keeps
    run(
        f"@%p0 st.shared.u32 [tile], 7; barrier.cluster.arrive{how}.aligned; barrier.cluster.wait.aligned;"
        "setp.ne.u32 %p1, %r0, 40; @%p1 ret; ld.shared.u32 %r2, [tile];"
    )


@program("simulator.write-race", located=False)
def two_warps_store_one_box():
    row = "0"  # breaks
    row = "%r0"  # keeps
    fill = "".join(f"st.shared.v4.u32 [%r1+{1024 * part}], {{%r0, %r0, %r0, {part}}};" for part in range(4))
    run(
        f"mov.u32 %r2, tile; shl.b32 %r1, %r0, 4; add.u32 %r1, %r1, %r2; {fill} fence.proxy.async.shared::cta;"
        "bar.sync 0; and.b32 %r1, %r0, 31; setp.ne.u32 %p1, %r1, 0; @%p1 ret; shl.b32 %r1, %r0, 6;"
        f"add.u32 %r1, %r1, %r2; {STORE} [%rd0, {{0, {row}}}], [%r1];"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    )


@program("simulator.flag-order", located=False)
def data_behind_a_relaxed_flag():
    order = "relaxed.cta"  # breaks
    order = "release.cta"  # keeps
    flag = "tile+1024"
    run(
        f"@%p0 st.shared.u32 [tile], 7; @%p0 st.{order}.shared.u32 [{flag}], 1; setp.ne.u32 %p1, %r0, 32; @%p1 ret;"
        f"W: ld.acquire.cta.shared.u32 %r1, [{flag}]; setp.ne.u32 %p2, %r1, 1; @%p2 bra W; ld.shared.u32 %r2, [tile];"
    )


@program("simulator.flag-barrier", located=False)
def data_of_a_warp_behind_the_flag_of_another():
    meet = ""  # breaks
    meet = "bar.sync 0;"  # keeps
    text = HEAD.replace(".param .align 64 .b8 map[128]", ".param .u64 memory").split("mov.b64 %rd0, map")[0]
    body = (
        "ld.param.u64 %rd0, [memory]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r0, 32;"
        "setp.ne.u32 %p1, %r0, 0; setp.ne.u32 %p2, %r1, 0; @%p2 bra READ; @%p0 st.global.u32 [%rd0], 7;"
        f"{meet} @%p1 bra END; fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%rd0+16], 1; bra END; READ: @%p1 bra MEET;"
        "W: ld.relaxed.gpu.global.u32 %r2, [%rd0+16]; setp.ne.u32 %p2, %r2, 1; @%p2 bra W; fence.acq_rel.gpu;"
        "MEET: bar.sync 0; ld.global.u32 %r2, [%rd0]; END:"
    )
    Simulator().load(f"{text}{body} ret; }}").launch(
        "k", grid=(2, 1, 1), block=(64, 1, 1), args=[np.zeros(8, np.uint32)]
    )


@program("simulator.flag-missing", located=False)
def data_of_another_cta_copied_without_a_flag():
    poll = ""  # breaks
    poll = "F: ld.acquire.gpu.global.u32 %r2, [%rd0+256]; setp.ne.u32 %p2, %r2, 1; @%p2 bra F;"  # keeps
    text = HEAD.replace(".param .align 64 .b8 map[128]", ".param .u64 memory").split("mov.b64 %rd0, map")[0]
    body = (
        "ld.param.u64 %rd0, [memory]; mov.u32 %r1, %ctaid.x; setp.ne.u32 %p2, %r1, 0; @%p2 bra READ;"
        "st.global.u32 [%rd0], 7; fence.proxy.async; st.release.gpu.global.u32 [%rd0+256], 1; ret;"
        f"READ: mbarrier.init.shared.b64 [full], 1; {poll} fence.proxy.async;"
        "mbarrier.arrive.expect_tx.shared.b64 _, [full], 16;"
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 16, [full];" + FINISH
    )
    Simulator().load(f"{text}{body} ret; }}").launch(
        "k", grid=(2, 1, 1), block=(1, 1, 1), args=[np.zeros(128, np.uint32)]
    )


@program("simulator.flag-unwaited", located=False)
def data_of_another_cta_read_before_its_flag():
    poll = ""  # breaks
    poll = "F: ld.acquire.gpu.global.u32 %r2, [%rd0+256]; setp.ne.u32 %p2, %r2, 1; @%p2 bra F;"  # keeps
    text = HEAD.replace(".param .align 64 .b8 map[128]", ".param .u64 memory").split("mov.b64 %rd0, map")[0]
    body = (
        "ld.param.u64 %rd0, [memory]; mov.u32 %r1, %ctaid.x; setp.ne.u32 %p2, %r1, 0; @%p2 bra READ;"
        "st.global.u32 [%rd0], 7; st.release.gpu.global.u32 [%rd0+256], 1; ret;"
        f"READ: {poll} ld.global.u32 %r2, [%rd0];"
    )
    Simulator().load(f"{text}{body} ret; }}").launch(
        "k", grid=(2, 1, 1), block=(1, 1, 1), args=[np.zeros(128, np.uint32)]
    )


@program("simulator.flag-weak", located=False)
def flag_that_is_stored_like_data():
    order = ""  # breaks
    order = ".release.gpu"  # keeps
    text = HEAD.replace(".param .align 64 .b8 map[128]", ".param .u64 memory").split("mov.b64 %rd0, map")[0]
    body = (
        "ld.param.u64 %rd0, [memory]; mov.u32 %r1, %ctaid.x; setp.ne.u32 %p2, %r1, 0; @%p2 bra READ;"
        f"st.global.u32 [%rd0], 7; st{order}.global.u32 [%rd0+256], 1; ret;"
        "READ: ld.acquire.gpu.global.u32 %r2, [%rd0+256]; setp.ne.u32 %p2, %r2, 1; @%p2 bra READ;"
        "ld.global.u32 %r2, [%rd0];"
    )
    Simulator().load(f"{text}{body} ret; }}").launch(
        "k", grid=(2, 1, 1), block=(1, 1, 1), args=[np.zeros(128, np.uint32)]
    )


@program("simulator.scope", located=False)
def two_ctas_add_in_the_scope_of_one():
    scope = "cta"  # breaks
    scope = "gpu"  # keeps
    text = HEAD.replace(".param .align 64 .b8 map[128]", ".param .u64 memory").split("mov.b64 %rd0, map")[0]
    body = f"ld.param.u64 %rd0, [memory]; red.relaxed.{scope}.global.add.u32 [%rd0], 1;"
    Simulator().load(f"{text}{body} ret; }}").launch(
        "k", grid=(2, 1, 1), block=(1, 1, 1), args=[np.zeros(4, np.uint32)]
    )


@program("simulator.non-coherent", located=False)
def non_coherent_load_of_what_was_written():
    path = ".nc"  # breaks
    path = ""  # keeps
    text = HEAD.replace(".param .align 64 .b8 map[128]", ".param .u64 memory").split("mov.b64 %rd0, map")[0]
    body = f"ld.param.u64 %rd0, [memory]; st.global.u32 [%rd0], %r0; ld.global{path}.u32 %r1, [%rd0];"
    Simulator().load(f"{text}{body} ret; }}").launch("k", block=(1, 1, 1), args=[np.zeros(4, np.uint32)])


@program("simulator.missing-warp-sync", located=False)
def a_lane_reads_what_another_one_has_just_written():
    order = ""  # breaks
    order = "bar.warp.sync -1;"  # keeps
    own = "shl.b32 %r1, %r0, 2; mov.u32 %r2, tile; add.u32 %r1, %r1, %r2; xor.b32 %r3, %r1, 4;"
    run(f"{own} st.shared.u32 [%r1], %r0; {order} ld.shared.u32 %r4, [%r3];", threads=32)


@program("simulator.mbarrier-state", located=False)
def a_state_of_two_phases_ago():
    phases = 2  # breaks
    phases = 1  # keeps
    arrivals = "mbarrier.arrive.shared.b64 _, [full];" * (phases - 1)
    run(
        f"{START} @!%p0 ret; mbarrier.arrive.shared.b64 %rd1, [full]; {arrivals} "
        "mbarrier.test_wait.shared.b64 %p1, [full], %rd1;"
    )


@program("simulator.missed-phase", located=False)
def a_warp_waits_twice_for_a_phase():
    again = FINISH.replace("W", "AGAIN")  # breaks
    again = ""  # keeps
    arrive = "setp.eq.u32 %p3, %r0, 32; @%p3 mbarrier.arrive.shared.b64 _, [full];"
    run(f"{START} {arrive} {FINISH} bar.sync 0; {again} {arrive} {FINISH.replace('W', 'NEXT').replace(', 0', ', 1')}")


@program("simulator.missed-count", located=False)
def a_barrier_of_the_grid_waits_for_one_number():
    @nvb.kernel("sm_90a", threads=32)
    def meet_three_times(k, counter: nvb.Pointer[u32]):
        with k.range(3) as step, k.one_thread():
            number = (step.to(u32) + 1) * 4
            k.atomic.reduce(counter, "add", 1, order="release", scope="gpu")
            with k.loop():
                seen = counter.load(order="acquire", scope="gpu")[0]
                k.break_if(seen == number)  # breaks
                k.break_if(seen >= number)  # keeps

    kernel = nvb.runtime.load(meet_three_times.compile(assemble=False), device="simulator")
    kernel.launch(4, np.zeros(1, np.uint32))


@program("simulator.mbarrier-waited-on", located=False)
def ended_while_others_wait():
    order = "@%p0 mbarrier.inval.shared.b64 [full]; @%p0 ret;"  # breaks
    order = "@%p0 mbarrier.arrive.shared.b64 _, [full];"  # keeps
    run(f"{START} setp.lt.u32 %p2, %r0, 32; @%p2 bra LOW; {FINISH} ret; LOW: {order}")


@program("simulator.barrier-counts", located=False)
def two_counts_in_one_phase():
    others = "bar.sync 1, 96;"  # breaks
    others = "bar.sync 1, 64;"  # keeps
    run(f"setp.lt.u32 %p1, %r0, 32; @%p1 bra LOW; bar.sync 1, 64; ret; LOW: {others}")


@program("simulator.barrier-crowd", located=False)
def three_warps_where_two_are_counted():
    threads = 96  # breaks
    threads = 64  # keeps
    run("bar.sync 1, 64;", threads=threads)


@program("simulator.tensor-map", located=False)
def an_address_inside_of_the_map():
    place = "%rd0+16"  # breaks
    place = "%rd0"  # keeps
    load = f"{LOAD} [tile], [{place}, {{0, 0}}], [full];"
    run(f"{START} @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [full], 2048; @%p0 {load} {FINISH}")


@program("simulator.tma-place", located=False)
def a_box_that_starts_between_16_bytes():
    column = 4  # breaks
    column = 8  # keeps
    load = f"{LOAD} [tile], [%rd0, {{{column}, 0}}], [full];"
    run(f"{START} @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [full], 2048; @%p0 {load} {FINISH}")


@program("simulator.copy-size", located=False)
def half_a_unit():
    size = 24  # breaks
    size = 32  # keeps
    load = f"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [tile], [tile+64], {size}, [full];"
    ready = "st.shared.v2.u64 [tile+64], {%rd0, %rd0}; st.shared.v2.u64 [tile+80], {%rd0, %rd0};"
    expect = f"mbarrier.arrive.expect_tx.shared.b64 _, [full], {size};"
    run(f"{START} @!%p0 bra W; {ready} fence.proxy.async; {expect} {load} {FINISH}", cluster=(1, 1, 1))


COPY = "".join(
    f"ld.v2.u64 {{%rd1, %rd2}}, [%rd0+{at}]; st.shared.v2.u64 [tile+{at}], {{%rd1, %rd2}};" for at in range(0, 128, 16)
)
REPLACE = "tensormap.replace.tile.{field}.shared::cta.b1024.b32 [%rd3], {value};"


@program("simulator.tensor-map-field", located=False)
def a_box_of_too_many_rows():
    rows = 512  # breaks
    rows = 256  # keeps
    run(f"@!%p0 ret; {COPY} mov.b64 %rd3, tile; {REPLACE.format(field='box_dim', value=f'1, {rows}')}")


@program("simulator.not-modelled", located=False)
def an_interleaved_map():
    layout = 1  # breaks
    layout = 0  # keeps
    fields = REPLACE.format(field="rank", value=2) + REPLACE.format(field="interleave_layout", value=layout)
    prefetch = "cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%rd4, {0, 0, 0}];"
    run(f"@!%p0 ret; {COPY} mov.b64 %rd3, tile; {fields} cvta.shared.u64 %rd4, %rd3; {prefetch}")
