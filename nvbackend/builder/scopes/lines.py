"""The lines of the user's Python as LLVM's debug metadata, which become `.file` and `.loc` of the PTX."""

from __future__ import annotations

from types import CodeType
from typing import Any

from llvmlite import ir

from nvbackend.diagnostics.ascii_paths import ascii_path
from nvbackend.diagnostics.location import caller_frame, stated_places

_KIND = "DebugDirectivesOnly"
"""LLVM prints only `.loc` for it. For LineTablesOnly it writes `.target ..., debug`, and ptxas spills."""
_FLAGS, _FLAG = "llvm.module.flags", "Debug Info Version"
_VERSION = 3


class Lines:
    """Debug locations in one function: the user's innermost line of each instruction, one node for each line.

    In a helper of the user's own it is the helper's line; its caller is not in the PTX, since LLVM 22.1 does not print
    `inlined_at`. The first line makes the function's subprogram, so a function without lines has no metadata.
    """

    def __init__(self, function: ir.Function) -> None:
        self._function = function
        self._subprogram: Any = None
        self._scopes: dict[str, Any] = {}
        self._lines: dict[tuple[str, int, int], Any] = {}
        self._steps: dict[tuple[int, int], tuple[CodeType, Any]] = {}

    def here(self) -> Any:
        """The location of the line of the user's code that is running; None if only this package is."""
        if stated := stated_places():
            return self.at(stated[0].file, stated[0].line, stated[0].column)
        frame = caller_frame()
        if frame is None:
            return None
        code = frame.f_code
        step = id(code), frame.f_lasti  # to ask a frame for its line is slow
        known = self._steps.get(step)
        if known is None:
            known = self._steps[step] = code, self.at(code.co_filename, frame.f_lineno or 0)
        return known[1]

    def at(self, file: str, line: int, column: int = 0) -> Any:
        """The location of a line; column 0 is the whole line."""
        location = self._lines.get((file, line, column))
        if location is None:
            scope = self._scopes.get(file) or self._scope(file)
            location = self._node("DILocation", line=line, column=column, scope=scope)
            self._lines[file, line, column] = location
        return location

    def _scope(self, file: str) -> Any:
        """The function, as far as it is written in `file`."""
        node = self._node("DIFile", filename=ascii_path(file), directory="")
        if self._subprogram is None:
            scope = self._subprogram = self._begin(node)
        else:
            scope = self._node("DILexicalBlockFile", scope=self._subprogram, file=node, discriminator=0)
        self._scopes[file] = scope
        return scope

    def _begin(self, file: Any) -> Any:
        """Make the function one with debug information, written in `file`."""
        module = self._function.module
        unit = self._node(
            "DICompileUnit", distinct=True, language=_bare("DW_LANG_Python"), file=file, emissionKind=_bare(_KIND)
        )
        module.add_named_metadata("llvm.dbg.cu", unit)
        if _FLAGS not in module.namedmetadata:
            warning, version = (ir.Constant(ir.IntType(32), number) for number in (2, _VERSION))
            module.add_named_metadata(_FLAGS, [warning, _FLAG, version])
        facts: dict[str, Any] = {"spFlags": _bare("DISPFlagDefinition")}
        if self._function.linkage == "internal":  # LLVM changes the type of a function whose callers it knows
            facts["type"] = self._node("DISubroutineType", types=module.add_metadata([None]))
        subprogram = self._node("DISubprogram", distinct=True, name=self._function.name, file=file, unit=unit, **facts)
        self._function.set_metadata("dbg", subprogram)
        return subprogram

    def _node(self, kind: str, *, distinct: bool = False, **operands: Any) -> Any:
        return self._function.module.add_debug_info(kind, operands, is_distinct=distinct)


def _bare(word: str) -> Any:
    return ir.DIToken(word)
