"""PTX text to a typed syntax tree and back: `parse`, `print_module`, and the tree's classes.

It reads what LLVM, NVVM and Triton print, from any place. Whatever it does not know is a Diagnostic with the line.
"""

from nvbackend.ptx.names import Names, resolve
from nvbackend.ptx.parser import parse
from nvbackend.ptx.printer import print_module
from nvbackend.ptx.syntax import Function, Instruction, Module, Variable

__all__ = ["Function", "Instruction", "Module", "Names", "Variable", "parse", "print_module", "resolve"]
