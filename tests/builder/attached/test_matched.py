"""Which operands of an instruction's text are which operands of its row, as the PTX ISA writes them."""

from __future__ import annotations

import pytest

from nvbackend.builder.attached.matched import rows_for
from nvbackend.builder.ops.inline.text import statements_of, whole_text
from nvbackend.isel.target.target import Target
from nvbackend.ptx.syntax import Instruction, Operand, flattened

REGISTERS = [".reg .b32 %r<12>;", ".reg .b64 %rd<4>;", ".reg .pred %p<4>;"]
COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
PRODUCT = "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"
Bound = dict[str, tuple[object, ...]]


def shown(operand: Operand) -> object:
    return getattr(operand, "text", getattr(operand, "value", operand))


def bound(text: str) -> list[Bound]:
    """What the operands of each row are that the text may be."""
    statements = statements_of(whole_text(text, REGISTERS, Target.parse("sm_90a")), text)
    (instruction,) = [each for each in flattened(statements) if isinstance(each, Instruction)]
    found = rows_for(instruction, waits=False)
    return [{name: tuple(map(shown, operands)) for name, operands in of.items()} for _, of in found]


SHUFFLED = {"result": ("%r1",), "value": ("%r2",), "lane": ("%r3",), "clamp": (31,), "members": (-1,)}
COPIED = {"destination": ("%r1",), "tensor_map": ("%rd1",), "coordinates": ("%r2", 7), "barrier": ("%r4",)}
UNKNOWN = ("?",)
"""The place that an address is at which bytes are added to."""


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("cp.async.wait_group 3;", {"pending": (3,)}),
        ("bar.sync 1, 64;", {"id": (1,), "threads": (64,)}),
        ("mbarrier.arrive.shared::cta.b64 %rd1, [%r1];", {"state": ("%rd1",), "barrier": ("%r1",)}),
        ("mbarrier.arrive.shared::cta.b64 %rd1, [%r1+8];", {"state": ("%rd1",), "barrier": UNKNOWN}),
        ("mbarrier.arrive.shared::cta.b64 %rd1, [%r1+-8];", {"state": ("%rd1",), "barrier": UNKNOWN}),
        ("shfl.sync.idx.b32 %r1, %r2, %r3, 31, -1;", SHUFFLED),
        ("shfl.sync.idx.b32 %r1|%p1, %r2, %r3, 31, -1;", {**SHUFFLED, "in_range": ("%p1",)}),
        (f"{COPY} [%r1], [%rd1, {{%r2, 7}}], [%r4];", COPIED),
        (f"{COPY} [%r1+16], [%rd1, {{%r2, 7}}], [%r4];", {**COPIED, "destination": UNKNOWN}),
        (f"{COPY} [%r1], [%rd1, {{%r2, 7}}], [%r4+8];", {**COPIED, "barrier": UNKNOWN}),
        (
            f"{PRODUCT} {{%r1, %r2}}, {{%r3}}, {{%r4}}, {{%r5, %r6}};",
            {"d": ("%r1", "%r2"), "a": ("%r3",), "b": ("%r4",), "c": ("%r5", "%r6")},
        ),
    ],
)
def test_each_operand_is_where_the_text_has_it(text: str, operands: Bound) -> None:
    assert bound(text) == [operands]


def test_a_state_that_is_thrown_away_is_none() -> None:
    """PTX ISA 9.7.13.16.13: the sink symbol `_` in place of the state."""
    assert {"barrier": ("%r1",)} in bound("mbarrier.arrive.shared::cta.b64 _, [%r1];")
    assert {"barrier": ("%r1",)} not in bound("mbarrier.arrive.shared::cta.b64 %rd1, [%r1];")


@pytest.mark.parametrize(
    "text",
    [
        f"{COPY} [%r1], [%rd1, {{%r2, %r3, %r5}}], [%r4];",
        f"{COPY} [%r1], [%rd1, {{%r2}}], [%r4];",
        f"{COPY} [%r1], [%rd1], [%r4];",
        f"{COPY} [%r1], [%rd1, {{%r2, %r3}}], [%r4], %r5;",
        f"{COPY} [%r1, {{%r2, %r3}}], [%rd1, {{%r2, %r3}}], [%r4];",
        f"{COPY} %r1, [%rd1, {{%r2, %r3}}], [%r4];",
        f"{PRODUCT} {{%r1, %r2}}, {{%r3}}, {{%r4}}, {{%r5, %r6, %r7}};",
        f"{PRODUCT} {{%r1, %r2}}, %r3, %r4, {{%r5, %r6}};",
        f"{PRODUCT} %r1, {{%r3}}, {{%r4}}, {{%r5, %r6}};",
        "shfl.sync.idx.b32 {%r1, %p1}, %r2, %r3, 31, -1;",
        "mbarrier.arrive.shared::cta.b64 %rd1, %r1;",
        "mbarrier.arrive.shared::cta.b64 [%rd1], [%r1];",
        "cp.async.wait_group [%r1];",
    ],
)
def test_operands_of_another_form_are_those_of_no_row(text: str) -> None:
    assert bound(text) == []
