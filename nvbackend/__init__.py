"""nvbackend builds NVIDIA tensor-core kernels from Python and compiles them through llvmlite's NVPTX target.

Everything a user needs is a name of this package or of its packages `atoms`, `codegen`, `jax`, `layout`, `lint`,
`ptx`, `rows`, `rules`, `runtime`, `simulator`, `tiled`, `tileiras` and `torch`: docs/api.md lists them. Each is
imported on first use, so that `import nvbackend` loads neither LLVM nor CUDA.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvbackend import (
        atoms as atoms,
        codegen as codegen,
        jax as jax,
        layout as layout,
        lint as lint,
        ptx as ptx,
        rows as rows,
        rules as rules,
        runtime as runtime,
        simulator as simulator,
        tiled as tiled,
        tileiras as tileiras,
        torch as torch,
    )
    from nvbackend.annotations import (
        Pointer as Pointer,
        TensorMap as TensorMap,
        b1 as b1,
        bf16 as bf16,
        bf16x2 as bf16x2,
        e2m1 as e2m1,
        e2m3 as e2m3,
        e3m2 as e3m2,
        e4m3 as e4m3,
        e5m2 as e5m2,
        f16 as f16,
        f16x2 as f16x2,
        f32 as f32,
        f32x2 as f32x2,
        f64 as f64,
        i8 as i8,
        i16 as i16,
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
    from nvbackend.requests import (
        mma as mma,
        tcgen05 as tcgen05,
        tma as tma,
        wgmma as wgmma,
        wmma as wmma,
    )
    from nvbackend.builder.core.memory import Address as Address
    from nvbackend.builder.core.parameters import TensorMapParameter as TensorMapParameter
    from nvbackend.builder.core.tile import SharedTile as SharedTile, SharedTiles as SharedTiles
    from nvbackend.builder.core.variables import Variable as Variable
    from nvbackend.builder.attached.attach import AttachedBuilder as AttachedBuilder, attach as attach
    from nvbackend.builder.kernel.definition import KernelDefinition as KernelDefinition, kernel as kernel
    from nvbackend.builder.functions.definition import FunctionDefinition as FunctionDefinition
    from nvbackend.builder.functions.definition import function as function
    from nvbackend.builder.functions.exported import CompiledFunction as CompiledFunction
    from nvbackend.builder.functions.foreign import ExternFunction as ExternFunction, extern_function as extern_function
    from nvbackend.builder.kernel.kernel import FinishedKernel as FinishedKernel, KernelBuilder as KernelBuilder
    from nvbackend.builder.functions.module import CompiledModule as CompiledModule, compile_module as compile_module
    from nvbackend.builder.ops.matrix.tensor_memory import TensorLoad as TensorLoad
    from nvbackend.builder.ops.matrix.tensor_memory import TmemColumns as TmemColumns
    from nvbackend.builder.ops.matrix.wmma import WmmaAccumulator as WmmaAccumulator, WmmaFragment as WmmaFragment
    from nvbackend.builder.ops.sync.mbarrier_handle import (
        MbarrierHandle as MbarrierHandle,
        MbarrierKind as MbarrierKind,
    )
    from nvbackend.builder.tiles.dynamic.dynamic_tiles import DynamicTiles as DynamicTiles
    from nvbackend.builder.tiles.mma.epilogue import TmaEpilogue as TmaEpilogue
    from nvbackend.builder.tiles.mma.tcgen05 import TiledTcgen05 as TiledTcgen05
    from nvbackend.builder.tiles.mma.warp_mma import TiledWarpMma as TiledWarpMma
    from nvbackend.builder.tiles.mma.wgmma import TiledWgmma as TiledWgmma
    from nvbackend.builder.tiles.elements.axis_values import AxisValues as AxisValues, AxisVariable as AxisVariable
    from nvbackend.builder.tiles.elements.tile_values import TileValues as TileValues
    from nvbackend.builder.tiles.register_tensor import RegisterTensor as RegisterTensor
    from nvbackend.builder.tiles.ring import Ring as Ring
    from nvbackend.builder.tiles.ring_parts import RingParts as RingParts
    from nvbackend.builder.tiles.split_k.reduce_scatter import ReduceScatter as ReduceScatter
    from nvbackend.builder.tiles.split_k.stream_k import PartialSums as PartialSums, StreamK as StreamK
    from nvbackend.builder.tiles.stages import Stage as Stage
    from nvbackend.builder.tiles.coordinates import Coordinates as Coordinates, Inside as Inside
    from nvbackend.builder.tiles.tensor import Tensor as Tensor
    from nvbackend.builder.values.accumulator import Accumulator as Accumulator, WgmmaFragment as WgmmaFragment
    from nvbackend.builder.values.math_policy import MathPolicy as MathPolicy
    from nvbackend.builder.values.values import Operand as Operand, Value as Value
    from nvbackend.codegen.cache import Cache as Cache
    from nvbackend.codegen.compiled import CompiledKernel as CompiledKernel
    from nvbackend.codegen.stages.compiling import compile_kernel as compile_kernel
    from nvbackend.codegen.saved.saved import (
        SavedKernel as SavedKernel,
        SavedModule as SavedModule,
        load_compiled as load_compiled,
        load_compiled_module as load_compiled_module,
    )
    from nvbackend.diagnostics import (
        Diagnostic as Diagnostic,
        DiagnosticError as DiagnosticError,
        Location as Location,
        Rule as Rule,
        Severity as Severity,
        user_line as user_line,
    )
    from nvbackend.diagnostics.announce import DiagnosticWarning as DiagnosticWarning, Suppressed as Suppressed
    from nvbackend.diagnostics.deprecated import DeprecatedWarning as DeprecatedWarning
    from nvbackend.intrinsics.copy.tensor_map_word import TensorMapWord as TensorMapWord
    from nvbackend.intrinsics.row.row import Row as Row
    from nvbackend.intrinsics.row.semantics import Semantics as Semantics
    from nvbackend.intrinsics.words.smem_descriptor import (
        Major as Major,
        SmemDescriptor as SmemDescriptor,
        SwizzleMode as SwizzleMode,
    )
    from nvbackend.intrinsics.words.tcgen05_control import (
        SeedCollector as SeedCollector,
        Tcgen05Collector as Tcgen05Collector,
        Tcgen05Ctrl as Tcgen05Ctrl,
    )
    from nvbackend.intrinsics.words.tcgen05_descriptor import (
        InstructionDescriptor as InstructionDescriptor,
        Tcgen05SmemDescriptor as Tcgen05SmemDescriptor,
        Tcgen05Swizzle as Tcgen05Swizzle,
    )
    from nvbackend.isel.machine.function import MachineFunction as MachineFunction
    from nvbackend.isel.machine.function import MachineInstr as MachineInstr
    from nvbackend.isel.select.mma.request import MmaRequest as MmaRequest
    from nvbackend.isel.select.tcgen05.request import Tcgen05Request as Tcgen05Request
    from nvbackend.isel.select.tma.request import TmaRequest as TmaRequest
    from nvbackend.isel.select.wgmma.request import WgmmaRequest as WgmmaRequest
    from nvbackend.isel.select.wmma.request import WmmaMoveRequest as WmmaMoveRequest, WmmaRequest as WmmaRequest
    from nvbackend.isel.target.target import Target as Target
    from nvbackend.isel.verify.verify import verify as verify
    from nvbackend.layout.descriptors.smem_layout import SmemLayout as SmemLayout
    from nvbackend.signature import (
        BoundTensorMap as BoundTensorMap,
        Im2col as Im2col,
        LaunchBounds as LaunchBounds,
        Parameter as Parameter,
        Scalar as Scalar,
        Signature as Signature,
    )
    from nvbackend.tuning.tune import Tuned as Tuned, tune as tune
    from nvbackend.intrinsics.row.types import ElementType as ElementType

__version__ = "0.1.0"
"""Read by pyproject.toml, too."""

_TYPES = (
    "ElementType b1 bf16 bf16x2 e2m1 e2m3 e3m2 e4m3 e5m2 f16 f16x2 f32 f32x2 f64 i8 i16 i32 i64 pred s4 s8 s16 s32 s64 "
    "tf32 u4 u8 u16 u32 u64 ue4m3 ue8m0"
)
_NAMES: dict[str, str] = {
    name: f"{__name__}.{module}"
    for module, names in {
        "builder.core.memory": "Address",
        "builder.core.parameters": "TensorMapParameter",
        "builder.core.tile": "SharedTile SharedTiles",
        "builder.core.variables": "Variable",
        "builder.attached.attach": "AttachedBuilder attach",
        "builder.kernel.definition": "KernelDefinition kernel",
        "builder.functions.definition": "FunctionDefinition function",
        "builder.functions.exported": "CompiledFunction",
        "builder.functions.foreign": "ExternFunction extern_function",
        "builder.kernel.kernel": "FinishedKernel KernelBuilder",
        "builder.functions.module": "CompiledModule compile_module",
        "builder.values.math_policy": "MathPolicy",
        "builder.ops.matrix.tensor_memory": "TensorLoad TmemColumns",
        "builder.ops.matrix.wmma": "WmmaAccumulator WmmaFragment",
        "builder.ops.sync.mbarrier_handle": "MbarrierHandle MbarrierKind",
        "builder.tiles.dynamic.dynamic_tiles": "DynamicTiles",
        "builder.tiles.mma.epilogue": "TmaEpilogue",
        "builder.tiles.mma.tcgen05": "TiledTcgen05",
        "builder.tiles.mma.warp_mma": "TiledWarpMma",
        "builder.tiles.mma.wgmma": "TiledWgmma",
        "builder.tiles.elements.axis_values": "AxisValues AxisVariable",
        "builder.tiles.elements.tile_values": "TileValues",
        "builder.tiles.register_tensor": "RegisterTensor",
        "builder.tiles.ring": "Ring",
        "builder.tiles.ring_parts": "RingParts",
        "builder.tiles.split_k.reduce_scatter": "ReduceScatter",
        "builder.tiles.split_k.stream_k": "PartialSums StreamK",
        "builder.tiles.stages": "Stage",
        "builder.tiles.coordinates": "Coordinates Inside",
        "builder.tiles.tensor": "Tensor",
        "builder.values.accumulator": "Accumulator WgmmaFragment",
        "builder.values.values": "Operand Value",
        "codegen.cache": "Cache",
        "codegen.compiled": "CompiledKernel",
        "codegen.stages.compiling": "compile_kernel",
        "codegen.saved.saved": "SavedKernel SavedModule load_compiled load_compiled_module",
        "diagnostics": "Diagnostic DiagnosticError Location Rule Severity user_line",
        "diagnostics.announce": "DiagnosticWarning Suppressed",
        "diagnostics.deprecated": "DeprecatedWarning",
        "intrinsics.copy.tensor_map_word": "TensorMapWord",
        "intrinsics.row.row": "Row",
        "intrinsics.row.semantics": "Semantics",
        "intrinsics.words.smem_descriptor": "Major SmemDescriptor SwizzleMode",
        "intrinsics.words.tcgen05_control": "SeedCollector Tcgen05Collector Tcgen05Ctrl",
        "intrinsics.words.tcgen05_descriptor": "InstructionDescriptor Tcgen05SmemDescriptor Tcgen05Swizzle",
        "isel.machine.function": "MachineFunction MachineInstr",
        "isel.select.mma.request": "MmaRequest",
        "isel.select.tcgen05.request": "Tcgen05Request",
        "isel.select.tma.request": "TmaRequest",
        "isel.select.wgmma.request": "WgmmaRequest",
        "isel.select.wmma.request": "WmmaMoveRequest WmmaRequest",
        "isel.target.target": "Target",
        "isel.verify.verify": "verify",
        "layout.descriptors.smem_layout": "SmemLayout",
        "tuning.tune": "Tuned tune",
        "signature": "BoundTensorMap Im2col LaunchBounds Parameter Pointer Scalar Signature TensorMap",
        "intrinsics.row.types": _TYPES,
    }.items()
    for name in names.split()
}
_MODULES = {
    name: f"{__name__}.{name}"
    for names in ("atoms codegen jax layout lint ptx rows rules", "runtime simulator tiled tileiras torch")
    for name in names.split()
}
_MODULES |= {name: f"{__name__}.requests.{name}" for name in ("mma", "tcgen05", "tma", "wgmma", "wmma")}

__all__ = [*_NAMES, *_MODULES]  # noqa: PLE0604

_MEANT = {
    "jit": "; a kernel is made by @nvb.kernel(target, threads=...)",
    "autotune": "; candidates are measured by nvb.tune",
    "constexpr": "; a constant of the build is a keyword-only parameter",
    "cdiv": "; write -(-a // b)",
    "launch": "; launch by nvb.runtime.load(kernel.compile()).launch(grid, ...)",
}
"""What to write for names of Triton and numba."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    element = importlib.import_module(f"{__name__}.diagnostics").element_name(name)
    meant = f"; the element type is {element}" if element else _MEANT.get(name, "")
    owner = None if element else sys.modules[__name__]  # of which Python would suggest another name
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}", name=name, obj=owner)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
