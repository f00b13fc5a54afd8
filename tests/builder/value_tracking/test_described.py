"""Conditions in words: Python, reading the text, computes what the instructions do."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from llvmlite import ir

from nvbackend.builder.value_tracking.uniformity import described

WORD = ir.IntType(32)
NUMBERS = {"n": 37, "m": 11}
NAMES = {**NUMBERS, "tid": SimpleNamespace(x=5), "uniform": lambda value: value, "elect": lambda: 1}
RING: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and_": operator.and_,
    "or_": operator.or_,
    "xor": operator.xor,
}
"""Operations of which the last bits of the operands decide the last bits of the result."""
OF_LEAVES: dict[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("udiv", "sdiv"), operator.floordiv),
    **dict.fromkeys(("urem", "srem"), operator.mod),
    **dict.fromkeys(("lshr", "ashr"), operator.rshift),
    "shl": operator.lshift,
}
COMPARED = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Tree = tuple[ir.Value, int]
"""A value, and what it is for these numbers."""


def new() -> tuple[ir.IRBuilder, list[Tree]]:
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [WORD] * len(NUMBERS)), "f")
    for argument, name in zip(function.args, NUMBERS, strict=True):
        argument.name = name
    builder = ir.IRBuilder(function.append_basic_block())
    thread = ir.Function(module, ir.FunctionType(WORD, []), "llvm.nvvm.read.ptx.sreg.tid.x")
    values = [*zip(function.args, NUMBERS.values(), strict=True), (builder.call(thread, []), 5)]
    shuffle = ir.Function(module, ir.FunctionType(WORD, [WORD] * 4), "llvm.nvvm.shfl.sync.idx.i32")
    sum_of_both = builder.add(*function.args)
    values.append((builder.call(shuffle, [WORD(-1), sum_of_both, WORD(0), WORD(31)]), sum(NUMBERS.values())))
    elect = ir.Function(
        module, ir.FunctionType(ir.LiteralStructType([WORD, ir.IntType(1)]), [WORD]), "llvm.nvvm.elect.sync"
    )
    elected = builder.extract_value(builder.call(elect, [WORD(-1)]), 1)
    return builder, [*values, (builder.zext(elected, WORD), 1), (WORD(3), 3)]


def tree(chance: random.Random, builder: ir.IRBuilder, leaves: list[Tree], depth: int) -> Tree:
    if depth == 0:
        return chance.choice(leaves)
    if depth == 1 and chance.random() < 0.4:
        (value, number), name, by = chance.choice(leaves), chance.choice([*OF_LEAVES]), chance.randint(1, 9)
        return getattr(builder, name)(value, WORD(by)), OF_LEAVES[name](number, by)
    name = chance.choice([*RING])
    (left, a), (right, b) = (tree(chance, builder, leaves, chance.randrange(depth)) for _ in range(2))
    made = getattr(builder, name)(left, right)
    return builder.trunc(builder.zext(made, ir.IntType(64)), WORD), RING[name](a, b)


@pytest.mark.parametrize("seed", range(3))
def test_a_text_computes_what_the_instructions_do(seed: int) -> None:
    builder, leaves = new()
    for number in range(100):
        value, expected = tree(random.Random(100 * seed + number), builder, leaves, 2)
        assert (eval(described(value), dict(NAMES)) - expected) % (1 << 32) == 0, described(value)


@pytest.mark.parametrize("spelling", COMPARED)
def test_a_comparison_is_spelt_as_in_python(spelling: str) -> None:
    builder, leaves = new()
    for compare in (builder.icmp_signed, builder.icmp_unsigned):
        for left, a in leaves:
            for right, b in leaves:
                text = described(compare(spelling, left, right))
                assert eval(text, dict(NAMES)) is COMPARED[spelling](a, b), text
                assert spelling in text


def test_what_is_too_deep_or_has_no_words_is_left_out() -> None:
    builder, [(n, _), *_] = new()
    value, texts = n, ["n"]
    for _ in range(6):
        value = builder.add(value, n)
        texts.append(described(value))
    assert texts[:5] == ["n", "n + n", "(n + n) + n", "((n + n) + n) + n", "(((n + n) + n) + n) + n"]
    assert texts[5] == "(((... + n) + n) + n) + n" == texts[6]
    slot = builder.alloca(WORD, name="count")
    assert described(builder.add(builder.load(slot), n)) == "count + n"
    assert described(builder.load(builder.gep(slot, [WORD(1)]))) == "..."
    assert described(builder.call(ir.InlineAsm(ir.FunctionType(WORD, []), "", "=r"), [])) == "..."


def test_a_call_needs_no_parentheses() -> None:
    """Its arguments have theirs."""
    builder, [(n, _), (m, _), (thread, _), (uniform, _), (elected, _), _] = new()
    assert described(builder.add(uniform, builder.mul(n, m))) == "uniform(n + m) + (n * m)"
    assert described(builder.sub(builder.add(thread, n), elected)) == "(tid.x + n) - elect()"
