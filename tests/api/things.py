"""An object of every public class, as programs make them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import e4m3, f16, f32, u32, ue8m0
from nvbackend.layout import Layout, gmma_atom, tile_to_shape, tiled_divide
from samples import hopper_gemm
from tests.support.runtime import FakeArray, FakeCompiled, FakeDevice

WARP_ATOM = "SM80_16x8x16_F32F16F16F32_TN"
SCALED_ATOM = "SM120_16x8x32_TN_VS<float_e4m3_t, float_e4m3_t, float, float_ue8m0_t, 32>"
WGMMA = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
TILE = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)


@nvb.function
def doubled(k: nvb.KernelBuilder, x: f32) -> f32:
    """A device function."""
    return x * 2.0  # type: ignore[return-value]


def forms_of_a_kernel() -> Iterator[Any]:
    """A large kernel in all its forms."""
    built = hopper_gemm.gemm.build()
    compiled = built.compile(cache=nvb.Cache.disabled())
    yield from (hopper_gemm.gemm, built, compiled, compiled.cubin, compiled.cubin.resources[0], built.machine)
    with tempfile.TemporaryDirectory() as folder:
        compiled.save(f"{folder}/gemm.nvb")
        yield nvb.load_compiled(f"{folder}/gemm.nvb")
    yield from (built.signature, built.signature.bounds, *built.signature.parameters, built.target)
    yield from (parameter.type for parameter in built.signature.parameters)
    for instruction in built.machine.instructions():
        yield instruction
        if instruction.row is not None:
            yield from (instruction.row, instruction.row.semantics)
    flow = nvb.rules.Flow(built.machine)
    yield from (flow, nvb.rules.Finding(flow.sites[0]), *flow.sites, *built.machine.blocks.values())
    touches = [touch for site in flow.sites for touch in (*site.instr.memory, *site.instr.touches)]
    yield from (*touches, *(getattr(touch, "object", None) or touch.block for touch in touches))
    module = nvb.ptx.parse(compiled.ptx)
    body = module.functions[0].body
    yield from (module, nvb.ptx.resolve(module), *module.items)
    yield from (one for one in body.statements if not isinstance(one, type(body)))
    yield nvb.codegen.compile_ir(built.ir, built.target)
    yield from (doubled, doubled.compile("sm_90"))
    module = nvb.compile_module([hopper_gemm.gemm], assemble=False)
    yield module
    with tempfile.TemporaryDirectory() as folder:
        module.save(f"{folder}/kernels.nvb")
        yield nvb.load_compiled_module(f"{folder}/kernels.nvb")


def things_of_the_runtime() -> Iterator[Any]:
    """A loaded kernel on a device that is none, and what it is given."""
    yield nvb.MathPolicy(contract=True)
    yield from (nvb.rows.Asm("{ptx} {d}, {a};"), nvb.rows.Intrinsic("llvm.nvvm.bar.sync", ("number",)))
    yield from (nvb.rows.operand("a", nvb.rows.RegisterClass.B32), nvb.rows.writes("address", 4))
    yield from (nvb.rows.ThreadBarrier(nvb.rows.Scope.CTA), nvb.rows.FenceSemantics(nvb.rows.FenceOf.ASYNC_PROXY))
    signature = nvb.Signature("scale", (nvb.Parameter("x", nvb.Pointer(f16)),), nvb.LaunchBounds(threads=32))
    loaded, array = nvb.runtime.load(FakeCompiled(signature), device=FakeDevice()), FakeArray((64, 64))
    yield nvb.runtime.load({"kernel": FakeCompiled(signature)}, device=FakeDevice())
    yield nvb.Tuned("one", loaded, {"one": nvb.runtime.Timing((1.0,))}, {}, measured=True)
    yield from (loaded, loaded.prepare(1, array), nvb.runtime.read_array(array), nvb.runtime.DriverError("CUDA_ERROR"))
    yield from (nvb.runtime.Timing((1.0, 2.0) * 500), nvb.codegen.find_ptxas(), nvb.Cache.default())
    yield nvb.TensorMap(f16, box=(64, 64)).bind(np.zeros((64, 64), np.float16))
    simulator = nvb.simulator.Simulator()
    module = simulator.load(".version 9.0 .target sm_90a .address_size 64 .entry k() { ret; }")
    foreign = ".version 9.0 .target sm_90a .address_size 64 .func f() { ret; }"
    yield nvb.extern_function("f", {}, ptx=foreign)
    yield from (simulator, module, module.launch("k"), module.start("k"))


def things_in_a_hopper_kernel() -> Iterator[Any]:
    """What the calls of `k` give."""
    parameters = [nvb.Parameter("x", nvb.Pointer(f32)), nvb.Parameter("map", nvb.TensorMap(f16, box=(64, 64)))]
    k = nvb.KernelBuilder("kernel", "sm_90a", threads=256, parameters=parameters)
    x, described = k.arguments
    mma, warps = k.tiled_mma(WGMMA), k.tiled_mma(WARP_ATOM)
    ring, coordinates = k.pipeline(2, 1, a=TILE), k.identity_tensor((64, 64))
    yield from (k, k.mma, x, described, k.shared_tile(TILE), k.shared_tiles(TILE, 2), k.tensor(x, Layout((64, 64))))
    yield from (
        mma,
        mma.accumulator(),
        mma.layouts,
        warps,
        warps.thread,
        ring,
        coordinates,
        coordinates.below(3, k.thread_id()),
    )
    yield from (k.thread_id(), k.var(0), k.register_tensor(f32, (4, 4)))
    acc = k.wgmma.accumulator(64)
    acc.fill(0.0)
    rows = acc.rows(0.0)
    yield from (acc, acc.elements(), rows, k.var(rows))
    yield from (k.pipeline(2, copies="cp.async", a=(f16, Layout((64, 64)))), k.tma_epilogue(described, 64, 1))
    yield k.dynamic_tiles(x.cast(nvb.i32), 4, 1)
    yield from (k.mbarrier.array(1, arrivals=1), k.mbarrier.handle(), k.pipeline(2, 1, apart=True, a=TILE, b=TILE))
    yield from (k.wgmma.fragment([k.const(0, u32)] * 4, f16), k.wmma.accumulator("m16n16k16", f32))
    yield k.wmma.load("a", "m16n16k16", f16, k.shared(f16, 256, align=32), stride=16)
    k.mbarrier.ready()
    with k.one_thread(), ring.fill() as stage:
        yield stage


def things_in_other_kernels() -> Iterator[Any]:
    """Tensor memory, sums of several CTAs, and a builder on a function of somebody else's."""
    parameters = [nvb.Parameter(name, nvb.Pointer(element)) for name, element in (("memory", f32), ("flags", u32))]
    k = nvb.KernelBuilder("kernel", "sm_90a", threads=128, cluster=2, parameters=parameters)
    share = k.stream_k(4, 4)
    yield from (share, share.partial_sums(*k.arguments))
    yield k.cluster.reduce_scatter(k.tiled_mma(WGMMA))
    k = nvb.KernelBuilder("kernel", "sm_100a", threads=128)
    request = nvb.tcgen05.mma("m128n64k16", f16, f16, f32)
    yield from (request, request.descriptor, k.tiled_mma(request))
    with k.tcgen05.tmem(64) as columns:
        yield from (columns, k.tcgen05.ld(columns, "32x32b", 16))
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "f")
    function.linkage = "internal"
    yield nvb.attach(ir.IRBuilder(function.append_basic_block()), "sm_90a", threads=128)


def plain_things() -> Iterator[Any]:
    """Requests, words, types and errors."""
    atom, scaled = nvb.atoms.atom(WARP_ATOM), nvb.atoms.atom(SCALED_ATOM)
    yield from (atom, nvb.atoms.use_of(atom), scaled, scaled.block_scale)
    yield from (nvb.mma.sync("m16n8k16", f16, f16, f32), WGMMA, nvb.tma.load(2))
    yield from (nvb.wmma.mma("m16n16k16", f16, f16, f32), nvb.wmma.load("a", "m16n16k16", f16))
    yield from (TILE, nvb.Im2col(4, (-1, -1), (-1, -1)), nvb.Scalar(f16), nvb.Pointer(f16), f16)
    yield from (nvb.Tcgen05Ctrl(1, 0), nvb.Tcgen05Collector(), nvb.SmemDescriptor(0, 16, 64))
    yield from (nvb.Tcgen05SmemDescriptor(0, 16, 64), nvb.tileiras.TileirasDescriptor(0, 16, 64))
    yield from (nvb.TensorMapWord(0, "f16", (64, 64), (64, 64), (128,)), nvb.Location("kernel.py", 7, "kernel"))
    yield nvb.tileiras.block_scaled_atom(32, 32, e4m3, e4m3, f32, ue8m0, ue8m0)
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.Target.parse("sm_91")
    (diagnostic,) = caught.value.diagnostics
    yield from (caught.value, diagnostic, diagnostic.rule)
    yield from (nvb.Suppressed(diagnostic, "the chip is new"), nvb.DiagnosticWarning(str(diagnostic)))
    yield nvb.DeprecatedWarning("k.sum is deprecated")
    yield from _parts_of_a_row()


def _parts_of_a_row() -> Iterator[Any]:
    """What an instruction of a user's own is made of."""
    rows = nvb.rows
    form = rows.Asm("min.s32 $0, $1, $2;")
    yield from (form, rows.Intrinsic("llvm.nvvm.clz.i"), rows.operand("a", f32), rows.MemoryOperand("a", writes=False))


def layouts_and_tiles() -> Iterator[Any]:
    """Layouts, tiled MMAs and copies."""
    atom = gmma_atom(nvb.Major.K, nvb.SwizzleMode.B128, f16)
    square = Layout((64, 64))
    yield from (atom, atom.swizzle, nvb.layout.SmemPtr(16), Layout(tuple(range(1, 20))), nvb.layout.Dynamic(3))
    yield from (nvb.layout.FORMS[0], nvb.layout.bank_conflicts(Layout(32, 2), element_bits=32, access_bytes=4))
    yield nvb.layout.smem_desc(nvb.Major.K, tiled_divide(tile_to_shape(atom, (64, 64)), (64, 16)), f16, address=0x400)
    mma = nvb.tiled.make_tiled_mma(WARP_ATOM, (2, 2, 1), (32, 32, 16))
    thread = mma.get_slice(37)
    a, b, c = (
        part(square) for part in (thread.partition_fragment_A, thread.partition_fragment_B, thread.partition_fragment_C)
    )
    halves = thread.partition_fragment_C(Layout((64, 64, 2)))
    load = nvb.tiled.ldmatrix_copy(f16, 4)
    copy = nvb.tiled.make_tiled_copy_A(load, mma)
    boxes = nvb.tiled.make_tma_copy(f16, Layout((256, 256), (256, 1)), tile_to_shape(atom, (64, 64)))
    yield from (mma, thread, a, c, load, copy, copy.get_slice(3), thread.partition_A(square), boxes)
    yield from (*nvb.tiled.tma_partition(boxes), *nvb.tiled.gemm(mma, a, b, c), nvb.tiled.split_k(mma, a, b, halves))
    yield nvb.tiled.reduction(nvb.tiled.make_tiled_mma(WARP_ATOM, (1, 1, 2)))


SCENES = (
    forms_of_a_kernel,
    things_of_the_runtime,
    things_in_a_hopper_kernel,
    things_in_other_kernels,
    plain_things,
    layouts_and_tiles,
)
