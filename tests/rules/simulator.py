"""What running kernels do wrong with threads, memory and launches: PTX texts that the simulator runs."""

from __future__ import annotations

import numpy as np

from nvbackend.simulator import Simulator
from tests.rules.example import program

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def run(body, *arguments, block=32, limit=10**8):
    """A kernel of a few registers; its parameters are addresses."""
    parameters = ", ".join(f".param .u64 p{number}" for number in range(len(arguments)))
    registers = ".reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>; .shared .align 16 .b8 box[128];"
    loads = " ".join(f"ld.param.u64 %rd{number}, [p{number}];" for number in range(len(arguments)))
    text = f"{HEAD}.const .align 4 .b32 one = 1;\n.entry k({parameters}) {{ {registers} {loads}\n{body}\nret; }}"
    Simulator().load(text).launch("k", block=(block,), args=arguments, limit=limit)


@program("simulator.unknown", located=False)
def an_instruction_that_is_not():
    opcode = "add.sideways.u32"  # breaks
    opcode = "add.u32"  # keeps
    run(f"{opcode} %r0, %r0, 1;")


@program("simulator.bounds", located=False)
def one_element_too_far():
    offset = 16  # breaks
    offset = 12  # keeps
    run(f"ld.global.u32 %r0, [%rd0+{offset}];", np.zeros(4, np.uint32))


@program("simulator.misaligned", located=False)
def a_word_between_two():
    offset = 2  # breaks
    offset = 4  # keeps
    run(f"ld.global.u32 %r0, [%rd0+{offset}];", np.zeros(4, np.uint32))


@program("simulator.unwritten", located=False)
def read_before_it_is_written():
    first = ""  # breaks
    first = "st.shared.u32 [box], 7; bar.warp.sync -1;"  # keeps
    run(f"{first} ld.shared.u32 %r0, [box]; st.global.u32 [%rd0], %r0;", np.zeros(1, np.uint32))


@program("simulator.unset", located=False)
def sum_that_begins_nowhere():
    first = ""  # breaks
    first = "mov.u32 %r1, 0;"  # keeps
    run(f"{first} add.u32 %r1, %r1, 1; st.global.u32 [%rd0], %r1;", np.zeros(1, np.uint32))


@program("simulator.read-only", located=False)
def a_constant_is_written():
    target = "one"  # breaks
    target = "box"  # keeps
    run(f"mov.u64 %rd1, {target}; cvta.{'const' if target == 'one' else 'shared'}.u64 %rd1, %rd1; st.u32 [%rd1], 2;")


@program("simulator.metadata", located=False)
def two_elements_in_one_place():
    word = 0x44444404  # breaks
    word = 0x44444444  # keeps
    opcode, pair = "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "{%r0, %r0}"
    run(f"mov.u32 %r0, 0; mov.u32 %r1, {word}; {opcode} {{%r2, %r3}}, {pair}, {pair}, {pair}, %r1, 0;")


@program("simulator.deadlock", located=False)
def two_halves_of_a_warp_wait_for_each_other():
    low, high = "-1", "-1"  # breaks
    low, high = "0xFFFF", "0xFFFF0000"  # keeps
    branch = "mov.u32 %r0, %tid.x; setp.ge.u32 %p0, %r0, 16; @%p0 bra HIGH;"
    run(f"{branch} vote.sync.any.pred %p1, %p0, {low}; bra END; HIGH: vote.sync.all.pred %p1, %p0, {high}; END:")


@program("simulator.livelock", located=False)
def a_flag_that_no_thread_sets():
    store = ""  # breaks
    store = "@!%p0 st.volatile.shared.u32 [box], 1;"  # keeps
    first = f"mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 32; st.shared.u32 [box], 0; bar.sync 0; {store}"
    run(
        f"{first} @!%p0 bra END; AGAIN: ld.volatile.shared.u32 %r1, [box]; setp.eq.u32 %p1, %r1, 0; @%p1 bra AGAIN;"
        "END:",
        block=64,
    )


@program("simulator.limit", located=False)
def a_loop_that_is_too_long():
    rounds = 3000  # breaks
    rounds = 300  # keeps
    run(f"mov.u32 %r0, 0; AGAIN: add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, {rounds}; @%p0 bra AGAIN;", limit=2000)


@program("simulator.stack", located=False)
def a_recursion_without_an_end():
    deepest = 100_000  # breaks
    deepest = 100  # keeps
    down = f"""{HEAD}.func down(.reg .b32 n) {{ .reg .pred %p; .reg .b32 %x;
setp.ge.u32 %p, n, {deepest}; @%p ret; add.u32 %x, n, 1; call down, (%x); ret; }}"""
    text = f"{down}\n.entry k() {{ .reg .b32 %x; mov.u32 %x, 0; call down, (%x); ret; }}"
    Simulator().load(text).launch("k", block=(1024,))


@program("simulator.trap", located=False)
def a_trap_that_is_reached():
    threads = 33  # breaks
    threads = 32  # keeps
    run("mov.u32 %r0, %tid.x; setp.ge.u32 %p0, %r0, 32; @%p0 trap;", block=threads)


@program("simulator.asked-again", located=False)
def a_request_after_an_answer_that_was_no():
    leaves = ""  # breaks
    leaves = "@!%p1 bra END;"  # keeps
    ask = """mbarrier.arrive.expect_tx.shared.b64 %rd3, [box+16], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [box], [box+16];
WAIT{0}: mbarrier.try_wait.parity.shared.b64 %p0, [box+16], {0}; @!%p0 bra WAIT{0};"""
    query = """.reg .b128 %answer; ld.shared.b128 %answer, [box];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %answer;"""
    text = f"""{HEAD.replace("90a", "100a")}.entry k() {{ .reg .pred %p<2>; .reg .b64 %rd<4>;
.shared .align 16 .b8 box[32]; mbarrier.init.shared.b64 [box+16], 1; {ask.format(0)} {query} {leaves} {ask.format(1)}
END: ret; }}"""
    Simulator().load(text).launch("k", block=(1,))


@program("simulator.assertion", located=False)
def an_assertion_that_fails():
    threads = 33  # breaks
    threads = 32  # keeps
    call = "@%p0 call __assertfail, (t, t, l, t, s);"
    body = f"""mov.u32 %r0, %tid.x; setp.ge.u32 %p0, %r0, 32; mov.u64 %rd1, text;
{{ .param .b64 t; .param .b32 l; .param .b64 s; st.param.b64 [t], %rd1; st.param.b32 [l], 1; st.param.b64 [s], 1;
{call} }}"""
    parameters = ".param .b64 m, .param .b64 f, .param .b32 l, .param .b64 k, .param .b64 s"
    text = f"""{HEAD}.extern .func __assertfail({parameters});
.global .align 1 .b8 text[7] = {{105, 32, 60, 32, 51, 50, 0}};
.entry k() {{ .reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<2>;
{body}
ret; }}"""
    Simulator().load(text).launch("k", block=(threads,))


@program("simulator.no-cluster", located=False)
def a_store_to_the_cluster_without_one():
    directives = ""  # breaks
    directives = ".explicitcluster .reqnctapercluster 1, 1, 1"  # keeps
    store = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [box+16], 7, [box];"
    text = f"""{HEAD}.entry k() {directives} {{ .reg .pred %p; .shared .align 16 .b8 box[32];
mbarrier.init.shared.b64 [box], 1; mbarrier.arrive.expect_tx.shared.b64 _, [box], 4; {store}
WAIT: mbarrier.try_wait.parity.shared.b64 %p, [box], 0; @!%p bra WAIT; ret; }}"""
    Simulator().load(text).launch("k", block=(1,))


@program("simulator.launch", located=False)
def an_argument_too_few():
    given = ()  # breaks
    given = (np.zeros(4, np.uint32),)  # keeps
    text = f"{HEAD}.entry k(.param .u64 p) {{ ret; }}"
    Simulator().load(text).launch("k", block=(32,), args=given)


@program("simulator.report", located=False)
def a_timeline_that_was_not_kept():
    watched = {}  # breaks
    watched = {"report": True}  # keeps
    module = Simulator().load(f"{HEAD}.entry k() {{ ret; }}")
    module.launch("k", block=(32,), **watched).timeline()


@program("simulator.step", located=False)
def a_step_after_the_end():
    steps = 2  # breaks
    steps = 1  # keeps
    launch = Simulator().load(f"{HEAD}.entry k() {{ ret; }}").start("k", block=(32,))
    for _ in range(steps):
        launch.step()
