"""Writes kernels whose accumulators are registers that the assembly names."""

from __future__ import annotations

import re
from dataclasses import field

from nvbackend.codegen.stages.accumulators.followed import Followed, followed
from nvbackend.codegen.stages.accumulators.statements import KINDS, LETTERS, Code, TiedAsm, kind_of, read
from nvbackend.diagnostics.classes.dataclass import dataclass

_FUNCTION = re.compile(r"^(define ptx_kernel\b.*?^\})$", re.MULTILINE | re.DOTALL)
_ENTRY = "\nentry:\n"
_OPERAND = re.compile(r"\$(\d+)")


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
    code = read(function)
    if not code.variables:
        return function
    registers_of = followed(code)
    in_assembly = dict.fromkeys(name for tied in registers_of.tied.values() for name, _ in tied.values())
    if not in_assembly:
        return function
    registers = {name: f"{prefix}_{number}" for number, name in enumerate(in_assembly)}
    return _Writer(prefix, registers, registers_of).text(code)


@dataclass(frozen=True)
class _Writer:
    """Writes a function in which `registers`, whose names begin with `prefix`, have the values of variables."""

    prefix: str
    registers: dict[str, str]
    followed: Followed
    left: dict[str, dict[int, tuple[int, str]]] = field(default_factory=dict)
    """The results of each assembly that are not in these registers: their indices now, and types."""

    def text(self, code: Code) -> str:
        """The function. What goes leaves an empty line, so that the lines of the others keep their numbers."""
        pieces: list[str] = []
        copies: list[tuple[str, str]] = []
        for place, each in enumerate(code.statements):
            variable = self.followed.names.get(each["result"], ("",))[0]
            is_held = variable in self.registers
            if copies and (code.between[place] != "\n" or not (is_held or each["number"])):
                pieces.append(self._copied(copies, place))
                copies = []
            pieces.append(code.between[place])
            if not is_held:
                pieces.append(self._call(place, code.assembly[place]) if self._is_tied(place) else self._other(each))
            elif each["result"] in self.followed.copied:
                copies.append((each["result"], variable))
        pieces.append(self._copied(copies, len(code.statements)) if copies else "")
        declared = f'  call void asm sideeffect ".reg .b32 {self.prefix}_<{len(self.registers)}>;", ""()\n'
        return "".join([*pieces, code.between[-1]]).replace(_ENTRY, _ENTRY + declared, 1)

    def _is_tied(self, place: int) -> bool:
        return place in self.followed.tied

    def _other(self, each: re.Match[str]) -> str:
        """A statement that is not assembly with registers, and does not read one."""
        if each["number"] and each["whole"] in self.left:
            return self._taken(each)
        goes = each["target"] in self.registers or each["result"] in self.registers
        return "" if goes else each[0]

    def _copied(self, copies: list[tuple[str, str]], number: int) -> str:
        """Copies of variables, by the names of the values."""
        kinds = [self.followed.variables[variable] for _, variable in copies]
        text = "\n".join(f"mov.b32 ${at}, {self.registers[variable]};" for at, (_, variable) in enumerate(copies))
        letters = [f"={LETTERS[kind]}" for kind in kinds]
        if len(copies) == 1:
            return "\n" + _assembly(copies[0][0], kinds, text, letters)
        whole = f"{self.prefix}.{number}"
        taken = (f"  {name} = extractvalue {_result(kinds)} {whole}, {at}" for at, (name, _) in enumerate(copies))
        return "\n".join(["", _assembly(whole, kinds, text, letters), *taken])

    def _taken(self, each: re.Match[str]) -> str:
        left = self.left[each["whole"]]
        index, kind = left[int(each["number"])]
        if len(left) == 1:
            return f"  {each['result']} = bitcast {kind} {each['whole']} to {kind}{each['place'] or ''}"
        whole = _result([kind for _, kind in left.values()])
        return f"  {each['result']} = extractvalue {whole} {each['whole']}, {index}{each['place'] or ''}"

    def _call(self, place: int, call: TiedAsm) -> str:
        """The assembly with registers for what is tied, and numbers as they are then for its other operands."""
        outputs, inputs, tied = call.outputs, call.inputs, self.followed.tied[place]
        in_registers = {argument for _, argument in tied.values()}
        left = [output for output in range(len(outputs)) if output not in tied]
        untied = [index for index in range(len(inputs)) if index not in in_registers]
        order = [*left, *(len(outputs) + index for index in untied)]
        names = {old: f"${new}" for new, old in enumerate(order)}
        names |= {output: self.registers[variable] for output, (variable, _) in tied.items()}
        kinds = {int(inputs[index]): kind_of(call.arguments[index]) for index in untied if inputs[index].isdigit()}
        results = [kinds.get(output) or KINDS[outputs[output][-1]] for output in left]
        self.left[call.match["call"]] = dict(zip(left, enumerate(results), strict=True))
        letters = [outputs[output] for output in left]
        letters += [names[int(inputs[index])][1:] if inputs[index].isdigit() else inputs[index] for index in untied]
        letters += [each for each in call.match["constraints"].split(",") if each[0] == "~"]
        text = _OPERAND.sub(lambda match: names[int(match[1])], call.match["text"])
        passed = ", ".join(call.arguments[index] for index in untied)
        end = call.match["attributes"] + (call.match["place"] or "")
        return _assembly(call.match["call"], results, text, letters, passed, end)


def _assembly(name: str, results: list[str], text: str, letters: list[str], passed: str = "", end: str = "") -> str:
    """A statement of assembly, with the types of its results."""
    head = f"{name} = " if results else ""
    return f'  {head}call {_result(results)} asm sideeffect "{text}", "{",".join(letters)}"({passed}){end}'


def _result(kinds: list[str]) -> str:
    """The type of so many results."""
    return f"{{{', '.join(kinds)}}}" if len(kinds) > 1 else "".join(kinds) or "void"
