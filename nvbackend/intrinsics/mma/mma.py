"""The rows of mma.sync, mma.sp and block-scaled mma: one warp's D = A * B + C, all in registers. PTX ISA 9.7.14.

The legal choices are in `dense`, `sparse` and `block_scale`. Operand names: `d`, `a`, `b`, `c` the
fragments (`fragments.mma` says which thread holds what); `metadata` and the immediate `selector` of a sparse A; the
registers `scale_a`, `scale_b` of scale factors with the immediates `byte_id_a`, `thread_id_a`, `byte_id_b`,
`thread_id_b` that say which of their bytes count.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from nvbackend.intrinsics.fragments import mma as fragments_mma
from nvbackend.intrinsics.mma import block_scale as mma_block_scale
from nvbackend.intrinsics.mma import dense as mma_dense
from nvbackend.intrinsics.mma import sparse as mma_sparse
from nvbackend.intrinsics.mma.families import MMA as FAMILY
from nvbackend.intrinsics.mma.form import SP, Form, MmaInstruction, narrow
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    Intrinsic,
    NoSuchRow,
    RegisterClass,
    Role,
    Row,
    RowOperand,
    immediate,
    operand,
    output,
    spelled,
)
from nvbackend.intrinsics.row.semantics import Semantics
from nvbackend.intrinsics.row.types import ElementType, b1, f16, f32, f64

FORMS: tuple[Form, ...] = (*mma_dense.FORMS, *mma_sparse.FORMS, *mma_block_scale.FORMS)
"""The whole lattice."""


@cache
def mma(instruction: MmaInstruction) -> Row:
    """The row of `instruction`. Raises NoSuchRow outside of the lattice."""
    narrowed = narrow(FORMS, instruction)
    if narrowed.misses:
        raise NoSuchRow(f"no mma has the {', '.join(narrowed.misses)} of {instruction}")
    (form,) = narrowed.forms
    operands = tuple(_operands(form, instruction))
    return Row(
        family=FAMILY,
        opcode="mma" if instruction.sparsity is None else f"mma.{SP}",
        ptx=_spelling(instruction),
        operands=operands,
        lowering=_lowering(form, instruction, operands),
        requires=form.requires,
        ptx_version=form.ptx_version,
        effects=Effect.CONVERGENT,
        semantics=Semantics(multiplies=True),
        section="9.7.14.5.14" if instruction.sparsity is None else "9.7.14.6.3",
        summary=_summary(instruction),
        axes={field.name: getattr(instruction, field.name) for field in fields(instruction)},
    )


def rows() -> Iterator[Row]:
    """Every mma row, one instruction each."""
    return (mma(instruction) for form in FORMS for instruction in instructions(form))


def instructions(form: Form) -> Iterator[MmaInstruction]:
    """Every instruction of `form`."""
    axes = itertools.product(form.shapes, form.accumulators, form.pairs, form.layouts, form.scales, form.saturations)
    for shape, (d, c), (a, b), (a_layout, b_layout), (scale_vec, scale), satfinite in axes:
        yield MmaInstruction(
            shape=shape,
            d=d,
            a=a,
            b=b,
            c=c,
            a_layout=a_layout,
            b_layout=b_layout,
            sparsity=form.sparsity,
            kind=form.kind,
            scale=scale,
            scale_vec=scale_vec,
            satfinite=satfinite,
            operation=form.operation,
        )


def element_bits(row: Row) -> int:
    """What an element of A or B of `row` takes in its register."""
    return narrow(FORMS, instruction_of(row)).forms[0].bits


def instruction_of(row: Row) -> MmaInstruction:
    """The choice that `row` was made from."""
    axes: dict[str, Any] = dict(row.axes)
    return MmaInstruction(**axes)


def _shape(instruction: MmaInstruction) -> str:
    m, n, k = instruction.shape
    return f"m{m}n{n}k{k}"


def _spelling(instruction: MmaInstruction) -> str:
    return spelled(
        "mma",
        instruction.sparsity,
        "sync.aligned",
        *(_shape(instruction), instruction.a_layout, instruction.b_layout),
        None if instruction.kind is None else f"kind::{instruction.kind}",
        None if instruction.scale is None else "block_scale",
        None if instruction.scale_vec is None else f"scale_vec::{instruction.scale_vec}X",
        "satfinite" if instruction.satfinite else None,
        *(element.ptx for element in (instruction.d, instruction.a, instruction.b, instruction.c)),
        None if instruction.operation is None else f"{instruction.operation}.popc",
        None if instruction.scale is None else instruction.scale.ptx,
    )


def _intrinsic(instruction: MmaInstruction) -> str:
    """LLVM's name, which leaves out types that follow from others. IntrinsicsNVVM.td (MMA_SIGNATURE)."""
    return spelled(
        "llvm.nvvm.mma",
        None if instruction.sparsity is None else instruction.sparsity.replace("::", ".").replace("_", "."),
        None if instruction.scale is None else "block.scale",
        None if instruction.operation is None else f"{instruction.operation}.popc",
        *(_shape(instruction), instruction.a_layout, instruction.b_layout),
        None
        if instruction.kind is None
        else instruction.kind
        if instruction.scale is not None
        else f"kind.{instruction.kind}",
        None if instruction.scale_vec is None else f"scale.{instruction.scale_vec}x",
        "satfinite" if instruction.satfinite else None,
        *(element.ptx for element in _named_types(instruction)),
        None if instruction.scale is None else instruction.scale.ptx,
    )


def _lowering(form: Form, instruction: MmaInstruction, operands: Sequence[RowOperand]) -> Asm | Intrinsic:
    if form.by_asm:
        return Asm("{ptx} {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};")
    return Intrinsic(_intrinsic(instruction), tuple(each.name for each in operands if each.role is not Role.OUTPUT))


def _named_types(instruction: MmaInstruction) -> Sequence[ElementType]:
    if instruction.a is f16:
        return instruction.d, instruction.c
    if instruction.a.is_integer or instruction.a is b1 or instruction.a.bits > mma_dense.CONTAINER_BITS:
        return (instruction.a,) if instruction.a is instruction.b else (instruction.a, instruction.b)
    return instruction.d, instruction.a, instruction.b, instruction.c


def _operands(form: Form, instruction: MmaInstruction) -> Iterator[RowOperand]:
    multiplicand = {f16: RegisterClass.F16X2, f64: RegisterClass.F64}.get(instruction.a, RegisterClass.B32)
    a, b, d, c = _register_counts(form, instruction)
    yield output("d", _accumulator_class(instruction.d), d, meaning="fragment of D")
    yield operand("a", multiplicand, a, meaning="fragment of A" + (", packed" if instruction.sparsity else ""))
    yield operand("b", multiplicand, b, meaning="fragment of B")
    yield operand("c", _accumulator_class(instruction.c), c, meaning="fragment of C")
    if instruction.sparsity is not None:
        yield operand("metadata", RegisterClass.B32, meaning="places of A's elements")
        legal = fragments_mma.selectors(instruction.shape, form.bits)
        yield immediate("selector", legal, meaning="threads of each four that give the metadata")
    if instruction.scale is not None:
        legal = fragments_mma.scale_bytes(
            instruction.scale_vec or mma_block_scale.DEFAULT_SCALE_VEC[str(instruction.kind)]
        )
        for side, threads in (("a", fragments_mma.SCALE_A_THREADS), ("b", fragments_mma.SCALE_B_THREADS)):
            yield operand(f"scale_{side}", RegisterClass.B32, meaning=f"scale factors of {side.upper()}")
            yield _half_immediate(f"byte_id_{side}", legal, "first byte that counts")
            yield _half_immediate(f"thread_id_{side}", tuple(threads), "threads of each four that count")


def _half_immediate(name: str, values: tuple[int, ...], meaning: str) -> RowOperand:
    return RowOperand(name, RegisterClass.B16, Role.IMMEDIATE, values=values, meaning=meaning)


def _register_counts(form: Form, instruction: MmaInstruction) -> tuple[int, ...]:
    """Registers a thread of A, B, D and C."""
    m, n, k = instruction.shape
    stored = (m, n, k // 2) if instruction.sparsity else instruction.shape
    return (
        fragments_mma.a_registers(stored, form.bits),
        fragments_mma.b_registers(instruction.shape, form.bits),
        *(fragments_mma.d_registers(instruction.shape, element.bits) for element in (instruction.d, instruction.c)),
    )


def _accumulator_class(element: ElementType) -> RegisterClass:
    classes = {f16: RegisterClass.F16X2, f32: RegisterClass.F32, f64: RegisterClass.F64}
    return classes.get(element, RegisterClass.B32)


def _summary(instruction: MmaInstruction) -> str:
    product = "counts the ones of" if instruction.operation else "multiplies"
    sparse = "sparse A and B" if instruction.sparsity else "A and B"
    scaled = ", each scaled by block" if instruction.scale is not None else ""
    return f"One warp {product} {sparse}{scaled}, and adds C."
