"""Writes kernels whose accumulators are registers that the assembly names."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import field

from nvbackend.codegen.stages.accumulators.followed import Followed, followed
from nvbackend.codegen.stages.accumulators.statements import (
    KINDS,
    LETTERS,
    Code,
    ResultTakes,
    TiedAsm,
    UnreadableArguments,
    VariableStores,
    arguments_of,
    kind_of,
    read,
    value_of,
)
from nvbackend.codegen.stages.functions import split_functions
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.classes.late_pattern import late_pattern

_ENTRY = "\nentry:\n"
_OPERAND = late_pattern(r"\$(\d+)")
_PURE = late_pattern(r'^(  %"[^"]*" = call \w+ asm) +"([^"]*)", "(=\w),[fr,]+"\(([^()\n]*)\)', re.MULTILINE)
"""Assembly that does nothing but compute its one result of 32-bit registers."""


def held(ir: str) -> str:
    """The IR of a builder, whose kernels hold the accumulators of wgmma in registers that its assembly names."""
    if "wgmma." not in ir:
        return ir
    stem = "acc"
    while f"%{stem}" in ir:
        stem += "_"
    parts = split_functions(ir, "define ptx_kernel")
    parts[1::2] = [_held_in(part, f"%{stem}{number}") for number, part in enumerate(parts[1::2])]
    return "".join(parts)


def _held_in(function: str, prefix: str) -> str:
    # What ends inside a text is not the whole.
    if "wgmma." not in function or _ENTRY not in function or function.count('"') % 2:
        return function
    try:
        code = read(function)
    except UnreadableArguments:
        return function
    if not code.variables:
        return function
    registers_of = followed(code)
    in_assembly = dict.fromkeys(name for tied in registers_of.tied.values() for name, _ in tied.values())
    if not in_assembly:
        return function
    registers = {name: f"{prefix}_{number}" for number, name in enumerate(in_assembly)}
    return _Writer(code, prefix, registers, registers_of).text()


@dataclass(frozen=True)
class _Writer:
    """Writes a function in which `registers`, whose names begin with `prefix`, have the values of variables."""

    code: Code
    prefix: str
    registers: dict[str, str]
    followed: Followed
    left: dict[str, dict[int, tuple[int, str]]] = field(default_factory=dict)
    """The results of each assembly that are not in these registers: their indices now, and types."""
    types: dict[str, str] = field(default_factory=dict)
    """The names of the types of copies."""

    def text(self) -> str:
        """The function. What goes leaves an empty line, so that the lines of the others keep their numbers."""
        lines, between = [*self.code.lines], [*self.code.between]
        for call in self.code.every(TiedAsm):
            if call.place in self.followed.tied:
                lines[call.place] = self._call(call)
        in_registers = {name for name, (variable, _) in self.followed.names.items() if variable in self.registers}
        held = [place for place, name in enumerate(self.code.results) if name in in_registers]
        for place in itertools.chain(held, self._gone()):
            lines[place] = ""
        for place, line in self._taken(in_registers):
            lines[place] = line
        for place, copies in self._copies(held):
            left, after = self._read_in_place(copies, between[place])
            between[place] = (self._copied(left, place) if left else "") + after
        text = "".join(itertools.chain.from_iterable(zip(between, lines, strict=False))) + between[-1]
        declared = f'  call void asm sideeffect ".reg .b32 {self.prefix}_<{len(self.registers)}>;", ""()\n'
        types = "".join(f"{name} = type {kind} " for kind, name in self.types.items())
        return types + text.replace(_ENTRY, _ENTRY + declared, 1)

    def _gone(self) -> Iterator[int]:
        """The places of what declares variables that are registers, and stores to them."""
        yield from (place for place, name, _ in self.code.declared if name in self.registers)
        for run in self.code.every(VariableStores):
            yield from (place for place, name in enumerate(run.variables, run.place) if name in self.registers)

    def _copies(self, held: list[int]) -> Iterator[tuple[int, list[tuple[str, str]]]]:
        """Copies of variables in a row, by the names of the values, and the place that they are before."""
        code, copied, end = self.code, self.followed.copied, 0
        are_held = set(held)
        for start in held:
            if start < end or code.results[start] not in copied:
                continue
            end = start + 1
            while code.between[end] == "\n" and (end in are_held or code.numbers[end]):
                end += 1
            names = [name for name in code.results[start:end] if name in copied]
            yield end, [(name, self.followed.names[name][0]) for name in names if name]

    def _read_in_place(self, copies: list[tuple[str, str]], after: str) -> tuple[list[tuple[str, str]], str]:
        """The copies that are left, and the text after them, whose assembly reads the registers in place of copies.

        No statement is in the text, so nothing in it writes a register.
        """
        registers = {name: self.registers[variable] for name, variable in copies}
        read = Counter[str]()

        def reading(pure: re.Match[str]) -> str:
            head, text, result, arguments = pure.groups()
            names = [value_of(argument) for argument in arguments.split(", ")]
            if not registers.keys() >= {*names} or any(word in text for word in ("$$", "${")):
                return pure[0]
            read.update(names)
            operands = ["$0", *(registers[name] for name in names)]
            text = _OPERAND.sub(lambda operand: operands[int(operand[1])], text)
            return f'{head} sideeffect "{text}", "{result}"()'

        after = _PURE.sub(reading, after)
        return [copy for copy in copies if read[copy[0]] < self._uses[copy[0]]], after

    @functools.cached_property
    def _uses(self) -> Counter[str]:
        """How often each name is taken by instructions, or passed to the assembly of a statement."""
        return self.code.others + Counter(name for call in self.code.every(TiedAsm) for name in call.read)

    def _copied(self, copies: list[tuple[str, str]], place: int) -> str:
        """The lines of copies."""
        kinds = [self.followed.variables[variable] for _, variable in copies]
        text = "\n".join(f"mov.b32 ${at}, {self.registers[variable]};" for at, (_, variable) in enumerate(copies))
        letters = [f"={LETTERS[kind]}" for kind in kinds]
        if len(copies) == 1:
            return "\n" + _assembly(copies[0][0], kinds[0], text, letters)
        # A name, as LLVM reads and prints the type with each use.
        kind = self.types.setdefault(_result(kinds), f"{self.prefix}.type{len(self.types)}")
        whole = f"{self.prefix}.{place}"
        taken = (f"  {name} = extractvalue {kind} {whole}, {at}" for at, (name, _) in enumerate(copies))
        return "\n".join(["", _assembly(whole, kind, text, letters), *taken])

    def _taken(self, in_registers: set[str]) -> Iterator[tuple[int, str]]:
        """The places and lines of what takes results that are in none of these registers."""
        for run in self.code.every(ResultTakes):
            if run.whole in self.left:
                for place, (name, number) in enumerate(zip(run.names, run.numbers, strict=True), run.place):
                    if name not in in_registers:
                        location = self.code.locations[place] or ""
                        yield place, f"  {name} = {self._taken_from(run.whole, number)}{location}"

    def _taken_from(self, whole: str, number: int) -> str:
        left = self.left[whole]
        index, kind = left[number]
        if len(left) == 1:
            return f"bitcast {kind} {whole} to {kind}"
        return f"extractvalue {_result([kind for _, kind in left.values()])} {whole}, {index}"

    def _call(self, call: TiedAsm) -> str:
        """The assembly with registers for what is tied, and numbers as they are then for its other operands."""
        outputs, inputs, tied = call.constraints.outputs, call.constraints.inputs, self.followed.tied[call.place]
        in_registers = {argument for _, argument in tied.values()}
        left = [output for output in range(len(outputs)) if output not in tied]
        untied = [index for index in range(len(inputs)) if index not in in_registers]
        order = [*left, *(len(outputs) + index for index in untied)]
        names = {old: f"${new}" for new, old in enumerate(order)}
        names |= {output: self.registers[variable] for output, (variable, _) in tied.items()}
        arguments = arguments_of(call.parts["arguments"], len(inputs))
        kinds = {int(inputs[index]): kind_of(arguments[index]) for index in untied if inputs[index].isdigit()}
        results = [kinds.get(output) or KINDS[outputs[output][-1]] for output in left]
        self.left[call.name] = dict(zip(left, enumerate(results), strict=True))
        letters = [outputs[output] for output in left]
        letters += [names[int(inputs[index])][1:] if inputs[index].isdigit() else inputs[index] for index in untied]
        text = _OPERAND.sub(lambda match: names[int(match[1])], call.parts["text"])
        passed = ", ".join(arguments[index] for index in untied)
        end = call.parts["attributes"] + call.location
        return _assembly(call.name, _result(results), text, [*letters, *call.constraints.clobbers], passed, end)


def _assembly(name: str, result: str, text: str, letters: list[str], passed: str = "", end: str = "") -> str:
    """A statement of assembly, with the type of its results."""
    head = f"{name} = " if result != "void" else ""
    return f'  {head}call {result} asm sideeffect "{text}", "{",".join(letters)}"({passed}){end}'


def _result(kinds: list[str]) -> str:
    """The type of so many results."""
    return f"{{{', '.join(kinds)}}}" if len(kinds) > 1 else "".join(kinds) or "void"
