"""Which functions of an owner's module have the bounds of a kernel: kernels alone."""

from __future__ import annotations

import re

from llvmlite import ir

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import TRIPLE


def test_a_helper_beside_a_kernel_has_none() -> None:
    module = ir.Module("owner")
    module.triple = TRIPLE
    kind = ir.FunctionType(ir.VoidType(), [])
    helper, kernel = (ir.Function(module, kind, name) for name in ("helper", "own"))
    kernel.calling_convention = "ptx_kernel"
    of_helper, of_kernel = (ir.IRBuilder(one.append_basic_block("entry")) for one in (helper, kernel))
    first, second = (nvb.attach(builder, "sm_90a", threads=32) for builder in (of_helper, of_kernel))
    first.warp.sync()
    of_helper.ret_void()
    first.verify()
    of_kernel.call(helper, [])
    second.warp.sync()
    of_kernel.ret_void()
    second.verify()
    text = second.finish().compile(cache=nvb.Cache.disabled(), assemble=False).ir
    defined = re.findall(r"^define .*$", text, re.MULTILINE)
    assert [('@"own"' in line, '"nvvm.maxntid"="32"' in line) for line in defined] == [(False, False), (True, True)]
