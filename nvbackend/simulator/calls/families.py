"""Which module compiles which instructions, by the first piece of the opcode."""

from __future__ import annotations

import importlib

from nvbackend.simulator.machine.compiling import Compile

_MODULES = {
    "moves": ("mov", "cvta", "isspacep", "mapa", "getctarank", "alloca", "stacksave", "stackrestore"),
    "memory": ("ld", "ldu", "st", "prefetch", "prefetchu", "discard", "applypriority", "createpolicy"),
}
"""The modules of this package and the opcodes that each compiles."""
_OF_OPCODE = {opcode: module for module, opcodes in _MODULES.items() for opcode in opcodes}


def find(opcode: str) -> Compile | None:
    """How instructions whose opcode begins with `opcode` are compiled; None where they do not touch the machine."""
    module = _OF_OPCODE.get(opcode)
    if module is None:
        return None
    compile: Compile = importlib.import_module(f"{__package__}.{module}").compile
    return compile
