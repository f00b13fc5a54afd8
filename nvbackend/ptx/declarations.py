"""Reading declarations of registers, variables and parameters. PTX ISA 5 (State Spaces, Types, and Variables)."""

from __future__ import annotations

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.operands import constant, integer, operand
from nvbackend.ptx.reader import Reader
from nvbackend.ptx.syntax import Operand, Pointer, Position, Variable, Vector

SPACES = ("reg", "sreg", "const", "global", "local", "param", "shared", "tex")
LINKAGES = ("extern", "visible", "weak", "common")
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
TYPES: dict[str, int] = {
    **{f"{kind}{bits}": bits for kind in "bsu" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("f16", "bf16"), 16),
    **dict.fromkeys(("f32", "tf32", "f16x2", "bf16x2"), 32),
    **dict.fromkeys(("f64", "texref", "samplerref", "surfref"), 64),
    "b128": 128,
    "pred": 1,
}
"""The types that a variable may have, and their bits. PTX ISA 5.2 and 5.3."""
_PARTS = {"space": SPACES, "linkage": LINKAGES, "type": tuple(TYPES)}
_QUALIFIERS = ("align", "attribute", "ptr", *VECTORS, *LINKAGES, *SPACES)


@dataclass(slots=True)
class _Qualifiers:
    """What is written before the names of a declaration."""

    space: str = ""
    type: str = ""
    alignment: int | None = None
    vector: int = 1
    linkage: str = ""
    pointer: Pointer | None = None
    attributes: tuple[str, ...] = ()


def begins_a_declaration(reader: Reader) -> bool:
    """Whether a state space or a linkage is next."""
    return reader.next.kind == "dotted" and reader.next.text[1:] in (*SPACES, *LINKAGES)


def declaration(reader: Reader, linkage: str = "") -> tuple[Variable, ...]:
    """The variables of one declaration, `.reg .b32 %r<5>, %a;` for instance, with its semicolon."""
    qualifiers = _qualifiers(reader, linkage)
    variables = [_declarator(reader, qualifiers)]
    while reader.skips(","):
        variables.append(_declarator(reader, qualifiers))
    reader.must(";")
    return tuple(variables)


def parameter(reader: Reader) -> Variable:
    """One parameter of a function, without a comma."""
    return _declarator(reader, _qualifiers(reader, ""))


def parameters(reader: Reader) -> tuple[Variable, ...]:
    """Parameters or results in parentheses; none where no parenthesis is next."""
    if not reader.skips("("):
        return ()
    declared: list[Variable] = []
    while not reader.skips(")"):
        if declared:
            reader.must(",")
        declared.append(parameter(reader))
    return tuple(declared)


def _qualifiers(reader: Reader, linkage: str) -> _Qualifiers:
    qualifiers = _Qualifiers(linkage=linkage)
    while reader.next.kind == "dotted":
        name = reader.next.text[1:]
        if name not in _QUALIFIERS and name not in TYPES:
            reader.unknown_directive((*_QUALIFIERS, *TYPES))
        reader.take()
        _qualify(qualifiers, name, reader)
    if not qualifiers.type:
        reader.fail("a type such as .b32")
    return qualifiers


def _qualify(qualifiers: _Qualifiers, name: str, reader: Reader) -> None:
    """Adds the qualifier `name`, which is read, and what is written after it."""
    if name in SPACES and qualifiers.pointer is not None:
        qualifiers.pointer = Pointer(name, qualifiers.pointer.alignment)
    elif name == "align" and qualifiers.pointer is not None:
        qualifiers.pointer = Pointer(qualifiers.pointer.space, integer(reader))
    elif name == "align":
        qualifiers.alignment = integer(reader)
    elif name == "ptr":
        qualifiers.pointer = Pointer()
    elif name == "attribute":
        qualifiers.attributes = _attributes(reader)
    elif name in VECTORS:
        qualifiers.vector = VECTORS[name]
    else:
        part = next(part for part, names in _PARTS.items() if name in names)
        setattr(qualifiers, part, name)


def _attributes(reader: Reader) -> tuple[str, ...]:
    """The texts between the parentheses of `.attribute(.managed)`, one for each attribute."""
    reader.must("(")
    texts, depth = [""], 1
    while True:
        token = reader.take()
        if token.kind == "end":
            reader.fail("')'")
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            return tuple(texts)
        if token.text == "," and depth == 1:
            texts.append("")
        else:
            texts[-1] += token.text


def _declarator(reader: Reader, qualifiers: _Qualifiers) -> Variable:
    position = reader.position
    name = reader.name("the name of a variable")
    registers = None
    if reader.skips("<"):
        registers = integer(reader)
        reader.must(">")
    shape = _shape(reader)
    initial = _initial(reader) if reader.skips("=") else None
    return Variable(
        space=qualifiers.space,
        type=qualifiers.type,
        name=name,
        alignment=qualifiers.alignment,
        vector=qualifiers.vector,
        shape=shape,
        registers=registers,
        initial=initial,
        linkage=qualifiers.linkage,
        pointer=qualifiers.pointer,
        attributes=qualifiers.attributes,
        position=position,
    )


def _shape(reader: Reader) -> tuple[int | None, ...]:
    shape: list[int | None] = []
    while reader.skips("["):
        shape.append(None if reader.sees("]") else integer(reader))
        reader.must("]")
    return tuple(shape)


def _initial(reader: Reader) -> Operand:
    """A constant, a symbol's address, or a list of them in braces."""
    position: Position = reader.position
    if not reader.skips("{"):
        return operand(reader) if reader.next.kind == "name" else constant(reader)
    elements: list[Operand] = []
    with reader.nested():
        while not reader.skips("}"):
            if elements:
                reader.must(",")
            elements.append(_initial(reader))
    return Vector(tuple(elements), position=position)
