"""Accumulators of wgmma, kept in registers of the PTX that LLVM does not see.

An accumulator is up to 128 variables. Each wgmma, and each fence and wait around it, takes them all and gives them all
back, tied, and LLVM carries every one through every pass and every loop, though it can do nothing with them: half of
its time. So the assembly that LLVM gets names registers of its own, which are declared once, where the kernel starts.
Where something else reads a variable or sets it, the value is copied. ptxas makes the same machine code of both.

What a register holds is followed through each block, statement by statement. A variable of which that does not show
stays as it is.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass

_FUNCTION = re.compile(r"^(define ptx_kernel\b.*?^\})$", re.MULTILINE | re.DOTALL)
_ENTRY = "\nentry:\n"
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
_OPERAND = re.compile(r"\$(\d+)")
_LETTERS = {"float": "f", "i32": "r"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()} | {"l": "i64"}


def held(ir: str) -> str:
    """The IR of a builder, whose kernels hold the accumulators of wgmma in registers that its assembly names."""
    if "wgmma." not in ir:
        return ir
    stem = "acc"
    while f"%{stem}" in ir:
        stem += "_"
    parts = _FUNCTION.split(ir)
    parts[1::2] = [_held_in(part, f"%{stem}{number}") for number, part in enumerate(parts[1::2])]
    return "".join(parts)


def _held_in(function: str, prefix: str) -> str:
    if _ENTRY not in function or function.count('"') % 2:  # what ends inside a text is not the whole
        return function
    statements = list(_STATEMENT.finditer(function))
    variables = {each["result"]: each["kind"] for each in statements if each["kind"]}
    between = _between(function, statements)
    others = set(_NAME.findall("\n".join(between)))
    variables = {name: kind for name, kind in variables.items() if name not in others}
    only = _only_after_the_one_before(statements, between)
    while True:
        followed = _Followed(variables, others)
        followed.follow(statements, only)
        if not followed.unclear:
            break
        variables = {name: kind for name, kind in variables.items() if name not in followed.unclear}
    in_assembly = dict.fromkeys(place.variable for tied in followed.tied.values() for place in tied.values())
    if not in_assembly:
        return function
    registers = {name: f"{prefix}_{number}" for number, name in enumerate(in_assembly)}
    return _Held(prefix, registers, followed).text(statements, between)


def _between(function: str, statements: list[re.Match[str]]) -> list[str]:
    """The text before each statement, after the one before it; and last the text after all of them."""
    ends = [0, *(each.end() for each in statements)]
    starts = [*(each.start() for each in statements), len(function)]
    return [function[end:start] for end, start in zip(ends, starts, strict=True)]


def _only_after_the_one_before(statements: list[re.Match[str]], between: list[str]) -> set[int]:
    """The labels whose blocks are entered only from the block before them in the text."""
    entered = Counter(_TARGET.findall("\n".join(between)))
    return {
        place
        for place, each in enumerate(statements)
        if each["label"] and entered[name := each["label"].strip('"')] == 1
        if name in _TARGET.findall(between[place].rstrip("\n").rpartition("\n")[2])
    }


@dataclass(frozen=True, slots=True)
class _Tied:
    """An operand of assembly that is read and written: the variable that it is, the index of its input."""

    variable: str
    argument: int


@dataclass
class _Followed:
    """What the registers of `variables` hold; `others` are the names that statements not followed use.

    `tied` has the operands of each assembly that are registers, by their indices; `copied` the names whose values are
    read by others; `kept` the stores that store what the register holds already.
    """

    variables: dict[str, str]
    others: set[str]
    tied: dict[int, dict[int, _Tied]] = field(default_factory=dict)
    copied: set[str] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)
    unclear: set[str] = field(default_factory=set)
    _values: Iterator[int] = field(default_factory=itertools.count)
    _now: dict[str, int] = field(default_factory=dict)
    _newer: set[str] = field(default_factory=set)
    names: dict[str, tuple[str, int]] = field(default_factory=dict)
    _results: dict[str, dict[int, tuple[str, int]]] = field(default_factory=dict)

    def follow(self, statements: list[re.Match[str]], only: set[int]) -> None:
        """Go through the statements of a function; the blocks at `only` follow the one before them alone."""
        for place, each in enumerate(statements):
            if each["label"]:
                self._end_block()
                if place not in only:
                    self._now.clear()
            elif each["number"]:
                self._extract(each["result"], each["whole"], int(each["number"]))
            elif each["source"]:
                self._load(each["result"], each["source"])
            elif each["target"]:
                self._store(place, each["value"], each["target"])
            elif each["constraints"] is not None:
                self._call(place, each)
        self._end_block()
        self.copied |= self.others & self.names.keys()

    def _end_block(self) -> None:
        self.unclear |= self._newer

    def _load(self, result: str, variable: str) -> None:
        if variable in self.variables:
            if variable in self._newer:
                self.unclear.add(variable)
            if variable not in self._now:
                self._now[variable] = next(self._values)
            self.names[result] = variable, self._now[variable]

    def _extract(self, result: str, whole: str, number: int) -> None:
        results = self._results.get(whole, {})
        if number in results:
            self.names[result] = variable, value = results[number]
            if self._now.get(variable) != value:
                self.unclear.add(variable)

    def _store(self, place: int, value: str, variable: str) -> None:
        if variable in self.variables:
            if value in self.names and self.names[value] == (variable, self._now.get(variable)):
                self.kept.add(place)
            else:
                self._now[variable] = next(self._values)
                self._read(value)
            self._newer.discard(variable)
        else:
            self._read(value)

    def _read(self, name: str) -> None:
        if name in self.names:
            self.copied.add(name)

    def _call(self, place: int, call: re.Match[str]) -> None:
        """Assembly: its tied operands that are registers keep them, and have new values after it."""
        outputs, inputs = _operands(call["constraints"])
        arguments = [_value(argument) for argument in call["arguments"].split(", ")] if inputs else []
        tied: dict[int, _Tied] = {}
        taken: set[str] = set()
        may_hold = len(outputs) > 1 and call["call"] not in self.others and _can_name_registers(call, outputs)
        for index, (constraint, name) in enumerate(zip(inputs, arguments, strict=True)):
            variable, value = self.names.get(name, ("", -1))
            if may_hold and constraint.isdigit() and self._now.get(variable) == value and variable not in taken:
                tied[int(constraint)] = _Tied(variable, index)
                taken.add(variable)
            else:
                self._read(name)
        if tied:
            self.tied[place] = tied
            results = self._results[call["call"]] = {}
            for output, operand in tied.items():
                self._now[operand.variable] = value = next(self._values)
                self._newer.add(operand.variable)
                results[output] = operand.variable, value


def _can_name_registers(call: re.Match[str], outputs: list[str]) -> bool:
    """Whether it is assembly of wgmma that can be written again with other operands."""
    is_plain = not any(word in call["text"] for word in ("$$", "${"))
    return "wgmma." in call["text"] and is_plain and all(letter[-1] in _KINDS for letter in outputs)


def _operands(constraints: str) -> tuple[list[str], list[str]]:
    """The constraints of outputs and of inputs."""
    letters = constraints.split(",") if constraints else []
    return [each for each in letters if each[0] == "="], [each for each in letters if each[0] not in "=~"]


def _kind(argument: str) -> str:
    """The type of an argument."""
    return argument[: -len(_value(argument)) - 1]


def _value(argument: str) -> str:
    """The value of an argument, which is written after its type."""
    return argument.rpartition(" ")[2] if argument[-1:] != '"' else argument[argument.rindex('%"', 0, -1) :]


@dataclass(frozen=True, slots=True)
class _Held:
    """Writes a function in which `registers`, whose names begin with `prefix`, have the values of variables."""

    prefix: str
    registers: dict[str, str]
    followed: _Followed
    results: dict[str, dict[int, tuple[int, str]]] = field(default_factory=dict)
    """The results of each assembly that are not in these registers: their indices now, and types."""

    def text(self, statements: list[re.Match[str]], between: list[str]) -> str:
        """The function. What goes leaves an empty line, so that the lines of the others keep their numbers."""
        pieces: list[str] = []
        copies: list[tuple[str, str]] = []
        for place, each in enumerate(statements):
            is_value = self.followed.names.get(each["result"], ("",))[0] in self.registers
            if copies and (between[place] != "\n" or not (is_value or each["number"])):
                pieces.append(self._copied(copies, place))
                copies = []
            pieces.append(between[place])
            if not is_value:
                pieces.append(self._statement(place, each))
            elif each["result"] in self.followed.copied:
                copies.append((each["result"], self._variable(each)))
        pieces.append(self._copied(copies, len(statements)) if copies else "")
        declared = f'  call void asm sideeffect ".reg .b32 {self.prefix}_<{len(self.registers)}>;", ""()\n'
        return "".join([*pieces, between[-1]]).replace(_ENTRY, _ENTRY + declared, 1)

    def _variable(self, each: re.Match[str]) -> str:
        return self.followed.names[each["result"]][0]

    def _copied(self, copies: list[tuple[str, str]], number: int) -> str:
        """Copies of variables, by the names of the values."""
        kinds = [self.followed.variables[variable] for _, variable in copies]
        text = "\n".join(f"mov.b32 ${at}, {self.registers[variable]};" for at, (_, variable) in enumerate(copies))
        letters = [f"={_LETTERS[kind]}" for kind in kinds]
        if len(copies) == 1:
            return "\n" + _assembly(copies[0][0], kinds, text, letters)
        whole = f"{self.prefix}.{number}"
        taken = (f"  {name} = extractvalue {_result(kinds)} {whole}, {at}" for at, (name, _) in enumerate(copies))
        return "\n".join(["", _assembly(whole, kinds, text, letters), *taken])

    def _statement(self, place: int, each: re.Match[str]) -> str:
        if place in self.followed.tied:
            return self._call(each, self.followed.tied[place])
        if each["number"] and each["whole"] in self.results:
            return self._extract(each)
        if each["target"] in self.registers:
            return "" if place in self.followed.kept else self._store(each)
        return "" if each["kind"] and each["result"] in self.registers else each[0]

    def _store(self, each: re.Match[str]) -> str:
        text = f"mov.b32 {self.registers[each['target']]}, $0;"
        value = f"{each['stored']} {each['value']}"
        return _assembly(None, [], text, [_LETTERS[each["stored"]]], value, each["place"] or "")

    def _extract(self, each: re.Match[str]) -> str:
        left = self.results[each["whole"]]
        index, kind = left[int(each["number"])]
        if len(left) == 1:
            return f"  {each['result']} = bitcast {kind} {each['whole']} to {kind}{each['place'] or ''}"
        whole = _result([kind for _, kind in left.values()])
        return f"  {each['result']} = extractvalue {whole} {each['whole']}, {index}{each['place'] or ''}"

    def _call(self, call: re.Match[str], tied: dict[int, _Tied]) -> str:
        """The assembly with registers for what is tied, and numbers as they are then for its other operands."""
        outputs, inputs = _operands(call["constraints"])
        arguments = call["arguments"].split(", ")
        held = {operand.argument for operand in tied.values()}
        left = [output for output in range(len(outputs)) if output not in tied]
        untied = [index for index in range(len(inputs)) if index not in held]
        order = [*left, *(len(outputs) + index for index in untied)]
        names = {old: f"${new}" for new, old in enumerate(order)}
        names |= {output: self.registers[operand.variable] for output, operand in tied.items()}
        kinds = {int(inputs[index]): _kind(arguments[index]) for index in untied if inputs[index].isdigit()}
        results = [kinds.get(output) or _KINDS[outputs[output][-1]] for output in left]
        self.results[call["call"]] = dict(zip(left, enumerate(results), strict=True))
        letters = [outputs[output] for output in left]
        letters += [names[int(inputs[index])][1:] if inputs[index].isdigit() else inputs[index] for index in untied]
        letters += [each for each in call["constraints"].split(",") if each[0] == "~"]
        text = _OPERAND.sub(lambda match: names[int(match[1])], call["text"])
        passed = ", ".join(arguments[index] for index in untied)
        return _assembly(call["call"], results, text, letters, passed, call["attributes"] + (call["place"] or ""))


def _assembly(
    name: str | None, results: list[str], text: str, letters: list[str], passed: str = "", end: str = ""
) -> str:
    """A statement of assembly, with the types of its results."""
    head = f"{name} = " if results else ""
    return f'  {head}call {_result(results)} asm sideeffect "{text}", "{",".join(letters)}"({passed}){end}'


def _result(kinds: list[str]) -> str:
    """The type of so many results."""
    return f"{{{', '.join(kinds)}}}" if len(kinds) > 1 else "".join(kinds) or "void"
