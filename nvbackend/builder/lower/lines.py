"""The lines of the user's Python as LLVM's debug metadata, which become `.file` and `.loc` of the PTX."""

from __future__ import annotations

from types import CodeType
from typing import Any

from llvmlite import ir

from nvbackend.codegen.stages.inlined import FIRST_KEY, LAST_KEY, OUTERMOST, TABLE
from nvbackend.diagnostics.ascii_paths import ascii_path
from nvbackend.diagnostics.location import CallerChain, Location, StatedLocation, stated_places, steps_of

_KIND = "DebugDirectivesOnly"
"""LLVM prints only `.loc` for it. For LineTablesOnly it writes `.target ..., debug`, and ptxas spills."""
_FLAGS, _FLAG = "llvm.module.flags", "Debug Info Version"
_VERSION = 3
_DISTINCT = ("DICompileUnit", "DISubprogram")
"""Nodes that are never one with another of the same text."""
_I32 = ir.IntType(32)

_Place = tuple[str, int, int, str]
"""A file, a line and column of it, and the function that the line is in."""


class Lines:
    """Debug locations in one function: the user's innermost line of each instruction, one node for each way to it.

    In a helper of the user's own it is the helper's line. LLVM 22.1 does not print its callers: they are in a table of
    the module, and the column of the line is its key there. The first line makes the function's subprogram, so a
    function without lines has no metadata.
    """

    def __init__(self, function: ir.Function, chain: CallerChain) -> None:
        self._function = function
        self._subprogram: Any = None
        self._scopes: dict[str, Any] = {}
        self._lines: dict[tuple[_Place, ...], Any] = {}
        self._keys: dict[tuple[_Place, ...], int] = {}
        self._chain = chain
        self._placed: dict[int, tuple[Location, Any]] = {}
        """By the id of a place, which is kept: places are slow to compare with their callers."""
        self._steps: dict[tuple[int, ...], tuple[list[CodeType], Any]] = {}
        self._outside = {(each.f_code.co_filename, each.f_code.co_name) for each in self._chain.frames()}
        """The files and names of the functions that run already: who calls these does not matter."""

    def here(self) -> Any:
        """The location of the line of the user's code that is running; None if only this package is."""
        if stated := stated_places():
            return self._node_of(tuple(map(_place, stated)))
        frames = self._chain.frames()
        if not frames:
            return None
        known = self._steps.get(steps := steps_of(frames))
        if known is None:
            codes = [frame.f_code for frame in frames]
            lines = [(each.f_code.co_filename, each.f_lineno or 0, 0, each.f_code.co_name) for each in frames]
            known = self._steps[steps] = codes, self._node_of(self._inside(lines))
        return known[1]

    def at(self, place: Location) -> Any:
        """The location of a place and its callers; column 0 is the whole line.

        Places that a compiler states have callers in its own language: the lines of Python after them are left out.
        """
        known = self._placed.get(id(place))
        if known is None:
            known = self._placed[id(place)] = place, self._made(place)
        return known[1]

    def _made(self, place: Location) -> Any:
        if isinstance(place, StatedLocation):
            stated = (each for each in (place, *place.callers) if isinstance(each, StatedLocation))
            return self._node_of(tuple(map(_place, stated)))
        return self._node_of(self._inside([_place(each) for each in (place, *place.callers)]))

    def _inside(self, places: list[_Place]) -> tuple[_Place, ...]:
        """A line and its callers, to the one in the function that builds."""
        for count, (file, _, _, function) in enumerate(places, start=1):
            if (file, function) in self._outside:
                return tuple(places[:count])
        return tuple(places)

    def _node_of(self, places: tuple[_Place, ...]) -> Any:
        """The location of the first of `places`, which the others call."""
        location = self._lines.get(places)
        if location is None:
            file, line, column, _ = places[0]
            scope = self._scopes.get(file) or self._scope(file)
            if len(places) > 1 or column >= FIRST_KEY:
                column = self._key(places)
            location = self._node("DILocation", line=line, column=column, scope=scope)
            self._lines[places] = location
        return location

    def _key(self, places: tuple[_Place, ...]) -> int:
        """The key of a line and its callers in the module's table; OUTERMOST where that is full."""
        if places not in self._keys:
            caller = self._key(places[1:]) if len(places) > 1 else OUTERMOST
            module = self._function.module
            table = module.namedmetadata.get(TABLE)
            key = FIRST_KEY + (len(table.operands) if table else 0)
            if key > LAST_KEY:
                return OUTERMOST
            file, line, column, function = places[0]
            numbers = [ir.Constant(_I32, number) for number in (key, line, column, caller)]
            module.add_named_metadata(TABLE, [*numbers, ascii_path(file), ascii_path(function)])
            self._keys[places] = key
        return self._keys[places]

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
        unit = self._node("DICompileUnit", language=_bare("DW_LANG_Python"), file=file, emissionKind=_bare(_KIND))
        module.add_named_metadata("llvm.dbg.cu", unit)
        if _FLAGS not in module.namedmetadata:
            warning, version = (ir.Constant(ir.IntType(32), number) for number in (2, _VERSION))
            module.add_named_metadata(_FLAGS, [warning, _FLAG, version])
        facts: dict[str, Any] = {"spFlags": _bare("DISPFlagDefinition")}
        if self._function.linkage == "internal":  # LLVM changes the type of a function whose callers it knows
            facts["type"] = self._node("DISubroutineType", types=module.add_metadata([None]))
        subprogram = self._node("DISubprogram", name=self._function.name, file=file, unit=unit, **facts)
        self._function.set_metadata("dbg", subprogram)
        return subprogram

    def _node(self, kind: str, **operands: Any) -> Any:
        return self._function.module.add_debug_info(kind, operands, is_distinct=kind in _DISTINCT)


def _place(location: Location) -> _Place:
    return location.file, location.line, location.column, location.function


def _bare(word: str) -> Any:
    return ir.DIToken(word)
