"""Operands of the wrong number, type or kernel: found where they are given, before LLVM sees them."""

from __future__ import annotations

import dataclasses

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import bf16, f16, f32, f64, i32, i64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.lower.lowering import check_operands, lower
from nvbackend.intrinsics.catalogue import rows
from nvbackend.intrinsics.row.row import RegisterClass, Row, RowOperand
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.signature import Parameter, Pointer, Scalar

REQUEST = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)


def builder(name="operands"):
    parameters = [Parameter("out", Pointer(i32)), Parameter("a", Scalar(i32)), Parameter("f", Scalar(f32))]
    k = KernelBuilder(name, "sm_90a", threads=128, parameters=parameters)
    return k, *k.arguments


def multiply(k, acc, request=REQUEST, a=None, **options):
    layout = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
    with k.wgmma.group():
        k.wgmma.mma_async(acc, a or k.shared_tile(layout), k.shared_tile(layout), request, **options)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (
            lambda k, out, a, f: k.uniform(f.to(f64)),
            "operand value: it takes a value of LLVM's type i32; given: a value of LLVM's type double",
        ),
        (lambda k, out, a, f: k.uniform(a.to(i64)), "given: a value of LLVM's type i64"),
        (lambda k, out, a, f: k.uniform(a > 0), "given: a value of LLVM's type i1"),
        (
            lambda k, out, a, f: multiply(k, k.wgmma.accumulator(64), metadata=3),
            "operand metadata: it has no operand of that name",
        ),
        (
            lambda k, out, a, f: multiply(k, k.wgmma.accumulator(64), dataclasses.replace(REQUEST, sparse=True, k=32)),
            "operand metadata: it is missing",
        ),
    ],
)
def test_operands_are_checked_against_the_row(broken, says):
    with pytest.raises(nvb.DiagnosticError) as caught:
        broken(*builder())
    (found,) = caught.value.diagnostics
    assert found.rule_id == "machine.operand"
    assert says in found.message
    assert found.location is not None and found.location.file == __file__


def test_a_register_of_another_kernel_is_refused_by_the_instruction():
    """Whatever way it came in: `emit` is what every call of the builder ends in."""
    k, *_ = builder()
    _, _, other, _ = builder("other")
    with pytest.raises(nvb.DiagnosticError, match="kernel other is used in kernel operands") as caught:
        k.emit(sync.barrier_sync(), {"id": other.ir})
    assert [one.rule_id for one in caught.value.diagnostics] == ["value.kernel"]
    k.emit(sync.barrier_sync(), {"id": k.arguments[1].ir})


def _kinds() -> list[tuple[Row, RowOperand]]:
    """A row for each type of a register operand."""
    found: dict[str, tuple[Row, RowOperand]] = {}
    for row in rows():
        for one in row.inputs:
            found.setdefault(one.register.llvm, (row, one))
    return [*found.values()]


@pytest.mark.parametrize(("row", "operand"), _kinds(), ids=lambda one: getattr(one, "name", ""))
def test_a_number_is_one_that_the_register_holds(row: Row, operand: RowOperand) -> None:
    """With a sign or without one, in as many bits as the register has; a register of another kind holds none."""
    kind = operand.register.llvm
    bits = int(kind[1:]) if kind.startswith("i") else 0
    held = [-(1 << bits - 1), 0, (1 << bits) - 1] if bits else []
    beyond = [-(1 << bits - 1) - 1, 1 << bits] if bits else [0, 1]
    for number in (*held, *beyond):
        with pytest.raises(nvb.DiagnosticError) as caught:
            check_operands(builder()[0].function, row, {operand.name: number, "made up": 0})
        said = [one.message for one in caught.value.diagnostics if f"operand {operand.name}:" in one.message]
        assert [message.endswith(f"which holds no such number; given: {number}") for message in said] == [True] * (
            number in beyond
        )


TAKEN = {
    RegisterClass.PRED: ("i1",),
    RegisterClass.B16: ("i16", "half", "bfloat"),
    RegisterClass.B32: ("i32",),
    RegisterClass.F16X2: ("i32", "<2 x half>"),
    RegisterClass.B64: ("i64",),
    RegisterClass.F32: ("float",),
    RegisterClass.F64: ("double",),
    RegisterClass.SHARED: ("i32", "ptr", "ptr addrspace(3)"),
    RegisterClass.SHARED_CLUSTER: ("i32", "ptr", "ptr addrspace(3)", "ptr addrspace(7)"),
    RegisterClass.GLOBAL: ("i64", "ptr", "ptr addrspace(1)"),
    RegisterClass.GENERIC: ("i64", "ptr"),
    RegisterClass.TMEM: ("i32", "ptr", "ptr addrspace(6)"),
}
"""LLVM's types of what goes into each register: of its bits, of a number of them, of a pointer to its memory."""
HALF = ir.HalfType()
GIVEN = [
    *(ir.IntType(bits) for bits in (1, 8, 16, 32, 64, 128)),
    *(HALF, llvm_type(bf16), ir.FloatType(), ir.DoubleType()),
    *(ir.VectorType(kind, count) for kind, count in ((HALF, 2), (HALF, 4), (ir.FloatType(), 2))),
    *(ir.PointerType(addrspace=space) for space in (0, 1, 3, 4, 5, 6, 7)),
]


def test_a_register_takes_the_types_that_it_holds() -> None:
    """The address spaces are those of LLVM's NVPTX usage guide; a generic pointer is converted to each."""
    kinds = {one.register: (row, one) for row in rows() for one in row.inputs}
    assert kinds.keys() == TAKEN.keys()
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), GIVEN), "f")
    for register, (row, operand) in kinds.items():
        for value in function.args:
            refused = False
            try:
                check_operands(function, row, {operand.name: [value] * operand.count, "made up": 0})
            except nvb.DiagnosticError as error:
                refused = any(f"operand {operand.name}:" in one.message for one in error.diagnostics)
            assert refused is (str(value.type) not in TAKEN[register]), (register, str(value.type))


@pytest.mark.parametrize("given", ["id", None, 1.5, ["a", "b"], {}], ids=str)
def test_what_is_no_register_is_no_operand(given: object) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        check_operands(builder()[0].function, sync.barrier_sync(), {"id": given})
    (found,) = caught.value.diagnostics
    assert found.rule_id == "machine.operand"
    assert "operand id: it takes a value of LLVM's type i32; given: " in found.message


def test_a_number_beside_registers_is_no_register() -> None:
    """Of an operand of several registers, each is looked at."""
    row = next(
        row for row in rows() if any(each.count == 2 and each.register is RegisterClass.B32 for each in row.inputs)
    )
    (name,) = [each.name for each in row.inputs if each.count == 2]
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(32)]), "f")
    for given in ([function.args[0], 1], [1, function.args[0]]):
        with pytest.raises(nvb.DiagnosticError) as caught:
            check_operands(function, row, {name: given})
        assert f"operand {name}: it takes 2 values of LLVM's type i32" in str(caught.value)


@pytest.mark.parametrize(("space", "casts"), [(0, 1), (3, 0)])
@pytest.mark.parametrize("in_asm", [False, True])
def test_a_pointer_is_an_address_of_the_operands_own_space(space: int, casts: int, in_asm: bool) -> None:
    """Inline asm takes the number of a shared address: that of a generic pointer is another one."""
    row = mbarrier.init()
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.PointerType(addrspace=space)]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    lower(builder, row, {"barrier": function.args[0], "count": 1}, in_asm=in_asm)
    text = str(function)
    assert text.count("addrspacecast") == casts
    assert text.count("ptrtoint") == int(in_asm)


def test_numbers_of_an_instruction_are_no_registers() -> None:
    """What the PTX has as a number is in the machine form once, and takes no register."""
    k, *_ = builder()
    k.cp_async.wait_group(1)
    k.wgmma.wait_group(2)
    k.barrier.sync(1, 128)
    found = {each.opcode: each for each in k.machine.instructions()}
    for opcode, immediates in (("cp.async.wait_group", {"pending": 1}), ("wgmma.wait_group", {"pending": 2})):
        assert (found[opcode].operands, found[opcode].registers, found[opcode].immediates) == ({}, {}, immediates)
    assert found["bar.sync"].operands == {"id": "1", "threads": "128"}
