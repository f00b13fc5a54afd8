"""What each name of a function refers to: every register, variable, label and function, by scope. PTX ISA 4.4, 5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cache

from nvbackend.diagnostics import Diagnostic, Location, missing_name, raise_all, record, user_facing
from nvbackend.diagnostics.classes.brief import cut, short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.sync import special_registers
from nvbackend.ptx.forms import CONSTANTS, SINK, Declared, form_breach
from nvbackend.ptx.printer import print_instruction, print_operand
from nvbackend.ptx.rules import FORM, REDECLARED, UNDECLARED
from nvbackend.ptx.syntax import (
    Address,
    Alias,
    Arguments,
    Block,
    BranchTargets,
    Function,
    Instruction,
    Module,
    Name,
    Negated,
    Operand,
    Pair,
    Position,
    Statement,
    Sum,
    Variable,
    Vector,
)


@record
@dataclass(slots=True)
class Names:
    """Which declaration each name of a module's functions means.

    `of` has one entry for each name as it is used, by its position in the text; special registers and the sink have
    none.
    """

    of: dict[Position, Declared] = field(default_factory=dict)

    __repr__ = short_repr

    @user_facing
    def __getitem__(self, name: Name) -> Declared:
        """The declaration that `name`, where it is in the text, means."""
        if not isinstance(name, Name) or name.position not in self.of:
            raise missing_name("the module", "use of a name", name, [])
        return self.of[name.position]

    __iter__ = None  # or Python would ask for names 0, 1, 2, ...
    __contains__ = None


@cache
def special_register_names() -> frozenset[str]:
    """`%tid.x` and all others, and the vectors such as `%tid` that hold three of them."""
    names = {row.ptx for row in special_registers.rows()}
    return frozenset(names | {name.partition(".")[0] for name in names})


@user_facing
def resolve(module: Module) -> Names:
    """The declarations of all names. Raises ptx.undeclared, ptx.redeclared and ptx.form, all together."""
    return _Resolver(module).run()


class _Scope:
    """The names of one block, and those around it."""

    def __init__(self, outer: _Scope | None) -> None:
        self.outer = outer
        self.names: dict[str, Declared] = {}
        self.rows: list[tuple[str, Variable]] = []
        """The declarations of many registers at once, by the prefix of their names."""

    def find(self, name: str) -> Declared | None:
        scope: _Scope | None = self
        while scope is not None:
            declared = scope.find_in_rows(name) or scope.names.get(name)
            if declared is not None:
                return declared
            scope = scope.outer
        return None

    def find_in_rows(self, name: str) -> Variable | None:
        """The `.reg .b32 %r<5>` that declares `name`, one of %r0 to %r4."""
        for prefix, variable in self.rows:
            number = name[len(prefix) :]
            if name.startswith(prefix) and number.isdigit() and int(number) < (variable.registers or 0):
                return variable
        return None


class _Resolver:
    """One walk over a module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names = Names()
        self.errors: list[Diagnostic] = []

    def run(self) -> Names:
        scope = _Scope(None)
        for item in self.module.items:
            if isinstance(item, Variable | Function):
                scope.names[item.name] = item
            elif isinstance(item, Alias) and isinstance(aliased := scope.find(item.function), Function):
                scope.names[item.name] = aliased
        for function in self.module.functions:
            inner = _Scope(scope)
            self.declare(inner, (*function.parameters, *function.results))
            if function.body is not None:
                self.block(inner, function.body)
        raise_all(self.errors)
        return self.names

    def declare(self, scope: _Scope, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            if not isinstance(statement, Declared):
                continue
            is_row = isinstance(statement, Variable) and statement.registers is not None
            key = f"{statement.name}<>" if is_row else statement.name  # `%r<5>` declares %r0 to %r4, and no %r
            before = scope.names.get(key)
            if before is None:
                scope.names[key] = statement
            elif statement.name != SINK:
                place = self.location(statement.position)
                self.errors.append(REDECLARED.diagnose(at=place, name=statement.name, line=before.position.line))
            if isinstance(statement, Variable) and statement.registers is not None:
                scope.rows.append((statement.name, statement))

    def block(self, outer: _Scope, block: Block) -> None:
        scope = _Scope(outer)
        self.declare(scope, block.statements)
        for statement in block.statements:
            if isinstance(statement, Block):
                self.block(scope, statement)
            elif isinstance(statement, Instruction):
                self.instruction(scope, statement)
            elif isinstance(statement, BranchTargets):
                for target in statement.targets:
                    self.use(scope, target, statement.name)

    def instruction(self, scope: _Scope, instruction: Instruction) -> None:
        undeclared = len(self.errors)
        if instruction.guard is not None:
            self.use(scope, instruction.guard.register, instruction.opcode)
        for operand in instruction.operands:
            for name in names_in(operand):
                self.use(scope, name, instruction.opcode, operand)
        breach = form_breach(instruction, self.names.of) if len(self.errors) == undeclared else None
        if breach is not None:
            (what, form), place = breach, self.location(instruction.position)
            self.errors.append(FORM.diagnose(at=place, what=what, form=form, text=cut(print_instruction(instruction))))

    def use(self, scope: _Scope, name: Name, text: str, operand: Operand | None = None) -> None:
        declared = scope.find(name.text) or scope.find(_without_component(name.text))
        if declared is not None:
            self.names.of[name.position] = declared
        elif name.text not in special_register_names() and name.text != SINK and name.text not in CONSTANTS:
            text += f" ... {print_operand(operand)}" if operand is not None else ""
            self.errors.append(UNDECLARED.diagnose(at=self.location(name.position), name=name.text, text=text))

    def location(self, position: Position) -> Location:
        return Location(self.module.source, position.line, "")


def _without_component(name: str) -> str:
    """The vector register of which `%v.x` is one element."""
    head, dot, component = name.rpartition(".")
    return head if dot and component in tuple("xyzwrgba") else name


def names_in(operand: Operand) -> Iterator[Name]:
    """The names that an operand uses, from left to right."""
    if isinstance(operand, Name):
        yield operand
    elif isinstance(operand, Sum | Negated):
        yield operand.name
    elif isinstance(operand, Address):
        yield from names_in(operand.base)
        yield from names_in(operand.coordinates) if operand.coordinates is not None else ()
    elif isinstance(operand, Pair):
        yield from names_in(operand.first)
        yield from names_in(operand.second)
    elif isinstance(operand, Vector | Arguments):
        for element in operand.elements:
            yield from names_in(element)
