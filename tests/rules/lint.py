"""PTX of other compilers that is looked at: `nvbackend lint`."""

from __future__ import annotations

from pathlib import Path

from nvbackend.cli import lint as command
from nvbackend.cli import program as commands
from nvbackend.lint import lint
from tests.rules.example import program
from tests.rules.setup import scratch

HEAD = """.version 8.0
.target sm_90a
.address_size 64
.entry k() {
.reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .shared .align 1024 .b8 box[16384];
mov.b32 %r0, box; shr.u32 %r1, %r0, 4; cvt.u64.u32 %rd0, %r1; or.b64 %rd0, %rd0, 4611686293305360384;
"""
FENCE, COMMIT, WAIT = (f"wgmma.{name}.sync.aligned" for name in ("fence", "commit_group", "wait_group"))
MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd0, 1, 1, 1, 0, 0;"


@program("lint.opcode", located=False)
def a_type_that_ptx_does_not_have():
    kind = "s33"  # breaks
    kind = "s32"  # keeps
    return lint(f"{HEAD} add.{kind} %r1, %r1, 1; ret; }}")


@program("lint.register-in-flight", located=False)
def no_wait_before_the_result_is_used():
    before = ""  # breaks
    before = f"{WAIT} 0;"  # keeps
    return lint(f"{HEAD} {FENCE}; {MMA} {COMMIT}; {before} st.global.f32 [%rd1], %f0; {WAIT} 0; ret; }}")


@program("lint.wgmma-fence", located=False)
def no_fence_before_the_first_mma():
    before = ""  # breaks
    before = f"{FENCE};"  # keeps
    return lint(f"{HEAD} {before} {MMA} {COMMIT}; {WAIT} 0; ret; }}")


@program("lint.uncommitted", located=False)
def a_wait_for_a_group_that_is_open():
    after = ""  # breaks
    after = f"{COMMIT};"  # keeps
    return lint(f"{HEAD} {FENCE}; {MMA} {after} {WAIT} 0; ret; }}")


@program("lint.unwaited", located=False)
def a_kernel_that_ends_with_a_group_in_flight():
    after = ""  # breaks
    after = f"{WAIT} 0;"  # keeps
    return lint(f"{HEAD} {FENCE}; {MMA} {COMMIT}; {after} ret; }}")


COPY = "cp.async.cg.shared.global [box], [%rd1], 16;"


@program("lint.never-committed", located=False)
def a_copy_without_a_group():
    after = ""  # breaks
    after = "cp.async.commit_group;"  # keeps
    return lint(f"{HEAD} {COPY} {after} cp.async.wait_group 0; ret; }}")


@program("lint.never-waited", located=False)
def a_copy_that_nothing_waits_for():
    after = ""  # breaks
    after = "cp.async.wait_group 0;"  # keeps
    return lint(f"{HEAD} {COPY} cp.async.commit_group; {after} ret; }}")


@program("lint.copy-in-flight", located=False)
def a_copy_that_is_read_before_its_wait():
    before = ""  # breaks
    before = "cp.async.wait_group 0; bar.sync 0;"  # keeps
    read = "ld.shared.b32 %r2, [box]; st.global.b32 [%rd1], %r2;"
    return lint(f"{HEAD} {COPY} cp.async.commit_group; {before} {read} cp.async.wait_group 0; ret; }}")


@program("lint.mbarrier-init", located=False)
def a_wait_at_an_mbarrier_of_no_counts():
    first = ""  # breaks
    first = "mbarrier.init.shared::cta.b64 [box], 1; bar.sync 0;"  # keeps
    arrive, wait = (
        "mbarrier.arrive.shared::cta.b64 _, [box];",
        "mbarrier.try_wait.parity.shared::cta.b64 %p0, [box], 0;",
    )
    return lint(f"{HEAD} {first} {arrive} again: {wait} @!%p0 bra again; ret; }}")


@program("lint.mbarrier-stuck", located=False)
def an_arrival_after_the_wait_for_it():
    init, arrive = "mbarrier.init.shared::cta.b64 [box], 1; bar.sync 0;", "mbarrier.arrive.shared::cta.b64 _, [box];"
    before, after = "", arrive  # breaks
    before, after = arrive, ""  # keeps
    wait = "again: mbarrier.try_wait.parity.shared::cta.b64 %p0, [box], 0; @!%p0 bra again;"
    return lint(f"{HEAD} {init} {before} {wait} {after} ret; }}")


@program("lint.written-in-flight", located=False)
def a_tile_that_is_written_while_a_copy_reads_it():
    before = ""  # breaks
    before = "cp.async.bulk.wait_group.read 0;"  # keeps
    store = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r0], 64; cp.async.bulk.commit_group;"
    return lint(f"{HEAD} {store} {before} st.shared.b32 [%r0+16], %r2; cp.async.bulk.wait_group 0; ret; }}")


@program("lint.tmem-write-in-flight", located=False)
def a_tile_that_is_multiplied_while_it_is_written():
    before = ""  # breaks
    before = "tcgen05.wait::st.sync.aligned;"  # keeps
    head = HEAD.replace("sm_90a", "sm_100a").replace(".version 8.0", ".version 8.6")
    store = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r0], {%r1};"
    mma = "tcgen05.mma.cta_group::1.kind::f16 [%r2], [%r0], %rd0, %r3, %p1;"
    commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];"
    last = "tcgen05.wait::st.sync.aligned;"
    return lint(f"{head} {store} {before} bar.sync 0; {mma} {commit} {store} {last} ret; }}")


@program("lint.stage-in-flight", located=False)
def a_tile_that_is_copied_over_while_it_is_multiplied():
    before = ""  # breaks
    before = f"{WAIT} 0;"  # keeps
    copy = "cp.async.cg.shared.global [%r0], [%rd1], 16; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;"
    loop = f"again: {FENCE}; {MMA} {COMMIT}; {before} {copy} @%p0 bra again;"
    return lint(f"{HEAD} {loop} {WAIT} 0; ret; }}")


@program("lint.proxy-fence", located=False)
def a_tile_that_ordinary_code_writes():
    after = ""  # breaks
    after = "fence.proxy.async.shared::cta;"  # keeps
    return lint(f"{HEAD} st.shared.b32 [%r0], %r2; {after} bar.sync 0; {FENCE}; {MMA} {COMMIT}; {WAIT} 0; ret; }}")


@program("cli.lint", located=False)
def machine_code():
    file = "kernel.cubin"  # breaks
    file = str(Path(__file__).parent.parent / "ptx/foreign/triton_softmax.ptx")  # keeps
    with scratch():
        Path("kernel.cubin").write_bytes(b"\x7fELF")
        list(command.run(commands.parser().parse_args(["lint", file])))
