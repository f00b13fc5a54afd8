"""The statements of a kernel's IR that have to do with accumulators, as the builder writes them, block by block."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from typing import TypeVar

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.classes.late_pattern import late_pattern
from nvbackend.intrinsics.mma.wgmma import WRITTEN

_QUOTED = r'%"[^"]*"'
_STATEMENT = late_pattern(
    rf"^((?:  (?:({_QUOTED}) = (?:"  # line, result
    rf"extractvalue (?:{_QUOTED}|\{{[^}}]*\}}) ({_QUOTED}), (\d+)"  # whole, number
    rf"|load (?:float|i32), \w+\* ({_QUOTED})"  # source
    r"|alloca (float|i32)"  # kind
    r")"
    rf"|store (?:float|i32) ([^\s,]+), \w+\* ({_QUOTED})"  # value, target
    rf'|((?:{_QUOTED} = )?call [^\n@]*? asm sideeffect "[^"]*", "[^"]*"\s*\([^()\n]*\)[a-z ]*)'  # assembly
    r")(, !dbg !\d+)?|([\w.$-]+|\"[^\"]*\"):))$",  # location, label
    re.MULTILINE,
)
_ASSEMBLY = late_pattern(
    rf'(?:(?P<name>{_QUOTED}) = )?[^\n]*? asm sideeffect "(?P<text>[^"]*)", "(?P<constraints>[^"]*)"\s*'
    r"\((?P<arguments>[^()\n]*)\)(?P<attributes>[a-z ]*)"
)
_WIDTH = 1 + _STATEMENT.groups
"""The parts that splitting by it gives for a statement: what is before it, and its groups."""
_NAME = late_pattern(_QUOTED)
_TARGET = late_pattern(r'label %(?:"(?=[^"]*"))?((?<=")[^"]*|[^"\s,]+)')
_ARGUMENT = late_pattern(r'(?:"[^"]*"|<[^<>]*>|\{[^{}]*\}|\[[^\[\]]*\]|[^",<{\[])+')
"""An argument whose name or type may have a comma."""
_LOADS, _STORES = "load", "store"
_MERGE = late_pattern(r"^  .* = phi .*$", re.MULTILINE)

LETTERS = {"float": "f", "i32": "r"}
"""The letters of registers of these types in the constraints of assembly."""
KINDS = {letter: kind for kind, letter in LETTERS.items()} | {"l": "i64"}
"""The types of results, by these letters."""

Value = tuple[int, int]
"""What a register holds: the place of the statement that put it there, and which of its results it is."""

_Kind = TypeVar("_Kind", "TiedAsm", "ResultTakes", "VariableLoads", "VariableStores")


@dataclass(frozen=True)
class Constraints:
    """The constraints of assembly: those of its results, of its arguments, and the rest.

    `tied` has the index of each result that an argument is tied to, and that argument's; `untied` the other arguments.
    """

    outputs: list[str]
    inputs: list[str]
    clobbers: list[str]
    tied: list[tuple[int, int]]
    untied: list[int]


@dataclass(frozen=True)
class TiedAsm:
    """A statement of assembly, and which of its operands are read and written.

    `tied` has each such result, the index of its argument, and the argument's name; `read` the names of the others.
    """

    place: int
    parts: re.Match[str]
    constraints: Constraints
    location: str
    tied: list[tuple[Value, int, str]]
    read: list[str]

    @functools.cached_property
    def name(self) -> str:
        """What it gives."""
        return self.parts["name"]

    @functools.cached_property
    def can_name_registers(self) -> bool:
        """Whether it is assembly of wgmma that can be written again with other operands."""
        text, outputs = self.parts["text"], self.constraints.outputs
        is_plain = not any(word in text for word in ("$$", "${"))
        letters_known = all(letter[-1] in KINDS for letter in {*outputs})
        return ("wgmma." in text or WRITTEN in text) and is_plain and letters_known and len(outputs) > 1

    @property
    def waits(self) -> bool:
        """Whether what it gives back is there."""
        return any(word in self.parts["text"] for word in ("wgmma.wait_group", WRITTEN))


@dataclass(frozen=True)
class ResultTakes:
    """Statements in a row that take results of `whole` apart, the first at `place`: their names, and the indices."""

    place: int
    whole: str
    names: list[str]
    numbers: list[int]


@dataclass(frozen=True)
class VariableLoads:
    """Loads in a row, the first at `place`: their names, and the variables."""

    place: int
    names: list[str]
    variables: list[str]


@dataclass(frozen=True)
class VariableStores:
    """Stores in a row, the first at `place`: the values, and the variables."""

    place: int
    values: list[str]
    variables: list[str]


@dataclass(frozen=True)
class FlowBlock:
    """A block: its statements, the blocks it may go to, and the numbers of those before."""

    statements: list[TiedAsm | ResultTakes | VariableLoads | VariableStores] = field(default_factory=list)
    targets: set[str] = field(default_factory=set)
    before: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Code:
    """A kernel's function in parts: the lines of its statements, and the text before each and after the last.

    `results` has what each statement gives, assembly left out, `numbers` which result of assembly it takes, and
    `locations` how it ends; `declared` the place, name and type of each variable; `others` the names in the text
    between statements, each with how often it is there, and `merged` the names that a phi has.
    """

    lines: list[str]
    between: list[str]
    results: list[str | None]
    numbers: list[str | None]
    locations: list[str | None]
    declared: list[tuple[int, str, str]]
    blocks: list[FlowBlock]
    others: Counter[str]
    merged: frozenset[str]

    def every(self, kind: type[_Kind]) -> Iterator[_Kind]:
        """The statements of one kind."""
        return (each for block in self.blocks for each in block.statements if isinstance(each, kind))

    @functools.cached_property
    def variables(self) -> dict[str, str]:
        """The variables that assembly of wgmma alone may set, with their types."""
        wholes = {each.name for each in self.every(TiedAsm) if each.can_name_registers} - self.others.keys()
        taken = {name for run in self.every(ResultTakes) if run.whole in wholes for name in run.names}
        not_own = {*self.others}
        for run in self.every(VariableStores):
            not_own |= {name for value, name in zip(run.values, run.variables, strict=True) if value not in taken}
        return {name: kind for _, name, kind in self.declared if name not in not_own}


def read(function: str) -> Code:
    """The function in parts."""
    parts = _STATEMENT.split(function)
    columns = [parts[column::_WIDTH] for column in range(_WIDTH)]
    between, lines, results, _, numbers, *_, locations, _ = columns
    rest = "\n".join(each for each in between if each != "\n")
    merged = _NAME.findall("\n".join(_MERGE.findall(rest))) if " = phi " in rest else ()
    names = Counter[str](_NAME.findall(rest))
    reader = _StatementReader(columns)
    reader.read()
    blocks = reader.linked()
    return Code(lines, between, results, numbers, locations, reader.declared, blocks, names, frozenset(merged))


@dataclass
class _StatementReader:
    """Puts statements into blocks. `columns` has the text before each and after the last, and what each group has."""

    columns: list[list[str]]
    declared: list[tuple[int, str, str]] = field(default_factory=list)
    _blocks: list[FlowBlock] = field(default_factory=lambda: [FlowBlock()])
    _numbers: dict[str, int] = field(default_factory=dict)
    _constraints: dict[str, Constraints] = field(default_factory=dict)

    def read(self) -> None:
        """Read the statements."""
        between, _, results, wholes, _, sources, kinds, _, targets, assembly, locations, labels = self.columns
        begin, last = 0, ""
        groups = zip(between, wholes, sources, kinds, targets, assembly, labels, strict=False)
        for place, (before, whole, source, kind, target, called, label) in enumerate(groups):
            if before != "\n" and " label " in before:
                self._blocks[-1].targets.update(_TARGET.findall(before))
            run = whole or (source and _LOADS) or (target and _STORES) or ""
            if run != last:
                self._end(last, slice(begin, place))
                begin, last = place, run
            if kind:
                self.declared.append((place, results[place], kind))
            elif label:
                self._numbers[label.strip('"')] = len(self._blocks)
                self._blocks.append(FlowBlock())
            elif called:
                self._assembly(place, called, locations[place] or "")
        self._end(last, slice(begin, len(labels)))
        self._blocks[-1].targets.update(_TARGET.findall(between[-1]))

    def _end(self, run: str, places: slice) -> None:
        """The end of statements in a row that take results of this name, or are loads or stores."""
        if not run:
            return
        _, _, results, _, numbers, sources, _, values, targets, *_ = self.columns
        statements = self._blocks[-1].statements
        if run == _LOADS:
            statements.append(VariableLoads(places.start, results[places], sources[places]))
        elif run == _STORES:
            statements.append(VariableStores(places.start, values[places], targets[places]))
        else:
            statements.append(ResultTakes(places.start, run, results[places], [*map(int, numbers[places])]))

    def linked(self) -> list[FlowBlock]:
        """The blocks, in the order of the text, which know where they may come from."""
        for number, block in enumerate(self._blocks):
            for target in block.targets & self._numbers.keys():
                self._blocks[self._numbers[target]].before.append(number)
        # What comes before the first label is the beginning of its block.
        if len(self._blocks) > 1:
            self._blocks[1].before.append(0)
        return self._blocks

    def _assembly(self, place: int, called: str, location: str) -> None:
        parts = _ASSEMBLY.fullmatch(called)
        if parts is None or "%" not in parts["arguments"]:
            return
        letters = self._constraints.get(parts["constraints"])
        if letters is None:  # the same ones are those of many statements
            letters = self._constraints[parts["constraints"]] = _constraints(parts["constraints"].split(","))
        names = [value_of(argument) for argument in arguments_of(parts["arguments"], len(letters.inputs))]
        tied = [((place, output), index, names[index]) for output, index in letters.tied]
        read = [names[index] for index in letters.untied]
        self._blocks[-1].statements.append(TiedAsm(place, parts, letters, location, tied, read))


def _constraints(letters: list[str]) -> Constraints:
    inputs = [each for each in letters if each[0] not in "=~"]
    return Constraints(
        outputs=[each for each in letters if each[0] == "="],
        inputs=inputs,
        clobbers=[each for each in letters if each[0] == "~"],
        tied=[(int(letter), index) for index, letter in enumerate(inputs) if letter.isdigit()],
        untied=[index for index, letter in enumerate(inputs) if not letter.isdigit()],
    )


class UnreadableArguments(Exception):
    """The text is not as LLVM has it, or as the builder writes it."""


def arguments_of(text: str, count: int) -> list[str]:
    """The arguments of assembly that takes so many. Raises UnreadableArguments where it has others."""
    arguments = text.split(", ")
    if len(arguments) != count:
        arguments = [argument.strip() for argument in _ARGUMENT.findall(text)]
    if len(arguments) != count:
        raise UnreadableArguments
    return arguments


def value_of(argument: str) -> str:
    """An argument of assembly without its type."""
    return argument[argument.rindex('%"', 0, -1) :] if argument[-1:] == '"' else argument.rpartition(" ")[2]


def kind_of(argument: str) -> str:
    """The type of an argument."""
    return argument[: -len(value_of(argument)) - 1]
