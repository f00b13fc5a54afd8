"""What an owner's own calls are: machine instructions of the catalogue, harmless ones, or unknown ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from llvmlite import binding, ir

from nvbackend.builder.attached.asm_text import Unreadable, read_asm
from nvbackend.builder.attached.debug_places import place_of
from nvbackend.builder.attached.matched import rows_for
from nvbackend.builder.core.core import Core
from nvbackend.builder.lower.lowering import shown
from nvbackend.builder.ops.inline.effects import READS, WRITES, effects_of_lanes_and_memory, is_of_protocol
from nvbackend.builder.ops.inline.intrinsic_rows import EARLIER, rows_by_intrinsic
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import Intrinsic, Role, Row, RowOperand
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.lint.lifted.matching import rows_of
from nvbackend.ptx.syntax import Instruction, Integer, Name, Operand

_GENERAL, _OF_NVPTX, _REGISTERS = "llvm.", "llvm.nvvm.", "llvm.nvvm.read.ptx.sreg."
_OF_ALL_THREADS = "llvm.nvvm.barrier0"
_SHOWN = 60
"""So much of a text of assembly is in a message."""
_PLAIN_SPACES = ("global", "const", "local", "param")
_JUMPS = frozenset({"bra"})
_ORDINARY = frozenset(
    (
        *("abs", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "cos", "cvt"),
        *("cvta", "div", "dp2a", "dp4a", "ex2", "fma", "fns", "isspacep", "lg2", "lop3", "mad", "mad24", "madc", "max"),
        *(
            "min",
            "mov",
            "mul",
            "mul24",
            "neg",
            "not",
            "or",
            "popc",
            "prmt",
            "rcp",
            "rem",
            "rsqrt",
            "sad",
            "selp",
            "set",
        ),
        *("set", "setp", "shf", "shl", "shr", "sin", "slct", "sqrt", "sub", "subc", "szext", "tanh", "testp", "xor"),
        *("nanosleep", "pmevent"),
        *("atom", "ld", "ldu", "prefetch", "prefetchu", "red", "st", "suld", "sust", "tex", "tld4"),
    )
)
"""Instructions of PTX that take part in no protocol: they compute, exchange between lanes, or access memory."""

_EXCHANGES = frozenset({"activemask", "elect", "match", "redux", "shfl", "vote"})
"""The same, of which the catalogue has every spelling: there is no shfl.sync.bfly.f32."""

Operands = Mapping[str, "ir.Value | int | list[ir.Value]"]


@dataclass(frozen=True)
class Foreign:
    """What a call of the owner's is: `instructions` of the machine, in order, and what is `unknown` of it, if anything.

    With `hides` it accesses memory that may be shared, at places that are not known, or has a result that is not
    followed. `unassembled` is a text with instructions that only ptxas reads.
    """

    instructions: tuple[MachineInstr, ...] = ()
    unknown: str = ""
    hides: bool = False
    unassembled: str = ""


HARMLESS = Foreign()


def foreign(core: Core, call: ir.CallInstr, is_harmless: Callable[[ir.Function], bool]) -> Foreign:
    """What `call` is; `is_harmless` says whether a function of the module only computes."""
    callee = call.callee
    if isinstance(callee, ir.InlineAsm):
        return _of_asm(core, call)
    if not isinstance(callee, ir.Function):
        return Foreign(unknown="a call by an address")
    name = str(callee.name)
    if name.startswith(_OF_NVPTX):
        return _of_intrinsic(core, call, name)
    if name.startswith(_GENERAL) or (callee.blocks and is_harmless(callee)):
        return HARMLESS
    return Foreign(unknown=f"a call of function {name}")


# -- intrinsics -------------------------------------------------------------------------------------------------------


def _of_intrinsic(core: Core, call: ir.CallInstr, name: str) -> Foreign:
    if name.startswith(_REGISTERS):
        return HARMLESS
    present = f"llvm.nvvm.barrier.cta.{EARLIER[name]}" if name in EARLIER else name
    for row in rows_by_intrinsic().get(present, ()):
        operands = _passed(row, call, is_first=name.startswith(_OF_ALL_THREADS))
        if operands is not None and not row.semantics.exits:
            return Foreign((_instruction(core, call, row, operands),))
    return HARMLESS if _only_computes(str(call.callee)) else Foreign(unknown=f"the intrinsic {name}")


def _passed(row: Row, call: ir.CallInstr, *, is_first: bool) -> Operands | None:
    """The operands of `row` in a call of its intrinsic; None where the call is another row's.

    A call of the names that barrier 0 had does not pass which barrier it `is_first`.
    """
    assert isinstance(row.lowering, Intrinsic)
    remaining = list(call.args)
    operands: dict[str, ir.Value | int | list[ir.Value]] = {}
    for wanted in row.lowering.arguments:
        if is_first and wanted == "id":
            operands["id"] = ir.Constant(ir.IntType(32), 0)
            continue
        if isinstance(wanted, tuple):
            if not remaining or _number(remaining.pop(0)) != wanted[1]:
                return None
            continue
        operand = row.operand(wanted)
        count = 1 if row.lowering.vectors else operand.count
        values, remaining = remaining[:count], remaining[count:]
        if len(values) != count or not _give(operands, operand, values):
            return None
    return None if remaining else operands


def _give(operands: dict[str, ir.Value | int | list[ir.Value]], operand: RowOperand, values: list[ir.Value]) -> bool:
    """Note what an operand is; False where it is a number that only the run shows."""
    if operand.role is Role.IMMEDIATE:
        number = _number(values[0])
        if number is None:
            return False
        operands[operand.name] = number
    elif len(values) == operand.count:
        operands[operand.name] = values if operand.count > 1 else values[0]
    return True


def _number(value: ir.Value) -> int | None:
    constant = value.constant if isinstance(value, ir.Constant) else None
    return int(constant) if isinstance(constant, int) else None


@lru_cache(maxsize=1024)
def _only_computes(declaration: str) -> bool:
    """Whether LLVM says of an intrinsic that nothing but its result comes of it, in each thread by itself."""
    try:
        functions = list(binding.parse_assembly(declaration).functions)
    except RuntimeError:
        return False
    said = " ".join(each.decode() for each in functions[0].attributes) if functions else ""
    return "memory(none)" in said and "convergent" not in said


# -- inline assembly --------------------------------------------------------------------------------------------------


def _of_asm(core: Core, call: ir.CallInstr) -> Foreign:
    text = " ".join(str(call.callee.asm).split())
    named = f"the inline assembly {text[:_SHOWN]!r}" if text else "an empty inline assembly"
    try:
        read = read_asm(call.callee, call.args)
    except Unreadable:
        return Foreign(unknown=named, unassembled=named)
    made: list[MachineInstr] = []
    hides, unassembled = not isinstance(call.type, ir.VoidType), ""
    for instruction in read.instructions:
        if read.jumps and instruction.parts[0] in _JUMPS:
            continue
        if instruction.guard is None:
            row = _row_of(core, call, instruction, read.operands, jumps=read.jumps)
            if row is not None and not row.semantics.exits:
                made.append(row)
                continue
        if read.jumps:
            return Foreign(unknown=f"{named}, which jumps")
        if is_of_protocol(instruction) or not _is_ordinary(instruction):
            return Foreign(unknown=f"{named}, in which {instruction.opcode} is not known", unassembled=named)
        unassembled = named
        hides = hides or _hides(instruction)
    if read.jumps and len(made) != 1:
        return Foreign(unknown=f"{named}, which jumps")
    return Foreign(tuple(made), hides=hides, unassembled=unassembled)


def _is_ordinary(instruction: Instruction) -> bool:
    head = instruction.parts[0]
    return head in _ORDINARY or (head in _EXCHANGES and bool(rows_of(instruction.opcode)))


def _hides(instruction: Instruction) -> bool:
    """Whether it may access shared memory."""
    return any(
        each.kind in (READS, WRITES) and not each.space.startswith(_PLAIN_SPACES)
        for each in effects_of_lanes_and_memory(instruction)
    )


def _row_of(
    core: Core, call: ir.CallInstr, instruction: Instruction, named: Mapping[str, ir.Value | None], *, jumps: bool
) -> MachineInstr | None:
    """The instruction as that of the first row that it fits; None where the catalogue does not have it."""
    for row, bound in rows_for(instruction, waits=jumps):
        operands: dict[str, ir.Value | int | list[ir.Value]] = {}
        fits = True
        for name, texts in bound.items():
            operand = row.operand(name)
            values = [_value(text, named) for text in texts]
            if operand.role is Role.IMMEDIATE:
                fits = fits and isinstance(values[0], int) and values[0] in operand.numbers
            if operand.role is Role.OUTPUT and not operand.tied:
                continue
            if all(value is not None for value in values):
                operands[name] = values[0] if operand.count == 1 else [_register(value) for value in values]
        if fits:
            return _instruction(core, call, row, operands)
    return None


def _register(value: ir.Value | int | None) -> ir.Value:
    return ir.Constant(ir.IntType(32), value) if isinstance(value, int) else value


def _value(text: Operand, named: Mapping[str, ir.Value | None]) -> ir.Value | int | None:
    """What an operand of the text is: a value, or a number; None for a register of the text's own."""
    if isinstance(text, Integer):
        return text.value
    return named.get(text.text) if isinstance(text, Name) else None


# -- the machine form -------------------------------------------------------------------------------------------------


def _instruction(core: Core, call: ir.CallInstr, row: Row, operands: Operands) -> MachineInstr:
    """`row` with what is known of its operands; which threads execute it is left open."""
    registers, seen = dict(_named_registers(row, operands)), core.tracking.tracked_anywhere(row, operands)
    return MachineInstr(
        opcode=row.opcode,
        row=row,
        operands={name: shown(values) for name, values in registers.items()},
        registers={name: len(values) for name, values in registers.items()},
        immediates={each.name: number for each in row.immediates if isinstance(number := operands.get(each.name), int)},
        location=place_of(call) or core.attached,
        **seen._asdict(),
    )


def _named_registers(row: Row, operands: Operands) -> Iterator[tuple[str, Sequence[ir.Value | int]]]:
    inputs = {name: value for name, value in operands.items() if row.operand(name).role is not Role.IMMEDIATE}
    known = [each for each in row.operands if each.name in inputs]
    for operand in known:
        value = inputs[operand.name]
        yield operand.name, value if isinstance(value, list) else (value,)
