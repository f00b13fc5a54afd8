"""A kernel for one tcgen05 instruction: shared and tensor memory come from arrays, tensor memory goes to one."""

from __future__ import annotations

import numpy as np

from nvbackend.simulator import Simulator

LANES, COLUMNS = 128, 512
EACH = 128
"""Columns of one load or store."""
REGISTERS = ", ".join(f"%r{number}" for number in range(100, 100 + EACH))


def move(load: bool) -> str:
    """Between tensor memory and [%rd5], a row of 512 words for each thread."""
    lines = []
    for column in range(0, COLUMNS, EACH):
        cells = f"add.u32 %r11, %r10, {column};"
        tensor = f"tcgen05.{'ld' if load else 'st'}.sync.aligned.32x32b.x{EACH}.b32 "
        words = [
            f"{'st' if load else 'ld'}.global.b32 "
            + (f"[%rd5+{4 * (column + n)}], %r{100 + n};" if load else f"%r{100 + n}, [%rd5+{4 * (column + n)}];")
            for n in range(EACH)
        ]
        if load:
            lines += [cells, f"{tensor}{{{REGISTERS}}}, [%r11];", "tcgen05.wait::ld.sync.aligned;", *words]
        else:
            lines += [*words, cells, f"{tensor}[%r11], {{{REGISTERS}}};", "tcgen05.wait::st.sync.aligned;"]
    return "\n".join(lines)


TEXT = """.version 8.7
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 image[];
.entry k(.param .u64 shared, .param .u64 before, .param .u64 after, .param .u32 words)
{
    .reg .b32 %r<300>; .reg .b64 %rd<40>; .reg .pred %p<8>;
    .shared .align 8 .b64 barrier; .shared .b32 place;
    mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; mov.u32 %r9, %r0;
    ld.param.u64 %rd1, [shared]; ld.param.u64 %rd2, [before]; ld.param.u64 %rd3, [after]; ld.param.u32 %r2, [words];
    mul.lo.u32 %r3, %r1, %r2; mov.u32 %r5, image;
again:
    setp.ge.u32 %p0, %r9, %r2;
    @%p0 bra filled;
    add.u32 %r4, %r3, %r9; mul.wide.u32 %rd4, %r4, 4; add.u64 %rd4, %rd1, %rd4; ld.global.b32 %r6, [%rd4];
    mad.lo.u32 %r7, %r9, 4, %r5; st.shared.b32 [%r7], %r6;
    add.u32 %r9, %r9, 128;
    bra again;
filled:
    fence.proxy.async.shared::cta;
    shr.u32 %r8, %r0, 5; setp.ne.u32 %p1, %r8, 0;
    @%p1 bra allocated;
    tcgen05.alloc.@GROUP@.sync.aligned.shared::cta.b32 [place], 512;
allocated:
    setp.ne.u32 %p2, %r0, 0;
    @!%p2 mbarrier.init.shared.b64 [barrier], 1;
    bar.sync 0;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    ld.shared.b32 %r10, [place];
    mov.u32 %r12, %r10;
    shl.b32 %r13, %r8, 21; add.u32 %r10, %r10, %r13;
    mad.lo.u32 %r14, %r1, 128, %r0; mul.wide.u32 %rd5, %r14, 2048; add.u64 %rd6, %rd5, %rd3; add.u64 %rd5, %rd5, %rd2;
    @STORE@
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    tcgen05.fence::after_thread_sync;
    or.b32 %r15, %r0, %r1; setp.ne.u32 %p3, %r15, 0;
    @%p3 bra issued;
    @MOVES@
    setp.eq.u32 %p4, %r0, 0;
    @ISSUE@
    tcgen05.commit.@GROUP@.mbarrier::arrive::one.shared::cluster.b64 [barrier];
waits:
    mbarrier.try_wait.parity.shared.b64 %p5, [barrier], 0;
    @!%p5 bra waits;
issued:
    bar.sync 0;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    tcgen05.fence::after_thread_sync;
    mov.u64 %rd5, %rd6;
    @LOAD@
    bar.sync 0;
    @%p1 bra done;
    tcgen05.dealloc.@GROUP@.sync.aligned.b32 %r12, 512;
done:
    ret;
}
"""


def text(issue: str, ctas: int, operands: dict[str, int]) -> str:
    """`issue` is what thread 0 of the even CTA executes: %r12 is the base of tensor memory, `operands` are registers,
    and those of 64 bits are descriptors whose start counts from the image's."""
    moves = "cvt.u64.u32 %rd30, %r5; shr.u64 %rd30, %rd30, 4;\n" + "\n".join(
        f"add.u64 {name}, %rd30, {value};" if name.startswith("%rd") else f"mov.b32 {name}, {value};"
        for name, value in operands.items()
    )
    parts = {"STORE": move(False), "LOAD": move(True), "MOVES": moves, "ISSUE": issue, "GROUP": f"cta_group::{ctas}"}
    found = TEXT
    for name, part in parts.items():
        found = found.replace(f"@{name}@", part)
    return found


def run(issue: str, shared: np.ndarray, before: np.ndarray, operands: dict[str, int]) -> np.ndarray:
    """Tensor memory after it, (CTAs, 128, 512) words; `shared` is (CTAs, bytes), `before` as what is returned."""
    ctas = len(shared)
    after = np.zeros_like(before)
    module = Simulator().load(text(issue, ctas, operands))
    words = np.ascontiguousarray(shared).view(np.uint32)
    module.launch(
        "k",
        grid=(ctas, 1, 1),
        block=(128, 1, 1),
        cluster=(ctas, 1, 1),
        shared=shared.shape[1],
        args=[words, before, after, np.uint32(words.shape[1])],
    )
    return after
