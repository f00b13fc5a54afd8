"""nvbackend builds NVIDIA tensor-core kernels from Python and compiles them through llvmlite's NVPTX target.

Everything a user needs is a name of this package; each is imported on first use, so that `import nvbackend` loads
neither LLVM nor CUDA.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvbackend import (
        atoms as atoms,
        codegen as codegen,
        layout as layout,
        runtime as runtime,
        tiled as tiled,
        tileiras as tileiras,
    )
    from nvbackend.builder.values.accumulator import Accumulator as Accumulator
    from nvbackend.builder.kernel.attach import attach as attach
    from nvbackend.builder.kernel.definition import KernelDefinition as KernelDefinition, kernel as kernel
    from nvbackend.builder.kernel.kernel import FinishedKernel as FinishedKernel, KernelBuilder as KernelBuilder
    from nvbackend.builder.ops.sync.mbarrier_handle import (
        MbarrierHandle as MbarrierHandle,
        MbarrierKind as MbarrierKind,
    )
    from nvbackend.codegen.cache import Cache as Cache
    from nvbackend.codegen.compiled import CompiledKernel as CompiledKernel, compile_kernel as compile_kernel
    from nvbackend.diagnostics import (
        Diagnostic as Diagnostic,
        DiagnosticError as DiagnosticError,
        Rule as Rule,
        Severity as Severity,
    )
    from nvbackend.tileiras.block_scale import (
        BlockScaledAtom as BlockScaledAtom,
        block_scaled_atom as block_scaled_atom,
    )
    from nvbackend.tileiras.descriptor import TileirasDescriptor as TileirasDescriptor
    from nvbackend.tileiras.operand_b import SeedOperandB as SeedOperandB, seed_operand_b as seed_operand_b
    from nvbackend.intrinsics.words.tcgen05_control import (
        SeedCollector as SeedCollector,
        Tcgen05Collector as Tcgen05Collector,
        Tcgen05Ctrl as Tcgen05Ctrl,
    )
    from nvbackend.intrinsics.words.smem_descriptor import SmemDescriptor as SmemDescriptor, Swizzle as Swizzle
    from nvbackend.intrinsics.words.majors import Major as Major
    from nvbackend.layout.descriptors.smem_layout import SmemLayout as SmemLayout
    from nvbackend.intrinsics.words.tcgen05_descriptor import (
        InstructionDescriptor as InstructionDescriptor,
        Tcgen05SmemDescriptor as Tcgen05SmemDescriptor,
        Tcgen05Swizzle as Tcgen05Swizzle,
    )
    from nvbackend.intrinsics.row.types import (
        ElementType as ElementType,
        b1 as b1,
        bf16 as bf16,
        e2m1 as e2m1,
        e2m3 as e2m3,
        e3m2 as e3m2,
        e4m3 as e4m3,
        e5m2 as e5m2,
        f16 as f16,
        f32 as f32,
        f64 as f64,
        i32 as i32,
        i64 as i64,
        pred as pred,
        s4 as s4,
        s8 as s8,
        s16 as s16,
        s32 as s32,
        s64 as s64,
        tf32 as tf32,
        u4 as u4,
        u8 as u8,
        u16 as u16,
        u32 as u32,
        u64 as u64,
        ue4m3 as ue4m3,
        ue8m0 as ue8m0,
    )
    from nvbackend.isel.select.mma.request import MmaRequest as MmaRequest
    from nvbackend.isel.select.mma.request import mma as mma
    from nvbackend.isel.select.mma.select import select_mma as select_mma
    from nvbackend.isel.select.tcgen05.request import Tcgen05Request as Tcgen05Request
    from nvbackend.isel.select.tcgen05.select import select_tcgen05 as select_tcgen05
    from nvbackend.isel.select.tma.request import TmaRequest as TmaRequest
    from nvbackend.isel.select.tma.select import select_tma as select_tma
    from nvbackend.isel.select.wgmma.request import WgmmaRequest as WgmmaRequest
    from nvbackend.isel.select.wmma.request import WmmaMoveRequest as WmmaMoveRequest, WmmaRequest as WmmaRequest
    from nvbackend.isel.select.wmma.select import select_wmma as select_wmma, select_wmma_move as select_wmma_move
    from nvbackend.isel.select.wgmma.request import wgmma as wgmma
    from nvbackend.isel.select.wgmma.select import select_wgmma as select_wgmma
    from nvbackend.isel.target.target import Target as Target
    from nvbackend.signature import (
        Im2col as Im2col,
        Parameter as Parameter,
        Pointer as Pointer,
        Scalar as Scalar,
        Signature as Signature,
        TensorMap as TensorMap,
    )

_TYPES = (
    "ElementType b1 bf16 e2m1 e2m3 e3m2 e4m3 e5m2 f16 f32 f64 i32 i64 pred s4 s8 s16 s32 s64 tf32 u4 u8 u16 u32 u64 "
    "ue4m3 ue8m0"
)
_NAMES: dict[str, str] = {
    name: module
    for module, names in {
        "nvbackend.builder.values.accumulator": "Accumulator",
        "nvbackend.builder.kernel.attach": "attach",
        "nvbackend.builder.kernel.definition": "KernelDefinition kernel",
        "nvbackend.builder.kernel.kernel": "FinishedKernel KernelBuilder",
        "nvbackend.builder.ops.sync.mbarrier_handle": "MbarrierHandle MbarrierKind",
        "nvbackend.codegen.cache": "Cache",
        "nvbackend.codegen.compiled": "CompiledKernel compile_kernel",
        "nvbackend.diagnostics": "Diagnostic DiagnosticError Rule Severity",
        "nvbackend.tileiras.block_scale": "BlockScaledAtom block_scaled_atom",
        "nvbackend.tileiras.descriptor": "TileirasDescriptor",
        "nvbackend.tileiras.operand_b": "SeedOperandB seed_operand_b",
        "nvbackend.intrinsics.words.tcgen05_control": "SeedCollector Tcgen05Collector Tcgen05Ctrl",
        "nvbackend.intrinsics.words.smem_descriptor": "SmemDescriptor Swizzle",
        "nvbackend.intrinsics.words.majors": "Major",
        "nvbackend.layout.descriptors.smem_layout": "SmemLayout",
        "nvbackend.intrinsics.words.tcgen05_descriptor": "InstructionDescriptor Tcgen05SmemDescriptor Tcgen05Swizzle",
        "nvbackend.intrinsics.row.types": _TYPES,
        "nvbackend.isel.select.mma.request": "MmaRequest mma",
        "nvbackend.isel.select.mma.select": "select_mma",
        "nvbackend.isel.select.tcgen05.request": "Tcgen05Request",
        "nvbackend.isel.select.tcgen05.select": "select_tcgen05",
        "nvbackend.isel.select.tma.request": "TmaRequest",
        "nvbackend.isel.select.tma.select": "select_tma",
        "nvbackend.isel.select.wgmma.request": "WgmmaRequest wgmma",
        "nvbackend.isel.select.wmma.request": "WmmaMoveRequest WmmaRequest",
        "nvbackend.isel.select.wmma.select": "select_wmma select_wmma_move",
        "nvbackend.isel.select.wgmma.select": "select_wgmma",
        "nvbackend.isel.target.target": "Target",
        "nvbackend.signature": "Im2col Parameter Pointer Scalar Signature TensorMap",
    }.items()
    for name in names.split()
}
_SUBPACKAGES = ("atoms", "codegen", "layout", "runtime", "tiled", "tileiras")

__all__ = [*_NAMES, *_SUBPACKAGES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
