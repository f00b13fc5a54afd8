"""`k.ptx`: a statement of the user's own PTX as a row, so that everything judges it as one.

The text is read by `nvbackend.ptx`, and assembled by ptxas for the target where one is found: once for each text.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from llvmlite import ir

from nvbackend.builder.core.access import check_writable
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address, own
from nvbackend.builder.lower.conversions import is_packed, llvm_type
from nvbackend.builder.lower.live_builder import owner_of
from nvbackend.builder.ops.inline import effects as of_text
from nvbackend.builder.ops.inline.rules import EFFECTS, INSTRUCTION, OPERAND
from nvbackend.builder.ops.inline.text import check_assembled, statements_of, whole_text
from nvbackend.builder.ops.inline.unset import read_unset, written
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import CLUSTER_SPACE, GLOBAL_SPACE, Arithmetic, Value, as_value
from nvbackend.codegen.ptxas_messages import ERROR as PTXAS_ERROR
from nvbackend.diagnostics import DiagnosticError, caller_location, printed
from nvbackend.diagnostics.boundary import plain_number
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import Asm, Effect, RegisterClass, Row, RowOperand, operand, output
from nvbackend.intrinsics.row.semantics import MemoryOperand, Semantics, reads, writes
from nvbackend.intrinsics.row.types import ElementType, b1, f32, f64, pred, tf32, u16
from nvbackend.isel.target.target import Target
from nvbackend.ptx.rules import SYNTAX
from nvbackend.ptx.syntax import Instruction, Statement

WORDS = (of_text.READS, of_text.WRITES, of_text.CONVERGENT, of_text.VOLATILE)
_OF_MEMORY = (of_text.READS, of_text.WRITES)
_PREFIX = "%nvb_"
_SPACES: Mapping[int | None, tuple[str, ...]] = {
    GLOBAL_SPACE: ("global", ""),
    CLUSTER_SPACE: ("shared::cluster",),
    None: ("shared", "shared::cta", "shared::cluster"),
}
"""The state spaces of instructions that take an address; those of a CTA's own shared memory without a number."""
_OF_TYPE = {pred: RegisterClass.PRED, f32: RegisterClass.F32, tf32: RegisterClass.F32, f64: RegisterClass.F64}
_OF_BITS = {16: RegisterClass.B16, 32: RegisterClass.B32, 64: RegisterClass.B64}


@dataclass(frozen=True, slots=True)
class _Register:
    """An operand as a register: its class, and the type of PTX that its declaration has."""

    kind: RegisterClass
    type: str


@dataclass(frozen=True, slots=True)
class _Statement:
    """A text with its operands."""

    text: str
    outputs: Mapping[str, ElementType]
    inputs: Mapping[str, Value | Address]
    numbers: Mapping[str, int]

    def fail(self, problem: str, advice: str) -> NoReturn:
        """Raises ptx.operand."""
        OPERAND.fail(text=self.text, problem=problem, advice=advice)

    def registers(self) -> dict[str, _Register]:
        """Every register by name: inputs that are outputs too are one register."""
        registers = {name: self._of(name, kind) for name, kind in self.outputs.items()}
        for name, value in self.inputs.items():
            register = _of_address(value) if isinstance(value, Address) else self._of(name, value.type)
            if registers.setdefault(name, register) != register:
                self.fail(
                    f"{name} comes in as {_shown(value)} and goes out as {self.outputs[name]}", "give it one type"
                )
        return registers

    def _of(self, name: str, kind: ElementType) -> _Register:
        register = _OF_TYPE.get(kind)
        if register is None and not is_packed(kind) and kind is not b1:
            register = _OF_BITS.get(kind.bits)
        if register is None:
            self.fail(f"no register of PTX holds a single {kind}, which {name} is", "convert it, such as .to(nvb.u32)")
        bits = kind.bits == 16 or kind.is_pair
        return _Register(register, {tf32: "f32", pred: "pred"}.get(kind, f"b{kind.bits}" if bits else kind.name))

    def check_names(self) -> None:
        """Raises ptx.operand unless the text names every operand, and nothing else."""
        if not _is_text(self.text):
            self.fail("it has half of a character", "leave the surrogate out")
        try:
            parts = list(string.Formatter().parse(self.text))
        except ValueError:
            self.fail("a brace is open, or closed without one", "double the braces of PTX: {{{a}, {b}}} is a vector")
        for _, name, form, conversion in parts:
            if form or conversion:
                self.fail(f"{{{name}}} has a format", f"write {{{name}}}: an operand is a register or a whole number")
        named = {name for _, name, _, _ in parts if name is not None}
        known = {*self.outputs, *self.inputs, *self.numbers}
        for name in sorted(named - known):
            known_text = ", ".join(sorted(known)) or "none"
            advice = "add it to outputs= or inputs="
            if "," in name:
                inside = ", ".join(f"{{{each.strip()}}}" for each in name.split(","))
                advice = f"double the braces of PTX, around operands in braces of their own: {{{{{inside}}}}}"
            self.fail(f"{{{name}}} is not an operand; these are: {known_text}", advice)
        for name in sorted(known - named):
            self.fail(
                f"the text does not name the operand {name}", f"write {{{name}}} where it belongs, or leave it out"
            )


def _is_text(text: str) -> bool:
    """Whether a file can hold it: Python's strings may have half of a character."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _of_address(address: Address) -> _Register:
    kinds = {GLOBAL_SPACE: RegisterClass.GLOBAL, CLUSTER_SPACE: RegisterClass.SHARED_CLUSTER}
    kind = kinds.get(address.space, RegisterClass.SHARED)
    return _Register(kind, "u64" if kind is RegisterClass.GLOBAL else "u32")


def _shown(value: Value | Address) -> str:
    return "an address" if isinstance(value, Address) else str(value.type)


def emit_ptx(
    k: Core,
    text: str,
    outputs: Mapping[str, ElementType],
    inputs: Mapping[str, object],
    effects: Sequence[str],
    clobbers: Sequence[str],
) -> Value | tuple[Value, ...] | None:
    """`k.ptx`."""
    statement = _statement(k, text, outputs, inputs)
    statement.check_names()
    if text.strip() and not text.rstrip().endswith((";", "}}", ":")) and "/" not in text:  # else a comment may be last
        SYNTAX.fail(
            column=len(text.rstrip()) + 1, found="the end", expected="';'", text=f": {text.strip()}", printed=""
        )
    registers = statement.registers()
    declared = _effects_of(statement, effects, clobbers)
    performed = _assembled(statement, registers, k.target)
    row = _row(statement, registers, declared, performed, orders=bool(clobbers))
    operands = {name: _as_register(value) for name, value in statement.inputs.items()}
    results = k.emit(row, operands)
    values = tuple(_as_value(k, results[name][0], kind) for name, kind in outputs.items())
    return values if len(values) > 1 else values[0] if values else None


def _statement(k: Core, text: str, outputs: Mapping[str, ElementType], inputs: Mapping[str, object]) -> _Statement:
    values: dict[str, Value | Address] = {}
    numbers: dict[str, int] = {}
    for name, passed in inputs.items():
        value = plain_number(passed)
        if isinstance(value, Arithmetic):
            values[name] = as_value(k, value)
        elif isinstance(value, Address):
            values[name] = own(k, value)
        elif type(value) is int:
            numbers[name] = value
        else:
            problem = f"{name} is {printed(value)}"
            OPERAND.fail(
                text=text, problem=problem, advice="pass a value, an address or an integer; k.const for a float"
            )
    statement = _Statement(text, outputs, values, numbers)
    for name, kind in outputs.items():
        if not isinstance(kind, ElementType):
            statement.fail(
                f"the output {name} is {printed(kind)}", "give the type of each output: outputs={'d': nvb.f32}"
            )
        if name in numbers:
            statement.fail(
                f"{name} is an output, and comes in as the number {numbers[name]}", "use k.const(number, type)"
            )
    for name in (*outputs, *inputs):
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            statement.fail(f"{name!r} is not a name of an operand", "use letters, digits and _")
    return statement


def _effects_of(statement: _Statement, effects: Sequence[str], clobbers: Sequence[str]) -> dict[str, set[str]]:
    """The effects that the user gives, by kind the operands. Raises ptx.operand for unknown words."""
    words: dict[str, set[str]] = {}
    for word in (effects,) if isinstance(effects, str) else effects:
        kind, _, name = str(word).partition(" ")
        memory = kind in (of_text.READS, of_text.WRITES)
        if kind not in WORDS or (name and (not memory or name not in statement.inputs)):
            advice = 'use "reads x" and "writes x" of an operand x, "reads", "writes", "convergent" and "volatile"'
            statement.fail(f"effects has {word!r}", advice)
        words.setdefault(kind, set()).add(name)
    for word in (clobbers,) if isinstance(clobbers, str) else clobbers:
        if word != "memory":
            statement.fail(
                f"clobbers has {word!r}", 'PTX has no registers of the hardware: clobbers=("memory",) or none'
            )
    return words


def _assembled(statement: _Statement, registers: Mapping[str, _Register], target: Target) -> list[of_text.TextEffect]:
    """What the text does. Raises ptx.*, and what ptxas has against it, at the user's line."""
    text = statement.text.format(**_names(statement, registers))
    whole = whole_text(text, _declared(registers), target)
    try:
        statements = statements_of(whole, "k.ptx")
        instructions = [*of_text.instructions(statements)]
        performed = [effect for each in instructions for effect in of_text.effects_of(each)]
        check_assembled(whole, target)
        _check_written(statement, instructions)
        _check_set(statement, statements)
    except DiagnosticError as error:
        at = caller_location()
        taken = ", ".join(f"{{{name}}} is {register.type}" for name, register in registers.items())
        advice = f"compare the instruction with the types of its operands: {taken}" if taken else "correct the text"
        refused = (replace(each, location=at) for each in error.diagnostics)
        raise DiagnosticError(
            [replace(each, fix=advice) if each.rule is PTXAS_ERROR else each for each in refused]
        ) from None
    return performed


def _names(statement: _Statement, registers: Mapping[str, _Register]) -> dict[str, str]:
    """The text of each operand: a register of the statement's own, or the number."""
    return {name: _PREFIX + name for name in registers} | {name: str(n) for name, n in statement.numbers.items()}


def _declared(registers: Mapping[str, _Register]) -> Iterator[str]:
    return (f".reg .{register.type} {_PREFIX}{name};" for name, register in registers.items())


def _check_written(statement: _Statement, instructions: Sequence[Instruction]) -> None:
    """Raises ptx.operand for an output that has no number, or has one in some threads alone."""
    for name in statement.outputs:
        guards = {
            (each.guard.register.text, each.guard.negated) if each.guard else None
            for each in instructions
            if _PREFIX + name in written(each)
        }
        if name in statement.inputs or None in guards or len(guards) > 1:
            continue
        problem = f"it writes the output {name} under one predicate alone" if guards else f"it does not write {name}"
        advice = f"write {name} in every thread, or pass its value as an input of that name too"
        statement.fail(problem, advice)


def _check_set(statement: _Statement, statements: Sequence[Statement]) -> None:
    """Raises ptx.operand for a register that the text reads before it writes it."""
    unset_read = read_unset(statements, (_PREFIX + name for name in statement.outputs if name not in statement.inputs))
    if unset_read is not None:
        register, instruction = unset_read
        name = register.removeprefix(_PREFIX)
        what, advice = name, "write it first"
        if name != register:
            what, advice = f"the output {name}", f"write {name} first, or pass its value as an input of that name too"
        statement.fail(f"{instruction.opcode} reads {what}, which nothing has written yet", advice)


def _row(
    statement: _Statement,
    registers: Mapping[str, _Register],
    declared: Mapping[str, set[str]],
    performed: Sequence[of_text.TextEffect],
    *,
    orders: bool,
) -> Row:
    flags = Effect.ORDERS if orders else Effect.NONE
    for kind in declared:
        flags |= of_text.FLAGS[kind]
    words = statement.text.replace("{{", " ").split()
    opcode = next((word for word in words if not word.startswith((".", "%", "$"))), "nothing")
    return Row(
        family="ptx",
        opcode=opcode,
        ptx=opcode,
        operands=tuple(_operands(statement, registers)),
        lowering=Asm(_template(statement, registers)),
        effects=flags,
        semantics=Semantics(
            memory=tuple(dict.fromkeys(_memory(statement, declared, performed))),
            atomic=any(each.atomic for each in performed),
        ),
        section="the user's own",
        summary="A statement of the kernel's author.",
    )


def _memory(
    statement: _Statement, declared: Mapping[str, set[str]], performed: Sequence[of_text.TextEffect]
) -> Iterator[MemoryOperand]:
    """Where the text reads and writes. Raises ptx.effects for what the user does not say."""
    for effect in performed:
        name = effect.base.removeprefix(_PREFIX)
        address = statement.inputs.get(name) if effect.base.startswith(_PREFIX) else None
        of_shared = effect.space.startswith("shared")
        if of_shared and not isinstance(address, Address):
            advice = "pass the nvb.Address as an operand and write it in the brackets: [{p}]"
            reason = "its address is not an operand"
            INSTRUCTION.fail(instruction=effect.instruction.opcode, reason=reason, advice=advice)
        enough = {name} if of_shared else {name, ""}
        if not enough & declared.get(effect.kind, set()):
            wanted = tuple(dict.fromkeys(_words(statement, performed)))
            told = tuple(f"{kind} {each}".strip() for kind, names in declared.items() for each in sorted(names))
            does = f"{effect.kind} memory" if effect.kind in _OF_MEMORY else f"is {effect.kind}"
            EFFECTS.fail(instruction=effect.instruction.opcode, does=does, given=told, wanted=wanted)
        if isinstance(address, Address):
            _check_space(statement, name, address, effect)
        if isinstance(address, Address) and effect.kind in _OF_MEMORY:
            yield (reads if effect.kind == of_text.READS else writes)(name, effect.size)


def _check_space(statement: _Statement, name: str, address: Address, effect: of_text.TextEffect) -> None:
    """Raises ptx.operand for an address of another memory, memory.constant for a write to what is declared const."""
    legal = _SPACES.get(address.space, _SPACES[None])
    if effect.space not in legal:
        where = effect.space or "a generic address"
        problem = f"{effect.instruction.opcode} takes {where}, and {name} is an address of {legal[0]} memory"
        statement.fail(problem, f"write .{legal[0]}, or pass k.generic_address({name})")
    if effect.kind == of_text.WRITES:
        check_writable(address, f"{effect.instruction.opcode} of k.ptx writes to")


def _words(statement: _Statement, performed: Sequence[of_text.TextEffect]) -> Iterator[str]:
    """The effects as a user writes them."""
    for effect in performed:
        name = effect.base.removeprefix(_PREFIX)
        yield f"{effect.kind} {name}" if isinstance(statement.inputs.get(name), Address) else effect.kind


def _operands(statement: _Statement, registers: Mapping[str, _Register]) -> Iterator[RowOperand]:
    for name in statement.outputs:
        yield output(name, registers[name].kind, tied=name in statement.inputs)
    for name in statement.inputs:
        if name not in statement.outputs:
            yield operand(name, registers[name].kind)


def _template(statement: _Statement, registers: Mapping[str, _Register]) -> str:
    """The text of inline asm, with LLVM's own sign doubled.

    In a scope of its own, on registers of its own: LLVM may give an output and an input one register, goes on reading
    an input afterwards, and may copy the statement.
    """
    text = statement.text.format(**_names(statement, registers))
    lines = [
        *_declared(registers),
        *(f"mov.{registers[name].type} {_PREFIX}{name}, {{{name}}};" for name in statement.inputs if name in registers),
        text.replace("{", "{{").replace("}", "}}").replace("$", "$$"),
        *(f"mov.{registers[name].type} {{{name}}}, {_PREFIX}{name};" for name in statement.outputs),
    ]
    return "\n".join(("{{", *lines, "}}"))


def _as_register(value: Value | Address) -> ir.Value:
    if isinstance(value, Address):
        return value.bytes.ir
    return value.bitcast(u16).ir if value.type.bits == 16 else value.ir


def _as_value(k: Core, register: ir.Value, kind: ElementType) -> Value:
    if kind.bits == 16:
        return k.wrap(register, u16).bitcast(kind)
    return k.wrap(register, kind)


def from_llvm(k: Core, value: ir.Value, element: ElementType) -> Value:
    """`k.value`."""
    owner = owner_of(value)
    if owner is not None and owner is not k.function:
        rules.FOREIGN_VALUE.fail(owner=owner.name, user=k.name)
    if value.type != llvm_type(element):
        rules.LLVM_TYPE.fail(given=value.type, element=element, wanted=llvm_type(element))
    return Value(k, value, element, k.regions[0])
