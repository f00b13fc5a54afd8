"""Values that are taken for equal are: names of run-time values and keys of maps, against the numbers they come to."""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Callable

import pytest
from llvmlite import ir

from nvbackend.builder.value_tracking.addresses.places import symbol_name
from nvbackend.builder.value_tracking.addresses.tensor_maps import key_of

I32, I64 = ir.IntType(32), ir.IntType(64)
MASK = (1 << 32) - 1


def signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "xor")},
    "and_": operator.and_,
    "or_": operator.or_,
    "shl": lambda a, b: a << b % 32,
    "lshr": lambda a, b: a >> b % 32,
    "ashr": lambda a, b: signed(a) >> b % 32,
    "udiv": lambda a, b: a // (b or 1),
    "urem": lambda a, b: a % (b or 1),
}
INPUTS = [(5, 3), (0x80000007, 2), (12, MASK), (1, 1), (0xDEADBEEF, 9)]


def function() -> tuple[ir.IRBuilder, list[ir.Value]]:
    made = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [I32, I32]), "f")
    return ir.IRBuilder(made.append_basic_block()), list(made.args)


def expressions(seed: int) -> list[tuple[ir.Value, tuple[int, ...]]]:
    """Values of one block, each with what it comes to for each of the inputs; many are made twice, or nearly."""
    chance = random.Random(seed)
    b, arguments = function()
    made = [(each, tuple(pair[index] for pair in INPUTS)) for index, each in enumerate(arguments)]
    for _ in range(120):
        name = chance.choice(list(OPERATIONS))
        left = chance.choice(made[:12])
        if chance.random() < 0.5:
            number = chance.choice((1, 2, 3))
            right = ir.Constant(I32, number), (number,) * len(INPUTS)
        else:
            right = chance.choice(made[:6])
        numbers = tuple(OPERATIONS[name](x, y) & MASK for x, y in zip(left[1], right[1], strict=True))
        made.append((getattr(b, name)(left[0], right[0]), numbers))
    return made


@pytest.mark.parametrize("seed", range(10))
def test_values_with_one_name_are_equal(seed: int) -> None:
    by_name: dict[str, set[tuple[int, ...]]] = {}
    made = expressions(seed)
    for value, numbers in made:
        by_name.setdefault(symbol_name(value), set()).add(numbers)
    assert all(len(numbers) == 1 for numbers in by_name.values())
    assert len(by_name) < len(made)


@pytest.mark.parametrize("seed", range(10))
def test_maps_with_one_key_are_at_one_address(seed: int) -> None:
    by_key: dict[object, set[tuple[int, ...]]] = {}
    for value, numbers in expressions(seed):
        key = key_of(value)
        if key is not None:
            by_key.setdefault(key, set()).add(numbers)
    assert all(len(numbers) == 1 for numbers in by_key.values())
    assert len(by_key) > 5


def register(b: ir.IRBuilder, name: str) -> ir.Value:
    kind = ir.FunctionType(I32, [])
    known = b.module.globals.get(name)
    return b.call(known if known is not None else ir.Function(b.module, kind, name), [])


COMPARED: dict[str, Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]] = {
    "parameter": lambda _b, n, _m: n,
    "number": lambda _b, _n, _m: ir.Constant(I32, 7),
    "another number": lambda _b, _n, _m: ir.Constant(I32, 8),
    "sum": lambda b, n, m: b.add(n, m),
    "sum with a number": lambda b, n, _: b.add(n, ir.Constant(I32, 7)),
    "difference": lambda b, n, m: b.sub(n, m),
    "difference the other way": lambda b, n, m: b.sub(m, n),
    "product": lambda b, n, m: b.mul(n, m),
    "shift": lambda b, n, m: b.shl(n, m),
    "or": lambda b, n, m: b.or_(n, m),
    "and": lambda b, n, m: b.and_(n, m),
    "zeros in front": lambda b, n, _: b.zext(n, I64),
    "the sign in front": lambda b, n, _: b.sext(n, I64),
    "lower half": lambda b, n, _: b.trunc(n, ir.IntType(16)),
    "element": lambda b, n, m: b.gep(b.inttoptr(n, ir.PointerType()), [m], source_etype=I32),
    "element of another size": lambda b, n, m: b.gep(b.inttoptr(n, ir.PointerType()), [m], source_etype=I64),
    "element by a wide index": lambda b, n, m: b.gep(
        b.inttoptr(n, ir.PointerType()), [b.zext(m, I64)], source_etype=I32
    ),
    "the CTA's index": lambda b, _n, _m: register(b, "llvm.nvvm.read.ptx.sreg.ctaid.x"),
    "the CTA's index along y": lambda b, _n, _m: register(b, "llvm.nvvm.read.ptx.sreg.ctaid.y"),
    "grid": lambda b, _n, _m: register(b, "llvm.nvvm.read.ptx.sreg.nctaid.x"),
    "cluster": lambda b, _n, _m: register(b, "llvm.nvvm.read.ptx.sreg.clusterid.x"),
    "number of clusters": lambda b, _n, _m: register(b, "llvm.nvvm.read.ptx.sreg.nclusterid.x"),
}
NOT_COMPARED: dict[str, Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]] = {
    "thread": lambda b, _n, _m: register(b, "llvm.nvvm.read.ptx.sreg.tid.x"),
    "of the thread": lambda b, n, _: b.add(n, register(b, "llvm.nvvm.read.ptx.sreg.tid.x")),
    "load": lambda b, n, _: b.load(b.inttoptr(n, ir.PointerType()), typ=I32),
    "choice": lambda b, n, m: b.select(b.icmp_signed("<", n, m), n, m),
    "remainder": lambda b, n, m: b.urem(n, m),
}


def test_the_same_expression_has_one_key_and_others_have_others() -> None:
    b, (n, m) = function()
    keys = {name: [key_of(make(b, n, m)) for _ in range(2)] for name, make in COMPARED.items()}
    assert [name for name, (first, second) in keys.items() if first is None or first != second] == []
    for (one, (first, _)), (other, (second, _)) in itertools.combinations(keys.items(), 2):
        assert first != second, (one, other)
    assert [name for name, make in NOT_COMPARED.items() if key_of(make(b, n, m)) is not None] == []


@pytest.mark.parametrize("cast", ["ptrtoint", "addrspacecast"])
def test_casts_that_keep_the_address_change_no_key(cast: str) -> None:
    made = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.PointerType()]), "f")
    b = ir.IRBuilder(made.append_basic_block())
    kind = I64 if cast == "ptrtoint" else ir.PointerType(addrspace=1)
    assert key_of(getattr(b, cast)(made.args[0], kind)) == key_of(made.args[0]) is not None


def test_a_deep_expression_is_not_compared() -> None:
    b, (n, m) = function()
    chain = [n]
    for _ in range(20):
        chain.append(b.add(chain[-1], m))
    keys = [key_of(each) for each in chain]
    assert keys.index(None) > 8
    assert keys[-1] is None
