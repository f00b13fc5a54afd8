"""From LLVM IR text to PTX (LLVM), to a cubin (ptxas) and to SASS (nvdisasm), each complaint of a tool a Diagnostic.

Importing this package loads neither LLVM nor anything else that is heavy; each function loads what it needs.
"""

from nvbackend.codegen.isolated import compile_ir_isolated
from nvbackend.codegen.llvm import LlvmResult, compile_ir, llvm_version
from nvbackend.codegen.lto.lto_ir import ptx_of_lto_ir
from nvbackend.codegen.ptxas import Cubin, Resources, assemble
from nvbackend.codegen.sass import count_instructions, disassemble
from nvbackend.codegen.toolchain import Tool, find_disassembler, find_ptxas

__all__ = [
    "Cubin",
    "LlvmResult",
    "Resources",
    "Tool",
    "assemble",
    "compile_ir",
    "compile_ir_isolated",
    "count_instructions",
    "disassemble",
    "find_disassembler",
    "find_ptxas",
    "llvm_version",
    "ptx_of_lto_ir",
]
