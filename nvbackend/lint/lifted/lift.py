"""From the syntax tree of a PTX function to the machine form, with what each instruction reads and writes.

An instruction becomes the row that is spelled so, with its semantics; one without a row only computes. Registers keep
their names, which are made unique by their declarations.
"""

from __future__ import annotations

from dataclasses import field

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import NOTHING, Semantics
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target
from nvbackend.lint.lifted.matching import rows_of
from nvbackend.ptx.names import Names, names_in
from nvbackend.ptx.sources import Sources
from nvbackend.ptx.syntax import (
    Arguments,
    Block,
    BranchTargets,
    Function,
    Instruction,
    Integer,
    Label,
    Loc,
    Module,
    Name,
    Operand,
    Pair,
    Variable,
    Vector,
    flattened,
)

Register = tuple[int, int, str]
"""A register: where it is declared, line and column, and its name."""
PENDING = "pending"
_WORD = 32
"""Bits of a register of one word."""
_WITHOUT_RESULT = frozenset(
    (
        *("st", "stmatrix", "red", "bar", "barrier", "cp", "fence", "membar", "bra", "brx", "ret", "exit", "trap"),
        *("prefetch", "prefetchu", "discard", "applypriority", "wgmma", "nanosleep", "pmevent", "setmaxnreg"),
        *("griddepcontrol", "tensormap", "call", "sust", "sured", "brkpt", "clusterlaunchcontrol"),
    )
)
_ENDS = frozenset({"ret", "exit"})
_LEAVES = _ENDS | {"trap"}
_RETURNS = Semantics(exits=True)


@dataclass(frozen=True, slots=True)
class Line:
    """An instruction of the text: what it reads and writes, and its places in the PTX and in the source of that."""

    instruction: Instruction
    row: Row | None
    reads: tuple[Register, ...]
    writes: tuple[Register, ...]
    location: Location
    source: Location | None

    @property
    def is_move(self) -> bool:
        """Whether it only gives a value another name, or packs two words into one: no machine instruction reads them.

        Compilers put `cvt.u64.u32`, a shift by 32 and `or.b64` for the packing before the wait, as they do with moves.
        """
        parts, operands = self.instruction.parts, self.instruction.operands
        is_packing = parts in (("cvt", "u64", "u32"), ("or", "b64")) or (
            parts == ("shl", "b64") and isinstance(operands[-1], Integer) and operands[-1].value == _WORD
        )
        return bool(self.reads) and (parts[0] == "mov" or is_packing)


@dataclass
class Lifted:
    """A function in the machine form, and its `lines` by the positions of the instructions there."""

    function: MachineFunction
    syntax: Function
    names: Names
    lines: list[Line] = field(default_factory=list)

    def block_of(self, position: int) -> str:
        """The block that an instruction is in."""
        for block in self.function.blocks.values():
            if position < len(block.instructions):
                return block.name
            position -= len(block.instructions)
        raise IndexError(position)

    def register(self, name: Name) -> Register | None:
        """The register that `name` means; None for a special register, a variable or the sink."""
        declared = self.names.of.get(name.position)
        if not isinstance(declared, Variable) or declared.space != "reg":
            return None
        return (declared.position.line, declared.position.column, name.text)

    def registers(self, operand: Operand) -> tuple[Register, ...]:
        """The registers that an operand names, in order."""
        registers = (self.register(name) for name in names_in(operand))
        return tuple(register for register in registers if register is not None)


class _Lifter:
    """One walk over a function's body."""

    def __init__(self, module: Module, function: Function, names: Names, target: Target) -> None:
        self._module = module
        self._names = names
        self._sources = Sources(module.files)
        self.lifted = Lifted(MachineFunction(function.name, target), function, names)
        self._blocks = 0
        self._source: Location | None = None
        self._waiting: list[tuple[str, list[tuple[int, int]]]] = []
        """The branches of each block, by the places of their labels."""
        self._labels: dict[tuple[int, int], str] = {}
        self._order: list[str] = []
        self._falls: dict[str, bool] = {}
        self._block = self._begin()

    def run(self) -> Lifted:
        """The lifted function."""
        body = self.lifted.syntax.body
        assert body is not None
        self._walk(body)
        if self._falls[self._block]:
            self._leave(body)
        blocks = self.lifted.function.blocks
        for name, following in zip(self._order, [*self._order[1:], None], strict=True):
            targets = [self._labels[place] for block, places in self._waiting if block == name for place in places]
            if self._falls[name] and following is not None:
                targets.append(following)
            blocks[name].successors = list(dict.fromkeys(targets))
        return self.lifted

    def _begin(self) -> str:
        name = f"block.{self._blocks}"
        self._blocks += 1
        self.lifted.function.block(name)
        self._order.append(name)
        self._falls[name] = True
        return name

    def _walk(self, block: Block) -> None:
        for statement in flattened(block.statements):
            if isinstance(statement, Label):
                self._block = self._begin()
                self._labels[statement.position.line, statement.position.column] = self._block
            elif isinstance(statement, Loc):
                self._source = self._sources.at(statement)
            elif isinstance(statement, Instruction):
                self._instruction(statement)

    def _instruction(self, instruction: Instruction) -> None:
        head = instruction.parts[0]
        rows = rows_of(instruction.opcode)
        row = _fitting(rows, instruction)
        line = self._line(instruction, row)
        semantics = row.semantics if row is not None else NOTHING
        if head in _ENDS and self.lifted.syntax.is_entry:
            semantics = _RETURNS
        self._append(line, semantics)
        if head in ("bra", "brx"):
            self._waiting.append((self._block, self._targets(instruction)))
        if head in ("bra", "brx", *_LEAVES):
            self._falls[self._block] = instruction.guard is not None
            self._block = self._begin()

    def _append(self, line: Line, semantics: Semantics) -> None:
        pending = [operand.value for operand in line.instruction.operands if isinstance(operand, Integer)]
        immediates = {PENDING: pending[0]} if semantics.awaits is not None and pending else {}
        instr = MachineInstr(
            line.instruction.opcode, line.row, immediates=immediates, location=line.location, semantics=semantics
        )
        self.lifted.function.blocks[self._block].instructions.append(instr)
        self.lifted.lines.append(line)

    def _leave(self, body: Block) -> None:
        """A body that ends without `ret` returns at its brace."""
        if self.lifted.syntax.is_entry:
            last = self.lifted.lines[-1] if self.lifted.lines else None
            place = Location(self._module.source, body.position.line, "") if last is None else last.location
            self._append(Line(Instruction("ret"), None, (), (), place, self._source), _RETURNS)
            self._falls[self._block] = False

    def _targets(self, instruction: Instruction) -> list[tuple[int, int]]:
        places = []
        for name in (name for operand in instruction.operands for name in names_in(operand)):
            declared = self._names.of.get(name.position)
            labels = (
                [self._names.of.get(target.position) for target in declared.targets]
                if isinstance(declared, BranchTargets)
                else [declared]
            )
            places += [(label.position.line, label.position.column) for label in labels if isinstance(label, Label)]
        return places

    def _line(self, instruction: Instruction, row: Row | None) -> Line:
        operands = list(instruction.operands)
        results = operands[:1] if _has_result(instruction) else []
        reads = [register for operand in operands[len(results) :] for register in self.lifted.registers(operand)]
        if instruction.parts[0] == "call" and operands and isinstance(operands[0], Arguments) and len(operands) > 1:
            results, reads = (
                operands[:1],
                [register for operand in operands[1:] for register in self.lifted.registers(operand)],
            )
        if instruction.guard is not None:
            reads += self.lifted.registers(instruction.guard.register)
        writes = [register for operand in results for register in self.lifted.registers(operand)]
        location = Location(self._module.source, instruction.position.line, "")
        return Line(instruction, row, tuple(reads), tuple(writes), location, self._source)


def _has_result(instruction: Instruction) -> bool:
    if instruction.parts[0] in _WITHOUT_RESULT or not instruction.operands:
        return False
    rows = rows_of(instruction.opcode)
    if rows and not any(row.outputs for row in rows):
        return False
    return isinstance(instruction.operands[0], Name | Vector | Pair)


def _fitting(rows: tuple[Row, ...], instruction: Instruction) -> Row | None:
    """Of the rows with one spelling, which differ in operands: the mma with A in registers, or in shared memory."""
    if len(rows) < 2 or not rows[0].semantics.multiplies or len(instruction.operands) < 2:
        return rows[0] if rows else None
    in_registers = isinstance(instruction.operands[1], Vector)
    return next((row for row in rows if row.has_operand("a") is in_registers), rows[0])


def lift(module: Module, function: Function, names: Names, target: Target) -> Lifted:
    """`function` of `module` in the machine form for `target`; `names` are those of `ptx.resolve`."""
    return _Lifter(module, function, names, target).run()
