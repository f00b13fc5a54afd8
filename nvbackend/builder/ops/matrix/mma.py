"""mma.sync and the matrix moves of a warp, with the rules on their operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from llvmlite import ir

from nvbackend.builder.core.instructions import issue, result
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.ops.matrix.packed_registers import packed_register
from nvbackend.builder.values.values import Arithmetic, Operand, Value, as_value
from nvbackend.diagnostics import Diagnostic, Rule, raise_all, user_facing
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.row.row import RegisterClass, Role, Row
from nvbackend.intrinsics.row.types import ElementType, f32, f64, s32, tf32, u32
from nvbackend.isel.select.mma.request import MmaRequest
from nvbackend.isel.select.mma.select import IMMEDIATES, select_mma
from nvbackend.isel.target.target import variant

REGISTERS = Rule(
    id="mma.registers",
    message="{operand} of {instruction} is {needed} registers of {element} a thread, not {given}",
    fix="give the thread's whole fragment: {needed} values of {element}, packed from the lowest bits up",
    why="The instruction would read unrelated registers, and the product would be wrong.",
    reference="PTX ISA 9.7.14.5 (matrix fragments)",
)
OPERANDS = Rule(
    id="mma.operands",
    message="{instruction} {has} {operand}",
    fix="{fix}",
    why="A sparse A means nothing without its metadata, nor a scaled product without its factors.",
    reference="PTX ISA 9.7.14.5.14 (scale-a-data, scale-b-data), 9.7.14.6.3 (metadata)",
)
_ON_TILES = {
    name: f"a call on tiles takes {argument}=mma.load_{argument}(tensor)"
    for name, argument in (("metadata", "metadata"), ("scale_a", "scales_a"), ("scale_b", "scales_b"))
}
_VALUES = {RegisterClass.F32: f32, RegisterClass.F64: f64}


def register_type(row: Row, operand: str) -> ElementType:
    """The value type of a register of `operand`: f32 or f64 for those, else u32, with one element or several packed."""
    return _VALUES.get(row.operand(operand).register, u32)


def fragment_violations(row: Row, counts: Mapping[str, int]) -> Iterator[Diagnostic]:
    """What is wrong with the number of registers given for each fragment."""
    for name, count in counts.items():
        needed = row.operand(name).count
        if count != needed:
            yield REGISTERS.diagnose(
                operand=name.upper(),
                instruction=row.ptx,
                needed=needed,
                element=register_type(row, name),
                given=count,
            )


def optional_violations(row: Row, presence: Mapping[str, bool]) -> Iterator[Diagnostic]:
    """Which operands are missing, or given although the instruction has none."""
    names = {operand.name for operand in row.operands if operand.role is Role.INPUT}
    for name, is_given in presence.items():
        if is_given != (name in names):
            yield OPERANDS.diagnose(
                instruction=row.ptx,
                has="has no" if is_given else "needs",
                operand=name,
                fix=f"leave {name} out" if is_given else f"give {name}: one u32 register per thread; {_ON_TILES[name]}",
            )


def refuse_whole_tiles(issues: str, operands: Sequence[str], *others: str) -> NoReturn:
    """Raises mma.operands for a call on whole tiles: each instruction takes `operands` of its own, as `others`."""
    arguments = ", ".join((*others, *(f"{name}=..." for name in operands)))
    OPERANDS.fail(
        instruction="a call on whole tiles, accumulate or gemm,",
        has="takes no",
        operand=" and no ".join(operands),
        fix=f"issue one by one: for issue in mma.issues({issues}): mma.issue(issue, acc, left, right, {arguments}), "
        "where left and right are mma.partition_fragment_A(tile_a) and mma.partition_fragment_B(tile_b)",
    )


@user_facing
class Mma(Noun):
    """mma.sync and the matrix moves of a warp (PTX ISA 9.7.14)."""

    __noun__ = "mma"
    __usual__ = "sync"

    def ldmatrix(
        self,
        address: Address,
        count: int,
        *,
        transposed: bool = False,
        shape: str = matrix_move.HALVES.name,
        element: str = matrix_move.HALVES.element,
    ) -> list[Value]:
        """ldmatrix: `count` matrices from shared memory, as u32 registers: one a matrix, two for m16n16.

        Each lane gives the address of a row, 16-byte aligned: lanes 0-7 those of the first m8n8 matrix, and so on.
        What other lanes have written is ordered by `k.warp.sync()` before it, not by the load.
        """
        row = variant("ldmatrix", matrix_move.ldmatrix, count, transposed, shape, element)
        return [self._k.wrap(register, u32) for register in issue(self._k, row, address=address)["fragment"]]

    def stmatrix(
        self,
        address: Address,
        fragment: Sequence[Value],
        *,
        transposed: bool = False,
        shape: str = matrix_move.HALVES.name,
        element: str = matrix_move.HALVES.element,
    ) -> None:
        """stmatrix: store u32 registers, one a matrix, to shared memory; addresses as for ldmatrix."""
        row = variant("stmatrix", matrix_move.stmatrix, len(fragment), transposed, shape, element)
        issue(self._k, row, fragment=fragment, address=address)

    def movmatrix(self, fragment: Value) -> Value:
        """movmatrix: the transpose of an m8n8 matrix of 16-bit elements that lies across the warp's registers."""
        return result(self._k, matrix_move.movmatrix(), source=fragment)

    def sync(
        self,
        request: MmaRequest,
        a: Sequence[Operand],
        b: Sequence[Operand],
        c: Sequence[Operand],
        *,
        metadata: Operand | None = None,
        scale_a: Operand | None = None,
        scale_b: Operand | None = None,
    ) -> list[Value]:
        """D = A * B + C: the thread's registers of D, from those of A (M x K), B (K x N) and C (M x N elements).

        `request` is the instruction (`nvb.mma`). Registers of f32 and f64 hold an element each, as do those of tf32 and
        s32; elements of fewer bits are packed into u32, the first in the lowest bits, and those of f16 and bf16 may
        also come as pairs, f16x2 and bf16x2. `intrinsics.fragments.mma` says which thread holds what. `metadata` (u32)
        belongs to a sparse A, `scale_a` and `scale_b` (u32, a factor a byte) to a product scaled by block. Raises every
        broken rule (mma.*), at this line.
        """
        row = select_mma(request, self._k.target)
        fragments = {"a": list(a), "b": list(b), "c": list(c)}
        optional = {"metadata": metadata, "scale_a": scale_a, "scale_b": scale_b}
        raise_all(
            [
                *fragment_violations(row, {name: len(fragment) for name, fragment in fragments.items()}),
                *optional_violations(row, {name: operand is not None for name, operand in optional.items()}),
            ]
        )
        instruction = request.instruction
        elements = {"a": instruction.a, "b": instruction.b, "c": instruction.c}
        registers = {
            name: [self._register(row, name, elements[name], value) for value in fragment]
            for name, fragment in fragments.items()
        }
        immediates = {name: getattr(request, name) for name in IMMEDIATES if row.has_operand(name)}
        results = issue(self._k, row, **registers, **optional, **immediates)
        kind = s32 if instruction.d is s32 else register_type(row, "d")
        return [self._k.wrap(register, kind) for register in results["d"]]

    def _register(self, row: Row, operand: str, element: ElementType, value: Operand) -> ir.Value:
        """A register of a fragment: tf32 may come as itself or the f32 that it is cut from, s32 as itself."""
        kind = register_type(row, operand)
        if kind is not u32:
            return as_value(self._k, value, kind).ir
        own = {tf32: f32, s32: s32}.get(element)
        if isinstance(value, Arithmetic) and value.type is tf32 and element is tf32:
            own = tf32
        if own is not None and (not isinstance(value, Arithmetic) or value.type is own):
            return as_value(self._k, value, own).bitcast(u32).ir
        return packed_register(self._k, element, value).ir
