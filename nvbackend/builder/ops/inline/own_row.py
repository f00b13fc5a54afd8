"""`k.instruction`: a row whose text is compared with what the row says of itself, once for each row."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NoReturn

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import Given, emit_row
from nvbackend.builder.ops.inline import effects as of_text
from nvbackend.builder.ops.inline.claims import unfounded
from nvbackend.builder.ops.inline.computed import contradiction
from nvbackend.builder.ops.inline.intrinsic_rows import unsaid
from nvbackend.builder.ops.inline.own_intrinsic import fault_of
from nvbackend.builder.ops.inline.reach import reaches
from nvbackend.builder.ops.inline.rules import ROW_SEMANTICS, ROW_TEXT
from nvbackend.builder.ops.inline.text import check_assembled, statements_of, whole_text
from nvbackend.builder.ops.inline.unset import read_unset, written
from nvbackend.builder.values.values import Value
from nvbackend.codegen.ptxas_messages import ERROR as PTXAS_ERROR
from nvbackend.diagnostics import DiagnosticError, caller_location, missing_name, printed
from nvbackend.intrinsics.catalogue import is_of_own_family, lacks_axes
from nvbackend.intrinsics.copy.async_store import stops_without_cluster
from nvbackend.intrinsics.row.row import Asm, Effect, Intrinsic, RegisterClass, Role, Row, RowOperand
from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.select.rows import check_names, general_faults
from nvbackend.isel.target.target import Target
from nvbackend.ptx.syntax import Instruction, Label, Statement, Variable, flattened

_PREFIX = "%nvb_"
_TYPES = {RegisterClass.PRED: "pred", RegisterClass.F32: "f32", RegisterClass.F64: "f64"}
_BITS = {"h": "b16", "r": "b32", "l": "b64"}
"""The types of other registers, by their constraint letters."""
_TRAPS = frozenset({"trap", "brkpt"})
_CONTROL = frozenset({"bra", "brx", "call", "ret", "exit"})
_MEMORY = {of_text.READS: Effect.READS_MEMORY, of_text.WRITES: Effect.WRITES_MEMORY}


def _said(row: Row) -> bool:
    return row.semantics.completion is not None or any(row.semantics.said())


_PROTOCOLS: Mapping[str, tuple[str, Callable[[Row], object]]] = {
    **dict.fromkeys(("bar", "barrier"), ("barrier=ThreadBarrier(...)", lambda row: row.semantics.barrier)),
    **dict.fromkeys(("fence", "membar"), ("fence=FenceSemantics(...)", lambda row: row.semantics.fence)),
    **dict.fromkeys(("wgmma", "tcgen05", "cp", "griddepcontrol", "clusterlaunchcontrol"), ("its part", _said)),
    "mbarrier": ("mbarrier=MbarrierUse...", lambda row: row.semantics.mbarrier),
    "setmaxnreg": ("budget=Budget...", lambda row: row.semantics.budget),
}
"""By opcode: what the semantics of a row with such an instruction say, and whether they do."""


class _Outputs(dict[str, list[Value]]):
    """The outputs of a row by name; a missing name is call.name."""

    def __init__(self, row: Row, outputs: Mapping[str, list[Value]]) -> None:
        super().__init__(outputs)
        self.row = row

    def __missing__(self, name: object) -> NoReturn:
        raise missing_name(self.row.ptx, "output", name, self)


def emit_judged(k: Core, row: Row, operands: Mapping[str, Given | Sequence[Given]]) -> dict[str, list[Value]]:
    """`k.instruction`."""
    check_names(row, operands)
    try:
        check_row(row)
        if row.semantics.computes is not None and not is_of_own_family(row):
            _check_computed(row, row.semantics.computes)
        if not is_of_own_family(row) and not general_faults(row, k.target, {}):
            if isinstance(row.lowering, Asm):
                _check_assembled(row, k.target)
            elif (fault := fault_of(row, k.target, operands)) is not None:
                advice = "compare the name, the arguments and the outputs with the intrinsic's declaration in LLVM"
                _fail(row, fault, advice)
            else:
                _check_intrinsic(row)
    except DiagnosticError as error:
        at = caller_location()
        raise DiagnosticError([replace(each, location=at) for each in error.diagnostics]) from None
    return _Outputs(row, emit_row(k, row, operands, _extents(row)))


@lru_cache(maxsize=1024)
def _extents(row: Row) -> Mapping[str, int]:
    """How much the text accesses where the semantics leave it out: a write is one also where no one says how long."""
    if is_of_own_family(row) or not isinstance(row.lowering, Asm):
        return {}
    statements = statements_of(_whole(row, Target.parse("sm_90a")), f"the row {row.ptx}")
    effects = (each for code in _instructions(row, statements) for each in of_text.effects_of_lanes_and_memory(code))
    return reaches(row, ((_operand_of(each), each) for each in effects))


@lru_cache(maxsize=1024)
def check_row(row: Row) -> None:
    """Raises row.text and row.semantics, and what the parser of PTX has against the text."""
    _check_named(row)
    _check_immediates(row)
    _check_operands(row)
    if not isinstance(row.lowering, Asm):
        return
    _check_placeholders(row, row.lowering.template)
    statements = statements_of(_whole(row, Target.parse("sm_90a")), f"the row {row.ptx}")
    _check_declared(row, statements)
    instructions = [*_instructions(row, statements)]
    _check_registers(row, instructions)
    _check_set(row, statements)
    for each in instructions:
        _check_protocol(row, each)
        for effect in of_text.effects_of_lanes_and_memory(each):
            _check_effect(row, effect)
    _check_founded(row, instructions)


@lru_cache(maxsize=1024)
def _check_assembled(row: Row, target: Target) -> None:
    """Raises what ptxas has against the text, with the fix of a row."""
    try:
        check_assembled(_whole(row, target), target)
    except DiagnosticError as error:
        taken = ", ".join(f"{{{each.name}}} is {_type(each)}" for each in row.operands)
        fix = f"correct the row {row.family}/{row.opcode}: compare its text with its operands, of which {taken}"
        raise DiagnosticError(
            [replace(each, fix=fix) if each.rule is PTXAS_ERROR else each for each in error.diagnostics]
        ) from None


def _check_operands(row: Row) -> None:
    """Raises row.text for operands that no text can have, and for a family whose rows are made from other choices."""
    if row.has_operand("ptx"):
        _fail(row, "an operand is called ptx, and {ptx} is the row's spelling", "give it another name")
    for each in row.operands:
        if type(each.count) is not int or each.count < 1:
            _fail(row, f"the operand {each.name} has {each.count!r} registers", "give it at least one")
    if lacks_axes(row):
        problem = f"it has no axes, and each row of nvbackend's family {row.family} has some"
        _fail(row, problem, "give it a family of your own, or take the row from nvbackend")


def _check_intrinsic(row: Row) -> None:
    """Raises row.semantics for what its intrinsic does and the row does not say."""
    assert isinstance(row.lowering, Intrinsic)
    fault = unsaid(row, row.lowering)
    if fault is not None:
        _refuse(row, *fault)


def _check_founded(row: Row, instructions: Sequence[Instruction]) -> None:
    """Raises row.semantics for what they say and no instruction does."""
    lacks = unfounded(row, instructions)
    if lacks is not None:
        name, what = lacks
        problem = f"its semantics say {name}={getattr(row.semantics, name)!r}, and its text lacks {what}"
        _refuse(row, problem, f"leave {name}= out, or write the text that it is true of")


@lru_cache(maxsize=1024)
def _check_computed(row: Row, claim: Callable[..., int]) -> None:
    """Raises row.semantics for a `claim` that the text does not keep; rows that differ in their claims are equal."""
    wrong = contradiction(row, claim)
    if wrong is not None:
        inputs, number, claimed = wrong
        shown = ", ".join(f"{name} = {value}" for name, value in inputs.items()) or "nothing"
        said = f"raises {claimed!r}" if isinstance(claimed, Exception) else f"is {printed(claimed)}"
        problem = f"of {shown} its text computes {number}, and computes= of its semantics {said}"
        advice = "correct computes=, which takes the inputs in order as numbers without a sign, or leave it out"
        _refuse(row, problem, advice)


def _check_named(row: Row) -> None:
    """Raises row.semantics for an operand that the row does not have."""
    extents = (use.extent for use in row.semantics.memory if isinstance(use.extent, str))
    names = (*(use.name for use in row.semantics.memory), *(part.name for part in row.semantics.fragments), *extents)
    for name in names:
        if not row.has_operand(name):
            known = ", ".join(each.name for each in row.operands) or "none"
            _refuse(row, f"its semantics name the operand {name}, and its operands are: {known}", "name one of them")


def _check_immediates(row: Row) -> None:
    """Raises row.text for a number that LLVM would cut."""
    bits = 64 if isinstance(row.lowering, Asm) else 32
    for each in row.immediates:
        values = each.numbers
        ends = (values[0], values[-1]) if isinstance(values, range) else values
        for number in ends:
            if not -(1 << bits - 1) <= number < 1 << bits:
                _fail(row, f"its number {each.name} can be {number}, past {bits} bits", f"give values of {bits} bits")


def _check_declared(row: Row, statements: Sequence[Statement]) -> None:
    """Raises row.text for a register outside of braces: the text may come twice in one function."""
    for each in statements:
        if isinstance(each, Variable):
            problem = f"it declares {each.name}, and so twice where the row is emitted twice"
            _fail(row, problem, "put the text into braces of its own, doubled: {{ .reg ... }}")


def _check_placeholders(row: Row, template: str) -> None:
    """Raises row.text for a brace that is open, a name that no operand has, an operand with a format."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError:
        _fail(row, "a brace is open, or closed without one", "double the braces of PTX: {{{a}, {b}}} is a vector")
    for _, name, form, conversion in parts:
        if form or conversion:
            _fail(row, f"{{{name}}} has a format", f"write {{{name}}}: an operand is a register or a whole number")
        if name is not None and name != "ptx" and not row.has_operand(name):
            known = ", ".join(each.name for each in row.operands) or "none"
            _fail(row, f"{{{name}}} is not an operand; these are: {known}", "add it to the row's operands")


def _instructions(row: Row, statements: Sequence[Statement]) -> Iterator[Instruction]:
    for statement in flattened(statements):
        if isinstance(statement, Instruction):
            yield statement
        elif isinstance(statement, Label) and not _waits(row):
            _refuse_control(row, f"the label {statement.name}")


def _waits(row: Row) -> bool:
    """Whether it waits for an mbarrier, which is a loop of its own."""
    return MbarrierUse.WAIT in (row.semantics.mbarrier or MbarrierUse(0))


def _refuse_control(row: Row, what: str) -> NoReturn:
    _fail(row, f"{what} is control flow, which the analyses would not see", "use k.if_, k.range, k.loop and k.return_")


def _check_protocol(row: Row, instruction: Instruction) -> None:
    """Raises row.semantics for a step of a protocol, row.text for control flow, unless the semantics say it."""
    opcode, *parts = instruction.parts
    if opcode in _CONTROL and not (_waits(row) if opcode == "bra" else row.semantics.exits):
        _refuse_control(row, instruction.opcode)
    wanted, holds = _PROTOCOLS.get(opcode, ("issues=Completion...", _said if "async" in parts else bool))
    computes = "pending_count" in parts or "query_cancel" in parts
    if not computes and not holds(row):
        advice = f"write semantics=Semantics(...) with {wanted}, or use nvbackend's own call"
        _refuse(row, f"{instruction.opcode} is part of a protocol, and its semantics do not say so", advice)
    if stops_without_cluster(instruction.parts) and not row.semantics.in_cluster:
        problem = f"{instruction.opcode} stops a kernel without a cluster, and its semantics do not say so"
        _refuse(row, problem, "write semantics=Semantics(..., in_cluster=True)")
    if (opcode == "bar" or "aligned" in parts) and Effect.CONVERGENT not in row.effects:
        _refuse_effect(row, instruction, "is of whole warps", Effect.CONVERGENT)
    if opcode in _TRAPS and Effect.ORDERS not in row.effects:
        _refuse_effect(row, instruction, "ends what the thread does", Effect.ORDERS)


def _check_effect(row: Row, effect: of_text.TextEffect) -> None:
    """Raises row.semantics for what the row does not say."""
    instruction = effect.instruction
    of_threads = instruction.parts[0] == "barrier"  # one of whole warps is refused before
    if effect.kind == of_text.CONVERGENT and not of_threads and Effect.CONVERGENT not in row.effects:
        _refuse_effect(row, instruction, "is of a whole warp", Effect.CONVERGENT)
    if effect.kind == of_text.VOLATILE and row.is_pure:
        _refuse_effect(row, instruction, "gives another number each time", Effect.READS_MEMORY)
    flag = _MEMORY.get(effect.kind)
    if flag is None or (instruction.parts[0] == "multimem" and not _of_multimem(instruction, effect.kind)):
        return
    if flag not in row.effects:
        _refuse_effect(row, instruction, f"{effect.kind} memory", flag)
    name = _operand_of(effect)
    is_generic = not effect.space and row.has_operand(name)
    if is_generic and row.operand(name).register is RegisterClass.B64:
        advice = f"make it operand({name!r}, RegisterClass.GENERIC), or RegisterClass.GLOBAL for global memory alone"
        _refuse(row, f"{instruction.opcode} takes {name} for an address, and its register B64 is a number", advice)
    if not effect.space.startswith("shared") and not (
        is_generic and row.operand(name).register is RegisterClass.GENERIC
    ):
        return
    end = None if effect.size is None else effect.offset + effect.size
    said = [use for use in row.semantics.memory if use.name == name]
    if not any(use.writes or effect.kind == of_text.READS for use in said):
        place = f"at {name}" if row.has_operand(name) else "at an address that no operand holds"
        advice = f"write semantics=Semantics(memory=({effect.kind}({name or 'address'!r}, {end or 4}),))"
        memory = "memory" if is_generic else "shared memory"
        _refuse(row, f"{instruction.opcode} {effect.kind} {memory} {place}, which its semantics leave out", advice)
    if not 0 <= effect.offset < 1 << 31:
        advice = f"pass the address of the lowest byte as {name}, and count from there"
        _refuse(row, f"{instruction.opcode} begins {effect.offset} bytes from {name}, which lies before it", advice)
    extents = [use.extent for use in said if isinstance(use.extent, int)]
    if end is not None and len(extents) == len(said) and end > max(extents):
        advice = f"write {effect.kind}({name!r}, {end})"
        _refuse(row, f"{instruction.opcode} goes {end} bytes from {name}, of which {max(extents)} are said", advice)


def _operand_of(effect: of_text.TextEffect) -> str:
    """The operand with the address; empty for a register of the text's own."""
    return effect.base.removeprefix(_PREFIX).rpartition("_")[0]


def _of_multimem(instruction: Instruction, kind: str) -> bool:
    return ("ld_reduce" in instruction.parts) is (kind == of_text.READS)


def _check_registers(row: Row, instructions: Sequence[Instruction]) -> None:
    """Raises row.text for an input that is written, and for an output that is not, or in some threads alone."""
    guards: dict[str, set[tuple[str, bool] | None]] = {}
    for each in instructions:
        for register in written(each):
            guard = (each.guard.register.text, each.guard.negated) if each.guard else None
            guards.setdefault(register, set()).add(guard)
    for operand in row.operands:
        for register in _registers(operand):
            writers = guards.get(register, set())
            if operand.role is Role.INPUT and writers:
                advice = "copy it into a register of the text's own first, or make it an output(..., tied=True)"
                _fail(row, f"it writes its input {operand.name}, which the kernel goes on using", advice)
            always = None in writers or len(writers) > 1
            if operand.role is Role.OUTPUT and not operand.tied and not always:
                problem = "under one predicate alone" if writers else "nowhere"
                advice = f"write {operand.name} in every thread, or make it an output(..., tied=True)"
                _fail(row, f"it writes the output {operand.name} {problem}", advice)


def _check_set(row: Row, statements: Sequence[Statement]) -> None:
    """Raises row.text for a register that the text reads before it writes it."""
    outputs = {
        register: each
        for each in row.operands
        if each.role is Role.OUTPUT and not each.tied
        for register in _registers(each)
    }
    unset_read = read_unset(statements, outputs)
    if unset_read is not None:
        name, instruction = unset_read
        output = outputs.get(name)
        what = name if output is None else f"its output {output.name}"
        advice = "write it first" if output is None else "write it first, or make it an output(..., tied=True)"
        _fail(row, f"{instruction.opcode} reads {what}, which nothing has written yet", advice)


def _registers(operand: RowOperand) -> list[str]:
    """The registers of an operand in the kernel that is read."""
    return [f"{_PREFIX}{operand.name}_{index}" for index in range(operand.count)]


def _type(operand: RowOperand) -> str:
    return (
        "a number"
        if operand.role is Role.IMMEDIATE
        else _TYPES.get(operand.register) or _BITS[operand.register.constraint]
    )


def _whole(row: Row, target: Target) -> str:
    """The text as a kernel: registers for the operands, the first legal number for immediates."""
    assert isinstance(row.lowering, Asm)
    registers = {each.name: each for each in row.operands if each.role is not Role.IMMEDIATE}
    names = {name: ", ".join(_registers(each)) for name, each in registers.items()}
    numbers = {each.name: str(each.numbers[0]) for each in row.immediates}
    text = row.lowering.template.format(ptx=row.ptx, **names, **numbers).replace("$$", "$")
    return whole_text(
        text,
        (f".reg .{_type(each)} {register};" for each in registers.values() for register in _registers(each)),
        target,
    )


def _refuse_effect(row: Row, instruction: Instruction, does: str, flag: Effect) -> NoReturn:
    advice = f"add Effect.{flag.name} to effects="
    _refuse(row, f"{instruction.opcode} {does}, and its effects do not say so", advice)


def _refuse(row: Row, problem: str, advice: str) -> NoReturn:
    """Raises row.semantics."""
    ROW_SEMANTICS.fail(family=row.family, opcode=row.opcode, problem=problem, advice=advice)


def _fail(row: Row, problem: str, advice: str) -> NoReturn:
    """Raises row.text."""
    ROW_TEXT.fail(family=row.family, opcode=row.opcode, problem=problem, advice=advice)
