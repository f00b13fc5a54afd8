"""Reading what is between a function's braces. PTX ISA 4.1 to 4.3 (Statements), 11 (Directives)."""

from __future__ import annotations

from collections.abc import Callable

from nvbackend.ptx.declarations import LINKAGES, SPACES, begins_a_declaration, declaration, parameters
from nvbackend.ptx.operands import operands
from nvbackend.ptx.reader import Reader
from nvbackend.ptx.syntax import (
    Block,
    BranchTargets,
    Guard,
    Instruction,
    Label,
    Loc,
    Name,
    Position,
    Pragma,
    Prototype,
    Statement,
    Sum,
)

_IN_A_BODY = ("loc", "pragma", *SPACES, *LINKAGES)
_AFTER_A_LABEL = ("branchtargets", "calltargets", "callprototype")


def block(reader: Reader) -> Block:
    """Statements in braces."""
    position = reader.position
    reader.must("{")
    statements: list[Statement] = []
    with reader.nested():
        while not reader.skips("}"):
            statements.extend(_statement(reader))
    return Block(tuple(statements), position=position)


def _statement(reader: Reader) -> tuple[Statement, ...]:
    """The next statement; a declaration may be several, a lone semicolon none."""
    token = reader.next
    if begins_a_declaration(reader):
        return declaration(reader)
    if token.kind == "name":
        return (_named(reader) if reader.after_next.text == ":" else _instruction(reader, None),)
    if token.text in _BY_FIRST_TOKEN:
        return (_BY_FIRST_TOKEN[token.text](reader),)
    if token.kind == "dotted":
        reader.unknown_directive(_IN_A_BODY)
    if not reader.skips(";"):
        reader.fail("a statement or '}'")
    return ()


def _guarded(reader: Reader) -> Instruction:
    position = reader.position
    reader.must("@")
    negated = reader.skips("!")
    place = reader.position
    return _instruction(reader, Guard(Name(reader.name("a predicate register"), position=place), negated), position)


def _instruction(reader: Reader, guard: Guard | None, position: Position | None = None) -> Instruction:
    position = position or reader.position
    opcode = reader.name("an instruction")
    return Instruction(opcode, operands(reader, ";"), guard, position=position)


def _named(reader: Reader) -> Label | BranchTargets | Prototype:
    """A label; or what a label names: the targets of an indexed branch, the prototype of an indirect call."""
    position = reader.position
    name = reader.name()
    reader.must(":")
    directive = reader.next.text
    if directive in (".branchtargets", ".calltargets"):
        reader.take()
        targets = [_name(reader)]
        while reader.skips(","):
            targets.append(_name(reader))
        reader.must(";")
        return BranchTargets(name, tuple(targets), directive == ".calltargets", position=position)
    if directive == ".callprototype":
        reader.take()
        return _prototype(reader, name, position)
    if reader.next.kind == "dotted" and not begins_a_declaration(reader) and directive not in (".loc", ".pragma"):
        reader.unknown_directive(_AFTER_A_LABEL)
    return Label(name, position=position)


def _prototype(reader: Reader, name: str, position: Position) -> Prototype:
    results = parameters(reader)
    reader.name("the name of a function, or _")
    arguments = parameters(reader)
    noreturn = reader.skips(".noreturn")
    reader.must(";")
    return Prototype(name, results, arguments, noreturn, position=position)


def _name(reader: Reader) -> Name:
    position = reader.position
    return Name(reader.name(), position=position)


def _loc(reader: Reader) -> Loc:
    position = reader.position
    reader.must(".loc")
    file, line, column = (reader.integer() for _ in range(3))
    function: Name | Sum | None = None
    inlined_at: tuple[int, int, int] | None = None
    while reader.skips(","):
        what = reader.name("function_name or inlined_at")
        if what == "function_name":
            place = reader.position
            name = Name(reader.name(), position=place)
            function = Sum(name, reader.integer(), position=place) if reader.skips("+") else name
        elif what == "inlined_at":
            inlined_at = (reader.integer(), reader.integer(), reader.integer())
        else:
            reader.fail("function_name or inlined_at")
    reader.skips(";")
    return Loc(file, line, column, function, inlined_at, position=position)


def pragma(reader: Reader) -> Pragma:
    """`.pragma "text";`"""
    position = reader.position
    reader.must(".pragma")
    texts = [reader.string()]
    while reader.skips(","):
        texts.append(reader.string())
    reader.must(";")
    return Pragma(tuple(texts), position=position)


_BY_FIRST_TOKEN: dict[str, Callable[[Reader], Statement]] = {
    "@": _guarded,
    "{": block,
    ".loc": _loc,
    ".pragma": pragma,
}
