"""Attached kernels with an instruction that needs a cluster: the builder's, their owner's, and those of callees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import u32
from nvbackend.builder.kernel.kernel import TRIPLE
from nvbackend.intrinsics.copy.async_store import CLUSTER_COPY
from tests.support.clusters_of_one import LANES, SENDS, send
from tests.support.ptxas import assemble

VOID, I32 = ir.VoidType(), ir.IntType(32)
GLOBAL, CLUSTER, SHARED = (ir.PointerType(addrspace=space) for space in (1, 7, 3))
OUT = nvb.Parameter("out", nvb.Pointer(u32))
ONE = ".explicitcluster\n.reqnctapercluster 1, 1, 1\n"
LOWERINGS = pytest.mark.parametrize("lowering", ["intrinsic", "asm"])
TEXTS = {
    "plain": "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [$0], $1, [$2];",
    "guarded": "{ .reg .pred p; setp.eq.u32 p, $1, 0; "
    "@p st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [$0], $1, [$2]; }",
    "generic": "{ .reg .b64 a; cvt.u64.u32 a, $0; st.async.mbarrier::complete_tx::bytes.u32 [a], $1, [a]; }",
    "not read": "$(st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [$0], $1, [$2];$|trap;$)",
    "among others": "mov.u32 $1, $1; red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
    "[$0], $1, [$2];",
}


def owner(name: str, module: ir.Module, types: Any = (), *, kernel: bool = True) -> ir.IRBuilder:
    module.triple = TRIPLE
    function = ir.Function(module, ir.FunctionType(VOID, types), name)
    if kernel:
        function.calling_convention = "ptx_kernel"
    else:
        function.linkage = "internal"
    return ir.IRBuilder(function.append_basic_block("entry"))


def attach(builder: ir.IRBuilder, **options: Any) -> Any:
    return nvb.attach(builder, "sm_90a", threads=LANES, **options)


def compiled(k: Any) -> nvb.CompiledKernel:
    return k.finish().compile(assemble=False, cache=nvb.Cache.disabled())


def write(builder: ir.IRBuilder, text: str) -> None:
    """Inline assembly of the owner's."""
    words = [ir.Constant(I32, 0)] * 3
    builder.asm(ir.FunctionType(VOID, [I32] * 3), text, "r,r,r", words, side_effect=True)


@LOWERINGS
@pytest.mark.parametrize("opcode", SENDS)
def test_the_builders_own(opcode: str, lowering: str) -> None:
    """By attributes, and by annotations."""
    builder = owner("own", ir.Module("owner"), [GLOBAL])
    k = attach(builder, parameters=[OUT], lowering=lowering)
    send(k, opcode, k.arguments[0])
    builder.ret_void()
    k.verify()
    kernel = compiled(k)
    assert ('"nvvm.cluster_dim"="1,1,1"' in kernel.ir) is (lowering == "intrinsic")
    assert ('!"cluster_dim_x", i32 1' in kernel.ir) is (lowering == "asm")
    assert kernel.ptx.count(ONE) == kernel.ptx.count("reqnctapercluster") == 1
    taken, said = assemble(kernel.ptx, "sm_90a")
    assert taken, said
    out = np.zeros(LANES, np.uint32)
    nvb.runtime.load(kernel, device="simulator").launch(1, out)
    assert np.array_equal(out, 3 * np.arange(LANES))


@LOWERINGS
@pytest.mark.parametrize("text", TEXTS)
def test_the_owners_assembly(text: str, lowering: str) -> None:
    """Also what the analyses do not know the rest of."""
    builder = owner("own", ir.Module("owner"))
    k = attach(builder, lowering=lowering)
    write(builder, TEXTS[text])
    builder.ret_void()
    k.verify()
    assert ONE in compiled(k).ptx


@LOWERINGS
def test_the_owners_intrinsic(lowering: str) -> None:
    module = ir.Module("owner")
    builder = owner("own", module)
    k = attach(builder, lowering=lowering)
    kind = ir.FunctionType(VOID, [CLUSTER, SHARED, SHARED, I32])
    arguments = [ir.Constant(each, None) for each in kind.args[:3]]
    builder.call(ir.Function(module, kind, CLUSTER_COPY), [*arguments, ir.Constant(I32, 16)])
    builder.ret_void()
    k.verify()
    ptx = compiled(k).ptx
    assert "cp.async.bulk.shared::cluster.shared::cta" in ptx
    assert ONE in ptx


@LOWERINGS
@pytest.mark.parametrize("has_builder", [True, False], ids=["attached", "of the owner"])
def test_a_function_that_a_kernel_calls(lowering: str, has_builder: bool) -> None:
    """Directly or not; another kernel of the module is launched without a cluster."""
    module = ir.Module("owner")
    last, middle = owner("last", module, kernel=False), owner("middle", module, kernel=False)
    first, other = owner("first", module), owner("other", module)
    callee = attach(last, lowering=lowering) if has_builder else None
    write(last, TEXTS["plain"])
    middle.call(last.function, [])
    first_k, other_k = attach(first, lowering=lowering), attach(other, lowering=lowering)
    first.call(middle.function, [])
    for builder in (last, middle, first, other):
        builder.ret_void()
    for k in (callee, first_k, other_k):
        if k is not None:
            k.verify()
    ptx = compiled(first_k).ptx
    heads = {part.split("(")[0]: part.split("{")[0] for part in ptx.split(".entry ")[1:]}
    assert ONE in heads["first"]
    assert "cluster" not in heads["other"]


@LOWERINGS
def test_no_other_is(lowering: str) -> None:
    """What only has the words of it: a comment, a store to global memory, a load to the cluster."""
    builder = owner("own", ir.Module("owner"), [GLOBAL])
    k = attach(builder, parameters=[OUT], lowering=lowering)
    k.arguments[0][k.thread_id()] = 1
    write(builder, "// st.async.shared::cluster\nst.shared::cluster.u32 [$0], $1;")
    builder.ret_void()
    k.verify()
    kernel = compiled(k)
    assert "cluster_dim" not in kernel.ir
    assert "reqnctapercluster" not in kernel.ptx
