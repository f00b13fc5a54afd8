"""Whether a store is to a map, against the addresses themselves: sums over parameters, threads, CTA registers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from llvmlite import ir

from nvbackend.builder.value_tracking.addresses.tensor_maps import Offsets

I8, I64 = ir.IntType(8), ir.IntType(64)
THREADS, BYTES = 7, 40
REGISTERS = ("ctaid.x", "ctaid.y", "nctaid.x", "clusterid.z")
LAUNCHES = [{name: chance.randrange(1, 1 << 40) for name in REGISTERS} for chance in map(random.Random, (1, 2, 3))]
"""What the registers are in some CTAs, all of it far apart."""


@dataclass
class Made:
    """A value, the parameter that it starts at, and its distance in each thread of each CTA; None for unknown."""

    value: ir.Value
    base: str
    numbers: list[list[int]] | None
    operations: int = 0


class Execution:
    """What the evaluator knows of threads: the numbers of some values."""

    cta = SimpleNamespace(threads=THREADS)

    def __init__(self) -> None:
        self.known: dict[ir.Value, list[int]] = {}

    def numbers(self, value: ir.Value) -> Sequence[int] | None:
        return self.known.get(value)


class Maker:
    """Values of one function."""

    def __init__(self, seed: int) -> None:
        self.chance, self.execution = random.Random(seed), Execution()
        module = ir.Module()
        kinds = [ir.PointerType(), ir.PointerType(), I64]
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "f")
        self.b = ir.IRBuilder(function.append_basic_block())
        self.pointers = [Made(each, each.name, [[0] * THREADS] * 3) for each in function.args[:2]]
        self.numbers = [Made(ir.Constant(I64, each), "", [[each] * THREADS] * 3) for each in (0, 1, 2, 3, 24, 64)]
        for name in REGISTERS:
            register = ir.Function(module, ir.FunctionType(I64, []), f"llvm.nvvm.read.ptx.sreg.{name}")
            self.numbers.append(Made(self.b.call(register, []), "", [[one[name]] * THREADS for one in LAUNCHES]))
        thread = self.b.add(function.args[2], function.args[2])
        self.execution.known[thread] = [each - 2 for each in range(THREADS)]
        self.numbers += [Made(thread, "", [self.execution.known[thread]] * 3), Made(function.args[2], "", None)]

    def number(self, depth: int) -> Made:
        if not depth or self.chance.random() < 0.3:
            return self.chance.choice(self.numbers)
        name = self.chance.choice(("add", "sub", "mul", "shl", "and_"))
        return self.combined(name, self.number(depth - 1), self.number(depth - 1))

    def place(self, depth: int) -> Made:
        """Mostly of one parameter and a number, as a pointer or as an integer."""
        start = self.chance.choice((self.pointers[0], self.pointers[0], self.pointers[1]))
        number = self.number(depth)
        if self.chance.random() < 0.5:
            value = self.b.gep(start.value, [number.value], source_etype=I8)
            return Made(value, start.base, number.numbers, number.operations + 1)
        whole = Made(self.b.ptrtoint(start.value, I64), start.base, start.numbers)
        name = self.chance.choice(("add", "add", "add", "sub", "mul"))
        sides = [whole, number] if self.chance.random() < 0.5 else [number, whole]
        if self.chance.random() < 0.1:
            sides[sides.index(number)] = Made(self.b.ptrtoint(self.pointers[0].value, I64), "p", [[0] * THREADS] * 3)
        return self.combined(name, *sides)

    def combined(self, name: str, left: Made, right: Made) -> Made:
        value, operations = getattr(self.b, name)(left.value, right.value), 1 + max(left.operations, right.operations)
        based = bool(left.base) + bool(right.base)
        known = left.numbers is not None and right.numbers is not None and name != "and_"
        if not known or based > 1 or (based and name != "add"):
            return Made(value, "", None, operations)
        assert left.numbers is not None
        assert right.numbers is not None
        pairs = [[*zip(a, b, strict=True)] for a, b in zip(left.numbers, right.numbers, strict=True)]
        if name == "shl" and not all(0 <= by < 64 for of_cta in pairs for _, by in of_cta):
            return Made(value, "", None, operations)
        compute: dict[str, Any] = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "shl": int.__lshift__}
        numbers = [[compute[name](*pair) for pair in of_cta] for of_cta in pairs]
        return Made(value, left.base or right.base, numbers, operations)


def is_inside(store: Made, start: Made, threads: int) -> bool:
    """Whether in each CTA some of the threads store to a byte of the map."""
    if store.numbers is None or start.numbers is None or store.base != start.base:
        return False
    return all(
        any(
            threads >> thread & 1 and 0 <= at - base < BYTES
            for thread, (at, base) in enumerate(zip(*each, strict=True))
        )
        for each in zip(store.numbers, start.numbers, strict=True)
    )


@pytest.mark.parametrize("seed", range(6))
def test_what_is_said_is_so_in_every_cta(seed: int) -> None:
    maker, seen = Maker(seed), {True: 0, False: 0}
    offsets = Offsets(maker.execution)  # type: ignore[arg-type]
    for _ in range(300):
        start = maker.place(maker.chance.choice((0, 1, 2, 3)))
        near = maker.combined("add", start, maker.number(1)) if isinstance(start.value.type, ir.IntType) else start
        store = near if maker.chance.random() < 0.6 else maker.place(maker.chance.choice((0, 1, 2)))
        threads = maker.chance.choice((0, 1, 0b1000000, 0b0111000, (1 << THREADS) - 1))
        expected = is_inside(store, start, threads)
        assert offsets.is_inside(store.value, start.value, BYTES, threads) == expected, (
            str(store.value),
            str(start.value),
        )
        seen[expected] += 1
    assert min(seen.values()) > 20, seen


def test_sums_that_are_too_long_are_of_no_map() -> None:
    maker = Maker(0)
    offsets, value, found = Offsets(maker.execution), maker.pointers[0].value, []  # type: ignore[arg-type]
    for _ in range(40):
        value = maker.b.gep(value, [maker.numbers[6].value], source_etype=I8)
        found.append(offsets.is_inside(value, value, BYTES, 1))
    assert found == [True] * found.index(False) + [False] * (40 - found.index(False))
    assert 8 < found.index(False) < 20


def test_an_index_of_wider_elements_is_no_number_of_bytes() -> None:
    """Ten elements of 4 bytes are 40 bytes, which is behind the map, and ten bytes are in it."""
    maker = Maker(0)
    (first, *_), ten = maker.pointers, ir.Constant(I64, 10)
    for kind, inside in ((I8, True), (ir.IntType(32), False)):
        store = maker.b.gep(first.value, [ten], source_etype=kind)
        assert Offsets(maker.execution).is_inside(store, first.value, BYTES, 1) is inside  # type: ignore[arg-type]


def test_a_number_that_was_a_float_is_not_known() -> None:
    """It may have been rounded; as an integer of other bits it is the same number."""
    maker = Maker(0)
    (first, *_), ten = maker.pointers, ir.Constant(I64, 10)
    rounded = maker.b.fptosi(maker.b.sitofp(ten, ir.HalfType()), I64)
    for number, inside in ((rounded, False), (maker.b.sext(maker.b.trunc(ten, ir.IntType(32)), I64), True)):
        store = maker.b.add(maker.b.ptrtoint(first.value, I64), number)
        assert Offsets(maker.execution).is_inside(store, first.value, BYTES, 1) is inside  # type: ignore[arg-type]
