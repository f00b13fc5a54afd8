"""The callers of the user's lines, which LLVM 22.1 leaves out of PTX: `.loc ..., inlined_at ...` by a table of the IR.

Where a line was reached through others, the column of its location in the IR is a key. The table is named metadata of
the module: each node has a key, a line, its column, the key of the line that called it (OUTERMOST where nothing did),
its file, and its function. LLVM writes the key as the column of `.loc`, and here it becomes what the PTX ISA has for
it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.classes.late_pattern import late_pattern

TABLE = "nvbackend.inlined"
"""The name of the table."""
OUTERMOST = 0
"""What a line has in place of its caller's key that nothing called."""
FIRST_KEY, LAST_KEY = 1 << 15, (1 << 16) - 1
"""The keys. LLVM keeps 16 bits of a column."""
LEAST_PTX = (7, 2)
"""The version of PTX from which `.loc` names callers."""

_TABLE = late_pattern(rf"^!{re.escape(TABLE)} = !\{{(.*)\}}$", re.MULTILINE)
_ENTRY = late_pattern(
    r'^!(\d+) = !\{ ?i32 (\d+), i32 (-?\d+), i32 (\d+), i32 (\d+), !"(.*?)", !"(.*?)" ?\}$', re.MULTILINE
)
_KEY_IN_IR = late_pattern(r"(DILocation\([^)\n]*\bcolumn: )(\d+)")
_ESCAPED = late_pattern(r"\\([0-9A-Fa-f]{2})")
_PLACED = late_pattern(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:,.*\binlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_LOC = late_pattern(r"^(\t\.loc\t)(\d+) (\d+) (\d+)$", re.MULTILINE)
_FILE = late_pattern(r'^\s*\.file\s+(\d+)\s+"(.*?)"', re.MULTILINE)
_LABEL = "$L__inlined"
_NO_LINE_FIRST = late_pattern(
    r"(\$L__func_begin\d+:\n)\t\.loc\t\d+ 0 \d+\n(?=(?:(?!\t\.loc\t).*\n)*\t\.loc\t.*\n\t\.loc\t.*\binlined_at\b)"
)
"""A line 0 at the start of a function before its first caller: ptxas (13.5) then leaves out who called."""

Place = tuple[str, int]
"""A file and a line of it."""


class PtxPlaces:
    """The places that `.loc` of a text name, with the callers that they had last."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._files = {match[1]: match[2] for line in lines if (match := _FILE.match(line))}
        self._reached: dict[tuple[str, str, str], tuple[Place, ...]] = {}

    def after(self, line: str, before: tuple[Place, ...]) -> tuple[Place, ...]:
        """The place of what follows `line`, then its callers, innermost first; those of `before` if it says none."""
        match = _PLACED.match(line)
        if match is None:
            return before
        file, number, column, *at = match.groups()
        if not int(number):
            return ()
        callers = () if at[0] is None else self._reached.get((at[0], at[1], at[2]), ())
        reached = (self._files.get(file, ""), int(number)), *callers
        self._reached[file, number, column] = reached
        return reached


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line of the table."""

    file: str
    line: int
    column: int
    function: str
    caller: int


def with_callers(ptx: str, ir_text: str, version: tuple[int, int]) -> str:
    """The PTX that LLVM made of `ir_text`, for this version of PTX, with the callers that the table has."""
    table = _table(ir_text)
    if not table:
        return ptx
    return _Writer(ptx, table if version >= LEAST_PTX else {}).text()


def moved(ir_text: str, distance: int) -> tuple[str, int]:
    """The IR with other keys, so that it can be linked with IR that has `distance` of them; and how many it has."""
    table = _table(ir_text)
    if not table or not distance:
        return ir_text, len(table)
    fits = FIRST_KEY + distance + len(table) - 1 <= LAST_KEY

    def other(number: str) -> str:
        key = int(number)
        return str((key + distance) * fits) if key in table else number

    text = _KEY_IN_IR.sub(lambda match: match[1] + other(match[2]), ir_text)
    if not fits:
        return _TABLE.sub("", text), 0
    names = set(_nodes(text))

    def entry(match: re.Match[str]) -> str:
        if match[1] not in names:
            return match[0]
        numbers = f"i32 {other(match[2])}, i32 {match[3]}, i32 {match[4]}, i32 {other(match[5])}"
        return f'!{match[1]} = !{{{numbers}, !"{match[6]}", !"{match[7]}"}}'

    return _ENTRY.sub(entry, text), len(table)


def _table(ir_text: str) -> dict[int, _Entry]:
    metadata = _metadata(ir_text)
    if f"!{TABLE} = " not in metadata:
        return {}
    nodes = {match[1]: match for match in _ENTRY.finditer(metadata)}
    entries = {}
    for name in _nodes(metadata):
        _, key, line, column, caller, file, function = nodes[name].groups()
        entries[int(key)] = _Entry(_plain(file), int(line), int(column), _plain(function), int(caller))
    return entries


def _nodes(ir_text: str) -> Iterator[str]:
    """The numbers of the table's nodes."""
    for table in _TABLE.finditer(ir_text):
        yield from re.findall(r"!(\d+)", table[1])


def _metadata(ir_text: str) -> str:
    """The text from its first line of metadata on: most of a text comes before that."""
    first = ir_text.find("\n!")
    return ir_text if ir_text.startswith("!") else ir_text[first + 1 :] * (first >= 0)


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


class _Writer:
    """Writes callers into a PTX text: the files and the names of functions that this takes are added to it."""

    def __init__(self, ptx: str, table: Mapping[int, _Entry]) -> None:
        self._ptx = ptx
        self._table = table
        self._files = {match[2]: match[1] for match in _FILE.finditer(ptx)}
        self._known = len(self._files)
        self._names: dict[str, str] = {}

    def text(self) -> str:
        """The whole."""
        text = _NO_LINE_FIRST.sub(r"\1", _LOC.sub(self._loc, self._ptx))
        files = "".join(f'\t.file\t{number} "{name}"\n' for name, number in [*self._files.items()][self._known :])
        text = text.rstrip("\n") + "\n" + files
        return text + "".join(self._section()) if self._names else text

    def _loc(self, match: re.Match[str]) -> str:
        """One directive: first those of its callers, outermost first, since each names the one before it."""
        key = int(match[4])
        if key < FIRST_KEY:
            return match[0]
        entry = self._table.get(key)
        if entry is None or entry.line != int(match[3]) or self._files.get(entry.file) != match[2]:
            return f"{match[1]}{match[2]} {match[3]} 0"
        chain = [entry]
        while entry.caller in self._table:
            chain.append(entry := self._table[entry.caller])
        chain.reverse()
        lines = [f"{match[1]}{self._place(chain[0])}"]
        for caller, called in itertools.pairwise(chain):
            lines.append(
                f"{match[1]}{self._place(called)}, function_name {self._name(called)}, inlined_at {self._place(caller)}"
            )
        return "\n".join(lines)

    def _place(self, entry: _Entry) -> str:
        number = self._files.setdefault(entry.file, str(len(self._files) + 1))
        return f"{number} {entry.line} {entry.column}"

    def _name(self, entry: _Entry) -> str:
        return self._names.setdefault(entry.function, f"{_LABEL}{len(self._names)}")

    def _section(self) -> Iterator[str]:
        """The names, as bytes that end with 0."""
        yield "\t.section\t.debug_str\n\t{\n"
        for name, label in self._names.items():
            yield f"{label}:\n.b8 {','.join(str(byte) for byte in (*name.encode(), 0))}\n"
        yield "\t}\n"
