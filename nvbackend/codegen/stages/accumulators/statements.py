"""The statements of a kernel's IR that have to do with accumulators, as the builder writes them, block by block."""

from __future__ import annotations

import functools
import re
from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass

_QUOTED = r'%"[^"]*"'
_STATEMENT = re.compile(
    rf"^(?:  (?:(?P<result>{_QUOTED}) = (?:"
    rf"extractvalue (?:{_QUOTED}|\{{[^}}]*\}}) (?P<whole>{_QUOTED}), (?P<number>\d+)"
    rf"|load (?P<loaded>float|i32), \w+\* (?P<source>{_QUOTED})"
    r"|alloca (?P<kind>float|i32)"
    r")"
    rf"|store (?P<stored>float|i32) (?P<value>[^\s,]+), \w+\* (?P<target>{_QUOTED})"
    rf"|(?:(?P<call>{_QUOTED}) = )?call (?P<returned>[^\n@]*?) asm sideeffect "
    r'"(?P<text>[^"]*)", "(?P<constraints>[^"]*)"\s*\((?P<arguments>[^()\n]*)\)(?P<attributes>[a-z ]*)'
    r")(?P<place>, !dbg !\d+)?|(?P<label>[\w.$-]+|\"[^\"]*\"):)$",
    re.MULTILINE,
)
_NAME = re.compile(_QUOTED)
_TARGET = re.compile(r'label %"?([^"\s,]+)')
_MERGE = re.compile(r"^  .* = phi .*$", re.MULTILINE)

LETTERS = {"float": "f", "i32": "r"}
"""The letters of registers of these types in the constraints of assembly."""
KINDS = {letter: kind for kind, letter in LETTERS.items()} | {"l": "i64"}
"""The types of results, by these letters."""


@dataclass(frozen=True)
class TiedAsm:
    """A statement of assembly: its operands, and which of them are read and written.

    `tied` has the index of each such result, that of its argument, and the argument's name; `read` the names of other
    arguments.
    """

    match: re.Match[str]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    arguments: tuple[str, ...]
    tied: tuple[tuple[int, int, str], ...]
    read: tuple[str, ...]

    @functools.cached_property
    def can_name_registers(self) -> bool:
        """Whether it is assembly of wgmma that can be written again with other operands."""
        text = self.match["text"]
        is_plain = not any(word in text for word in ("$$", "${"))
        letters_known = all(letter[-1] in KINDS for letter in self.outputs)
        return "wgmma." in text and is_plain and letters_known and len(self.outputs) > 1

    @property
    def waits(self) -> bool:
        """Whether what it gives back is there."""
        return "wgmma.wait_group" in self.match["text"]


@dataclass
class FlowBlock:
    """A block: its statements by their places in the text, the blocks it may go to, and the numbers of those before."""

    statements: list[tuple[int, re.Match[str] | TiedAsm]] = field(default_factory=list)
    targets: set[str] = field(default_factory=set)
    before: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Code:
    """A kernel's function in parts: its `statements`, and the text before each and after the last.

    `others` are the names in the text between them, and `merged` the names that a phi has.
    """

    statements: tuple[re.Match[str], ...]
    between: tuple[str, ...]
    others: frozenset[str]
    merged: frozenset[str]

    @functools.cached_property
    def assembly(self) -> dict[int, TiedAsm]:
        """The assembly among the statements, by place."""
        return {
            place: _assembly(each)
            for place, each in enumerate(self.statements)
            if each["constraints"] is not None and "%" in each["arguments"]
        }

    @functools.cached_property
    def variables(self) -> dict[str, str]:
        """The variables that assembly of wgmma alone may set, with their types."""
        wholes = {each.match["call"] for each in self.assembly.values() if each.can_name_registers} - self.others
        taken = {each["result"] for each in self.statements if each["number"] and each["whole"] in wholes}
        set_by_others = {each["target"] for each in self.statements if each["target"] and each["value"] not in taken}
        kinds = {each["result"]: each["kind"] for each in self.statements if each["kind"]}
        return {name: kind for name, kind in kinds.items() if name not in self.others and name not in set_by_others}

    @functools.cached_property
    def blocks(self) -> list[FlowBlock]:
        """The blocks, in the order of the text."""
        blocks, numbers = [FlowBlock()], {}
        for place, each in enumerate(self.statements):
            if " label " in self.between[place]:
                blocks[-1].targets |= set(_TARGET.findall(self.between[place]))
            if each["label"]:
                numbers[each["label"].strip('"')] = len(blocks)
                blocks.append(FlowBlock())
            elif not each["kind"]:
                blocks[-1].statements.append((place, self.assembly.get(place, each)))
        blocks[-1].targets |= set(_TARGET.findall(self.between[-1]))
        for number, block in enumerate(blocks):
            for target in block.targets & numbers.keys():
                blocks[numbers[target]].before.append(number)
        # What comes before the first label is the beginning of its block.
        blocks[1].before.append(0) if len(blocks) > 1 else None
        return blocks


def read(function: str) -> Code:
    """The function in parts."""
    statements = tuple(_STATEMENT.finditer(function))
    ends = [0, *(each.end() for each in statements)]
    starts = [*(each.start() for each in statements), len(function)]
    between = tuple(function[end:start] for end, start in zip(ends, starts, strict=True))
    rest = "\n".join(between)
    merged = frozenset(_NAME.findall("\n".join(_MERGE.findall(rest))))
    return Code(statements, between, frozenset(_NAME.findall(rest)), merged)


def _assembly(match: re.Match[str]) -> TiedAsm:
    letters = match["constraints"].split(",")
    inputs = tuple(each for each in letters if each[0] not in "=~")
    arguments = tuple(match["arguments"].split(", "))
    names = [value_of(argument) for argument in arguments]
    pairs = [*enumerate(zip(inputs, names, strict=True))]
    tied = tuple((int(letter), index, name) for index, (letter, name) in pairs if letter.isdigit())
    others = tuple(name for _, (letter, name) in pairs if not letter.isdigit())
    return TiedAsm(match, tuple(each for each in letters if each[0] == "="), inputs, arguments, tied, others)


def value_of(argument: str) -> str:
    """An argument of assembly without its type."""
    return argument.rpartition(" ")[2] if argument[-1:] != '"' else argument[argument.rindex('%"', 0, -1) :]


def kind_of(argument: str) -> str:
    """The type of an argument."""
    return argument[: -len(value_of(argument)) - 1]
