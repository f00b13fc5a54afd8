"""`lowering="asm"`: the same program without intrinsics of NVPTX, judged alike, and the same machine code."""

from __future__ import annotations

import re

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError, f16, f32
from nvbackend.builder.kernel.kernel import TRIPLE
from nvbackend.codegen.llvm import compile_ir
from nvbackend.codegen.ptxas import assemble

_CODE = re.compile(r"/\*[0-9a-f]{4}\*/\s+([^;]*);")

_TENSOR = re.compile(r"HGMMA|WARPGROUP|WARPSYNC|BAR|SYNCS|DEPBAR")


def reduction(k, out):
    """Indices, shuffles and barriers."""
    sums = k.shared(f32, 4)
    total = out[k.thread_id()]
    for distance in (16, 8, 4, 2, 1):
        total += k.warp.shuffle(total, "bfly", distance)
    with k.if_(k.lane_id() == 0):
        sums[k.warp_id()] = total
    k.barrier.sync()
    out[k.thread_id()] = sums[k.thread_id() % 4]


def handed_over(k, out):
    """An mbarrier, a bulk copy and an election."""
    tile, full = k.shared(f32, 128, align=128), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=512)
        k.bulk.load(tile, out, 512, full)
    k.mbarrier.wait(full, 0)
    out[k.thread_id()] = tile[k.thread_id()] + 1.0


def product(k, out):
    """A warpgroup's mma, with its fences and waits."""
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))
    acc = k.wgmma.accumulator(64)
    with k.wgmma.group():
        k.wgmma.mma_async(acc, tile, tile, nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    out[k.thread_id()] = acc[0]


PROGRAMS = [reduction, handed_over, product]


def attached(body, lowering: str, *, end=True):
    module = ir.Module("own")
    module.triple = TRIPLE
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType(addrspace=1)]), "own")
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    k = nvb.attach(builder, "sm_90a", threads=128, lowering=lowering)
    body(k, k.global_address(function.args[0], f32, 16))
    if end:
        builder.ret_void()
    return k, str(module)


def code_of(text: str, target: nvb.Target) -> list[str]:
    ptx = compile_ir(text, target).ptx
    return _CODE.findall(nvb.codegen.sass.disassemble(assemble(ptx, target).data))


@pytest.mark.parametrize("body", PROGRAMS, ids=lambda body: body.__name__)
def test_no_intrinsic_is_left(body):
    k, text = attached(body, "asm")
    assert k.verify() == ()
    assert "llvm.nvvm." not in text
    assert "llvm.nvvm." in attached(body, "intrinsic")[1]


@pytest.mark.parametrize("body", PROGRAMS, ids=lambda body: body.__name__)
def test_the_machine_form_is_the_same(body):
    first, second = (attached(body, lowering)[0] for lowering in ("intrinsic", "asm"))
    assert [str(each.row) for each in first.machine.instructions()] == [
        str(each.row) for each in second.machine.instructions()
    ]
    assert [dict(each.facts) for each in first.machine.instructions()] == [
        dict(each.facts) for each in second.machine.instructions()
    ]


def test_the_machine_code_is_the_same():
    """Of the warpgroup's mma: how LLVM schedules what is around it depends on what it knows of it."""
    first, second = (attached(product, lowering) for lowering in ("intrinsic", "asm"))
    codes = [
        [line.split()[0] for line in code_of(text, k.target) if _TENSOR.match(line)] for k, text in (first, second)
    ]
    assert codes[0] == codes[1]
    assert any("HGMMA" in line for line in codes[0])


def race(k, out):
    shared = k.shared(f32, 128)
    shared[k.thread_id()] = 1.0
    out[k.thread_id()] = shared[127 - k.thread_id()]


def in_half_of_the_threads(k, out):
    with k.if_(k.thread_id() < 40):
        k.barrier.sync()


def past_the_end(k, out):
    k.shared(f32, 100)[k.thread_id()] = 1.0


@pytest.mark.parametrize("body", [race, in_half_of_the_threads, past_the_end], ids=lambda body: body.__name__)
def test_mistakes_are_found_in_both(body):
    said = []
    for lowering in ("intrinsic", "asm"):
        k, _ = attached(body, lowering)
        with pytest.raises(DiagnosticError) as raised:
            k.verify()
        said.append([each.message.replace('"', "") for each in raised.value.diagnostics])
    assert said[0] == said[1]


def test_an_index_along_another_axis_is_another_shape():
    """What the evaluator learns from the name of an intrinsic it learns of the asm too."""

    def body(k, out):
        k.thread_id("y")
        past_the_end(k, out)

    for lowering in ("intrinsic", "asm"):
        k, _ = attached(body, lowering)
        assert k.core.execution.cta.shape is None


@pytest.mark.parametrize("given", ["ptx", "", None, 1])
def test_another_lowering(given):
    with pytest.raises(DiagnosticError, match=r"attach\.lowering"):
        attached(race, given)


@pytest.mark.parametrize(("own", "other"), [("asm", "intrinsic"), ("intrinsic", "asm")])
def test_one_lowering_for_a_function(own, other):
    k, _ = attached(race, own, end=False)
    builder = k._following.owner
    assert nvb.attach(builder, "sm_90a", threads=128, lowering=own) is k
    with pytest.raises(DiagnosticError, match=r"attach\.again.*another lowering"):
        nvb.attach(builder, "sm_90a", threads=128, lowering=other)
