"""What an H100 (sm_90, ptxas 13.5) computed where the simulator, or PTX ISA, once said something else.

The tables are bits that it gave, written down. Most of it is what ptxas makes of an instruction, which is the same for
sm_80, sm_90 and sm_100a. What only a chip decides, and only this one was asked for, is in `OF_THE_CHIP`.
"""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.simulator.scalar import find
from tests.simulator.scalar.operands import computed, width_of

OF_THE_CHIP = """
mul.rp.ftz.f32 3f7fffff 800000 = 0
mul.ftz.f16 2406 1bf4 = 400
mul.ftz.f16 2404 1bf8 = 400
mul.ftz.f16 b80b 7ea = 8400
mul.ftz.f16 b00c fe8 = 8400
mul.ftz.f16 a00a 1fec = 8400
mul.ftz.f16 2c0e 13e4 = 400
mul.ftz.f16 a403 1bfa = 8400
cvt.rn.f16.f64 7ff0000000000001 = 7e00
cvt.rn.bf16.f64 ffffffffffffffff = ffff
cvt.rn.f32.f64 7ff0000000000001 = 7fc00000
cvt.rn.ftz.f32.f64 7ff0000000000002 = 7fc00000
cvt.rz.f16.f64 fff0000000000001 = fe00
cvt.rz.bf16.f64 7ff0000000000001 = 7fc0
cvt.rz.f32.f64 7ff0000000000001 = 7fc00000
cvt.rz.ftz.f32.f64 fff0000000000001 = ffc00000
cvt.rm.f16.f64 fff0000000000002 = fe00
cvt.rm.bf16.f64 fff0000000000001 = ffc0
cvt.rm.f32.f64 fff0000000000001 = ffc00000
cvt.rm.ftz.f32.f64 7ff0000000000002 = 7fc00000
cvt.rp.f16.f64 fff0000000000001 = fe00
cvt.rp.bf16.f64 7ff0000000000001 = 7fc0
cvt.rp.f32.f64 fff0000000000001 = ffc00000
cvt.rp.ftz.f32.f64 7ff0000000000001 = 7fc00000
cvt.rm.ftz.f32.f64 b80fffffe0000000 = 80000000
cvt.rp.ftz.f32.f64 380fffffe0000000 = 0
cvt.rp.ftz.sat.f32.f64 380fffffe0000000 = 0
fma.rn.oob.f16 c4c0 bd80 7ff7 = 7fff
fma.rn.oob.f16x2 3dc0b9c0 aa40ff06 8d3c7ff7 = ac837fff
fma.rn.oob.bf16 3fb0 b95b 7ff7 = 7fff
fma.rn.oob.bf16x2 40130041 c397bd38 67e47ff7 = 67e47fff
fma.rn.oob.relu.f16x2 7eff8200 ff638001 37807ff7 = 7fff7fff
fma.rn.oob.relu.bf16 ff80 4501 7ff7 = 7fff
fma.rn.oob.relu.bf16x2 8cea0040 80ac3f81 3df87ff7 = 3df87fff
"""
"""NaN of f64 converted, flushing, an addend that is out of bounds."""
OF_PTXAS = """
fns.b32 adca907a 10 80000000 = 0
fns.b32 f24983ff 5 80000000 = 0
bfe.u64 f26a53ed240e4bcb 61212006 72c7fe3 = 0
bfe.s64 f0d9fa84a45ac39e 4001ac37 a0f89bb1 = ffffffffffffffff
bfi.b64 ae058402846d515e 8000000000000000 a82fc63d 1965188f = 8000000000000000
slct.ftz.u16.f32 7572 64a1 80400000 = 7572
slct.ftz.u32.f32 98e6add7 a4118596 80000001 = 98e6add7
slct.ftz.u64.f32 95bb327718da02d0 30a432ee9b7871a4 803fffff = 95bb327718da02d0
slct.ftz.s16.f32 1f aaad 80000001 = 1f
slct.ftz.s32.f32 542f09f3 74741a51 80400000 = 542f09f3
slct.ftz.s64.f32 ffffffffffffffff 3bd408e03d95f1e8 80000001 = ffffffffffffffff
slct.ftz.b16.f32 3e 2dcd 80400000 = 3e
slct.ftz.b32.f32 319cf8fd 42c55829 80000001 = 319cf8fd
slct.ftz.b64.f32 ef572e4838fef391 59d9e10d767d9b10 80000001 = ef572e4838fef391
slct.ftz.f32.f32 6370e3cc ddb121c9 80400001 = 6370e3cc
slct.ftz.f64.f32 39874604da5a7021 c018000000000000 80000001 = 39874604da5a7021
cvt.f32.bf16 7f81 = 7f810000
cvt.f32.f32 7f800001 = 7f800001
cvt.rn.f32.bf16 7ff8 = 7ff80000
cvt.rz.f32.bf16 ff81 = ff810000
cvt.rm.f32.bf16 7ffb = 7ffb0000
cvt.rm.ftz.f16.f32 80400000 = 8001
cvt.rp.f32.bf16 7ff7 = 7ff70000
cvt.rp.ftz.f16.f32 1 = 1
cvt.rp.ftz.sat.f16.f32 7fffff = 1
cvt.rna.tf32.f32 7f800001 = 7f800000
cvt.rna.satfinite.tf32.f32 ff800002 = ff7fe000
vadd.u32.u32.u32.sat b47d459c ff1d1551 = b39a5aed
vadd.u32.u32.u32.sat.add 80000001 80000000 ee918d4b = ee918d4c
vadd.u32.u32.u32.max d5f690a8 cfad1357 bdf7e0ce = a5a3a3ff
vadd.u32.u32.s32.sat ccdc64f2 558a3efc = 2266a3ee
vadd.u32.u32.s32.sat.add f81933ee 5fb94979 0 = 57d27d67
vadd.u32.u32.s32.max 8baa17c4 40 fe607f61 = 8baa1804
vadd.u32.s32.u32.sat 5abda418 d901ab2f = 33bf4f47
vadd.u32.s32.u32.sat.add 3e928e55 faef8ae7 6457dd34 = 9dd9f670
vadd.u32.s32.u32.max 2 e903e5ed f874ca25 = e903e5ef
vadd.u32.s32.s32.max 946e8a2 90abaf96 c38226aa = 99f29838
vsub.u32.u32.u32.max 2245c7ea 4324033a e94ada25 = df21c4b0
vsub.u32.u32.s32.sat ef3bdc4e 8ed253a9 = 606988a5
vsub.u32.u32.s32.sat.add e177ea8f b8e6caa6 64 = 2891204d
vsub.u32.u32.s32.max 3 2e113c6f df74fdb4 = d1eec394
vsub.u32.s32.u32.max d155930c 10eb5339 ec6e3b7a = c06a3fd3
vsub.u32.s32.s32.max ffffffff 7d18f258 ffffffff = 82e70da7
vabsdiff.u32.u32.s32.sat d3a9c457 9c9fabfd = 370a185a
vabsdiff.u32.u32.s32.sat.add 96b635d4 80000000 6c3eb14f = 82f4e723
vabsdiff.u32.u32.s32.max fd7c097e c76c8906 df93f8f0 = 360f8078
vabsdiff.u32.s32.u32.sat 815cf45b 92c20e02 = 116519a7
vabsdiff.u32.s32.u32.sat.add ebcb6e7d ffffffff 2 = 14349184
vabsdiff.u32.s32.u32.max fffffffd ffffffff 21 = 2
vabsdiff.s32.u32.u32.max 0 bdf94ed4 4fffac9e = bdf94ed4
vabsdiff.s32.u32.s32.max ef6bd964 ffffffff 54e965a4 = ef6bd965
vabsdiff.s32.s32.u32.max ba479fe2 7fffffff 7fffffff = c5b8601d
vabsdiff.s32.s32.s32.max 679ef06a 93385f91 4676a17b = d46690d9
vmin.u32.u32.s32.max 6d2ceb e938f21a f701fed1 = e938f21a
vmin.u32.s32.u32.max bb2276a4 a940e5d9 fc1f8afa = bb2276a4
vmin.u32.s32.s32.max 20 c3058cfc f0e442f1 = c3058cfc
vmin.s32.u32.u32.max 9e9af7de a44c5896 21 = 9e9af7de
vmax.u32.s32.s32.max efd8f8cd 907d8280 f07af500 = efd8f8cd
vmax.s32.u32.u32.max 39b97668 c91b9626 2d0a5424 = c91b9626
vmax.s32.u32.s32.max 80000001 20 2 = 80000001
vmax.s32.s32.u32.max 1e f245e8c9 1f = f245e8c9
"""
REFUSED = [
    f"fma.{mode}{relu}.{kind}" for mode in ("rz", "rm", "rp") for relu in ("", ".relu") for kind in ("bf16", "bf16x2")
]
"""What ptxas takes and gets wrong: it computes the first in f16, and rounds the second to nearest."""


@pytest.mark.parametrize("row", [*OF_THE_CHIP.split("\n")[1:-1], *OF_PTXAS.split("\n")[1:-1]])
def test_it_is_what_the_gpu_gave(row):
    given, _, wanted = row.partition(" = ")
    opcode, *operands = given.split()
    instruction = find(tuple(opcode.split(".")))
    bits = [
        np.array([int(one, 16)], f"uint{width_of(kind)}")
        for one, kind in zip(operands, instruction.operands[: len(operands)], strict=True)
    ]
    assert hex(int(computed(opcode, *bits)[0][0])) == f"0x{wanted}"


@pytest.mark.parametrize("opcode", REFUSED)
def test_what_ptxas_gets_wrong_is_not_known(opcode):
    assert find(tuple(opcode.split("."))) is None


def test_a_sum_after_a_difference_adds_what_was_not_borrowed():
    """sub.cc and addc, add.cc and subc: one flag, of which ptxas makes a carry for both."""
    a, b = (np.array(one, np.uint32) for one in ([5, 3, 3], [3, 5, 3]))
    zero = np.zeros(3, np.uint32)
    _, no_borrow = computed("sub.cc.u32", a, b)
    assert computed("addc.u32", zero, zero, no_borrow)[0].tolist() == [1, 0, 1]
    _, carry = computed("add.cc.u32", a, np.array([0xFFFFFFFF, 1, 1], np.uint32))
    assert computed("subc.u32", zero, zero, carry)[0].tolist() == [0, 0xFFFFFFFF, 0xFFFFFFFF]
