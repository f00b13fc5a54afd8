"""nvbackend builds NVIDIA tensor-core kernels from Python and compiles them through llvmlite's NVPTX target.

Everything a user needs is a name of this package; each is imported on first use, so that `import nvbackend` loads
neither LLVM nor CUDA.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvbackend import codegen, runtime
    from nvbackend.builder.accumulator import Accumulator
    from nvbackend.builder.attach import attach
    from nvbackend.builder.definition import KernelDefinition, kernel
    from nvbackend.builder.kernel import FinishedKernel, KernelBuilder
    from nvbackend.codegen.cache import Cache
    from nvbackend.codegen.compiled import CompiledKernel, compile_kernel
    from nvbackend.diagnostics import Diagnostic, DiagnosticError, Rule, Severity
    from nvbackend.intrinsics.seed_descriptor import TileirasDescriptor
    from nvbackend.intrinsics.smem_descriptor import SmemDescriptor, Swizzle
    from nvbackend.intrinsics.smem_layout import Major, SmemLayout
    from nvbackend.intrinsics.types import (
        ElementType,
        b1,
        bf16,
        e2m1,
        e2m3,
        e3m2,
        e4m3,
        e5m2,
        f16,
        f32,
        f64,
        i32,
        i64,
        pred,
        s4,
        s8,
        s16,
        s32,
        s64,
        tf32,
        u4,
        u8,
        u16,
        u32,
        u64,
        ue4m3,
        ue8m0,
    )
    from nvbackend.isel.request import wgmma
    from nvbackend.isel.target import Target
    from nvbackend.isel.wgmma_rules import WgmmaRequest
    from nvbackend.signature import Parameter, Pointer, Scalar, Signature, TensorMap

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
        "nvbackend.codegen.cache": "Cache",
        "nvbackend.codegen.compiled": "CompiledKernel compile_kernel",
        "nvbackend.diagnostics": "Diagnostic DiagnosticError Rule Severity",
        "nvbackend.intrinsics.seed_descriptor": "TileirasDescriptor",
        "nvbackend.intrinsics.smem_descriptor": "SmemDescriptor Swizzle",
        "nvbackend.intrinsics.smem_layout": "Major SmemLayout",
        "nvbackend.intrinsics.types": _TYPES,
        "nvbackend.isel.request": "wgmma",
        "nvbackend.isel.target": "Target",
        "nvbackend.isel.wgmma_rules": "WgmmaRequest",
        "nvbackend.signature": "Parameter Pointer Scalar Signature TensorMap",
    }.items()
    for name in names.split()
}
_SUBPACKAGES = ("codegen", "runtime")

__all__ = [*_NAMES, *_SUBPACKAGES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
