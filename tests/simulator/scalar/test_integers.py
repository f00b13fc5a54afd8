"""Integer instructions, lane by lane, against PTX's pseudo-code on Python's integers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nvbackend.simulator.scalar import find
from tests.simulator.scalar.integer_meaning import meanings, signed
from tests.simulator.scalar.operands import computed, drawn, random_operands, width_of

MEANINGS = meanings()
_LEAST = 200
"""Opcodes that there are at least."""


@pytest.mark.parametrize("opcode", MEANINGS)
def test_it_computes_what_ptx_says(opcode):
    given = random_operands(opcode)
    if opcode == "fns.b32":
        given[1] &= np.uint32(31)
        given[2] = (given[2] % np.uint32(20)) - np.uint32(10)
    found = computed(opcode, *given)
    results = find(tuple(opcode.split("."))).results
    for lane in range(len(given[0])):
        operands = [int(one[lane]) for one in given]
        expected = MEANINGS[opcode](*operands)
        expected = expected if isinstance(expected, tuple) else (expected,)
        cut = [number & ((1 << width_of(kind)) - 1) for number, kind in zip(expected, results, strict=True)]
        assert [int(one[lane]) for one in found] == cut, (opcode, operands)


def test_there_are_all():
    assert len(MEANINGS) > _LEAST


def test_lop3_is_its_table():
    rows = np.array(list(itertools.product((0, 0xFFFFFFFF), repeat=3)), np.uint32)
    a, b, c = (np.ascontiguousarray(rows[:, place]) for place in range(3))
    bits = (a & 4 | b & 2 | c & 1).astype(int)
    for table in range(256):
        (found,) = computed("lop3.b32", a, b, c, np.full(8, table, np.uint32))
        assert (found == np.array([0xFFFFFFFF * (table >> one & 1) for one in bits], np.uint32)).all(), table


def test_fns_finds_nothing_from_a_base_that_is_none():
    (found,) = computed("fns.b32", *(np.array([one], np.uint32) for one in (0xFFFFFFFF, 0xFFFFFFF0, 1)))
    assert found.tolist() == [0xFFFFFFFF]


@pytest.mark.parametrize("boolean", ["or", "and"])
def test_lop3_with_a_predicate(boolean):
    rng = np.random.default_rng(5)
    a, b, q = drawn("b32", rng), drawn("b32", rng), drawn("pred", rng)
    zero, table = np.zeros_like(a), np.full_like(a, 0xC0)
    found, predicate = computed(f"lop3.{boolean}.b32", a, b, zero, table, q)
    assert (found == (a & b)).all()
    assert (predicate == ((found != 0) | q if boolean == "or" else (found != 0) & q)).all()


_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OF_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


@pytest.mark.parametrize("kind", [f"{sign}{bits}" for sign in "usb" for bits in (16, 32, 64)])
def test_setp_and_set(kind):
    names = {"u": _COMPARED | _OF_UNSIGNED, "s": _COMPARED, "b": {"eq": "==", "ne": "!="}}[kind[0]]
    for (name, symbol), boolean in itertools.product(names.items(), ("", "and", "or", "xor")):
        assert_comparison(name, boolean, kind, symbol)


def assert_comparison(name, boolean, kind, symbol):
    middle = f"{name}.{boolean}" if boolean else name
    given = random_operands(f"setp.{middle}.{kind}")
    given[1][::3] = given[0][::3]
    p, q = computed(f"setp.{middle}.{kind}", *given)
    (word,) = computed(f"set.{middle}.u32.{kind}", *given)
    (real,) = computed(f"set.{middle}.f32.{kind}", *given)
    for lane in range(len(p)):
        a, b = (signed(int(one[lane]), int(kind[1:])) if kind[0] == "s" else int(one[lane]) for one in given[:2])
        holds = eval(f"{a} {symbol} {b}")
        c = bool(given[2][lane]) if boolean else False
        combined = {"": holds, "and": holds and c, "or": holds or c, "xor": holds != c}[boolean]
        opposite = {"": not holds, "and": not holds and c, "or": not holds or c, "xor": holds == c}[boolean]
        assert (bool(p[lane]), bool(q[lane])) == (combined, opposite)
        assert int(word[lane]) == (0xFFFFFFFF if combined else 0)
        assert int(real[lane]) == (0x3F800000 if combined else 0)


def limits(kind):
    bits = int(kind[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


KINDS = [f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("to", KINDS)
def test_conversions_of_integers(to):
    for source in KINDS:
        assert_conversion(to, source, sat=False)
        if limits(to)[0] > limits(source)[0] or limits(to)[1] < limits(source)[1]:
            assert_conversion(to, source, sat=True)


def assert_conversion(to, source, *, sat):
    opcode = f"cvt.{'sat.' * sat}{to}.{source}"
    (a,) = random_operands(opcode)
    (found,) = computed(opcode, a)
    bits = int(to[1:])
    low, high = limits(to)
    for lane, one in enumerate(a.tolist()):
        number = signed(one, int(source[1:])) if source[0] == "s" else one
        expected = min(max(number, low), high) if sat else number
        assert int(found[lane]) == expected & ((1 << bits) - 1)


@pytest.mark.parametrize(
    "opcode",
    [
        *("add.f17", "add.s8", "mul.s32", "sub.sat.u32", "cvt.rn.s32.s32", "cvt.s32.f32", "setp.lo.s32", "setp.lt.b32"),
        *("shl.s32", "prmt.b32.f4f", "mul.wide.s64", "fma.f32", "cvt.rn.e4m3x2.f32", "min.xorsign.f32", "lop3.xor.b32"),
    ],
)
def test_what_ptx_has_not_is_not_found(opcode):
    assert find(tuple(opcode.split("."))) is None
