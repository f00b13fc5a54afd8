"""Writing a syntax tree as PTX text. `parse` of the text gives the same tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nvbackend.diagnostics import user_facing
from nvbackend.ptx.syntax import (
    Address,
    Alias,
    Arguments,
    Block,
    BranchTargets,
    Directive,
    File,
    Float,
    Function,
    Instruction,
    Integer,
    Label,
    Loc,
    Module,
    Name,
    Negated,
    Operand,
    Pair,
    Pragma,
    Prototype,
    Section,
    Statement,
    Sum,
    Variable,
    Vector,
)

_INDENT = "\t"


@user_facing
def print_module(module: Module) -> str:
    """The text of `module`, one statement a line."""
    head = [
        f".version {module.version[0]}.{module.version[1]}",
        f".target {', '.join(module.target)}",
        f".address_size {module.address_size}",
    ]
    return "\n".join([*head, *(line for item in module.items for line in _ITEMS[type(item)](item))]) + "\n"


def print_operand(operand: Operand) -> str:
    """An operand as text."""
    return _OPERANDS[type(operand)](operand)


def _offset(bytes_: int) -> str:
    return f"+{bytes_}" if bytes_ else ""


def _list(operands: Iterable[Operand]) -> str:
    return ", ".join(map(print_operand, operands))


def _float(value: Float) -> str:
    return f"0{'f' if value.width == 32 else 'd'}{value.bits:0{value.width // 4}X}"


def _sum(value: Sum) -> str:
    name = f"generic({value.name.text})" if value.generic else value.name.text
    return f"{name}+{value.offset}" if value.offset or not value.generic else name


def _address(value: Address) -> str:
    coordinates = f", {print_operand(value.coordinates)}" if value.coordinates is not None else ""
    return f"[{print_operand(value.base)}{_offset(value.offset)}{coordinates}]"


_OPERANDS: dict[type, Callable[[Any], str]] = {
    Name: lambda value: value.text,
    Integer: lambda value: f"{value.value}{'U' if value.unsigned else ''}",
    Float: _float,
    Sum: _sum,
    Negated: lambda value: f"!{value.name.text}",
    Vector: lambda value: f"{{{_list(value.elements)}}}",
    Pair: lambda value: f"{print_operand(value.first)}|{print_operand(value.second)}",
    Arguments: lambda value: f"({_list(value.elements)})",
    Address: _address,
}


def _declaration(variable: Variable) -> str:
    words = [f".{word}" for word in (variable.linkage, variable.space) if word]
    words += [f".attribute({', '.join(variable.attributes)})"] if variable.attributes else []
    words += [f".align {variable.alignment}"] if variable.alignment is not None else []
    words += [f".v{variable.vector}"] if variable.vector > 1 else []
    words.append(f".{variable.type}")
    if variable.pointer is not None:
        words.append(".ptr")
        words += [f".{variable.pointer.space}"] if variable.pointer.space else []
        words += [f".align {variable.pointer.alignment}"] if variable.pointer.alignment is not None else []
    name = variable.name + (f"<{variable.registers}>" if variable.registers is not None else "")
    name += "".join(f"[{'' if extent is None else extent}]" for extent in variable.shape)
    initial = f" = {print_operand(variable.initial)}" if variable.initial is not None else ""
    return f"{' '.join(words)} {name}{initial}"


def _parameters(variables: Iterable[Variable]) -> str:
    return f"({', '.join(map(_declaration, variables))})"


def print_instruction(value: Instruction) -> str:
    """The text of one instruction, with its guard and semicolon."""
    guard = f"@{'!' if value.guard.negated else ''}{value.guard.register.text} " if value.guard is not None else ""
    operands = f" {_list(value.operands)}" if value.operands else ""
    return f"{guard}{value.opcode}{operands};"


def _loc(value: Loc) -> str:
    text = f".loc {value.file} {value.line} {value.column}"
    if value.function is not None:
        text += f", function_name {print_operand(value.function)}"
    if value.inlined_at is not None:
        text += ", inlined_at " + " ".join(map(str, value.inlined_at))
    return text


def _prototype(value: Prototype) -> str:
    results = f"{_parameters(value.results)} " if value.results else ""
    return f"{value.name}: .callprototype {results}_ {_parameters(value.parameters)}{' .noreturn' * value.noreturn};"


def _targets(value: BranchTargets) -> str:
    return f"{value.name}: .{'call' if value.calls else 'branch'}targets {_list(value.targets)};"


def _pragma(value: Pragma) -> str:
    return f".pragma {', '.join(map(_quoted, value.texts))};"


def _quoted(text: int | str) -> str:
    return f'"{text}"'


_STATEMENTS: dict[type, Callable[[Any], str]] = {
    Instruction: print_instruction,
    Label: lambda value: f"{value.name}:",
    Variable: lambda value: f"{_declaration(value)};",
    Loc: _loc,
    Pragma: _pragma,
    BranchTargets: _targets,
    Prototype: _prototype,
}


def _lines(statements: Iterable[Statement], depth: int) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, Block):
            yield _INDENT * depth + "{"
            yield from _lines(statement.statements, depth + 1)
            yield _INDENT * depth + "}"
        else:
            yield _INDENT * (depth - isinstance(statement, Label)) + _STATEMENTS[type(statement)](statement)


def _directive(value: Directive) -> str:
    show = _quoted if value.name == "pragma" else str
    return f".{value.name} {', '.join(map(show, value.values))}".rstrip() + (";" if value.name == "pragma" else "")


def _function(value: Function) -> Iterator[str]:
    linkage = f".{value.linkage} " if value.linkage else ""
    results = f"{_parameters(value.results)} " if value.results else ""
    yield f"{linkage}.{'entry' if value.is_entry else 'func'} {results}{value.name}{_parameters(value.parameters)}"
    yield from map(_directive, value.directives)
    if value.body is None:
        yield ";"
        return
    yield "{"
    yield from _lines(value.body.statements, 1)
    yield "}"


def _file(value: File) -> Iterator[str]:
    yield f'.file {value.index} "{value.name}"' + "".join(f", {number}" for number in value.stamp)


def _section(value: Section) -> Iterator[str]:
    yield f".section {value.name}"
    yield "{"
    yield from (_INDENT + line for line in value.lines)
    yield "}"


_ITEMS: dict[type, Callable[[Any], Iterable[str]]] = {
    Function: _function,
    Variable: lambda value: [f"{_declaration(value)};"],
    File: _file,
    Section: _section,
    Alias: lambda value: [f".alias {value.name}, {value.function};"],
    Pragma: lambda value: [_pragma(value)],
}
