"""What a row of the user's own says of itself: what it stores where, and what it computes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.ops.inline.computed import contradiction
from nvbackend.builder.ops.inline.own_row import check_row
from nvbackend.rows import (
    Asm,
    Effect,
    Intrinsic,
    RegisterClass,
    Row,
    RowOperand,
    Semantics,
    immediate,
    operand,
    output,
    writes,
)

B32, SHARED = RegisterClass.B32, RegisterClass.SHARED


def stored(register: RegisterClass, semantics: Semantics, ptx: str = "st.volatile.u32") -> Row:
    return Row(
        family="mine",
        opcode="st.mine",
        ptx=ptx,
        operands=(operand("address", register, align=4), operand("value", B32)),
        lowering=Asm("{ptx} [{address}], {value};"),
        effects=Effect.WRITES_MEMORY,
        semantics=semantics,
        summary="Stores a word.",
    )


def sent(row: Row, *, fence: bool, generic: bool) -> list[str]:
    """The rules that a kernel breaks which fills a box by the row and stores it by the async proxy."""

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, out: nvb.Pointer(u32, align=16)):
        box, thread = k.shared(u32, 128, align=16), k.thread_id()
        address = k.generic_address(box + thread) if generic else box + thread
        k.instruction(row, address=address, value=thread.to(u32))
        if fence:
            k.fence.proxy_async("shared::cta")
        k.barrier.sync()
        with k.one_thread():
            k.bulk.store(out, box, 512)
            k.tma.commit_group()
            k.tma.wait_group(0)

    try:
        kernel.build()
    except DiagnosticError as error:
        return [each.rule_id for each in error.diagnostics]
    return []


@pytest.mark.parametrize("extent", [4, None])
@pytest.mark.parametrize(
    ("register", "generic"), [(SHARED, False), (RegisterClass.GENERIC, False), (RegisterClass.GENERIC, True)]
)
def test_what_an_own_row_stores_needs_a_proxy_fence(register: RegisterClass, generic: bool, extent: int | None) -> None:
    """By a shared or a generic address, also where its semantics leave out how many bytes: the text has them."""
    ptx = "st.volatile.shared.u32" if register is SHARED else "st.volatile.u32"
    row = stored(register, Semantics(memory=(writes("address", extent),)), ptx)
    assert sent(row, fence=False, generic=generic) == ["proxy.missing-fence"]
    assert sent(row, fence=True, generic=generic) == []


@pytest.mark.parametrize(
    ("register", "memory", "words"),
    [
        (RegisterClass.GENERIC, (), "st.volatile.u32 writes memory at address, which its semantics leave out"),
        (RegisterClass.B64, (writes("address", 4),), "takes address for an address, and its register B64 is a number"),
    ],
)
def test_a_generic_store_says_where(register: RegisterClass, memory: tuple, words: str) -> None:
    with pytest.raises(DiagnosticError, match=r"row\.semantics") as caught:
        check_row(stored(register, Semantics(memory=memory)))
    assert words in caught.value.diagnostics[0].message


def computing(text: str, claim, *more: RowOperand, result: RegisterClass = B32) -> Row:
    return Row(
        family="mine",
        opcode="computes",
        ptx="mine",
        operands=(output("d", result), operand("a", B32), operand("b", B32), *more),
        lowering=Asm(text),
        semantics=Semantics(computes=claim),
        summary="x",
    )


AMOUNT = immediate("amount", (1, 3, 5), meaning="bits")
WIDE = RegisterClass.B64


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (computing("add.u32 {d}, {a}, {b};", lambda a, b: a + b), None),
        (computing("sub.u32 {d}, {a}, {b};", lambda a, b: a - b), None),
        (computing("mul.wide.u32 {d}, {a}, {b};", lambda a, b: a * b, result=WIDE), None),
        (computing("shr.u32 {d}, {a}, {amount};", lambda a, b, amount: a >> amount, AMOUNT), None),
        (computing("{{ .reg .b32 t; min.u32 t, {a}, {b}; add.u32 {d}, t, 1; }}", lambda a, b: min(a, b) + 1), None),
        (computing("add.u32 {d}, {a}, {b};", lambda a, b: a | b), "computes= of its semantics is"),
        (computing("shr.s32 {d}, {a}, {b};", lambda a, b: a >> min(b, 32)), "its text computes"),
        (computing("mul.wide.u32 {d}, {a}, {b};", lambda a, b: a * b % 2**32, result=WIDE), "its text computes"),
        (computing("shr.u32 {d}, {a}, {amount};", lambda a, b, amount: a >> 3, AMOUNT), "amount = "),
        (computing("add.u32 {d}, {a}, {b};", lambda a: a), "raises TypeError"),
        (computing("add.u32 {d}, {a}, {b};", lambda a, b: a / b), "computes= of its semantics"),
        (computing("activemask.b32 {d};", lambda a, b: 7), "is of a whole warp"),
    ],
)
def test_what_a_row_claims_to_compute_is_compared_with_its_text(row: Row, words: str | None) -> None:
    if words is None:
        assert len(emitted_two(row)) == 1
        return
    with pytest.raises(DiagnosticError, match=r"row\.semantics") as caught:
        emitted_two(row)
    (fault,) = caught.value.diagnostics
    assert words in fault.message and fault.location is not None and fault.location.file == __file__


F32 = RegisterClass.F32


@pytest.mark.parametrize(
    ("row", "is_tried"),
    [
        (computing("add.u32 {d}, {a}, {b};", None), True),
        (computing("add.u32 {d}, {a}, {b};", None, operand("c", B32, count=2)), False),
        (computing("mov.b32 {d}, {a};", None, result=F32), False),
        (computing("add.u32 {d}, {a}, {b};", None, operand("c", F32)), False),
        (computing("add.u32 {d}, {a}, {b};", None, output("e", B32, tied=True)), False),
        (computing("mov.b64 {d}, {{{a}, {b}}};", None, result=WIDE), True),
        (replace(computing("add.u32 {d}, {a}, {b};", None), effects=Effect.ORDERS), False),
        (replace(computing("add.u32 {d}, {a}, {b};", None), operands=(operand("a", B32),)), False),
        (replace(computing("", None), lowering=Intrinsic("llvm.umin.i32", ("a", "b"))), False),
        (computing("shr.u32 {d}, {a}, {amount};", None, AMOUNT), True),
    ],
)
def test_a_claim_of_whole_numbers_alone_is_tried(row: Row, is_tried: bool) -> None:
    """The simulator is given 32 or 64 bits of one register an operand, of what only computes; of others nothing is."""
    case = contradiction(row, lambda **_: -1)
    assert (case is not None) is is_tried


@pytest.mark.parametrize("register", [RegisterClass.B16, B32, WIDE], ids=str)
@pytest.mark.parametrize("place", [0, 1])
def test_a_claim_that_is_wrong_of_few_numbers_is_found(register: RegisterClass, place: int) -> None:
    """At the ends of the type with and without a sign, of some shift amount, and of some number between them."""
    bits = int(register.llvm[1:])
    wide = tuple(replace(each, register=register) for each in computing("", None).operands)
    row = replace(computing(f"xor.b{bits} {{d}}, {{a}}, {{b}};", None), operands=wide)
    half, ones = 1 << bits - 1, (1 << bits) - 1
    wrong = [range(number, number + 1) for number in (0, 1, half - 1, half, ones)]
    for numbers in (*wrong, range(2, 32), range(32, half - 1), range(half + 1, ones)):
        case = contradiction(row, lambda *given, numbers=numbers: given[0] ^ given[1] ^ (given[place] in numbers))
        assert case is not None
        inputs, number, claimed = case
        a, b = inputs.values()
        assert (a, b)[place] in numbers
        assert (list(inputs), number, claimed) == (["a", "b"], a ^ b, a ^ b ^ 1)
    assert contradiction(row, lambda a, b: a ^ b | 1 << bits) is None


@pytest.mark.parametrize("operands", [(), (AMOUNT,)])
def test_a_claim_of_no_registers(operands: tuple[RowOperand, ...]) -> None:
    row = replace(computing("{ptx} {d}, 7;", None), ptx="mov.u32", operands=(output("d", B32), *operands))
    assert contradiction(row, lambda *_: 7) is None
    case = contradiction(row, lambda *_: 8)
    assert case is not None
    assert (list(case[0]), case[1:]) == ([each.name for each in operands], (7, 8))


def emitted_two(row: Row) -> dict[str, list[nvb.Value]]:
    k = KernelBuilder("own", "sm_90a", threads=32)
    numbers = {"amount": 1} if row.has_operand("amount") else {}
    return k.instruction(row, a=k.thread_id().to(u32), b=k.const(3, u32), **numbers)
