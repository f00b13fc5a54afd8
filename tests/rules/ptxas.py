"""What ptxas says, and what is asked of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from nvbackend import Target
from nvbackend.codegen import Tool, assemble, find_ptxas
from nvbackend.codegen.ptxas_messages import diagnose
from tests.rules.example import program
from tests.rules.setup import HOPPER
from tests.support import wgmma_ptx
from tests.support.wgmma_ptx import COMMIT, FENCE, INDIRECT_CALL, NOT_INLINED, WAIT, loop, mma, mma_register_a

A_OVERWRITTEN = """
.text.kernel:
        /*0000*/    HGMMA.64x64x16.F32 R24, R4, gdesc[UR4], R24, gsb0 ;
        /*0010*/    LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/    WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0030*/    EXIT ;
"""
"""Code that loads into the registers of A before the wait."""
REGISTER_LOST = """
.text.kernel:
        /*0000*/    LDGSTS.E.BYPASS.LTC128B.128 [R13+UR0+0x800], desc[UR1][R4.64], !P0 ;
        /*0010*/    EXIT ;
"""
"""A copy whose uniform register has the number of none."""
HINTED_COPY = """.version 8.4
.target sm_90a
.address_size 64
.shared .align 128 .b8 ring[8192];
.visible .entry kernel(.param .u64 source, .param .u32 stage) {
.reg .b32 %r<4>; .reg .b64 %rd<4>;
ld.param.u64 %rd0, [source]; ld.param.u32 %r0, [stage];
mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 4; shl.b32 %r0, %r0, 11; mov.u32 %r2, ring;
add.u32 %r2, %r2, %r0; add.u32 %r2, %r2, %r1; cvt.u64.u32 %rd1, %r1; add.u64 %rd0, %rd0, %rd1;
createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;
cp.async.cg.shared.global.L2::cache_hint [%r2], [%rd0], 16, %rd2;
cp.async.wait_all;
ret; }
"""
"""A copy with a cache policy into a stage of a ring that all threads share."""


@program("ptxas.error", located=False)
def instruction_that_is_none():
    body = "bogus.f32 %f1, %f1;"  # breaks
    body = "neg.f32 %f1, %f1;"  # keeps
    assemble(wgmma_ptx.kernel(body), HOPPER)


@program("ptxas.unresolved", located=False)
def function_that_nobody_defines():
    body = "{ .param .b32 p; .param .b32 r; st.param.b32 [p], %r0; call (r), callee, (p); }"
    before = ".extern .func (.param .b32 r) callee(.param .b32 x);\n"  # breaks
    before = NOT_INLINED  # keeps
    assemble(wgmma_ptx.kernel(body, before=before), HOPPER)


@program("ptxas.registers-insufficient", located=False)
def accumulator_that_does_not_fit():
    attributes = ".maxnreg 64"  # breaks
    attributes = ".maxnreg 168"  # keeps
    assemble(wgmma_ptx.kernel(FENCE + mma(256) + COMMIT + WAIT, n=256, attributes=attributes), HOPPER)


@program("ptxas.register-allocation", located=False)
def registers_that_can_not_be_dealt_out():
    """What ptxas prints for kernels larger than fit here."""
    log = "ptxas fatal   : (C7600) Register allocation failed with register count of '168'.\n"  # breaks
    log = ""  # keeps
    return diagnose(log, "")


@program("ptxas.warning", located=False)
def more_registers_than_a_thread_has():
    attributes = ".maxntid 128, 1, 1 .maxnreg 300"  # breaks
    attributes = ".maxntid 128, 1, 1 .maxnreg 200"  # keeps
    return assemble(wgmma_ptx.kernel("", attributes=attributes), HOPPER)


@program("ptxas.spills", located=False)
def too_few_registers():
    attributes = ".maxnreg 32"  # breaks
    attributes = ".maxnreg 200"  # keeps
    return assemble(wgmma_ptx.kernel("bar.sync 0;", wide=128, attributes=attributes), HOPPER)


@program("ptxas.register-limit", located=False)
def limit_that_the_kernel_overrides():
    limit = 40  # breaks
    limit = 168  # keeps
    return assemble(wgmma_ptx.kernel("bar.sync 0;", wide=64), HOPPER, register_limit=limit)


@program("ptxas.setmaxnreg-ignored", located=False)
def register_budget_of_an_unknown_number_of_threads():
    attributes = ""  # breaks
    attributes = ".maxntid 128, 1, 1 .maxnreg 168"  # keeps
    body = "setmaxnreg.dec.sync.aligned.u32 40;" + FENCE + mma() + COMMIT + WAIT
    return assemble(wgmma_ptx.kernel(body, attributes=attributes), HOPPER)


@program("ptxas.wgmma-accumulator-defined", located=False)
def accumulator_loaded_in_flight():
    load = "ld.global.f32 %f0, [%out+2048];"
    return assemble(wgmma_ptx.kernel(loop(FENCE + mma() + COMMIT + load) + WAIT), HOPPER)  # breaks
    return assemble(wgmma_ptx.kernel(loop(FENCE + mma() + COMMIT + WAIT + load)), HOPPER)  # keeps


@program("ptxas.wgmma-accumulator-read", located=False)
def accumulator_stored_in_flight():
    store = "st.global.f32 [%out+256], %f0;"
    body = FENCE + mma() + store + mma() + COMMIT + WAIT  # breaks
    body = FENCE + mma() + mma() + COMMIT + WAIT + store  # keeps
    return assemble(wgmma_ptx.kernel(body), HOPPER)


@program("ptxas.wgmma-input-defined", located=False)
def fragment_rewritten_in_flight():
    clock = "mov.u32 %r0, %clock;"
    body = FENCE + mma_register_a() + clock + mma_register_a() + COMMIT + WAIT  # breaks
    body = clock + FENCE + mma_register_a() + mma_register_a() + COMMIT + WAIT  # keeps
    return assemble(wgmma_ptx.kernel(body), HOPPER)


@program("ptxas.wgmma-registers", located=False)
def register_set_between_two_mma():
    one = "mov.f32 %f0, 0f3F800000;"
    body = FENCE + mma() + one + mma() + COMMIT + WAIT  # breaks
    body = one + FENCE + mma() + mma() + COMMIT + WAIT  # keeps
    return assemble(wgmma_ptx.kernel(body), HOPPER)


@program("ptxas.wgmma-across-call", located=False)
def call_in_flight():
    body = FENCE + mma() + COMMIT + INDIRECT_CALL + WAIT  # breaks
    body = FENCE + mma() + COMMIT + WAIT  # keeps
    return assemble(wgmma_ptx.kernel(body, before=NOT_INLINED), HOPPER)


@program("ptxas.wgmma-wait-injected", located=False)
def no_wait_before_the_store():
    body = FENCE + mma() + COMMIT  # breaks
    body = FENCE + mma() + COMMIT + WAIT  # keeps
    return assemble(wgmma_ptx.kernel(body), HOPPER)


@program("ptxas.wgmma-wait-divergent", located=False)
def no_wait_in_the_loop():
    add = "add.f32 %f0, %f0, %f1;"
    body = loop(FENCE + mma() + COMMIT + add) + WAIT  # breaks
    body = loop(FENCE + mma() + COMMIT + WAIT + add)  # keeps
    return assemble(wgmma_ptx.kernel(body), HOPPER)


@program("ptxas.wgmma-arrive-divergent", located=False)
def mma_behind_a_branch():
    body = mma() + COMMIT + WAIT  # breaks
    body = FENCE + mma() + COMMIT + WAIT  # keeps
    return assemble(wgmma_ptx.kernel("setp.lt.u32 q, %r0, 64;\n@q bra skip;\n" + body + "skip:\n"), HOPPER)


@program("ptxas.wgmma-extern-call", located=False)
def function_of_another_module():
    """What ptxas prints where modules are compiled apart; whole kernels do not come there."""
    said = (
        "wgmma.mma_async instructions are serialized due to the presence of Extern calls in the function 'k' in line 12"
    )
    log = f"ptxas info    : (C7509) Potential Performance Loss: {said}\n"  # breaks
    log = ""  # keeps
    return diagnose(log, "")


@program("ptxas.wgmma-ill-formed", located=False)
def pipeline_that_ptxas_does_not_follow():
    """What ptxas prints for kernels larger than fit here."""
    said = "wgmma.mma_async instructions are serialized due to ill formed pipeline stage in the function 'k'"
    log = f"ptxas info    : (C7516) Potential Performance Loss: {said}\n"  # breaks
    log = ""  # keeps
    return diagnose(log, "")


@program("ptxas.opt-level")
def fourth_level():
    assemble(wgmma_ptx.kernel(""), HOPPER, opt_level=4)  # breaks
    assemble(wgmma_ptx.kernel(""), HOPPER, opt_level=3)  # keeps


@program("ptxas.register-limit-range")
def limit_of_sixteen():
    assemble(wgmma_ptx.kernel(""), HOPPER, register_limit=16)  # breaks
    assemble(wgmma_ptx.kernel(""), HOPPER, register_limit=168)  # keeps


@program("ptxas.no-cubin")
def ptxas_that_writes_nothing():
    tool = Tool(Path("/bin/true"), (13, 5, 0))  # breaks
    tool = find_ptxas()  # keeps
    assemble(wgmma_ptx.kernel(""), HOPPER, tool=tool)


@program("ptxas.target")
def chip_that_ptxas_13_dropped():
    target = Target.parse("sm_70")  # breaks
    target = Target.parse("sm_75")  # keeps
    assemble(f".version 6.3\n.target {target.name}\n.address_size 64\n", target)


@program("ptxas.ptx-version")
def ptx_from_the_future():
    version = "19.9"  # breaks
    version = "9.0"  # keeps
    assemble(f".version {version}\n.target sm_90a\n.address_size 64\n", HOPPER)


@program("ptxas.old-rs-wgmma")
def ptxas_that_loses_registers():
    tool = replace(find_ptxas(), version=(13, 2, 0))
    with patch("nvbackend.codegen.sass.disassemble", return_value=A_OVERWRITTEN):  # breaks
        assemble(wgmma_ptx.kernel(FENCE + mma_register_a() + COMMIT + WAIT), HOPPER, tool=tool)  # breaks
    assemble(wgmma_ptx.kernel(FENCE + mma_register_a() + COMMIT + WAIT), HOPPER, tool=tool)  # keeps


@program("ptxas.old-hinted-cp-async")
def ptxas_that_loses_a_uniform_register():
    version = (13, 3, 0)  # breaks
    version = (13, 4, 0)  # keeps
    with patch("nvbackend.codegen.sass.disassemble", return_value=REGISTER_LOST):
        assemble(HINTED_COPY, HOPPER, tool=replace(find_ptxas(), version=version))


@program("ptxas.crash")
def ptxas_that_says_nothing():
    tool = Tool(Path("/bin/false"), (13, 5, 0))  # breaks
    tool = find_ptxas()  # keeps
    assemble(wgmma_ptx.kernel(""), HOPPER, tool=tool)


@program("ptxas.missing")
def machine_without_ptxas():
    with patch("nvbackend.codegen.toolchain.locate", return_value=None):  # breaks
        find_ptxas()  # breaks
    find_ptxas()  # keeps
