"""A row of the user's own that lowers through an intrinsic: LLVM's attributes and the catalogue say what it does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from llvmlite import binding

import nvbackend as nvb
from nvbackend import DiagnosticError, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.ops.inline import own_intrinsic
from nvbackend.builder.ops.inline.intrinsic_rows import EARLIER, rows_by_intrinsic, unsaid
from nvbackend.intrinsics.copy.async_store import CLUSTER_COPY
from nvbackend.intrinsics.row.semantics import ThreadBarrier
from nvbackend.rows import Asm, Effect, Intrinsic, RegisterClass, Row, Scope, Semantics, immediate, operand, output

B32 = RegisterClass.B32
OUT, IN = output("d", B32), operand("a", B32)
MEETS = Semantics(barrier=ThreadBarrier(Scope.CTA), acquires=Scope.CTA, releases=Scope.CTA)
TOGETHER = Effect.CONVERGENT | Effect.ORDERS


def row_of(name: str, *arguments: str | tuple[str, int], out: bool = True) -> Row:
    operands = (OUT, IN) if out else ()
    return Row("mine", "my.op", "min.u32", operands, Intrinsic(name, arguments), summary="x")


def emitted(row: Row) -> dict[str, list[nvb.Value]]:
    k = KernelBuilder("own", "sm_90a", threads=32)
    inputs = {each.name: k.thread_id().to(u32) for each in row.inputs}
    return k.instruction(row, **inputs)


def failure(row: Row) -> nvb.Diagnostic:
    with pytest.raises(DiagnosticError) as caught:
        emitted(row)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


@pytest.mark.parametrize("name", ["llvm.nvvm.barrier0", "llvm.nvvm.wgmma.fence.sync.aligned", "llvm.trap"])
def test_an_intrinsic_with_effects_is_not_believed_to_be_pure(name: str) -> None:
    assert failure(row_of(name, out=False)).rule_id == "row.semantics"


def test_the_intrinsic_that_stops_a_kernel_without_a_cluster() -> None:
    kinds = {
        "to": RegisterClass.SHARED_CLUSTER,
        "barrier": RegisterClass.SHARED,
        "source": RegisterClass.SHARED,
        "bytes": B32,
    }
    operands = tuple(operand(name, register) for name, register in kinds.items())
    effects = Effect.READS_MEMORY | Effect.WRITES_MEMORY | Effect.CONVERGENT
    row = Row(
        "mine",
        "my.op",
        "min.u32",
        operands,
        Intrinsic(CLUSTER_COPY, tuple(kinds)),
        effects=effects,
        summary="x",
    )
    fault = unsaid(row, row.lowering)
    assert fault is not None
    assert "stops a kernel without a cluster" in fault[0]
    assert unsaid(replace(row, semantics=Semantics(in_cluster=True)), row.lowering) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("llvm.nvvm.cp.async.commit.group", "semantics=Semantics(commits=COPY_GROUP)"),
        ("llvm.nvvm.exit", "convergent"),
    ],
)
def test_what_the_row_leaves_out(name: str, words: str) -> None:
    refused = failure(row_of(name, out=False))
    assert refused.rule_id == "row.semantics"
    assert words in refused.message


def test_a_computation_that_says_it_is_a_barrier() -> None:
    refused = failure(replace(row_of("llvm.ctpop.i32", "a"), semantics=MEETS, effects=TOGETHER))
    assert refused.rule_id == "row.semantics"
    assert "only computes" in refused.message


@pytest.mark.parametrize(
    "row",
    [
        row_of("llvm.ctpop.i32", "a"),
        row_of("llvm.ctlz.i32", "a", ("i1", 0)),
        replace(row_of("llvm.nvvm.barrier0", out=False), effects=TOGETHER, semantics=MEETS),
        replace(row_of("llvm.trap", out=False), effects=Effect.ORDERS),
    ],
)
def test_rows_that_say_what_they_do(row: Row) -> None:
    assert emitted(row).keys() == {each.name for each in row.outputs}


@pytest.mark.parametrize(("target", "is_there"), [("sm_80", False), ("sm_86", True)])
def test_a_computation_that_the_chip_lacks(target: str, is_there: bool) -> None:
    """LLVM drops a call whose result nobody takes, and says nothing of it. PTX ISA, min: `.xorsign.abs` from sm_86."""
    of_f32 = output("d", RegisterClass.F32), operand("a", RegisterClass.F32), operand("b", RegisterClass.F32)
    lowering = Intrinsic("llvm.nvvm.fmin.xorsign.abs.f", ("a", "b"))
    row = Row("mine", "my.op", "min.xorsign.abs.f32", of_f32, lowering, summary="x")
    k = KernelBuilder("own", target, threads=32)
    if is_there:
        assert [len(values) for values in k.instruction(row, a=1.0, b=2.0).values()] == [1]
    else:
        with pytest.raises(DiagnosticError, match=r"row\.text.*Cannot select"):
            k.instruction(row, a=1.0, b=2.0)


def shifting(values: Sequence[int]) -> Row:
    return replace(row_of("llvm.fshl.i32", "a", "a", "n"), operands=(OUT, IN, immediate("n", tuple(values))))


def tried_numbers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Takes down which number each call has that LLVM would be asked for, and says that it compiles."""
    tried: list[int] = []
    called = re.compile(r"@\"llvm.fshl.i32\"\(.*, i32 (\d+)\)\n")
    monkeypatch.setattr(
        own_intrinsic, "compile_ir_isolated", lambda text, *_, **__: tried.extend(map(int, called.findall(text)))
    )
    own_intrinsic._fault_of.cache_clear()
    return tried


@pytest.mark.parametrize(("values", "given"), [((1, 3), 1), ((1, 3), 3), (range(5), 4)])
def test_a_number_is_tried_as_it_is_given(values: Sequence[int], given: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM says whether it takes the immediate of the call: another one may compile."""
    tried = tried_numbers(monkeypatch)
    k = KernelBuilder("own", "sm_90a", threads=32)
    k.instruction(shifting(values), a=k.thread_id().to(u32), n=given)
    assert tried == [given]


WRONG_NUMBERS = {
    "another number": (lambda k: 7, "machine.immediate"),
    "a float": (lambda k: 3.0, "machine.operand"),
    "a truth value": (lambda k: True, "machine.operand"),
    "a value of the run": (lambda k: k.thread_id(), "machine.operand"),
}


@pytest.mark.parametrize("kind", WRONG_NUMBERS)
def test_a_number_that_the_call_cannot_have_is_refused_as_such(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM is asked for the first number that it can have."""
    tried = tried_numbers(monkeypatch)
    k = KernelBuilder("own", "sm_90a", threads=32)
    given, rule = WRONG_NUMBERS[kind]
    with pytest.raises(DiagnosticError) as caught:
        k.instruction(shifting((5, 1, 3)), a=k.thread_id().to(u32), n=given(k))
    assert [each.rule_id for each in caught.value.diagnostics] == [rule]
    assert tried == [5]


ASM = Asm("{d}, {a};")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (Row("mine", "my.op", "x", (OUT, operand("ptx", B32)), ASM), "an operand is called ptx"),
        (Row("mine", "my.op", "x", (OUT, operand("a", B32, 0)), ASM), "the operand a has 0 registers"),
        (Row("mma", "mma", "x", (OUT, IN), ASM), "nvbackend's family mma"),
    ],
)
def test_operands_and_families_that_no_row_has(row: Row, words: str) -> None:
    refused = failure(row)
    assert refused.rule_id == "row.text"
    assert words in refused.message


def _less(row: Row) -> Iterator[Row]:
    """The row with one of its effects, or one field of its semantics, left out."""
    for flag in row.effects:
        yield replace(row, effects=row.effects & ~flag)
    for name, _ in row.semantics.said():
        if name not in ("memory", "fragments"):
            yield replace(row, semantics=replace(row.semantics, **{name: getattr(Semantics(), name)}))


def _say_the_same(row: Row, other: Row) -> bool:
    named = {"memory", "fragments"}
    said, others = ({name: name in named or value for name, value in each.semantics.said()} for each in (row, other))
    return said == others and row.effects & other.effects == other.effects


def test_a_row_of_an_intrinsic_of_the_catalogue_says_all_that_one_of_its_rows_says() -> None:
    kinds = {(row.effects, row.semantics): row for rows in rows_by_intrinsic().values() for row in rows}
    said = set()
    for row in kinds.values():
        assert isinstance(row.lowering, Intrinsic)
        alike = rows_by_intrinsic()[row.lowering.name]
        assert unsaid(row, row.lowering) is None
        named = tuple(replace(each, name="mine") for each in row.semantics.memory)
        other = replace(row.semantics, memory=named, fragments=row.semantics.fragments[:1])
        assert unsaid(replace(row, semantics=other), row.lowering) is None
        for less in _less(row):
            found = unsaid(less, row.lowering)
            assert (found is None) == any(_say_the_same(less, each) for each in alike)
            said.add(found and f"{alike[0].ptx} has effects={alike[0].effects}" in found[0])
    assert said == {None, True}


OPERANDS = {"barrier0": 0, "barrier": 2, "barrier.sync.cnt": 2}
"""How many numbers the replaced barriers take that take more or fewer than one."""


def test_a_replaced_name_is_judged_by_the_one_that_llvm_puts_in_its_place() -> None:
    for name, present in EARLIER.items():
        result = "i32" if name.startswith("llvm.nvvm.barrier0.") else "void"
        given = ", ".join(["i32 1"] * OPERANDS.get(name.removeprefix("llvm.nvvm."), 1))
        declared = f"declare {result} @{name}({given.replace(' 1', '')})"
        text = f"{declared}\ndefine void @f() {{\n  call {result} @{name}({given})\n  ret void\n}}"
        called = re.findall(r"call .*@(.*)\(", str(binding.parse_assembly(text)))
        assert called == [f"llvm.nvvm.barrier.cta.{present}"]


@pytest.mark.parametrize(
    ("row", "problem", "advice"),
    [
        (
            replace(row_of("llvm.nvvm.exit", out=False), effects=TOGETHER),
            "llvm.nvvm.exit ends the thread",
            "use k.return_",
        ),
        (
            replace(row_of("llvm.nvvm.exit", out=False), effects=Effect.CONVERGENT),
            "llvm.nvvm.exit does more than compute its results, and its effects do not say so",
            "add Effect.READS_MEMORY, WRITES_MEMORY or ORDERS to effects=",
        ),
        (
            replace(row_of("llvm.ctpop.i32", "a"), semantics=Semantics(exits=True)),
            "its semantics say exits=, and llvm.ctpop.i32 only computes",
            "leave exits= out",
        ),
    ],
)
def test_what_llvm_says_of_an_intrinsic_that_no_row_has(row: Row, problem: str, advice: str) -> None:
    assert isinstance(row.lowering, Intrinsic)
    assert unsaid(row, row.lowering) == (problem, advice)


@pytest.mark.parametrize(
    "row",
    [
        replace(row_of("llvm.nvvm.exit", out=False), effects=TOGETHER, semantics=Semantics(exits=True)),
        replace(row_of("llvm.fshl.i32", "a", "a", "n"), operands=(OUT, IN, immediate("n", (3,)))),
    ],
)
def test_what_llvm_says_and_the_row_too(row: Row) -> None:
    assert isinstance(row.lowering, Intrinsic)
    assert unsaid(row, row.lowering) is None
