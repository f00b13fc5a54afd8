"""A row of the user's own: its text is compared with what the row says, at the user's line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.ops.inline.own_row import check_row
from nvbackend.codegen.toolchain import locate
from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.row.asm_form import asm_form
from nvbackend.intrinsics.row.semantics import (
    Completion,
    FenceOf,
    FenceSemantics,
    MbarrierUse,
    ThreadBarrier,
)
from nvbackend.rows import (
    Asm,
    Effect,
    Intrinsic,
    RegisterClass,
    Row,
    RowOperand,
    Scope,
    Semantics,
    immediate,
    operand,
    output,
    reads,
    writes,
)
from nvbackend.signature import Parameter, Pointer

B32, SHARED = RegisterClass.B32, RegisterClass.SHARED
PLAIN = "{ptx} {d}, {a}, {a};"


def row_of(text: str, *, effects: Effect = Effect.NONE, semantics: Semantics | None = None, at: bool = False) -> Row:
    return Row(
        family="mine",
        opcode="my.op",
        ptx="min.u32",
        operands=(output("d", B32), operand("a", B32), *((operand("p", SHARED),) if at else ())),
        lowering=Asm(text),
        effects=effects,
        semantics=semantics or Semantics(),
        summary="x",
    )


def emitted(row: Row) -> dict[str, list[nvb.Value]]:
    k = KernelBuilder("own", "sm_90a", threads=32, parameters=[Parameter("x", Pointer(u32))])
    place = {"p": k.shared(u32, 32)} if row.has_operand("p") else {}
    return k.instruction(row, a=k.thread_id().to(u32), **place)


def failure(row: Row) -> nvb.Diagnostic:
    with pytest.raises(DiagnosticError) as caught:
        emitted(row)
    (diagnostic, *_) = caught.value.diagnostics
    assert diagnostic.location.file == __file__
    return diagnostic


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{ptx} {d}, {a}, {q};", "{q} is not an operand; these are: d, a"),
        ("{ptx} {d}, {a}, {0};", "{0} is not an operand"),
        ("{ptx} {d}, {a}, {};", "{} is not an operand"),
        ("{ptx} {d}, {a}, {a;", "a brace is open"),
        ("{ptx} {d}, {a}, {a}; }", "a brace is open"),
        ("{ptx} {d}, {a:3}, {a};", "has a format"),
        ("{ptx} {d}, {a.name}, {a};", "is not an operand"),
        ("", "it writes the output d nowhere"),
        ("// {ptx} {d} {a}", "it writes the output d nowhere"),
        ("{{ .reg .pred p; setp.eq.u32 p, {a}, 1; @p mov.u32 {d}, {a}; }}", "under one predicate alone"),
        ("add.u32 {d}, {d}, {a};", "add.u32 reads its output d, which nothing has written yet"),
        ("mov.u32 {d}, {a}; {{ .reg .u32 t<2>; mov.u32 t0, {a}; {ptx} {d}, t1, t0; }}", "reads t1, which nothing"),
        ("add.u32 {a}, {a}, 1; mov.u32 {d}, {a};", "it writes its input a"),
        (".reg .u32 t; mov.u32 t, {a}; {ptx} {d}, {a}, t;", "it declares t, and so twice"),
        ("exit; " + PLAIN, "exit is control flow"),
        ("ret; " + PLAIN, "ret is control flow"),
        ("{{ L: " + PLAIN + " bra L; }}", "the label L is control flow"),
    ],
)
def test_a_text_of_no_such_row(text: str, words: str) -> None:
    refused = failure(row_of(text))
    assert refused.rule_id == "row.text"
    assert words in refused.message
    assert "row mine/my.op" in refused.message


@pytest.mark.parametrize(
    "text",
    [
        "mov.u32 {d}, {a}; add.u32 {d}, {d}, {a};",
        "{{ .reg .u32 t; {{ mov.u32 t, {a}; }} {ptx} {d}, t, {a}; }}",
        "{{ .reg .pred p; setp.eq.u32 p, {a}, 1; @p mov.u32 {d}, 1; @!p mov.u32 {d}, 2; @p add.u32 {d}, {d}, 1; }}",
        "{{ .reg .u32 x; {{ .reg .u32 y; mov.u32 y, {a}; {ptx} x, y, {a}; }} mov.u32 {d}, x; }}",
    ],
)
def test_a_register_that_is_written_before_it_is_read(text: str) -> None:
    assert list(emitted(row_of(text))) == ["d"]


def test_a_brace_that_was_not_opened() -> None:
    assert failure(row_of(PLAIN + " }} {{")).rule_id == "ptx.syntax"


SENDS = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [{a}], {a}, [{a}]; "
ACCESS = Effect.READS_MEMORY | Effect.WRITES_MEMORY


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (row_of("bar.sync 0; " + PLAIN), "bar.sync is part of a protocol"),
        (row_of("bar.sync 0; " + PLAIN, semantics=Semantics(barrier=ThreadBarrier(Scope.CTA))), "whole warps"),
        (row_of("trap; " + PLAIN), "trap ends what the thread does"),
        (row_of("fence.proxy.async; " + PLAIN), "fence.proxy.async is part of a protocol"),
        (row_of("cp.async.wait_all; " + PLAIN), "cp.async.wait_all is part of a protocol"),
        (row_of(SENDS + PLAIN, semantics=Semantics(issues=Completion.BYTES)), "stops a kernel without a cluster"),
        (row_of("mbarrier.init.shared.b64 [{a}], 1; " + PLAIN), "is part of a protocol"),
        (row_of("setmaxnreg.inc.sync.aligned.u32 160; " + PLAIN), "is part of a protocol"),
        (row_of("shfl.sync.bfly.b32 {d}, {a}, 1, 31, -1;"), "is of a whole warp"),
        (row_of("mov.u32 {d}, %clock;"), "another number each time"),
        (row_of("st.global.u32 [0], {a}; " + PLAIN), "st.global.u32 writes memory"),
        (row_of("st.shared.u32 [{a}], {a}; " + PLAIN), "st.shared.u32 writes memory"),
        (row_of("st.shared.u32 [{p}], {a}; " + PLAIN, at=True, effects=ACCESS), "writes shared memory at p"),
        (
            row_of(
                "st.shared.u32 [{p}], {a}; " + PLAIN, at=True, effects=ACCESS, semantics=Semantics(memory=(reads("p"),))
            ),
            "writes shared memory at p",
        ),
        (
            row_of(
                "st.shared.u32 [{p}+4], {a}; " + PLAIN,
                at=True,
                effects=ACCESS,
                semantics=Semantics(memory=(writes("p", 4),)),
            ),
            "goes 8 bytes from p, of which 4 are said",
        ),
        (
            row_of(PLAIN, semantics=Semantics(memory=(writes("q", 4),))),
            "name the operand q, and its operands are: d, a",
        ),
        (row_of(PLAIN, semantics=Semantics(memory=(writes("a", "n"),))), "name the operand n"),
    ],
)
def test_what_the_row_does_not_say(row: Row, words: str) -> None:
    refused = failure(row)
    assert refused.rule_id == "row.semantics"
    assert words in refused.message


MEETS = Semantics(barrier=ThreadBarrier(Scope.CTA), acquires=Scope.CTA, releases=Scope.CTA)
TOGETHER = Effect.CONVERGENT | Effect.ORDERS


@pytest.mark.parametrize(
    ("text", "semantics", "words"),
    [
        ("", MEETS, "a barrier of the CTA"),
        ("nanosleep.u32 1;", MEETS, "a barrier of the CTA"),
        ("bar.warp.sync -1;", MEETS, "a barrier of the CTA"),
        ("bar.arrive 0, 256;", MEETS, "a barrier of the CTA that waits"),
        ("bar.sync 1, 64;", MEETS, "an operand 'threads'"),
        ("bar.sync 0;", replace(MEETS, barrier=ThreadBarrier(Scope.CLUSTER)), "a barrier of the CLUSTER"),
        ("", Semantics(releases=Scope.CTA), "what releases"),
        ("", Semantics(fence=FenceSemantics(FenceOf.MEMORY)), "a fence"),
        ("", Semantics(commits=Completion.COPY_GROUP), "a commit of a group"),
        ("cp.async.commit_group;", Semantics(awaits=Completion.COPY_GROUP), "a wait for groups"),
        ("", Semantics(in_cluster=True), "what stops a kernel without a cluster"),
        ("", Semantics(mbarrier=MbarrierUse.ARRIVE), "an operation on an mbarrier"),
        ("wgmma.fence.sync.aligned;", Semantics(exits=True), "an exit"),
        ("wgmma.commit_group.sync.aligned;", Semantics(atomic=True), "an atomic access"),
    ],
)
def test_semantics_that_say_more_than_the_text(text: str, semantics: Semantics, words: str) -> None:
    refused = failure(row_of(f"{text} {PLAIN}", effects=TOGETHER, semantics=semantics))
    assert refused.rule_id == "row.semantics"
    assert f"its text lacks {words}" in refused.message


@pytest.mark.parametrize(
    "row",
    [
        row_of(PLAIN),
        row_of("mov.u32 {d}, 1; {ptx} {d}, {d}, {a};"),
        row_of("{{ .reg .u32 t; mov.u32 t, {a}; add.u32 t, t, 1; mov.u32 {d}, t; }}"),
        row_of("shfl.sync.bfly.b32 {d}, {a}, 1, 31, -1;", effects=Effect.CONVERGENT),
        row_of(
            "bar.sync 0; " + PLAIN,
            effects=Effect.CONVERGENT | Effect.ORDERS,
            semantics=Semantics(barrier=ThreadBarrier(Scope.CTA)),
        ),
        row_of(
            "st.shared.v2.u32 [{p}+8], {{{a}, {a}}}; " + PLAIN,
            at=True,
            effects=ACCESS,
            semantics=Semantics(memory=(writes("p", 16),)),
        ),
    ],
)
def test_rows_that_say_what_they_do(row: Row) -> None:
    assert emitted(row)["d"][0].type is u32


@pytest.mark.parametrize(
    ("space", "register", "is_followed"),
    [
        (".global", RegisterClass.GLOBAL, False),
        (".shared", RegisterClass.SHARED, True),
        ("", RegisterClass.GENERIC, True),
    ],
)
@pytest.mark.parametrize("access", ["st{}.u32 [{{p}}], {{a}};", "ld{}.u32 {{d}}, [{{p}}];"])
def test_only_memory_that_may_be_shared_is_in_the_semantics(
    space: str, register: RegisterClass, is_followed: bool, access: str
) -> None:
    """Of global memory the effects are enough: no analysis follows it."""
    row = row_of(PLAIN + access.format(space), effects=ACCESS, at=True)
    row = replace(row, operands=(*row.operands[:2], operand("p", register)))
    if not is_followed:
        check_row(row)
        return
    with pytest.raises(DiagnosticError, match=r"row\.semantics.*which its semantics leave out"):
        check_row(row)


def test_every_form_of_the_catalogue_passes() -> None:
    """Of each family and opcode one row: what nvbackend's own rows say is what their texts do.

    But for discard, which ends what is in global memory: the row's semantics leave that out.
    """
    judged = 0
    for family in FAMILIES.values():
        opcodes = {}
        for row in islice(family(), 4000):
            in_asm = asm_form(row)
            if isinstance(in_asm.lowering, Asm) and row.opcode != "discard":
                opcodes.setdefault((row.opcode, in_asm.lowering.template), in_asm)
        for row in opcodes.values():
            check_row(row)
            judged += 1
    assert judged > 400


def test_a_missing_output_names_those_that_there_are() -> None:
    outputs = emitted(row_of(PLAIN))
    with pytest.raises(DiagnosticError, match=r"min\.u32 has no output 'e'"):
        outputs["e"]
    assert outputs.get("e") is None


@pytest.mark.skipif(locate("ptxas") is None, reason="no ptxas")
@pytest.mark.parametrize("text", ["min.high.u32 {d}, {a}, {a};", "{ptx} {d}, {a};", "{ptx}.f64 {d}, {a}, {a};"])
def test_what_ptxas_refuses_names_the_row(text: str) -> None:
    refused = failure(row_of(text))
    assert refused.rule_id in ("ptxas.error", "ptx.syntax")
    assert "mine/my.op" in refused.fix


def ptx_of(row: Row) -> str:
    """The PTX of a kernel that gives each input of the row one and the same value."""

    @nvb.kernel("sm_90a", threads=32)
    def own(k: KernelBuilder, x: Pointer[u32]) -> None:
        i = k.thread_id()
        value = x[i]
        wanted = {each.name: value for each in row.operands if each.tied or each in row.inputs}
        x[i] = k.instruction(row, **wanted, **{each.name: each.values[0] for each in row.immediates})["d"][0]

    return own.compile(assemble=False).ptx


def own_row(text: str, *operands: RowOperand) -> Row:
    return Row("mine", "my.op", "min.u32", operands, Asm(text), summary="x")


@pytest.mark.parametrize("text", [PLAIN + r" // \0Abar.sync 0;", PLAIN + r" // a\\b", PLAIN + ' // "x"'])
def test_a_text_comes_out_as_it_was_written(text: str) -> None:
    """LLVM reads backslashes and quotes in the strings of its own language."""
    assert text.rpartition("//")[2] in ptx_of(row_of(text))


def test_a_dollar_of_the_ptx_is_two_in_the_text() -> None:
    """As in LLVM's inline assembly; a message names the register as the PTX does."""
    refused = failure(row_of("{{ .reg .u32 $$t; add.u32 {d}, $$t, {a}; }}"))
    assert refused.rule_id == "row.text"
    assert "reads $t, which nothing has written yet" in refused.message
    text = "{{ .reg .u32 $$t; mov.u32 $$t, 1; add.u32 {d}, $$t, {a}; }}"
    assert ".reg .u32 $t; mov.u32 $t, 1;" in ptx_of(row_of(text))


def test_an_input_that_is_read_after_a_tied_output_has_its_own_register() -> None:
    text = "shl.b32 {d}, {d}, 4; or.b32 {d}, {d}, {a};"
    ptx = ptx_of(own_row(text, output("d", B32, tied=True), operand("a", B32)))
    written, read = re.search(r"or\.b32 (%r\d+), %r\d+, (%r\d+);", ptx).groups()
    assert written != read


@pytest.mark.parametrize("number", [2**33, -(2**63), 2**32 - 1, -1, 7])
def test_a_number_of_more_than_32_bits_comes_out_whole(number: int) -> None:
    row = own_row("{{ .reg .b64 t; mov.b64 t, {n}; cvt.u32.u64 {d}, t; }}", output("d", B32), immediate("n", (number,)))
    assert f"mov.b64 t, {number};" in ptx_of(row)


def test_a_number_of_more_than_64_bits() -> None:
    row = own_row("add.u32 {d}, {a}, {n};", output("d", B32), operand("a", B32), immediate("n", range(2**65)))
    with pytest.raises(DiagnosticError, match="n can be 36893488147419103231, past 64 bits") as caught:
        check_row(row)
    assert [each.rule_id for each in caught.value.diagnostics] == ["row.text"]


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(
    "values", [lambda n: (n,), lambda n: (0, n, 1), lambda n: (n, 0), lambda n: range(min(n, 0), n + 1)]
)
def test_numbers_at_the_ends_of_their_bits(bits: int, values: Callable[[int], Sequence[int]]) -> None:
    """A number of the machine has as many bits in its own text; LLVM passes one of 32 to an intrinsic."""
    lowest, highest = -(2 ** (bits - 1)), 2**bits - 1
    for number in (lowest - 1, lowest, highest, highest + 1):
        row = own_row("add.u32 {d}, {a}, {n};", output("d", B32), operand("a", B32), immediate("n", values(number)))
        if bits == 32:
            row = replace(row, lowering=Intrinsic("llvm.nvvm.none.such", ("a", "n")))
        said = ""
        try:
            check_row(row)
        except DiagnosticError as error:
            said = error.diagnostics[0].message
        assert (f"n can be {number}, past {bits} bits" in said) == (number not in range(lowest, highest + 1))


def test_an_access_that_begins_before_its_address() -> None:
    said = Semantics(memory=(writes("p", 4),))
    refused = failure(row_of("st.shared.u32 [{p}+-4], {a}; " + PLAIN, at=True, effects=ACCESS, semantics=said))
    assert refused.rule_id == "row.semantics"
    assert "begins -4 bytes from p" in refused.message


def intrinsic_row(name: str, *arguments: str | tuple[str, int]) -> Row:
    return Row("mine", "my.op", "my.op", (output("d", B32), operand("a", B32)), Intrinsic(name, arguments), summary="x")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (intrinsic_row("llvm.nvvm.sqrt.rn.f", "a"), "Intrinsic has incorrect return type"),
        (intrinsic_row("llvm.ctpop.i32", "a", "a"), "does not compile"),
        (intrinsic_row("llvm.ctpop.i32"), "does not compile"),
        (intrinsic_row("llvm.ctlz.i32", "a", "a"), "does not compile"),
        (intrinsic_row("llvm.nvvm.no.such", "a"), "has no intrinsic llvm.nvvm.no.such"),
        (intrinsic_row("llvm.x86.rdpid"), "does not compile"),
        (intrinsic_row('x"y\n', "a"), "is not the name of an LLVM intrinsic"),
        (intrinsic_row("malloc", "a"), "'malloc' is not the name of an LLVM intrinsic"),
        (intrinsic_row("llvm.ctpop.i32", "q"), "its argument 'q' is not an input of the row"),
        (intrinsic_row("llvm.ctlz.i32", "a", ("foo", 1)), "('foo', 1) is not a constant"),
        (intrinsic_row("llvm.ctpop.i32", "d"), "its argument 'd' is not an input of the row"),
    ],
)
def test_an_intrinsic_that_llvm_does_not_have_so(row: Row, words: str) -> None:
    """LLVM ends the process for such a call."""
    refused = failure(row)
    assert refused.rule_id == "row.text"
    assert words in refused.message


@pytest.mark.parametrize("zero", [0, False])
def test_an_intrinsic_as_llvm_has_it(zero: int) -> None:
    """Rows of equal numbers are equal, and judged once: False is a number as 0 is."""
    assert "clz.b32" in ptx_of(intrinsic_row("llvm.ctlz.i32", "a", ("i1", zero)))
    assert emitted(intrinsic_row("llvm.umin.i32", "a", ("i32", type(zero)(1))))["d"][0].type is u32
