"""Run a kernel of plain arithmetic on the host: the same IR, compiled by LLVM for this machine instead of the GPU.

Only for kernels that read no special register but the thread's index, and use no shared memory: one call is one thread.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from nvbackend.builder.kernel.kernel import FinishedKernel
from nvbackend.signature import Pointer
from tests.support.host_runtime import ROW, localised, runtime

_SCALARS = {
    "s32": ctypes.c_int32,
    "u32": ctypes.c_uint32,
    "s64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


_FLUSHING = {"avx512bf16", "avxneconvert"}
"""Their conversions to bf16 take subnormal numbers for zero."""


@functools.lru_cache(maxsize=64)
def _engine(ir_text: str) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # The processor's own features: without them conversions to f16 call a library that is not there.
    features = llvm.get_host_cpu_features()
    for name in set(features) & _FLUSHING:
        features[name] = False
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=1)
    module = llvm.parse_assembly(ir_text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


@functools.cache
def _thread() -> tuple[ctypes.c_int32, Any]:
    """The index of the thread that runs, and the code that all kernels share, which LLVM then finds by its names."""
    text = runtime()
    engine = _engine(text)
    for name in re.findall(r"^define \w+ @([\w.]+)", text, re.MULTILINE):
        llvm.add_symbol(name, engine.get_function_address(name))
    return ctypes.c_int32.from_address(engine.get_global_value_address(ROW)), engine


class HostKernel:
    """A kernel as a function of this machine: call it with NumPy arrays for pointers and numbers for scalars."""

    def __init__(self, kernel: FinishedKernel, ir_text: str | None = None) -> None:
        """The kernel's own IR, or `ir_text`: what an optimiser has made of it."""
        self._thread, _ = _thread()
        self._engine = _engine(localised(ir_text or kernel.ir))
        self._kinds = [
            ctypes.c_void_p if isinstance(one.type, Pointer) else _SCALARS[one.type.element.name]
            for one in kernel.signature.parameters
        ]
        address = self._engine.get_function_address(kernel.signature.name)
        self._function: Callable[..., None] = ctypes.CFUNCTYPE(None, *self._kinds)(address)

    def __call__(self, *arguments: Any, threads: int = 1) -> None:
        """Run threads 0, 1, ... of one CTA, each to its end."""
        assert len(arguments) == len(self._kinds)
        assert all(one.flags.c_contiguous for one in arguments if isinstance(one, np.ndarray))
        values = [one.ctypes.data if isinstance(one, np.ndarray) else one for one in arguments]
        for thread in range(threads):
            self._thread.value = thread
            self._function(*values)


def run_on_host(kernel: FinishedKernel, *arguments: Any) -> None:
    """Call `kernel` once: NumPy arrays for pointers, numbers for scalars."""
    HostKernel(kernel)(*arguments)
