"""nvbackend builds NVIDIA tensor-core kernels from Python and compiles them through llvmlite's NVPTX target.

Everything a user needs is a name of this package; each is imported on first use, so that `import nvbackend` loads
neither LLVM nor CUDA.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvbackend import atoms as atoms, codegen as codegen, layout as layout, runtime as runtime, tiled as tiled
    from nvbackend.builder.accumulator import Accumulator as Accumulator
    from nvbackend.builder.attach import attach as attach
    from nvbackend.builder.definition import KernelDefinition as KernelDefinition, kernel as kernel
    from nvbackend.builder.kernel import FinishedKernel as FinishedKernel, KernelBuilder as KernelBuilder
    from nvbackend.builder.mbarrier_handle import MbarrierHandle as MbarrierHandle, MbarrierKind as MbarrierKind
    from nvbackend.codegen.cache import Cache as Cache
    from nvbackend.codegen.compiled import CompiledKernel as CompiledKernel, compile_kernel as compile_kernel
    from nvbackend.diagnostics import (
        Diagnostic as Diagnostic,
        DiagnosticError as DiagnosticError,
        Rule as Rule,
        Severity as Severity,
    )
    from nvbackend.intrinsics.seed_block_scale import (
        BlockScaledAtom as BlockScaledAtom,
        block_scaled_atom as block_scaled_atom,
    )
    from nvbackend.intrinsics.seed_descriptor import TileirasDescriptor as TileirasDescriptor
    from nvbackend.intrinsics.seed_operand_b import SeedOperandB as SeedOperandB, seed_operand_b as seed_operand_b
    from nvbackend.intrinsics.tcgen05_control import (
        SeedCollector as SeedCollector,
        Tcgen05Collector as Tcgen05Collector,
        Tcgen05Ctrl as Tcgen05Ctrl,
    )
    from nvbackend.intrinsics.smem_descriptor import SmemDescriptor as SmemDescriptor, Swizzle as Swizzle
    from nvbackend.intrinsics.smem_layout import Major as Major, SmemLayout as SmemLayout
    from nvbackend.intrinsics.tcgen05_descriptor import (
        InstructionDescriptor as InstructionDescriptor,
        Tcgen05SmemDescriptor as Tcgen05SmemDescriptor,
        Tcgen05Swizzle as Tcgen05Swizzle,
    )
    from nvbackend.intrinsics.types import (
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
    from nvbackend.isel.families.mma_request import MmaRequest as MmaRequest
    from nvbackend.isel.families.mma_request import mma as mma
    from nvbackend.isel.families.mma_select import select_mma as select_mma
    from nvbackend.isel.families.tcgen05_request import Tcgen05Request as Tcgen05Request
    from nvbackend.isel.families.tcgen05_select import select_tcgen05 as select_tcgen05
    from nvbackend.isel.families.tma_request import TmaRequest as TmaRequest
    from nvbackend.isel.families.tma_rules import select_tma as select_tma
    from nvbackend.isel.families.wgmma_rules import WgmmaRequest as WgmmaRequest
    from nvbackend.isel.families.wmma_request import WmmaMoveRequest as WmmaMoveRequest, WmmaRequest as WmmaRequest
    from nvbackend.isel.families.wmma_select import select_wmma as select_wmma, select_wmma_move as select_wmma_move
    from nvbackend.isel.request import wgmma as wgmma
    from nvbackend.isel.select import select_wgmma as select_wgmma
    from nvbackend.isel.target import Target as Target
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
        "nvbackend.builder.accumulator": "Accumulator",
        "nvbackend.builder.attach": "attach",
        "nvbackend.builder.definition": "KernelDefinition kernel",
        "nvbackend.builder.kernel": "FinishedKernel KernelBuilder",
        "nvbackend.builder.mbarrier_handle": "MbarrierHandle MbarrierKind",
        "nvbackend.codegen.cache": "Cache",
        "nvbackend.codegen.compiled": "CompiledKernel compile_kernel",
        "nvbackend.diagnostics": "Diagnostic DiagnosticError Rule Severity",
        "nvbackend.intrinsics.seed_block_scale": "BlockScaledAtom block_scaled_atom",
        "nvbackend.intrinsics.seed_descriptor": "TileirasDescriptor",
        "nvbackend.intrinsics.seed_operand_b": "SeedOperandB seed_operand_b",
        "nvbackend.intrinsics.tcgen05_control": "SeedCollector Tcgen05Collector Tcgen05Ctrl",
        "nvbackend.intrinsics.smem_descriptor": "SmemDescriptor Swizzle",
        "nvbackend.intrinsics.smem_layout": "Major SmemLayout",
        "nvbackend.intrinsics.tcgen05_descriptor": "InstructionDescriptor Tcgen05SmemDescriptor Tcgen05Swizzle",
        "nvbackend.intrinsics.types": _TYPES,
        "nvbackend.isel.families.mma_request": "MmaRequest mma",
        "nvbackend.isel.families.mma_select": "select_mma",
        "nvbackend.isel.families.tcgen05_request": "Tcgen05Request",
        "nvbackend.isel.families.tcgen05_select": "select_tcgen05",
        "nvbackend.isel.families.tma_request": "TmaRequest",
        "nvbackend.isel.families.tma_rules": "select_tma",
        "nvbackend.isel.families.wgmma_rules": "WgmmaRequest",
        "nvbackend.isel.families.wmma_request": "WmmaMoveRequest WmmaRequest",
        "nvbackend.isel.families.wmma_select": "select_wmma select_wmma_move",
        "nvbackend.isel.request": "wgmma",
        "nvbackend.isel.select": "select_wgmma",
        "nvbackend.isel.target": "Target",
        "nvbackend.signature": "Im2col Parameter Pointer Scalar Signature TensorMap",
    }.items()
    for name in names.split()
}
_SUBPACKAGES = ("atoms", "codegen", "layout", "runtime", "tiled")

__all__ = [*_NAMES, *_SUBPACKAGES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
