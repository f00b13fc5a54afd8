"""The order of tensor memory: right kernels draw nothing over several seeds; without one line each draws its rule.

A line that ends in `// drop: RULE` is the one that is left out.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator

TEXT = """.version 8.7
.target sm_100a
.address_size 64
.entry k(.param .u64 out)
{{
.reg .b32 %r<80>; .reg .b64 %rd<20>; .reg .pred %p<8>;
.shared .align 1024 .b8 image[16384]; .shared .align 8 .b64 bar[2]; .shared .b32 place;
mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; mov.u32 %r1, image; setp.eq.u32 %p0, %r0, 0;
mad.lo.u32 %r2, %r0, 64, %r1; mov.u32 %r3, 0; mov.u32 %r4, 0x3c003c00;
FILL: st.shared.b32 [%r2], %r4; add.u32 %r2, %r2, 4; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 16; @%p1 bra FILL;
fence.proxy.async.shared::cta;
shr.u32 %r5, %r0, 5; setp.ne.u32 %p1, %r5, 0;
@%p1 bra ALLOCATED;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 64;
ALLOCATED:
@%p0 mbarrier.init.shared.b64 [bar], 1; @%p0 mbarrier.init.shared.b64 [bar+8], 128;
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
ld.shared.b32 %r10, [place]; and.b32 %r6, %r5, 3; shl.b32 %r6, %r6, 21; add.u32 %r11, %r10, %r6;
cvt.u64.u32 %rd1, %r1; shr.u64 %rd1, %rd1, 4; or.b64 %rd1, %rd1, {descriptor};
mov.u32 %r12, {instruction}; setp.ne.u32 %p7, %r0, %r0; setp.lt.u32 %p2, %r0, 128; mov.u32 %r20, %r0;
{body}
tcgen05.fence::before_thread_sync;
bar.sync 0; // drop: last
tcgen05.fence::after_thread_sync;
@%p1 bra FREE;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 64;
FREE: ret;
}}
"""
ST = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r11], {%r20};"
LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r21}, [%r11];"
MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r10], %rd1, %rd1, %r12, %p7;"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];"
USE = "mul.wide.u32 %rd9, %r0, 4; add.u64 %rd9, %rd9, %rd0; st.global.u32 [%rd9], %r21;"
WAIT = "{label}: mbarrier.try_wait.parity.shared.b64 %p3, [{at}], 0; @!%p3 bra {label};"

HANDED_OVER = f"""@!%p2 bra READ;
{ST}
tcgen05.wait::st.sync.aligned; // drop: tcgen05.missing-barrier
tcgen05.fence::before_thread_sync; // drop: tcgen05.missing-fence-before
READ:
bar.sync 1; // drop: tcgen05.missing-barrier
@%p2 bra END;
tcgen05.fence::after_thread_sync; // drop: tcgen05.missing-fence-after
{LD}
tcgen05.wait::ld.sync.aligned;
{USE}
END:"""

ONE_WARP = f"""@!%p2 bra END;
{ST}
tcgen05.wait::st.sync.aligned; // drop: tcgen05.missing-wait-st
{LD}
tcgen05.wait::ld.sync.aligned;
{USE}
END:"""

WRITTEN_TWICE = f"""@!%p2 bra SECOND;
{ST}
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
SECOND:
bar.sync 1; // drop: tcgen05.missing-barrier
@%p2 bra END;
tcgen05.fence::after_thread_sync;
{ST}
tcgen05.wait::st.sync.aligned;
END:"""

MULTIPLIED = f"""@!%p0 bra WAITS;
{MMA}
{COMMIT}
WAITS: @!%p2 bra END;
{WAIT.format(label="W", at="bar")} // drop: tcgen05.missing-wait
tcgen05.fence::after_thread_sync; // drop: tcgen05.missing-fence-after
{LD}
tcgen05.wait::ld.sync.aligned;
{USE}
{WAIT.format(label="W3", at="bar")}
END:"""

STORED_FIRST = f"""@!%p2 bra READ;
{ST}
tcgen05.wait::st.sync.aligned; // drop: tcgen05.missing-wait-st|tcgen05.missing-barrier|tcgen05.write-in-flight
tcgen05.fence::before_thread_sync;
READ:
bar.sync 1; // drop: tcgen05.missing-barrier|tcgen05.missing-wait|tcgen05.write-in-flight
tcgen05.fence::after_thread_sync;
@!%p0 bra END;
{MMA}
{COMMIT}
{WAIT.format(label="W", at="bar")}
END:"""

READ_FIRST = f"""@!%p2 bra NEXT;
{ST}
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
{LD}
tcgen05.wait::ld.sync.aligned; // drop: tcgen05.write-in-flight
mbarrier.arrive.shared.b64 _, [bar+8];
NEXT: @!%p0 bra END;
{WAIT.format(label="W2", at="bar+8")} // drop: tcgen05.write-in-flight|tcgen05.missing-barrier
tcgen05.fence::after_thread_sync;
{MMA}
{COMMIT}
{WAIT.format(label="W", at="bar")}
END:"""

KERNELS = {
    name: text
    for name, text in list(globals().items())
    if name.isupper() and isinstance(text, str) and "// drop: tcgen05" in text
}
DROPS = [
    (name, line) for name, text in KERNELS.items() for line, each in enumerate(text.splitlines()) if "// drop: " in each
]
# Rows of 16 bytes in groups of 8, groups 128 bytes apart; M 128, N 8, f16 with sums in f32.
DESCRIPTOR = (128 >> 4) << 16 | (256 >> 4) << 32 | 1 << 46
INSTRUCTION = 1 << 4 | 8 >> 3 << 17 | 128 >> 4 << 24


def rules(body: str, seed: int) -> list[str]:
    text = TEXT.format(body=re.sub("// drop.*", "", body), descriptor=DESCRIPTOR, instruction=INSTRUCTION)
    module = Simulator().load(text, source="k.ptx")
    try:
        module.launch("k", block=(256,), args=[np.zeros(256, np.uint32)], seed=seed)
    except DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]
    return []


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_draws_nothing(name):
    for seed in range(5):
        assert rules(KERNELS[name], seed) == []


@pytest.mark.parametrize(("name", "line"), DROPS)
def test_without_one_line(name, line):
    lines = KERNELS[name].splitlines()
    expected = set(lines.pop(line).partition("// drop: ")[2].split("|"))
    for seed in range(3):
        (found,) = rules("\n".join(lines), seed)
        # In another order what is missing may show by what it does.
        assert found in expected | ({"tcgen05.write-in-flight", "simulator.tensor-memory"} if seed else set())


def test_registers_of_a_load_before_its_wait():
    """The wait is there, and comes after the use."""
    broken = f"{LD}\n{USE}\ntcgen05.wait::ld.sync.aligned;\nEND:"
    right = f"{LD}\ntcgen05.wait::ld.sync.aligned;\n{USE}\nEND:"
    before = f"@!%p2 bra END;\n{ST}\ntcgen05.wait::st.sync.aligned;\n"
    for seed in range(3):
        assert rules(before + broken, seed) == ["tcgen05.read-before-wait"]
        assert rules(before + right, seed) == []


def test_barriers_alone_order_where_a_kernel_has_no_fence():
    """So compilers write it: with a barrier between the warps, and without the fences of tensor memory."""
    body = re.sub(r"tcgen05.fence::\w+;", "", HANDED_OVER)
    text = re.sub(r"tcgen05.fence::\w+;", "", TEXT)
    for broken, expected in ((body, None), (body.replace("bar.sync 1;", ""), "tcgen05.missing-barrier")):
        ptx = text.format(body=re.sub("// drop.*", "", broken), descriptor=DESCRIPTOR, instruction=INSTRUCTION)
        module = Simulator().load(ptx)
        if expected is None:
            module.launch("k", block=(256,), args=[np.zeros(256, np.uint32)])
            continue
        with pytest.raises(DiagnosticError) as caught:
            module.launch("k", block=(256,), args=[np.zeros(256, np.uint32)])
        assert [one.rule_id for one in caught.value.diagnostics] == [expected]


@pytest.mark.parametrize("name", KERNELS)
def test_a_dealloc_needs_no_fence_after_its_wait(name):
    """PTX ISA 9.7.16.11.1: an after_thread_sync orders asynchronous operations; 9.7.16.6.1: a dealloc is none."""
    last = "bar.sync 0; // drop: last\ntcgen05.fence::after_thread_sync;"
    assert last in TEXT
    text = TEXT.replace(last, "bar.sync 0;")
    ptx = text.format(body=re.sub("// drop.*", "", KERNELS[name]), descriptor=DESCRIPTOR, instruction=INSTRUCTION)
    Simulator().load(ptx).launch("k", block=(256,), args=[np.zeros(256, np.uint32)])
