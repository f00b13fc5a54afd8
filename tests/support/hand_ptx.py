"""Kernels written as PTX by hand, to test launching without any of the code that makes kernels."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from nvbackend.codegen.toolchain import find_ptxas
from nvbackend.intrinsics.row import types
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.target.target import Target
from nvbackend.signature import LaunchBounds, Parameter, Pointer, Scalar, Signature, TensorMap
from tests.support.runtime import Cubin, FakeCompiled

TARGET = "sm_90"
_HEADER = f".version 8.0\n.target {TARGET}\n.address_size 64\n"

AFFINE = (
    _HEADER
    + """
.visible .entry affine(.param .u64 source, .param .u64 target, .param .f32 factor, .param .s32 count)
{
    .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %d<8>;
    ld.param.u64 %d1, [source];
    ld.param.u64 %d2, [target];
    ld.param.f32 %f1, [factor];
    ld.param.s32 %r1, [count];
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra DONE;
    mul.wide.s32 %d3, %r5, 4;
    add.s64 %d4, %d1, %d3;
    add.s64 %d5, %d2, %d3;
    ld.global.f32 %f2, [%d4];
    fma.rn.f32 %f3, %f2, %f1, 0f3F800000;
    st.global.f32 [%d5], %f3;
DONE:
    ret;
}
"""
)
"""target[i] = source[i] * factor + 1 for i < count."""

_SCALAR_SLOTS = (
    # element, PTX register type and width of the load and store
    (types.s8, "b16", "s8"),
    (types.u8, "b16", "u8"),
    (types.pred, "b16", "u8"),
    (types.e4m3, "b16", "u8"),
    (types.f16, "b16", "b16"),
    (types.bf16, "b16", "b16"),
    (types.s16, "b16", "b16"),
    (types.s32, "b32", "b32"),
    (types.u32, "b32", "b32"),
    (types.f32, "b32", "b32"),
    (types.s64, "b64", "b64"),
    (types.u64, "b64", "b64"),
    (types.f64, "b64", "b64"),
)
SCALAR_ELEMENTS: tuple[ElementType, ...] = tuple(element for element, *_ in _SCALAR_SLOTS)
SCALAR_SLOT_BYTES = 8
"""What each scalar's bits are stored at a multiple of by SCALARS."""


def _scalars() -> str:
    parameters = "".join(f", .param .{kind} s{place}" for place, (_, _, kind) in enumerate(_SCALAR_SLOTS))
    body = "".join(
        f"    ld.param.{kind} %{register}_{place}, [s{place}];\n"
        f"    st.global.{kind} [%base+{place * SCALAR_SLOT_BYTES}], %{register}_{place};\n"
        for place, (_, register, kind) in enumerate(_SCALAR_SLOTS)
    )
    registers = "".join(
        f"    .reg .{register} %{register}_{place};\n" for place, (_, register, _) in enumerate(_SCALAR_SLOTS)
    )
    return (
        f"{_HEADER}.visible .entry scalars(.param .u64 target{parameters})\n{{\n    .reg .b64 %base;\n{registers}"
        f"    ld.param.u64 %base, [target];\n    cvta.to.global.u64 %base, %base;\n{body}    ret;\n}}\n"
    )


SCALARS = _scalars()
"""Stores the bits of each scalar parameter."""

RANKS = (
    _HEADER
    + """
.visible .entry ranks(.param .u64 target) .explicitcluster .reqnctapercluster 4, 1, 1
{
    .reg .b32 %r<5>; .reg .b64 %d<3>;
    ld.param.u64 %d1, [target];
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r1, %cluster_ctarank;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %clusterid.x;
    mad.lo.u32 %r4, %r3, 100, %r1;
    mul.wide.u32 %d2, %r2, 4;
    add.s64 %d1, %d1, %d2;
    st.global.u32 [%d1], %r4;
    ret;
}
"""
)
"""target[ctaid] = 100 * clusterid + cluster_ctarank, in clusters of 4."""

DEEP = (
    _HEADER
    + """
.extern .shared .align 16 .b8 dynamic[];
.visible .entry deep(.param .u64 target, .param .u32 last)
{
    .reg .b32 %r<5>; .reg .b64 %d<2>;
    ld.param.u64 %d1, [target];
    cvta.to.global.u64 %d1, %d1;
    ld.param.u32 %r1, [last];
    mov.u32 %r2, dynamic;
    add.u32 %r3, %r2, %r1;
    st.shared.u32 [%r3], 4711;
    ld.shared.u32 %r4, [%r3];
    st.global.u32 [%d1], %r4;
    ret;
}
"""
)
"""Stores 4711 by way of the dynamic shared memory at byte offset `last`."""

CRASH = (
    _HEADER
    + """
.visible .entry crash(.param .u64 offset)
{
    .reg .b64 %d<2>;
    ld.param.u64 %d1, [offset];
    st.global.u32 [%d1], 1;
    ret;
}
"""
)
"""Writes to whatever address it is given."""

TILE_ROWS = 8
TILE_ROW_BYTES = 128
_TILE_BYTES = TILE_ROWS * TILE_ROW_BYTES

TILE = (
    _HEADER
    + f"""
.visible .entry tile(.param .align 64 .b8 source[128], .param .u64 target, .param .s32 row, .param .s32 column)
{{
    .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %d<8>;
    .shared .align 1024 .b8 box[{_TILE_BYTES}];
    .shared .align 8 .b64 barrier;
    mov.b64 %d1, source;
    cvta.param.u64 %d1, %d1;
    ld.param.u64 %d2, [target];
    cvta.to.global.u64 %d2, %d2;
    ld.param.s32 %r1, [row];
    ld.param.s32 %r2, [column];
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, barrier;
    mov.u32 %r5, box;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra COPIED;
    mbarrier.init.shared::cta.b64 [%r4], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 %d3, [%r4], {_TILE_BYTES};
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d1, {{%r2, %r1}}], [%r4];
COPIED:
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
    @!%p2 bra WAIT;
LOOP:
    shl.b32 %r6, %r3, 2;
    setp.ge.u32 %p3, %r6, {_TILE_BYTES};
    @%p3 bra DONE;
    add.u32 %r7, %r5, %r6;
    ld.shared.b32 %r8, [%r7];
    cvt.u64.u32 %d4, %r6;
    add.s64 %d5, %d2, %d4;
    st.global.b32 [%d5], %r8;
    add.u32 %r3, %r3, 32;
    bra LOOP;
DONE:
    ret;
}}
"""
)
"""Copies the box at (row, column) by TMA and stores its bytes in the order of shared memory."""


def tile(element: ElementType, swizzle: int) -> FakeCompiled:
    """TILE for arrays of `element`; the box is TILE_ROWS rows of TILE_ROW_BYTES bytes."""
    columns = TILE_ROW_BYTES * 8 // element.bits
    parameters = (
        Parameter("source", TensorMap(element, (TILE_ROWS, columns), swizzle)),
        Parameter("target", Pointer(types.u8)),
        Parameter("row", Scalar(types.s32)),
        Parameter("column", Scalar(types.s32)),
    )
    return compiled(TILE, "tile", parameters, LaunchBounds(32))


def compiled(ptx: str, name: str, parameters: tuple[Parameter, ...], bounds: LaunchBounds) -> FakeCompiled:
    """A hand-written kernel as `load` takes it, without a cubin."""
    return FakeCompiled(Signature(name, parameters, bounds), Target.parse(TARGET), ptx, None)


def affine() -> FakeCompiled:
    parameters = (
        Parameter("source", Pointer(types.f32)),
        Parameter("target", Pointer(types.f32)),
        Parameter("factor", Scalar(types.f32)),
        Parameter("count", Scalar(types.s32)),
    )
    return compiled(AFFINE, "affine", parameters, LaunchBounds(128))


def scalars() -> FakeCompiled:
    values = tuple(Parameter(f"s_{element}", Scalar(element)) for element in SCALAR_ELEMENTS)
    return compiled(SCALARS, "scalars", (Parameter("target", Pointer(types.u8)), *values), LaunchBounds(1))


def ranks() -> FakeCompiled:
    return compiled(RANKS, "ranks", (Parameter("target", Pointer(types.u32)),), LaunchBounds(32, cluster=4))


def deep(dynamic_bytes: int) -> FakeCompiled:
    parameters = (Parameter("target", Pointer(types.u32)), Parameter("last", Scalar(types.u32)))
    return compiled(DEEP, "deep", parameters, LaunchBounds(1, dynamic_shared_bytes=dynamic_bytes))


def crash() -> FakeCompiled:
    return compiled(CRASH, "crash", (Parameter("address", Scalar(types.u64)),), LaunchBounds(1))


KERNELS = {"affine": AFFINE, "scalars": SCALARS, "ranks": RANKS, "deep": DEEP, "crash": CRASH, "tile": TILE}


def assembled(ptx: str) -> Cubin:
    """`ptx` as a cubin. Raises AssertionError with what ptxas says where it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx, encoding="utf-8")
        cubin = source.with_suffix(".cubin")
        done = subprocess.run(
            [find_ptxas().path, f"-arch={TARGET}", source, "-o", cubin], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return Cubin(cubin.read_bytes())
