"""From LLVM IR text to PTX (LLVM), a cubin (ptxas) and SASS (nvdisasm); every error of a tool becomes a Diagnostic.

Importing this package loads neither LLVM nor anything else that is heavy; each function loads what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvbackend.codegen.cubin import Cubin as Cubin
    from nvbackend.codegen.cubin import Resources as Resources
    from nvbackend.codegen.isolated import compile_ir_isolated as compile_ir_isolated
    from nvbackend.codegen.llvm import (
        LlvmResult as LlvmResult,
    )
    from nvbackend.codegen.llvm import (
        compile_ir as compile_ir,
    )
    from nvbackend.codegen.llvm import (
        llvm_version as llvm_version,
    )
    from nvbackend.codegen.lto.lto_ir import ptx_of_lto_ir as ptx_of_lto_ir
    from nvbackend.codegen.ptxas import assemble as assemble
    from nvbackend.codegen.sass import count_instructions as count_instructions
    from nvbackend.codegen.sass import disassemble as disassemble
    from nvbackend.codegen.toolchain import (
        Tool as Tool,
    )
    from nvbackend.codegen.toolchain import (
        find_disassembler as find_disassembler,
    )
    from nvbackend.codegen.toolchain import (
        find_ptxas as find_ptxas,
    )

_NAMES = {
    name: f"{__name__}.{module}"
    for module, names in {
        "cubin": "Cubin Resources",
        "isolated": "compile_ir_isolated",
        "llvm": "LlvmResult compile_ir llvm_version",
        "lto.lto_ir": "ptx_of_lto_ir",
        "ptxas": "assemble",
        "sass": "count_instructions disassemble",
        "toolchain": "Tool find_disassembler find_ptxas",
    }.items()
    for name in names.split()
}

__all__ = sorted(_NAMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return __all__
