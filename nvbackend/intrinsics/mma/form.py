"""What an mma.sync instruction is chosen by, and the form of the tables that hold the legal choices. PTX ISA 9.7.14."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.fragments.mma import Shape
from nvbackend.intrinsics.row.features import Feature, PtxVersion
from nvbackend.intrinsics.row.types import ElementType

SP = "sp"
"""A sparse A whose metadata has its indices in any order."""
ORDERED = "sp::ordered_metadata"
"""A sparse A whose metadata has the indices of each chunk in increasing order."""
ROW_COL = ("row", "col")
"""A row-major and B column-major: the layouts of every shape but one."""


@dataclass(frozen=True, slots=True)
class MmaInstruction:
    """One mma as its spelling tells it: D (m x n) = A (m x k) * B (k x n) + C.

    `shape` is (m, n, k); `sparsity` None, "sp" or "sp::ordered_metadata"; `kind` and `operation` ("xor" or "and", for
    b1) are without PTX's prefix and suffix; `scale` is the type of the scale factors and `scale_vec` their
    number for each row of A (1, 2, 4; None where the spelling leaves it out). Nothing is checked here.
    """

    shape: Shape
    d: ElementType
    a: ElementType
    b: ElementType
    c: ElementType
    a_layout: str = "row"
    b_layout: str = "col"
    sparsity: str | None = None
    kind: str | None = None
    scale: ElementType | None = None
    scale_vec: int | None = None
    satfinite: bool = False
    operation: str | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """A set of instructions that share a gate: every combination of the axes below is legal.

    A and B are each any of `types`; `accumulators` are (D, C), `layouts` those of (A, B), `scales` (scale_vec, type).
    `element_bits` is what an element takes in a register where that is not the type's own width; `by_asm` says that
    LLVM does not select its intrinsic for every target of the gate.
    """

    types: tuple[ElementType, ...]
    accumulators: tuple[tuple[ElementType, ElementType], ...]
    shapes: tuple[Shape, ...]
    requires: Feature
    ptx_version: PtxVersion
    layouts: tuple[tuple[str, str], ...] = (ROW_COL,)
    sparsity: str | None = None
    kind: str | None = None
    scales: tuple[tuple[int | None, ElementType | None], ...] = ((None, None),)
    saturates: bool = False
    operation: str | None = None
    element_bits: int | None = None
    by_asm: bool = False

    @property
    def bits(self) -> int:
        """What an element of A or B takes in a register."""
        return self.element_bits or self.types[0].bits

    @property
    def pairs(self) -> tuple[tuple[ElementType, ElementType], ...]:
        """Every (A, B)."""
        return tuple((a, b) for a in self.types for b in self.types)

    @property
    def saturations(self) -> tuple[bool, ...]:
        """The legal values of `satfinite`."""
        return (False, True) if self.saturates else (False,)


Axis = Callable[[Form, MmaInstruction], bool]
"""A part of the choice: whether a form has the instruction's."""
AXES: Mapping[str, Axis] = MappingProxyType(
    {
        "types": lambda form, instruction: instruction.a in form.types and instruction.b in form.types,
        "kind": lambda form, instruction: instruction.kind == form.kind,
        "sparsity": lambda form, instruction: instruction.sparsity == form.sparsity,
        "operation": lambda form, instruction: instruction.operation == form.operation,
        "shape": lambda form, instruction: instruction.shape in form.shapes,
        "accumulators": lambda form, instruction: (instruction.d, instruction.c) in form.accumulators,
        "layouts": lambda form, instruction: (instruction.a_layout, instruction.b_layout) in form.layouts,
        "scaling": lambda form, instruction: (instruction.scale_vec, instruction.scale) in form.scales,
        "satfinite": lambda form, instruction: form.saturates or not instruction.satfinite,
    }
)
"""In the order in which a choice narrows the forms."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """How the forms narrow to those of one instruction, axis by axis.

    `before` are the forms that an axis chose from; `misses` the axes whose value none of them has, which are passed
    over; `forms` those that remain: exactly one when every axis is given.
    """

    forms: tuple[Form, ...]
    misses: tuple[str, ...] = ()
    before: Mapping[str, tuple[Form, ...]] = field(default_factory=dict)


def narrow(forms: Sequence[Form], instruction: MmaInstruction) -> Narrowing:
    """Which of `forms` have `instruction`, and the axes that fit none."""
    left = tuple(forms)
    misses, before = [], {}
    for axis, fits in AXES.items():
        before[axis] = left
        kept = tuple(form for form in left if fits(form, instruction))
        if kept:
            left = kept
        else:
            misses.append(axis)
    return Narrowing(left, tuple(misses), MappingProxyType(before))
