"""A cubin: what ptxas makes, and what of the chip each kernel in it takes."""

from __future__ import annotations

from dataclasses import field

from nvbackend.codegen.toolchain import ToolVersion
from nvbackend.diagnostics import Diagnostic, missing_name, record
from nvbackend.diagnostics.classes.dataclass import dataclass

_ELF = b"\x7fELF"
_MACHINE_AT = 18
_CUDA_MACHINE = (190).to_bytes(2, "little")
"""EM_CUDA."""


@record
@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one kernel: registers per thread, named barriers, static shared bytes per CTA, local bytes per
    thread."""

    kernel: str
    registers: int = 0
    barriers: int = 0
    shared_bytes: int = 0
    stack_bytes: int = 0
    spill_stores_bytes: int = 0
    spill_loads_bytes: int = 0


@record
@dataclass(frozen=True, slots=True)
class Cubin:
    """An ELF image for one chip, its kernels' resources in name order, and what ptxas remarked (warnings)."""

    data: bytes = field(repr=False)
    resources: tuple[Resources, ...]
    diagnostics: tuple[Diagnostic, ...]
    ptxas_version: ToolVersion

    def kernel(self, name: str) -> Resources:
        """The resources of the kernel called `name` (call.name without one)."""
        for resources in self.resources:
            if resources.kernel == name:
                return resources
        raise missing_name("the cubin", "kernel", name, [resource.kernel for resource in self.resources])


def is_cubin(data: bytes) -> bool:
    """Whether it starts like an ELF image for CUDA."""
    return data.startswith(_ELF) and data[_MACHINE_AT : _MACHINE_AT + 2] == _CUDA_MACHINE
