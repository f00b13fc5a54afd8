"""The syntax tree of PTX: modules, functions, statements, operands. PTX ISA 4 and 5.

Nodes compare by content: `position` takes no part. So `parse(print_module(m)) == m`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import NamedTuple

from nvbackend.diagnostics import record
from nvbackend.diagnostics.ascii_paths import plain_path
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass


class Position(NamedTuple):
    """A place in the text: line and column, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree with its place; a node made by hand is at the text's start."""

    position: Position = field(default=Position(1, 1), compare=False, repr=False, kw_only=True)


# Operands


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A register, a special register, a variable, a label or a function: `%r1`, `%tid.x`, `buffer`, `$L1`."""

    text: str


@dataclass(frozen=True, slots=True)
class Integer(Node):
    """An integer constant; `unsigned` where it ends in U. Its value is that of the digits, with their sign."""

    value: int
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Float(Node):
    """A floating-point constant by its bits, IEEE 754 of `width` 32 or 64."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Sum(Node):
    """A symbol's address plus bytes: `buffer+16`; the generic address with `generic(buffer)`."""

    name: Name
    offset: int = 0
    generic: bool = False


@dataclass(frozen=True, slots=True)
class Negated(Node):
    """A predicate that counts when it is false: `!%p1`."""

    name: Name


@dataclass(frozen=True, slots=True)
class Vector(Node):
    """Elements in braces: `{%f1, %f2}`."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair(Node):
    """Two destinations of one instruction: `%r1|%p1`."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Arguments(Node):
    """A list in parentheses, of `call` alone."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Address(Node):
    """Memory at `base` plus `offset` bytes; of a tensor map, the element at `coordinates`: `[%rd1, {%r1, %r2}]`."""

    base: Name | Integer
    offset: int = 0
    coordinates: Vector | None = None


Operand = Name | Integer | Float | Sum | Negated | Vector | Pair | Arguments | Address


# Statements


@dataclass(frozen=True, slots=True)
class Guard:
    """The guard of an instruction: `@%p1`, or `@!%p1` where `negated`."""

    register: Name
    negated: bool = False


@record
@dataclass(frozen=True, slots=True)
class Instruction(Node):
    """One instruction. `opcode` is its spelling up to the operands; `parts` are its pieces between the dots."""

    opcode: str
    operands: tuple[Operand, ...] = ()
    guard: Guard | None = None

    __repr__ = short_repr

    @property
    def parts(self) -> tuple[str, ...]:
        """`ld.shared::cta.v2.f32` is ("ld", "shared::cta", "v2", "f32")."""
        return tuple(self.opcode.split("."))


@dataclass(frozen=True, slots=True)
class Label(Node):
    """A place that branches name."""

    name: str


@record
@dataclass(frozen=True, slots=True)
class Variable(Node):
    """A declaration in a state space.

    `space` is reg, shared, global, const, local or param; `type` is b32, f16x2, pred, ...; `vector` is 1, 2 or 4;
    `shape` are the extents of an array, None for an open extent. `registers` is the count of
    `.reg .b32 %r<5>`: the names %r0 to %r4. `pointer` is the space and the alignment in bytes of `.ptr .global
    .align 16`. `linkage` is extern, visible, weak, common or empty.
    """

    space: str
    type: str
    name: str
    alignment: int | None = None
    vector: int = 1
    shape: tuple[int | None, ...] = ()
    registers: int | None = None
    initial: Operand | None = None
    linkage: str = ""
    pointer: Pointer | None = None
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pointer:
    """What a parameter says of the memory that it points to: state space (empty: generic) and alignment in bytes."""

    space: str = ""
    alignment: int | None = None


@dataclass(frozen=True, slots=True)
class Loc(Node):
    """`.loc`: the source of what follows. `file` is the number of a `.file`; the rest says where it was inlined."""

    file: int
    line: int
    column: int
    function: Name | Sum | None = None
    inlined_at: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Pragma(Node):
    """`.pragma`: hints, each a string."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BranchTargets(Node):
    """`name: .branchtargets a, b;`: where an indexed branch goes; `.calltargets` where `calls`."""

    name: str
    targets: tuple[Name, ...]
    calls: bool = False


@dataclass(frozen=True, slots=True)
class Prototype(Node):
    """`name: .callprototype (results) _ (parameters);`: the shape of an indirect call."""

    name: str
    results: tuple[Variable, ...] = ()
    parameters: tuple[Variable, ...] = ()
    noreturn: bool = False


@dataclass(frozen=True, slots=True)
class Block(Node):
    """Statements in braces, with names of their own."""

    statements: tuple[Statement, ...]


Statement = Instruction | Label | Variable | Loc | Pragma | BranchTargets | Prototype | Block


def flattened(statements: Iterable[Statement]) -> Iterator[Statement]:
    """The statements in the order of the text, those of a block in its place."""
    for statement in statements:
        if isinstance(statement, Block):
            yield from flattened(statement.statements)
        else:
            yield statement


# Modules


@dataclass(frozen=True, slots=True)
class Directive(Node):
    """A directive about a function with its numbers or texts: `.maxntid 128, 1, 1`."""

    name: str
    values: tuple[int | str, ...] = ()


@record
@dataclass(frozen=True, slots=True)
class Function(Node):
    """A kernel (`is_entry`) or a device function; `body` is None where it is only declared."""

    name: str
    is_entry: bool
    parameters: tuple[Variable, ...] = ()
    results: tuple[Variable, ...] = ()
    directives: tuple[Directive, ...] = ()
    body: Block | None = None
    linkage: str = ""

    __repr__ = short_repr

    def directive(self, name: str) -> tuple[int | str, ...] | None:
        """The values of a directive such as `maxntid`, None where the function does not have it."""
        return next((directive.values for directive in self.directives if directive.name == name), None)


@dataclass(frozen=True, slots=True)
class File(Node):
    """`.file`: a number for a source file, with its time and size in bytes where they are given."""

    index: int
    name: str
    stamp: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Section(Node):
    """`.section`: debug information, as text. `lines` are without their indentation and comments."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alias(Node):
    """`.alias`: another name for a function."""

    name: str
    function: str


Item = Function | Variable | File | Section | Alias | Pragma


@record
@dataclass(frozen=True, slots=True)
class Module:
    """A whole text. `version` is the PTX version; `target` the chip and its options, such as ("sm_90a", "debug")."""

    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    items: tuple[Item, ...]
    source: str = field(compare=False, default="<ptx>")

    __repr__ = short_repr

    @property
    def functions(self) -> tuple[Function, ...]:
        """The functions that have a body."""
        return tuple(item for item in self.items if isinstance(item, Function) and item.body is not None)

    @property
    def kernels(self) -> dict[str, Function]:
        """The entry functions by name."""
        return {function.name: function for function in self.functions if function.is_entry}

    @property
    def files(self) -> dict[int, str]:
        """The source files by the numbers that `.loc` gives."""
        return {item.index: plain_path(item.name) for item in self.items if isinstance(item, File)}
