"""A call from a row: an instruction that no file of the package knows, called in two lines."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, KernelBuilder, Parameter, Pointer, Value, i32, u32, u64
from nvbackend.builder.core.instructions import issue, result
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.values.values import Operand
from nvbackend.intrinsics.row.row import Asm, RegisterClass, Row, immediate, operand, output
from nvbackend.intrinsics.row.types import s32

LIMITED = Row(
    family="invented",
    opcode="limit",
    ptx="limit.u32",
    operands=(
        output("limited", RegisterClass.B32, element=s32),
        operand("number", RegisterClass.B32, element=s32),
        operand("parity", RegisterClass.B32, element=s32, rule="mbarrier.parity"),
        operand("scale", RegisterClass.F32),
    ),
    lowering=Asm("// {ptx} {limited}, {number}, {parity}, {scale}\nmov.u32 {limited}, {number};"),
)
PLACED = Row(
    family="invented",
    opcode="place",
    ptx="place.shared",
    operands=(
        operand("row", RegisterClass.SHARED, align=16),
        operand("barrier", RegisterClass.SHARED, rule="mbarrier.address"),
        operand("mask", RegisterClass.B16),
        immediate("pending", range(4)),
    ),
    lowering=Asm("// {ptx} [{row}], [{barrier}], {mask}, {pending}"),
)


class Invented(Noun):
    """Instructions that there are not."""

    __noun__ = "invented"

    def limit(self, number: Operand, parity: Operand, scale: Operand) -> Value:
        """Two lines, of which one is this."""
        return result(self._k, LIMITED, number=number, parity=parity, scale=scale)

    def place(self, row: Address, barrier: Address, mask: Operand | None, pending: int = 0) -> None:
        """The same of addresses, an option and an immediate."""
        issue(self._k, PLACED, row=row, barrier=barrier, mask=mask, pending=pending)


class Using:
    """A kernel, the noun, and memory."""

    def __init__(self) -> None:
        self.k = KernelBuilder("use", "sm_90a", threads=32, parameters=[Parameter("out", Pointer(i32))])
        self.invented = Invented(self.k.core)
        self.out = self.k.arguments[0]
        self.shared = self.k.shared(u32, 64)
        self.barrier = self.k.mbarrier.array(1, 1)
        self.k.mbarrier.ready()

    def other(self) -> Address:
        return KernelBuilder("other", "sm_90a", threads=32).shared(u32, 64)


def test_numbers_values_and_addresses_become_what_the_row_declares() -> None:
    u = Using()
    limited = u.invented.limit(7, u.k.thread_id() & 1, 0.5)
    assert limited.type is s32
    u.out[0] = limited
    u.invented.place(u.shared + 4, u.barrier, 3, pending=2)
    text = u.k.finish().compile(assemble=None).ptx
    assert re.search(r"// limit\.u32 %r\d+, (%r\d+|7), %r\d+, (%f\d+|%r\d+|0f3F000000)", text)
    assert re.search(r"// place\.shared \[%r\d+\], \[%r\d+\], (%rs\d+|3), 2", text)


REFUSED: list[tuple[Callable[[Using], object], str, str]] = [
    (lambda u: u.invented.limit(u.k.const(7, u32), 0, 0.5), "value.type", "expected s32, but the value is u32"),
    (lambda u: u.invented.limit(7, 0, u.k.thread_id()), "value.type", "expected f32, but the value is s32"),
    (lambda u: u.invented.limit(1 << 40, 0, 0.5), "value.constant", "1099511627776 is not a value of s32"),
    (lambda u: u.invented.limit("7", 0, 0.5), "value.kind", "'7'"),  # type: ignore[arg-type]
    (lambda u: u.invented.limit(7, 2, 0.5), "mbarrier.parity", "the parity of a phase is 0 or 1, not 2"),
    (lambda u: u.invented.limit(7, u.k.const(-1, i32), 0.5), "mbarrier.parity", "not -1"),
    (lambda u: u.invented.limit(7, u.k.thread_id() + 5, 0.5), "mbarrier.parity", "the parity of a phase"),
    (lambda u: u.invented.place(u.shared.byte_offset(8), u.barrier, 0), "memory.misaligned", "place.shared"),
    (lambda u: u.invented.place(u.shared, u.out.cast(u64), 0), "mbarrier.address", "mbarrier"),
    (lambda u: u.invented.place(u.shared, u.shared.byte_offset(4), 0), "mbarrier.address", "mbarrier"),
    (lambda u: u.invented.place(u.other(), u.barrier, 0), "value.kernel", "other"),
    (lambda u: u.invented.place(u.shared, u.barrier, 1 << 16), "value.constant", "65536 is not a value of u16"),
    (lambda u: u.invented.place(u.shared, u.barrier, None), "machine.operand", "it is missing"),
    (lambda u: u.invented.place(u.shared, u.barrier, 0, pending=4), "machine.immediate", "pending is 4"),
    (lambda u: issue(u.k.core, LIMITED, number=1, parity=0, scale=0.5, more=2), "machine.operand", "more"),
]


@pytest.mark.parametrize(
    ("call", "rule", "words"), REFUSED, ids=[f"{rule}-{n}" for n, (_, rule, _) in enumerate(REFUSED)]
)
def test_a_wrong_operand_draws_the_usual_diagnostic(call: Callable[[Using], object], rule: str, words: str) -> None:
    u = Using()
    with pytest.raises(DiagnosticError) as raised:
        call(u)
    (found,) = raised.value.diagnostics
    assert found.rule_id == rule
    assert words in found.message
    assert found.location is not None
    assert found.location.file == __file__
    u.k.finish()


def test_rows_as_calls_of_k_are_checked_alike() -> None:
    u = Using()
    with pytest.raises(nvb.DiagnosticError, match=r"mbarrier\.parity"):
        u.k.instruction(LIMITED, number=7, parity=2, scale=0.5)
    assert u.k.instruction(LIMITED, number=u.k.const(7, u32), parity=1, scale=0.5)["limited"][0].type is u32
