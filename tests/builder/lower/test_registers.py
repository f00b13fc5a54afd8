"""Registers that are taken out of results and slots many at once: the text of llvmlite's own instructions."""

from __future__ import annotations

import random
from collections.abc import Callable

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from nvbackend.builder.lower import registers
from nvbackend.builder.lower.live_builder import _OPERATIONS, LiveBuilder
from nvbackend.builder.lower.text import text_of_module
from nvbackend.diagnostics import DiagnosticError
from nvbackend.diagnostics.location import CallerChain

FLOAT, INTEGER = ir.FloatType(), ir.IntType(32)
KINDS = [FLOAT, INTEGER, FLOAT]


def function() -> ir.Function:
    made = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.LiteralStructType(KINDS)]), "f")
    made.append_basic_block("entry")
    return made


def live(of: ir.Function) -> LiveBuilder:
    builder = LiveBuilder(lambda: None, of, CallerChain())
    builder.position_at_end(of.entry_basic_block)
    return builder


def several(builder: ir.IRBuilder, struct: ir.Value) -> list[ir.Value]:
    slots = registers.slots(builder, KINDS, ['a "b"'] * len(KINDS))
    registers.stores(builder, registers.members(builder, struct, range(3)), slots)
    return registers.loads(builder, slots, "x")


def each(builder: ir.IRBuilder, struct: ir.Value) -> list[ir.Value]:
    slots = [builder.alloca(kind, name='a "b"') for kind in KINDS]
    members = [builder.extract_value(struct, place) for place in range(3)]
    for value, slot in zip(members, slots, strict=True):
        builder.store(value, slot)
    return [builder.load(slot, name="x") for slot in slots]


@pytest.mark.parametrize("make", [live, lambda of: ir.IRBuilder(of.entry_basic_block)], ids=["ours", "llvmlite's"])
def test_they_are_those_of_llvmlite(make: Callable[[ir.Function], ir.IRBuilder]) -> None:
    one, other = function(), function()
    first, second = several(make(one), one.args[0]), each(live(other), other.args[0])
    assert str(one) == str(other)
    for mine, theirs in zip(one.entry_basic_block.instructions, other.entry_basic_block.instructions, strict=True):
        assert isinstance(mine, type(theirs))
        assert all(hasattr(mine, name) for name in vars(theirs) if "cached" not in name)
        if isinstance(mine, ir.AllocaInstr):
            assert repr(mine) == repr(theirs)
        assert (mine.type, mine.name, mine.opname) == (theirs.type, theirs.name, theirs.opname)
        assert [operand.name for operand in mine.operands] == [operand.name for operand in theirs.operands]
    assert [value.name for value in first] == [value.name for value in second]
    builder = live(one)
    builder.ret_void()
    llvm.parse_assembly(str(one.module)).verify()
    assert text_of_module(one.module) == str(one.module)


def test_metadata_and_alignment_are_printed() -> None:
    one, other = function(), function()
    for made, instructions in ((one, several), (other, each)):
        instructions(live(made), made.args[0])
        for instr in made.entry_basic_block.instructions:
            instr.metadata["m"] = made.module.add_metadata([ir.Constant(INTEGER, 1)])
            if hasattr(instr, "align"):
                instr.align = 4
    assert text_of_module(one.module) == str(one.module)
    assert str(one) == str(other)
    assert str(one).count("!m") == len(one.entry_basic_block.instructions)


def test_names_are_those_that_llvmlite_gives() -> None:
    chance = random.Random(5)
    plain, quick = function(), function()
    quick.scope = registers.FunctionNames(quick.scope)
    for _ in range(500):
        name = chance.choice(["", "", "x", "x.1", ".2", ".40", "i"])
        assert quick.scope.register(name, deduplicate=True) == plain.scope.register(name, deduplicate=True)
        count = chance.randrange(4)
        several = [plain.scope.register(name, deduplicate=True) for _ in range(count)]
        assert list(quick.scope.several(name, count)) == several
    quick.scope.register("once")
    with pytest.raises(NameError, match="once"):
        quick.scope.register("once")
    assert [quick.scope.is_used(name) for name in ("once", "twice")] == [True, False]


def test_they_are_called_as_when_they_are_first_asked_for() -> None:
    for make in (several, each):
        made = function()
        early, late, _ = make(live(made), made.args[0])
        asked = early.get_reference()
        early.name, late.name = "early", 'a "late" one'
        assert (early.get_reference(), late.get_reference()) == (asked, r'%"a \22late\22 one"')


def test_they_go_where_the_builder_is() -> None:
    made = function()
    builder = live(made)
    slot = builder.alloca(FLOAT)
    last = builder.ret_void()
    builder.position_before(last)
    loaded = registers.loads(builder, [slot], "x")
    added = builder.fadd(*loaded, *loaded)
    assert made.entry_basic_block.instructions == [slot, *loaded, added, last]


def test_what_is_wrong_with_them_is_found() -> None:
    made, foreign = function(), function()
    builder = live(made)
    slot = builder.alloca(FLOAT)
    [value] = registers.loads(builder, [slot], "x")
    with pytest.raises(TypeError, match="i32"):
        registers.stores(builder, [ir.Constant(INTEGER, 1)], [slot])
    with pytest.raises(ValueError, match="zip"):
        registers.stores(builder, [value, value], [slot])
    theirs = live(foreign).alloca(FLOAT)
    for wrong in (
        lambda: registers.loads(builder, [theirs], "x"),
        lambda: registers.stores(builder, [value], [theirs]),
        lambda: registers.stores(builder, [registers.loads(live(foreign), [theirs], "x")[0]], [slot]),
        lambda: registers.members(builder, foreign.args[0], range(2)),
    ):
        with pytest.raises(DiagnosticError) as caught:
            wrong()
        assert caught.value.diagnostics[0].rule_id == "value.kernel"
    assert registers.members(builder, made.args[0], range(1, 3))[1].type == FLOAT
    builder.ret_void()
    with pytest.raises(DiagnosticError) as caught:
        registers.loads(builder, [slot], "x")
    assert caught.value.diagnostics[0].rule_id == "attach.block"


@pytest.mark.parametrize("method", [name for name in _OPERATIONS if not name.startswith("f")])
def test_operations_are_those_of_llvmlite(method: str) -> None:
    texts, shown = set(), set()
    for make in (live, lambda of: ir.IRBuilder(of.entry_basic_block)):
        made = function()
        builder = make(made)
        a = builder.extract_value(made.args[0], 1)
        sum_ = getattr(builder, method)(a, getattr(builder, method)(a, ir.Constant(INTEGER, 3)), name="sum")
        getattr(builder, method)(lhs=sum_, rhs=a, name="sum", flags=("nsw",))
        sum_.flags.append("nsw")
        shown.add(repr(sum_))
        with pytest.raises(ValueError, match="same type"):
            getattr(builder, method)(a, ir.Constant(FLOAT, 1.0))
        texts.add(tuple(str(instr).partition(", !dbg")[0] for instr in made.entry_basic_block.instructions))
    assert len(texts) == len(shown) == 1


def test_operations_of_floats_are_those_of_llvmlite() -> None:
    texts = set()
    for make in (live, lambda of: ir.IRBuilder(of.entry_basic_block)):
        made = function()
        builder = make(made)
        x = builder.extract_value(made.args[0], 0)
        for method in ("fadd", "fsub", "fmul", "fdiv", "frem"):
            x = getattr(builder, method)(getattr(builder, method)(x, x), x, flags=("fast",))
        texts.add(tuple(str(instr).partition(", !dbg")[0] for instr in made.entry_basic_block.instructions))
    assert len(texts) == 1
