"""The row: one machine instruction variant, from which constraint strings, LLVM types, docs and tests derive."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, fields
from functools import cache, cached_property
from string import Formatter
from types import MappingProxyType
from typing import TypeVar

from nvbackend.diagnostics import DiagnosticError, Rule, missing_name, record
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.diagnostic import is_of, printed
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.features import PtxVersion as PtxVersion  # noqa: PLC0414
from nvbackend.intrinsics.row.semantics import NOTHING, Semantics
from nvbackend.intrinsics.row.types import ElementType, f32, f64, pred, u16, u32, u64

Choice = TypeVar("Choice")


NO_ROW = Rule(
    id="row.axis",
    message="{problem}",
    fix="use what nvbackend catalogue lists",
    why="The instruction does not exist, or ptxas and the PTX ISA disagree about it.",
    reference="PTX ISA, the instruction's syntax",
)


class NoSuchRow(DiagnosticError, LookupError):
    """A row was asked for that no loop over the axes makes (row.axis).

    A call that takes a request from users checks the request's own rules first: they say more. `problem` says what was
    asked for.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__([NO_ROW.diagnose(problem=problem)])

    def __reduce__(self) -> tuple[type[NoSuchRow], tuple[str]]:
        return type(self), (self.problem,)


def chosen(axis: str, value: Choice, legal: Collection[Choice]) -> Choice:
    """`value` if it is one of `legal`, else NoSuchRow naming the axis and what it takes."""
    is_flag = isinstance(value, bool) and not any(value is allowed for allowed in legal)  # True equals 1
    if value not in legal or is_flag:
        raise NoSuchRow(f"{axis} cannot be {printed(value)}, only {', '.join(map(repr, legal))}")
    return value


def spelled(*parts: str | None) -> str:
    """Qualifiers joined by dots; an axis that is left out gives None and no qualifier."""
    return ".".join(part for part in parts if part is not None)


LEGAL = Rule(
    id="row.operand",
    message="operand {name!r} as {role}, with the legal values {values!r}",
    fix="give an immediate its legal values, a tuple of integers or a range, and no other operand any",
    why="What the call may pass would not be what the row says.",
    reference="PTX ISA, the instruction's syntax",
)
Legal = tuple[int, ...] | range
"""The values that an immediate can have: what its field of the instruction holds and the PTX ISA gives a meaning."""


class RegisterClass(enum.Enum):
    """A class of PTX register or address: its inline-asm constraint letter and its LLVM type.

    Shared addresses are 32-bit in asm operands (`r`) and pointers of their address space in intrinsics. `element` is
    the type of a value in such a register, integers being unsigned. `intrinsic` is the type that intrinsics have for a
    register where it is another one: a pair of f16 is an i32 to everybody else.
    """

    PRED = ("b", "i1", pred, None)
    B16 = ("h", "i16", u16, None)
    B32 = ("r", "i32", u32, None)
    B64 = ("l", "i64", u64, None)
    F16X2 = ("r", "i32", u32, None, "<2 x half>")
    F32 = ("f", "float", f32, None)
    F64 = ("d", "double", f64, None)
    SHARED = ("r", "i32", u32, 3)
    SHARED_CLUSTER = ("r", "i32", u32, 7)
    GLOBAL = ("l", "i64", u64, 1)
    GENERIC = ("l", "i64", u64, 0)
    TMEM = ("r", "i32", u32, 6)

    def __init__(
        self, constraint: str, llvm: str, element: ElementType, addrspace: int | None, intrinsic: str | None = None
    ) -> None:
        self.constraint = constraint
        self.llvm = llvm
        self.element = element
        self.addrspace = addrspace
        self.intrinsic = intrinsic or llvm

    __hash__ = object.__hash__  # quick: Enum's own is of the name, and written in Python


class Role(enum.Enum):
    """What an operand is to the instruction."""

    OUTPUT = "output"
    INPUT = "input"
    IMMEDIATE = "immediate"


class Effect(enum.Flag):
    """What an instruction does in addition to its results; LLVM attributes and protocol analyses follow from it."""

    NONE = 0
    CONVERGENT = enum.auto()  # every thread of the warp or warpgroup executes it together
    READS_MEMORY = enum.auto()
    WRITES_MEMORY = enum.auto()
    ORDERS = enum.auto()  # a fence, barrier or wait: other accesses may not move across


@dataclass(frozen=True, slots=True)
class RowOperand:
    """An operand: `count` registers of one class (or one immediate), in the order of the constraint string.

    `tied` on an output means that it is read as well: its registers come back as tied inputs at the end of the
    constraint string. `values` are the legal immediates; every immediate has them, and no register. `legal` are the
    numbers that ptxas takes for a register operand that the PTX writes as a number; None where it takes any. `element`
    is the type of the values that a call takes and gives, where not the register's own. `rule` is the id of the rule
    on its number, or on where its address lies; `align` the bytes that an address is a multiple of.
    """

    name: str
    register: RegisterClass
    role: Role = Role.INPUT
    count: int = 1
    tied: bool = False
    values: Legal | None = None
    meaning: str = ""
    legal: Legal | None = None
    element: ElementType | None = None
    rule: str = ""
    align: int = 1

    def __post_init__(self) -> None:
        has_values = is_of(self.values, (tuple, range)) and bool(self.values)
        if (self.role is Role.IMMEDIATE) != has_values or (self.values is not None and not has_values):
            LEGAL.fail(
                name=self.name,
                role=self.role.name.lower() if is_of(self.role, Role) else printed(self.role),
                values=self.values,
            )

    @property
    def numbers(self) -> Legal:
        """The numbers that an immediate can be, at least one; empty for an operand in registers."""
        return self.values or ()

    @property
    def type(self) -> ElementType:
        """The type of a value in one of its registers."""
        return self.element or self.register.element


def output(
    name: str,
    register: RegisterClass,
    count: int = 1,
    *,
    tied: bool = False,
    meaning: str = "",
    element: ElementType | None = None,
) -> RowOperand:
    """Registers that the instruction writes; with `tied`, also reads."""
    return RowOperand(name, register, Role.OUTPUT, count, tied, None, meaning, element=element)


def operand(
    name: str,
    register: RegisterClass,
    count: int = 1,
    *,
    meaning: str = "",
    legal: Legal | None = None,
    element: ElementType | None = None,
    rule: str = "",
    align: int = 1,
) -> RowOperand:
    """Registers that the instruction reads."""
    return RowOperand(name, register, Role.INPUT, count, False, None, meaning, legal, element, rule, align)


def immediate(name: str, values: Legal, *, meaning: str = "") -> RowOperand:
    """A compile-time integer, one of `values`."""
    return RowOperand(name, RegisterClass.B32, Role.IMMEDIATE, 1, False, values, meaning)


@dataclass(frozen=True, slots=True)
class Asm:
    """Lower by inline asm. `{name}` in the template becomes that operand's registers, separated by commas.

    `{name[2]}` is the third of them alone. Braces of PTX itself are doubled. `{ptx}` becomes the row's spelling.
    """

    template: str


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """Lower by an LLVM intrinsic. `arguments` are operand names or constants `(llvm type, value)` in call order.

    With `vectors`, an operand of several registers is one LLVM vector: each of the arguments, and the result.
    """

    name: str
    arguments: tuple[str | tuple[str, int], ...] = ()
    vectors: bool = False


class _References(tuple[str, ...]):
    """The registers of an operand in the text of asm, all of them or one."""

    __slots__ = ()

    def __format__(self, _: str, /) -> str:
        return ", ".join(self)


_NARROWS = r"cvt\.[\w.]*\.(?:e4m3x2|e5m2x2|e2m3x2|e3m2x2|ue8m0x2)\.(?:f32|f16x2|bf16x2)"
_WITH_ZERO = r"(?:min|max)\.(?:relu\.s16x2|s16x2\.relu)"
_MERGED = re.compile(rf"\b(?:{_NARROWS}|{_WITH_ZERO})\b")


@record
@dataclass(frozen=True)
class Row:
    """One machine instruction variant.

    `ptx` is the full spelling with all qualifiers; `opcode` the part that names the operation; `axes` the typed choice
    that leads here (shape, element types, ...), by which the selector finds it; `semantics` what it is to the analyses;
    `section` the PTX ISA section.
    """

    family: str
    opcode: str
    ptx: str
    operands: tuple[RowOperand, ...]
    lowering: Asm | Intrinsic
    requires: Feature = Feature.NONE
    ptx_version: PtxVersion = (6, 0)
    effects: Effect = Effect.NONE
    semantics: Semantics = NOTHING
    section: str = ""
    summary: str = ""
    axes: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", MappingProxyType(dict(self.axes)))
        names = [operand.name for operand in self.operands]
        if len(set(names)) != len(names):
            raise NoSuchRow(f"{self.ptx} names an operand twice: {', '.join(map(str, names))}")

    def __reduce__(self) -> tuple[object, ...]:
        """Its axes are a view that no copy can be made of."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return Row, tuple((values | {"axes": dict(self.axes)}).values())

    def __hash__(self) -> int:
        return hash(self.ptx)  # quick, since much is looked up by rows

    def __repr__(self) -> str:
        return f"<row {self.ptx}>"

    @property
    def is_pure(self) -> bool:
        """Whether it has no effect but its results, so that LLVM may drop it."""
        return self.effects is Effect.NONE and self.semantics.completion is None

    def is_available(self, features: Feature, ptx_version: PtxVersion) -> bool:
        """Whether a chip with these features has it, in this PTX version."""
        return not self.requires & ~features and ptx_version >= self.ptx_version

    def operand(self, name: str) -> RowOperand:
        """The operand called `name` (call.name where the row has none)."""
        operand = self._by_name.get(name)
        if operand is None:
            raise missing_name(self.ptx, "operand", name, self._by_name)
        return operand

    def has_operand(self, name: str) -> bool:
        """Whether one of the operands is called `name`."""
        return name in self._by_name

    @cached_property
    def _by_name(self) -> dict[str, RowOperand]:
        return {operand.name: operand for operand in self.operands}

    def _with_role(self, role: Role) -> tuple[RowOperand, ...]:
        return tuple(operand for operand in self.operands if operand.role is role)

    @cached_property
    def outputs(self) -> tuple[RowOperand, ...]:
        """The operands written, in the order of the constraint string."""
        return self._with_role(Role.OUTPUT)

    @cached_property
    def inputs(self) -> tuple[RowOperand, ...]:
        """The operands only read, in the order of the constraint string."""
        return self._with_role(Role.INPUT)

    @cached_property
    def immediates(self) -> tuple[RowOperand, ...]:
        """The compile-time operands, in the order of the constraint string."""
        return self._with_role(Role.IMMEDIATE)

    @cached_property
    def constraints(self) -> str:
        """The inline-asm constraint string: outputs, inputs, immediates, then the ties, then a memory clobber."""
        parts = list(self._constraint_parts())
        if self.effects & (Effect.READS_MEMORY | Effect.WRITES_MEMORY | Effect.ORDERS):
            parts.append("~{memory}")
        return ",".join(parts)

    @cached_property
    def reads_late(self) -> bool:
        """Whether its text reads an input after it has written an output, so that the two have different registers."""
        if not isinstance(self.lowering, Asm):
            return False
        outputs = {operand.name for operand in self.outputs}
        inputs = {operand.name for operand in self.inputs}
        written = False
        for statement in self.lowering.template.split(";"):
            names = {name.partition("[")[0] for _, name, _, _ in Formatter().parse(statement) if name}
            if written and names & inputs:
                return True
            written = written or bool(names & outputs)
        return False

    @cached_property
    def merges_with_neighbours(self) -> bool:
        """Whether ptxas may merge a result of it, or of the text that is its own, with what is packed beside it."""
        own_text = self.lowering.template if isinstance(self.lowering, Asm) else ""
        return any(_MERGED.search(text) for text in (self.ptx, own_text))

    def _constraint_parts(self) -> Iterator[str]:
        writes = "=&" if self.reads_late else "="
        for operand in self.outputs:
            yield from (writes + operand.register.constraint,) * operand.count
        for operand in self.inputs:
            yield from (operand.register.constraint,) * operand.count
        for _ in self.immediates:
            yield "n"
        position = 0
        for operand in self.outputs:
            if operand.tied:
                yield from (str(position + index) for index in range(operand.count))
            position += operand.count

    @cached_property
    def asm(self) -> str:
        """The text of inline asm, with `$N` operand references in the order of `constraints`.

        It is what LLVM's string holds: a backslash would begin an escape there, and a quote would end the string.
        """
        if not isinstance(self.lowering, Asm):
            raise TypeError(f"{self.ptx} lowers through {self.lowering.name}, not through asm")
        references: dict[str, str | _References] = {"ptx": self.ptx}
        position = 0
        for operand in (*self.outputs, *self.inputs, *self.immediates):
            references[operand.name] = _References(f"${position + index}" for index in range(operand.count))
            position += operand.count
        return self.lowering.template.format(**references).replace("\\", r"\5C").replace('"', r"\22")


GUARD = "guard"


@cache
def guarded(row: Row) -> Row:
    """`row` with one more input, the predicate `guard`. Only for rows without outputs that lower through asm."""
    if not isinstance(row.lowering, Asm) or row.outputs:
        raise ValueError(f"{row.ptx} has outputs, or lowers through an intrinsic: it cannot be guarded")
    predicate = operand(GUARD, RegisterClass.PRED, meaning="the threads that execute it")
    return dataclasses.replace(
        row,
        operands=(*row.operands, predicate),
        lowering=Asm(f"@{{{GUARD}}} {row.lowering.template}"),
    )
