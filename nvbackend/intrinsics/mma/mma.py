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
FAMILY = "mma"
"""What the rows call themselves."""


@cache
def mma(instruction: MmaInstruction) -> Row:
    """The row of `instruction`. Raises NoSuchRow outside of the lattice."""
    found = narrow(FORMS, instruction)
    if found.misses:
        raise NoSuchRow(f"no mma has the {', '.join(found.misses)} of {instruction}")
    (form,) = found.forms
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
        axes={one.name: getattr(instruction, one.name) for one in fields(instruction)},
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


def _spelling(one: MmaInstruction) -> str:
    return spelled(
        "mma",
        one.sparsity,
        "sync.aligned",
        *(_shape(one), one.a_layout, one.b_layout),
        None if one.kind is None else f"kind::{one.kind}",
        None if one.scale is None else "block_scale",
        None if one.scale_vec is None else f"scale_vec::{one.scale_vec}X",
        "satfinite" if one.satfinite else None,
        *(element.ptx for element in (one.d, one.a, one.b, one.c)),
        None if one.operation is None else f"{one.operation}.popc",
        None if one.scale is None else one.scale.ptx,
    )


def _intrinsic(one: MmaInstruction) -> str:
    """LLVM's name, which leaves out types that follow from others. IntrinsicsNVVM.td (MMA_SIGNATURE)."""
    return spelled(
        "llvm.nvvm.mma",
        None if one.sparsity is None else one.sparsity.replace("::", ".").replace("_", "."),
        None if one.scale is None else "block.scale",
        None if one.operation is None else f"{one.operation}.popc",
        *(_shape(one), one.a_layout, one.b_layout),
        None if one.kind is None else one.kind if one.scale is not None else f"kind.{one.kind}",
        None if one.scale_vec is None else f"scale.{one.scale_vec}x",
        "satfinite" if one.satfinite else None,
        *(element.ptx for element in _named_types(one)),
        None if one.scale is None else one.scale.ptx,
    )


def _lowering(form: Form, one: MmaInstruction, operands: Sequence[RowOperand]) -> Asm | Intrinsic:
    if form.by_asm:
        return Asm("{ptx} {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};")
    return Intrinsic(_intrinsic(one), tuple(each.name for each in operands if each.role is not Role.OUTPUT))


def _named_types(one: MmaInstruction) -> Sequence[ElementType]:
    if one.a is f16:
        return one.d, one.c
    if one.a.is_integer or one.a is b1 or one.a.bits > mma_dense.CONTAINER_BITS:
        return (one.a,) if one.a is one.b else (one.a, one.b)
    return one.d, one.a, one.b, one.c


def _operands(form: Form, one: MmaInstruction) -> Iterator[RowOperand]:
    multiplicand = {f16: RegisterClass.F16X2, f64: RegisterClass.F64}.get(one.a, RegisterClass.B32)
    a, b, d, c = _register_counts(form, one)
    yield output("d", _accumulator_class(one.d), d, meaning="fragment of D")
    yield operand("a", multiplicand, a, meaning="fragment of A" + (", packed" if one.sparsity else ""))
    yield operand("b", multiplicand, b, meaning="fragment of B")
    yield operand("c", _accumulator_class(one.c), c, meaning="fragment of C")
    if one.sparsity is not None:
        yield operand("metadata", RegisterClass.B32, meaning="places of A's elements")
        legal = fragments_mma.selectors(one.shape, form.bits)
        yield immediate("selector", legal, meaning="threads of each four that give the metadata")
    if one.scale is not None:
        legal = fragments_mma.scale_bytes(one.scale_vec or mma_block_scale.DEFAULT_SCALE_VEC[str(one.kind)])
        for side, threads in (("a", fragments_mma.SCALE_A_THREADS), ("b", fragments_mma.SCALE_B_THREADS)):
            yield operand(f"scale_{side}", RegisterClass.B32, meaning=f"scale factors of {side.upper()}")
            yield _half_immediate(f"byte_id_{side}", legal, "first byte that counts")
            yield _half_immediate(f"thread_id_{side}", tuple(threads), "threads of each four that count")


def _half_immediate(name: str, values: tuple[int, ...], meaning: str) -> RowOperand:
    return RowOperand(name, RegisterClass.B16, Role.IMMEDIATE, values=values, meaning=meaning)


def _register_counts(form: Form, one: MmaInstruction) -> tuple[int, ...]:
    """Registers a thread of A, B, D and C."""
    m, n, k = one.shape
    stored = (m, n, k // 2) if one.sparsity else one.shape
    return (
        fragments_mma.a_registers(stored, form.bits),
        fragments_mma.b_registers(one.shape, form.bits),
        *(fragments_mma.d_registers(one.shape, element.bits) for element in (one.d, one.c)),
    )


def _accumulator_class(element: ElementType) -> RegisterClass:
    classes = {f16: RegisterClass.F16X2, f32: RegisterClass.F32, f64: RegisterClass.F64}
    return classes.get(element, RegisterClass.B32)


def _summary(one: MmaInstruction) -> str:
    product = "counts the ones of" if one.operation else "multiplies"
    sparse = "sparse A and B" if one.sparsity else "A and B"
    scaled = ", each scaled by block" if one.scale is not None else ""
    return f"One warp {product} {sparse}{scaled}, and adds C."
