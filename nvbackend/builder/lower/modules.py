"""LLVM modules that name their long struct types, so that the text has each of them once.

An asm statement of 128 results has a type of 900 characters, and LLVM's text repeats it at each of its 128 results:
without names it is seven eighths of a GEMM's IR, and takes LLVM as long to read as all the rest takes it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from llvmlite import ir

_LONG = 16
"""How many members make a struct type long."""

# llvmlite makes its table of escapes with the first text, without a lock, and another thread would read a part of it.
str(ir.Constant(ir.ArrayType(ir.IntType(8), 0), bytearray()))


class NamingModule(ir.Module):  # type: ignore[misc]
    """A module whose long struct types have names; they are its own, where those of llvmlite are its context's."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._long: dict[str, ir.IdentifiedStructType] = {}

    def long_type(self, members: Sequence[ir.Type]) -> ir.IdentifiedStructType:
        """The struct of `members`, called by their types: "128 x float"."""
        runs = [(str(kind), len(list(run))) for kind, run in groupby(members)]
        name = ", ".join(f"{count} x {kind}" for kind, count in runs)
        if name not in self._long:
            self._long[name] = ir.IdentifiedStructType(self.context, name)
            self._long[name].set_body(*members)
        return self._long[name]

    def get_identified_types(self) -> dict[str, ir.IdentifiedStructType]:
        """All types that the module's text declares."""
        return {**super().get_identified_types(), **self._long}


def struct_type(module: ir.Module, members: Sequence[ir.Type]) -> ir.Type:
    """The struct of `members` in `module`: by its name where it is long and the module names such types."""
    if len(members) < _LONG or not isinstance(module, NamingModule):
        return ir.LiteralStructType(members)
    return module.long_type(members)
