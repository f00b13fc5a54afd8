"""The rows of wgmma: their operands typed out, their spelling found in LLVM's PTX, and ptxas's word on it."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence

import pytest
from llvmlite import ir

from nvbackend.builder.lower.lowering import lower
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.row.row import Effect, NoSuchRow, RegisterClass, Row
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.intrinsics.row.types import b1, bf16, e4m3, e5m2, f16, f32, s4, s8, s32, tf32, u8
from nvbackend.isel.select.wgmma.request import WgmmaRequest, request_of
from nvbackend.isel.target.target import Target
from tests.support.process import python_output
from tests.support.ptxas import assemble
from tests.support.rows import compile_batch, compile_rows, joined, kernel_text, spelled_in
from tests.support.wgmma_text import spelling

HOPPER = Target.parse("sm_90a")
F32, B32 = RegisterClass.F32, RegisterClass.B32

CONSTRAINTS = {
    "f32 by descriptor": (
        wgmma.mma_async(8, f32, f16, f16),
        "=f,=f,=f,=f,=r,l,l,r,n,n,n,n,0,1,2,3,~{memory}",
    ),
    "f32, A in registers: one transpose": (
        wgmma.mma_async(8, f32, bf16, bf16, a_in_registers=True),
        "=f,=f,=f,=f,=r,r,r,r,r,l,r,n,n,n,0,1,2,3,~{memory}",
    ),
    "f16: two to a register": (
        wgmma.mma_async(16, f16, f16, f16),
        "=r,=r,=r,=r,=r,l,l,r,n,n,n,n,0,1,2,3,~{memory}",
    ),
    "tf32: no transposes": (
        wgmma.mma_async(8, f32, tf32, tf32),
        "=f,=f,=f,=f,=r,l,l,r,n,n,0,1,2,3,~{memory}",
    ),
    "fp8: no transposes": (
        wgmma.mma_async(8, f16, e4m3, e5m2, a_in_registers=True),
        "=r,=r,=r,r,r,r,r,l,r,n,n,0,1,~{memory}",
    ),
    "integers: no immediates": (
        wgmma.mma_async(8, s32, s8, u8, satfinite=True),
        "=r,=r,=r,=r,=r,l,l,r,0,1,2,3,~{memory}",
    ),
    "b1: no immediates": (
        wgmma.mma_async(8, s32, b1, b1),
        "=r,=r,=r,=r,=r,l,l,r,0,1,2,3,~{memory}",
    ),
    "sparse: metadata before scale-D, selector first of the immediates": (
        wgmma.mma_async(8, f32, f16, f16, sparse=True),
        "=f,=f,=f,=f,=r,l,l,r,r,n,n,n,n,n,0,1,2,3,~{memory}",
    ),
    "sparse integers in registers: the selector alone": (
        wgmma.mma_async(8, s32, u8, u8, sparse=True, a_in_registers=True),
        "=r,=r,=r,=r,=r,r,r,r,r,l,r,r,n,0,1,2,3,~{memory}",
    ),
    "wait without accumulators": (wgmma.wait_group(), "n,~{memory}"),
    "wait for f32 and f16 accumulators": (
        wgmma.wait_group(((F32, 3), (B32, 2))),
        "=f,=f,=f,=r,=r,n,0,1,2,3,4,~{memory}",
    ),
    "fence that holds registers": (wgmma.fence(((F32, 2), (B32, 1))), "=f,=f,=r,0,1,2,~{memory}"),
}

ASM = """{
.reg .pred p;
setp.ne.b32 p, $7, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {$0, $1, $2, $3}, $5, $6, p, $8, $9, $10, $11;
mov.b32 $4, 1;
}"""
SPARSE_REGISTERS_ASM = """{
.reg .pred p;
setp.ne.b32 p, $9, 0;
wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16 {$0, $1}, {$3, $4, $5, $6}, $7, $8, $10, p, $11, $12, $13;
mov.b32 $2, 1;
}"""


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraint_strings(name: str) -> None:
    row, expected = CONSTRAINTS[name]
    assert row.constraints == expected


@pytest.mark.parametrize(
    ("row", "registers"),
    [
        (wgmma.mma_async(256, f32, f16, f16), ["=f"] * 128 + ["=r"]),
        (wgmma.mma_async(256, f16, f16, f16), ["=r"] * 64 + ["=r"]),
        (wgmma.mma_async(256, s32, s8, s8), ["=r"] * 128 + ["=r"]),
        (wgmma.mma_async(136, f32, bf16, bf16), ["=f"] * 68 + ["=r"]),
    ],
)
def test_accumulators_come_first_and_are_tied_last(row: Row, registers: list[str]) -> None:
    parts = row.constraints.split(",")
    count = len(registers)
    assert parts[:count] == registers
    assert parts[-count:] == [*map(str, range(count - 1)), "~{memory}"]


def test_asm_texts() -> None:
    assert wgmma.mma_async(8, f32, f16, f16).asm == ASM
    assert wgmma.mma_async(8, f16, f16, f16, sparse=True, a_in_registers=True).asm == SPARSE_REGISTERS_ASM
    assert wgmma.wait_group(((F32, 4),)).asm == "wgmma.wait_group.sync.aligned $4;"
    assert wgmma.wait_group().asm == "wgmma.wait_group.sync.aligned $0;"


def test_legal_immediates() -> None:
    legal = {operand.name: operand.values for operand in wgmma.mma_async(8, f32, f16, f16, sparse=True).immediates}
    assert legal == {"selector": (0, 1), "scale_a": (1, -1), "scale_b": (1, -1), "trans_a": (0, 1), "trans_b": (0, 1)}
    (selector,) = wgmma.mma_async(8, s32, s8, s8, sparse=True).immediates
    assert selector.values == (0,)
    (pending,) = wgmma.wait_group().immediates
    assert pending.values == (0, 1, 2, 3, 4, 5, 6, 7)


def test_effects() -> None:
    mma = wgmma.mma_async(8, f32, f16, f16)
    assert mma.effects == Effect.CONVERGENT | Effect.READS_MEMORY
    assert mma.semantics.issues is Completion.MMA_GROUP
    for row in (wgmma.fence(), wgmma.commit_group(), wgmma.wait_group()):
        assert row.effects == Effect.CONVERGENT | Effect.ORDERS


FLOAT_N = range(8, 257, 8)
INTEGER_N = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256)
LATTICE = [
    *itertools.product([f16], [f16], (f16, f32), [16], [FLOAT_N]),
    *itertools.product([bf16], [bf16], [f32], [16], [FLOAT_N]),
    *itertools.product([tf32], [tf32], [f32], [8], [FLOAT_N]),
    *itertools.product((e4m3, e5m2), (e4m3, e5m2), (f16, f32), [32], [FLOAT_N]),
    *itertools.product((s8, u8), (s8, u8), [s32], [32], [INTEGER_N]),
    (b1, b1, s32, 256, INTEGER_N),
]
"""A, B, D, K and N of the dense instructions, from PTX ISA 9.7.15.2 and what ptxas takes of it."""


def lattice() -> list[WgmmaRequest]:
    return [
        WgmmaRequest(n, k * (1 + sparse), d, a, b, a_in_registers, bool(sparse), satfinite)
        for a, b, d, k, every_n in LATTICE
        for sparse in ((0,) if a is b1 else (0, 1))
        for a_in_registers in (False, True)
        for satfinite in ((False, True) if d is s32 and a is not b1 else (False,))
        for n in every_n
    ]


def test_rows_are_the_whole_lattice() -> None:
    made = [request_of(row) for row in wgmma.rows() if row.opcode == "wgmma.mma_async"]
    assert len(set(made)) == len(made)
    assert set(made) == set(lattice())


def row_of(request: WgmmaRequest) -> Row:
    return wgmma.mma_async(
        request.n,
        request.d,
        request.a,
        request.b,
        a_in_registers=request.a_in_registers,
        sparse=request.sparse,
        satfinite=request.satfinite,
    )


def faults(requests: Sequence[WgmmaRequest]) -> list[str]:
    """Instructions that LLVM does not print as the PTX ISA spells them, then what ptxas says against the rest."""
    compiled = compile_rows([(row_of(request), HOPPER) for request in requests])
    found = [
        f"{spelling(request)}: {one.error}\n{one.ptx}"
        for request, one in zip(requests, compiled, strict=True)
        if not spelled_in(spelling(request), one.ptx)
    ]
    fine, said = assemble(joined([one.ptx for one in compiled if one.ptx]), HOPPER.name)
    return found if fine else [*found, said]


def test_rows_compile_and_assemble() -> None:
    """One row of each kind, of an N drawn with a fixed seed."""
    kinds: dict[WgmmaRequest, list[WgmmaRequest]] = {}
    for request in lattice():
        key = WgmmaRequest(
            8, 8, request.d, request.a, request.b, request.a_in_registers, request.sparse, request.satfinite
        )
        kinds.setdefault(key, []).append(request)
    chooser = random.Random(90)
    assert len(kinds) == 82
    assert faults([chooser.choice(members) for members in kinds.values()]) == []


@pytest.mark.exhaustive
def test_every_row_compiles_and_assembles() -> None:
    requests = lattice()
    for start in range(0, len(requests), 100):
        assert faults(requests[start : start + 100]) == []


def test_immediates_reach_the_instruction() -> None:
    row = wgmma.mma_async(8, f32, f16, f16, sparse=True)
    given = {"selector": 1, "scale_a": -1, "scale_b": 1, "trans_a": 0, "trans_b": 1}
    (compiled,) = compile_batch([(kernel_text(row, immediates=given), HOPPER)])
    instruction = re.search(r"wgmma\.mma_async\.sp.*;", compiled.ptx)
    assert instruction is not None
    registers = re.sub(r"%\w+", "%", instruction[0].partition(" ")[2])
    assert registers == "{%, %, %, %}, %, %, %, 1, p, -1, 1, 0, 1;"
    assert assemble(compiled.ptx, HOPPER.name)[0]


PROTOCOL = {
    "wgmma.fence.sync.aligned;": (wgmma.fence(), wgmma.fence(((F32, 4), (B32, 3)))),
    "wgmma.commit_group.sync.aligned;": (wgmma.commit_group(),),
    "wgmma.wait_group.sync.aligned \t5;": (wgmma.wait_group(), wgmma.wait_group(((F32, 4), (B32, 2), (F32, 1)))),
}


@pytest.mark.parametrize("expected", PROTOCOL)
def test_fence_commit_and_wait(expected: str) -> None:
    rows = PROTOCOL[expected]
    texts = [kernel_text(row, f"kernel{place}", {"pending": 5}) for place, row in enumerate(rows)]
    compiled = compile_batch([(text, HOPPER) for text in texts])
    for one in compiled:
        assert expected.split() == next(line.split() for line in one.ptx.splitlines() if "wgmma" in line)
    assert assemble(joined([one.ptx for one in compiled]), HOPPER.name)[0]


def test_tied_registers_stay_on_their_side() -> None:
    """Products made for an accumulator stand before its fence, and sums of the result behind the wait.

    LLVM sinks the products into the block that uses them, below a fence that does not hold them.
    """
    module = ir.Module()
    module.triple = "nvptx64-nvidia-cuda"
    memory = ir.PointerType(addrspace=1)
    kernel = ir.Function(module, ir.FunctionType(ir.VoidType(), [memory, ir.FloatType(), ir.IntType(64)]), "kernel")
    kernel.calling_convention = "ptx_kernel"
    entry, work, leave = (kernel.append_basic_block(name) for name in ("entry", "work", "leave"))
    place, number, word = kernel.args
    block = ((F32, 4),)

    builder = ir.IRBuilder(entry)
    start = [builder.fmul(number, ir.Constant(ir.FloatType(), factor)) for factor in (3.0, 5.0, 7.0, 9.0)]
    fenced = lower(builder, wgmma.fence(block), {"block0": start})["block0"]
    builder.cbranch(builder.icmp_unsigned("==", word, ir.Constant(ir.IntType(64), 0)), leave, work)

    builder = ir.IRBuilder(work)
    flags = {"scale_a": 1, "scale_b": 1, "trans_a": 0, "trans_b": 0, "scale_d": 0}
    row = wgmma.mma_async(8, f32, f16, f16)
    first = lower(builder, row, {"a_desc": word, "b_desc": word, "d": fenced, **flags})
    flags["scale_d"] = first["scale_out"][0]
    second = lower(builder, row, {"a_desc": word, "b_desc": word, "d": first["d"], **flags})
    lower(builder, wgmma.commit_group(), {})
    done = lower(builder, wgmma.wait_group(block), {"block0": second["d"], "pending": 0})["block0"]
    builder.store(builder.fadd(builder.fadd(done[0], done[1]), builder.fadd(done[2], done[3])), place)
    builder.branch(leave)
    ir.IRBuilder(leave).ret_void()

    (compiled,) = compile_batch([(str(module), HOPPER)])
    assert re.findall(r"mul\.rn|wgmma\.\w+|add\.rn|st\.global|bra", compiled.ptx) == [
        *["mul.rn"] * 4,
        *("wgmma.fence", "bra"),
        *["wgmma.mma_async"] * 2,
        *("wgmma.commit_group", "wgmma.wait_group"),
        *["add.rn"] * 3,
        "st.global",
    ]
    fine, said = assemble(compiled.ptx, HOPPER.name)
    assert fine, said


@pytest.mark.parametrize(
    "axes",
    [
        {"n": 12},
        {"n": 264},
        {"a": s4},
        {"b": bf16},
        {"d": s32},
        {"satfinite": True},
        {"a": s8, "b": s8, "d": s32, "n": 40},
        {"a": b1, "b": b1, "d": s32, "sparse": True},
    ],
)
def test_there_is_no_row_outside_of_the_lattice(axes: dict[str, object]) -> None:
    given = {"n": 8, "d": f32, "a": f16, "b": f16, **axes}
    with pytest.raises(NoSuchRow):
        wgmma.mma_async(**given)


def test_one_row_is_made_without_the_others() -> None:
    code = (
        "from nvbackend.intrinsics.mma import wgmma\n"
        "from nvbackend.intrinsics.row.types import f16, f32\n"
        "wgmma.mma_async(256, f32, f16, f16)\n"
        "print(wgmma.mma_async.cache_info().currsize)\n"
    )
    assert python_output(code).strip() == "1"
