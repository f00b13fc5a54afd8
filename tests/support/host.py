"""Run a kernel of plain arithmetic on the host: the same IR, compiled by LLVM for this machine instead of the GPU.

Only for kernels that read no special register and use no shared memory: one call is one thread.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from nvbackend.builder.kernel import FinishedKernel
from nvbackend.signature import Pointer

_SCALARS = {
    "s32": ctypes.c_int32,
    "u32": ctypes.c_uint32,
    "s64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


def _host() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # The processor's own features: without them conversions to f16 call a library that is not there.
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(), features=features)


def run_on_host(kernel: FinishedKernel, *arguments: Any) -> None:
    """Call `kernel` once: NumPy arrays for pointers, numbers for scalars."""
    text = re.sub(r"target triple = .*|target datalayout = .*", "", kernel.ir).replace("ptx_kernel ", "")
    module = llvm.parse_assembly(re.sub(r'"nvvm\.[a-z]+"="[^"]*"', "", text))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, _host())
    engine.finalize_object()
    kinds, values = [], []
    for parameter, argument in zip(kernel.signature.parameters, arguments, strict=True):
        if isinstance(parameter.type, Pointer):
            assert isinstance(argument, np.ndarray) and argument.flags.c_contiguous
            kinds.append(ctypes.c_void_p)
            values.append(argument.ctypes.data)
        else:
            kinds.append(_SCALARS[parameter.type.element.name])
            values.append(argument)
    ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address(kernel.signature.name))(*values)
