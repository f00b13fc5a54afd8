"""The rows of mma.sync: LLVM's own list of them, their operands typed out, their spelling, and ptxas's word on them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import llvmlite.binding
import pytest
from llvmlite import ir

from nvbackend.builder.lower.lowering import lower
from nvbackend.intrinsics.mma import mma
from nvbackend.intrinsics.mma.form import MmaInstruction
from nvbackend.intrinsics.row.row import Asm, Effect, Intrinsic, NoSuchRow, Row
from nvbackend.intrinsics.row.types import (
    b1,
    bf16,
    e2m1,
    e2m3,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    s4,
    s8,
    s32,
    tf32,
    u4,
    u8,
    ue4m3,
    ue8m0,
)
from nvbackend.isel.target.target import Target
from nvbackend.requests.mma import sync as request
from tests.support.mma_text import spelling
from tests.support.process import python_output
from tests.support.ptxas import assemble
from tests.support.row_verdicts import acceptance_faults, feature_faults, spelling_faults, version_faults
from tests.support.rows import compile_batch, kernel_text


def row(*arguments: object, **options: object) -> Row:
    return mma.mma(request(*arguments, **options).instruction)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(mma.rows())


def test_rows_are_what_llvm_has_names_for(rows: list[Row]) -> None:
    """LLVM's names of its intrinsics stand one after the other in its library."""
    library = (Path(llvmlite.binding.__file__).parent / "libllvmlite.so").read_bytes()
    known = {name.decode() for name in re.findall(rb"\0(llvm\.nvvm\.mma\.[a-z0-9.]+)(?=\0)", library)}
    assert len(known) > 300
    lowered = {one.lowering.name for one in rows if isinstance(one.lowering, Intrinsic)}
    by_asm = {"llvm.nvvm.mma.xor.popc.m8n8k128.row.col.b1"}
    assert lowered | by_asm == known
    assert lowered & by_asm == set()


def test_rows_are_spelled_as_the_ptx_isa_does(rows: list[Row]) -> None:
    made = [one.ptx for one in rows]
    assert len(set(made)) == len(made)
    assert [one.ptx for one in rows if one.ptx != spelling(MmaInstruction(**one.axes))] == []


WITNESSED = (spelling_faults, acceptance_faults, feature_faults, version_faults)


@pytest.mark.parametrize("faults", WITNESSED)
def test_llvm_and_ptxas_agree_with_a_third_of_the_rows(
    faults: Callable[[Sequence[Row]], list[str]], rows: list[Row]
) -> None:
    """Of each shape, types and gate as many: rows of one kind stand side by side."""
    assert faults([random.Random(place).choice(rows[place : place + 3]) for place in range(0, len(rows), 3)]) == []


@pytest.mark.exhaustive(seconds=10)
@pytest.mark.parametrize("faults", WITNESSED)
def test_llvm_and_ptxas_agree_with_every_row(faults: Callable[[Sequence[Row]], list[str]], rows: list[Row]) -> None:
    assert faults(rows) == []


CONSTRAINTS = {
    "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f": (
        row("m16n8k16", f16, f16, f32),
        row("m16n8k16", bf16, bf16, f32),
        row("m16n8k8", tf32, tf32, f32),
        row("m16n8k32", e4m3, e5m2, f32),
        row("m16n8k32", e2m1, e2m3, f32, kind="f8f6f4"),
    ),
    "=r,=r,r,r,r,r,r,r,r,r": (
        row("m16n8k16", f16, f16, f16),
        row("m16n8k32", e4m3, e5m2, f16),
    ),
    "=f,=f,=f,=f,r,r,r,f,f,f,f": (
        row("m16n8k8", f16, f16, f32),
        row("m16n8k4", tf32, tf32, f32),
        row("m16n8k16", e4m3, e5m2, f32),
    ),
    "=f,=f,=f,=f,=f,=f,=f,=f,r,r,r,r,f,f,f,f,f,f,f,f": (row("m8n8k4", f16, f16, f32, a_layout="col"),),
    "=f,=f,=f,=f,=f,=f,=f,=f,r,r,r,r,r,r,r,r": (row("m8n8k4", f16, f16, f32, c=f16),),
    "=d,=d,d,d,d,d": (row("m8n8k4", f64, f64, f64),),
    "=d,=d,=d,=d,d,d,d,d,d,d,d,d,d,d,d,d,d,d,d,d": (row("m16n8k16", f64, f64, f64),),
    "=r,=r,r,r,r,r": (
        row("m8n8k16", s8, u8, s32),
        row("m8n8k32", u4, s4, s32),
        row("m8n8k128", b1, b1, s32, popc="xor"),
    ),
    "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r": (
        row("m16n8k32", u8, s8, s32, satfinite=True),
        row("m16n8k64", s4, s4, s32),
        row("m16n8k256", b1, b1, s32, popc="and"),
    ),
    "=f,=f,=f,=f,r,r,r,r,f,f,f,f,r,n": (
        row("m16n8k16", f16, f16, f32, sparse=True),
        row("m16n8k8", tf32, tf32, f32, ordered_metadata=True),
    ),
    "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r,r,r,r,n": (
        row("m16n8k64", s8, s8, s32, sparse=True),
        row("m16n8k128", u4, u4, s32, ordered_metadata=True),
    ),
    "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f,r,r,n,n,n,n": (
        row("m16n8k32", e4m3, e2m1, f32, kind="mxf8f6f4", scale=ue8m0),
        row("m16n8k64", e2m1, e2m1, f32, kind="mxf4nvf4", scale=ue4m3, scale_vec=4),
    ),
    "=f,=f,=f,=f,r,r,r,r,r,r,r,r,f,f,f,f,r,r,r,n,n,n,n,n": (
        row("m16n8k128", e2m1, e2m1, f32, kind="mxf4", scale=ue8m0, ordered_metadata=True),
    ),
}


@pytest.mark.parametrize("expected", CONSTRAINTS)
def test_constraint_strings(expected: str) -> None:
    assert [one.constraints for one in CONSTRAINTS[expected]] == [expected] * len(CONSTRAINTS[expected])


LEGAL_IMMEDIATES = [
    (row("m16n8k16", f16, f16, f32, sparse=True), {"selector": (0, 1, 2, 3)}),
    (row("m16n8k32", bf16, bf16, f32, sparse=True), {"selector": (0, 1)}),
    (row("m16n8k8", tf32, tf32, f32, sparse=True), {"selector": (0, 1, 2, 3)}),
    (row("m16n8k16", tf32, tf32, f32, sparse=True), {"selector": (0, 1)}),
    (row("m16n8k32", s8, s8, s32, sparse=True), {"selector": (0, 1)}),
    (row("m16n8k64", s8, s8, s32, sparse=True), {"selector": (0,)}),
    (row("m16n8k64", s4, s4, s32, sparse=True), {"selector": (0, 1)}),
    (row("m16n8k128", s4, s4, s32, sparse=True), {"selector": (0,)}),
    (
        row("m16n8k64", e2m1, e2m1, f32, kind="mxf4", scale=ue8m0),
        {"byte_id_a": (0, 2), "thread_id_a": (0, 1), "byte_id_b": (0, 2), "thread_id_b": (0, 1, 2, 3)},
    ),
    (
        row("m16n8k64", e2m1, e2m1, f32, kind="mxf4nvf4", scale=ue4m3, scale_vec=4),
        {"byte_id_a": (0,), "thread_id_a": (0, 1), "byte_id_b": (0,), "thread_id_b": (0, 1, 2, 3)},
    ),
    (
        row("m16n8k64", e5m2, e2m1, f32, kind="mxf8f6f4", scale=ue8m0, scale_vec=1, ordered_metadata=True),
        {
            "selector": (0,),
            "byte_id_a": (0, 1, 2, 3),
            "thread_id_a": (0, 1),
            "byte_id_b": (0, 1, 2, 3),
            "thread_id_b": (0, 1, 2, 3),
        },
    ),
]


@pytest.mark.parametrize(("given", "legal"), LEGAL_IMMEDIATES)
def test_legal_immediates(given: Row, legal: dict[str, tuple[int, ...]]) -> None:
    assert {operand.name: operand.values for operand in given.immediates} == legal


def test_immediates_reach_the_instruction() -> None:
    given = row("m16n8k128", e2m1, e2m1, f32, kind="mxf4", scale=ue8m0, ordered_metadata=True)
    immediates = {"selector": 0, "byte_id_a": 2, "thread_id_a": 1, "byte_id_b": 0, "thread_id_b": 3}
    target = Target.parse("sm_120a")
    (compiled,) = compile_batch([(kernel_text(given, immediates=immediates), target)])
    found = re.search(r"mma\.sp[^;]*;", compiled.ptx)
    assert found is not None
    # LLVM gives the byte and thread ids in registers, which it sets to the constants.
    constants = dict(re.findall(r"mov\.b16\s+(%rs\d+), (\d+);", compiled.ptx))
    text = re.sub(r"%rs\d+", lambda register: constants[register[0]], found[0].partition("ue8m0")[2])
    assert re.sub(r"\s|%\w+", "", text) == "{,,,},{,,,},{,,,},{,,,},,0,,{2,1},,{0,3};"
    assert assemble(compiled.ptx, target.name)[0]


def test_the_one_row_that_llvm_does_not_select_on_its_oldest_chip_goes_by_asm(rows: list[Row]) -> None:
    (found,) = [one for one in rows if isinstance(one.lowering, Asm)]
    assert found.asm == "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {$0, $1}, {$2}, {$3}, {$4, $5};"


def test_a_call_is_convergent_though_llvm_declares_it_otherwise() -> None:
    """So that no pass makes the warp's instruction depend on a branch that some of its threads do not take."""
    given = row("m16n8k16", f16, f16, f32)
    assert given.effects == Effect.CONVERGENT
    (call,) = [line for line in kernel_text(given).splitlines() if "call" in line and "nvvm.mma" in line]
    assert call.rstrip().endswith("convergent")


def test_f16_pairs_go_in_as_the_integers_that_others_make_of_them() -> None:
    module = ir.Module()
    word = ir.IntType(32)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [word]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    value = function.args[0]
    given = row("m16n8k8", f16, f16, f16)
    results = lower(builder, given, {"a": [value, value], "b": [value], "c": [value, value]})["d"]
    assert [one.type for one in results] == [word, word]
    assert "<2 x half>" in str(module)


@pytest.mark.parametrize(
    "axes",
    [
        {"shape": (16, 8, 32)},
        {"shape": (8, 8, 4), "a": bf16, "b": bf16},
        {"a": bf16},
        {"d": s32},
        {"c": f16},
        {"a_layout": "col"},
        {"satfinite": True},
        {"operation": "xor"},
        {"kind": "f8f6f4"},
        {"sparsity": "sparse"},
        {"scale": ue8m0},
        {"shape": (8, 8, 16), "a": s8, "b": s8, "d": s32, "c": s32, "sparsity": "sp"},
    ],
)
def test_there_is_no_row_outside_of_the_lattice(axes: dict[str, object]) -> None:
    given = {"shape": (16, 8, 16), "d": f32, "a": f16, "b": f16, "c": f32, **axes}
    with pytest.raises(NoSuchRow):
        mma.mma(MmaInstruction(**given))


def test_one_row_is_made_without_the_others() -> None:
    code = (
        "from nvbackend.intrinsics.mma import mma\n"
        "from nvbackend.intrinsics.mma.form import MmaInstruction\n"
        "from nvbackend.intrinsics.row.types import f16, f32\n"
        "mma.mma(MmaInstruction((16, 8, 16), f32, f16, f16, f32))\n"
        "print(mma.mma.cache_info().currsize)\n"
    )
    assert python_output(code).strip() == "1"
