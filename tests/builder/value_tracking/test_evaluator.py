"""Random integer expressions: the evaluator against plain Python, which computes every thread by itself.

What a program computes is run for each lane that may be elected, each CTA of the cluster, each thread, and for several
numbers of a run-time parameter. What does not depend on the parameter must be known wherever it is defined.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from nvbackend.builder.lower.lowering import lower
from nvbackend.builder.thread_tables.tables import Cta
from nvbackend.builder.value_tracking.execution import Evaluator
from nvbackend.builder.value_tracking.known import Known
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import special_registers, warp
from tests.support.tables import array

ALL = 0xFFFFFFFF
PARAMETERS = (0, 3, 0xFFFFFFF0)
WIDTHS = (1, 4, 8, 16, 32, 33, 64, 100)
SHAPES = ((64, 1, 1), (8, 4, 2), (160, 1, 1), (16, 2, 5), (1, 1, 64), (256, 1, 1))
Place = tuple[int, int, int]
"""The lane that is elected, the rank, the number of the parameter."""
Column = dict[Place, list["int | None"]]
"""The unsigned number in each thread, None where it is undefined."""


def to_signed(number: int, width: int) -> int:
    return number - (1 << width) if number >> width - 1 else number


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shift(function: Callable[[int, int], int]) -> Callable[[int, int, int], int | None]:
    return lambda a, b, width: function(a, b) if b < width else None


def signed_division(function: Callable[[int, int], int]) -> Callable[[int, int, int], int | None]:
    def divided(a: int, b: int, width: int) -> int | None:
        x, y = to_signed(a, width), to_signed(b, width)
        return None if y == 0 or (y == -1 and x == -(1 << width - 1)) else function(x, y)

    return divided


BINARY: dict[str, Callable[[int, int, int], int | None]] = {
    "add": lambda a, b, _: a + b,
    "sub": lambda a, b, _: a - b,
    "mul": lambda a, b, _: a * b,
    "and_": lambda a, b, _: a & b,
    "or_": lambda a, b, _: a | b,
    "xor": lambda a, b, _: a ^ b,
    "shl": shift(lambda a, b: a << b),
    "lshr": shift(lambda a, b: a >> b),
    "ashr": lambda a, b, width: to_signed(a, width) >> b if b < width else None,
    "udiv": lambda a, b, _: a // b if b else None,
    "urem": lambda a, b, _: a % b if b else None,
    "sdiv": signed_division(truncated),
    "srem": signed_division(lambda a, b: a - b * truncated(a, b)),
}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
EXTREMES = {"umin": (min, False), "umax": (max, False), "smin": (min, True), "smax": (max, True)}
REDUCTIONS = {
    ("add", "u32"): sum,
    ("min", "s32"): lambda numbers: min(to_signed(one, 32) for one in numbers),
    ("max", "s32"): lambda numbers: max(to_signed(one, 32) for one in numbers),
    ("min", "u32"): min,
    ("max", "u32"): max,
}


FLOATS = {"half": ir.HalfType(), "float": ir.FloatType(), "double": ir.DoubleType()}
_LETTERS = {"half": "e", "float": "f", "double": "d"}
_EXACT = {"half": 1 << 11, "float": 1 << 24, "double": 1 << 53}
"""Up to here each integer is one of the type's numbers; of larger ones nothing need be known."""


def rounded(number: int, kind: str) -> float:
    """The nearest number of a type of floats, as Python's own `struct` has it."""
    try:
        return struct.unpack(_LETTERS[kind], struct.pack(_LETTERS[kind], float(number)))[0]
    except (OverflowError, struct.error):
        return math.copysign(math.inf, number)


@dataclass
class Witness:
    """A value of the program, what it is in every thread, and whether it depends on run-time data."""

    value: ir.Value
    column: Column
    tainted: bool

    @property
    def width(self) -> int:
        return int(self.value.type.width)


class Program:
    """A straight line of random operations, through llvmlite and in plain Python."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        elects = draw(st.booleans())
        self.shape = draw(st.sampled_from(SHAPES[:2] if elects else SHAPES))
        self.threads = self.shape[0] * self.shape[1] * self.shape[2]
        self.cluster = 1 if elects else draw(st.sampled_from([1, 2]))
        parameters = PARAMETERS[:2] if elects else PARAMETERS
        self.places = [
            (leader, rank, parameter)
            for leader in (range(32) if elects else (0,))
            for rank in range(self.cluster)
            for parameter in parameters
        ]
        module = ir.Module()
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.IntType(32)]), "f")
        self.b = ir.IRBuilder(function.append_basic_block())
        self.values: list[Witness] = []
        self.floats: list[Witness] = []
        self.add(function.args[0], lambda place, _: place[2], tainted=True)
        x, y, _ = self.shape
        extents = dict(zip("xyz", self.shape, strict=True))
        for axis, (by, size) in zip("xyz", ((1, x), (x, y), (x * y, 1 << 30)), strict=True):
            self.register(f"tid.{axis}", lambda _, t, by=by, size=size: t // by % size)
            self.register(f"ntid.{axis}", lambda *_, extent=extents[axis]: extent)
        self.register("laneid", lambda _, t: t % 32)
        self.register("lanemask_lt", lambda _, t: (1 << t % 32) - 1)
        if self.cluster > 1:
            self.register("cluster_ctarank", lambda place, _: place[1])
            self.register("cluster_ctaid.x", lambda place, _: place[1])
            self.register("cluster_nctaid.x", lambda *_: self.cluster)
        if elects:
            made = lower(self.b, sync.elect(), {"mask": ALL})
            self.add(made["leader"][0], lambda place, _: place[0])
            self.add(made["elected"][0], lambda place, t: int(t % 32 == place[0]))

    def register(self, name: str, number: Callable[[Place, int], int]) -> None:
        made = lower(self.b, special_registers.special_register(name), {})
        self.add(made["value"][0], number)

    def add(self, value: ir.Value, number: Callable[[Place, int], int | None], *, tainted: bool = False) -> None:
        column = {place: [number(place, t) for t in range(self.threads)] for place in self.places}
        self.put(value, column, tainted)

    def put(self, value: ir.Value, column: Column, tainted: bool) -> None:
        mask = (1 << value.type.width) - 1
        kept = {place: [None if one is None else one & mask for one in row] for place, row in column.items()}
        self.values.append(Witness(value, kept, tainted))

    def one(self, width: int | None = None) -> Witness:
        """A value that there is, or a constant, of a width."""
        same = [one for one in self.values if width in (None, one.width)]
        if same and (width is None or self.draw(st.integers(0, 2))):
            return self.draw(st.sampled_from(same[-6:] if self.draw(st.booleans()) else same))
        assert width is not None
        small, large = st.integers(-9, 40), st.integers(-(1 << width - 1), (1 << width) - 1)
        number = self.draw(small | large) & (1 << width) - 1
        column = {place: [number] * self.threads for place in self.places}
        return Witness(ir.Constant(ir.IntType(width), number), column, tainted=False)

    def combine(self, function: Callable[..., int | None], *operands: Witness) -> Column:
        """`function` of the operands in each thread; undefined where one of them is."""
        return {
            place: [
                None if None in numbers else function(*numbers)
                for numbers in zip(*(one.column[place] for one in operands), strict=True)
            ]
            for place in self.places
        }

    # -- the operations -----------------------------------------------------------------------------------------------

    def binary(self) -> None:
        a = self.one()
        b = self.one(a.width)
        if self.draw(st.booleans()):
            a, b = b, a
        name = self.draw(st.sampled_from(sorted(BINARY)))
        column = self.combine(lambda x, y: BINARY[name](x, y, a.width), a, b)
        self.put(getattr(self.b, name)(a.value, b.value), column, a.tainted or b.tainted)

    def extreme(self) -> None:
        a = self.one()
        b, name = self.one(a.width), self.draw(st.sampled_from(sorted(EXTREMES)))
        function, with_sign = EXTREMES[name]
        kind = a.value.type
        globals_ = self.b.module.globals
        called = f"llvm.{name}.i{a.width}"
        callee = globals_.get(called) or ir.Function(self.b.module, ir.FunctionType(kind, [kind, kind]), called)
        read = (lambda one: to_signed(one, a.width)) if with_sign else (lambda one: one)
        column = self.combine(lambda x, y: function(read(x), read(y)), a, b)
        self.put(self.b.call(callee, [a.value, b.value]), column, a.tainted or b.tainted)

    def compare(self) -> None:
        a = self.one()
        b, name = self.one(a.width), self.draw(st.sampled_from(sorted(COMPARE)))
        with_sign = self.draw(st.booleans())
        read = (lambda one: to_signed(one, a.width)) if with_sign else (lambda one: one)
        made = (self.b.icmp_signed if with_sign else self.b.icmp_unsigned)(name, a.value, b.value)
        self.put(made, self.combine(lambda x, y: int(COMPARE[name](read(x), read(y))), a, b), a.tainted or b.tainted)

    def select(self) -> None:
        condition, yes = self.one(1), self.one()
        no = self.one(yes.width)
        column = {
            place: [
                None if c is None else (a if c else b)
                for c, a, b in zip(condition.column[place], yes.column[place], no.column[place], strict=True)
            ]
            for place in self.places
        }
        tainted = condition.tainted or yes.tainted or no.tainted
        self.put(self.b.select(condition.value, yes.value, no.value), column, tainted)

    def cast(self) -> None:
        one = self.one()
        to = self.draw(st.sampled_from([width for width in WIDTHS if width != one.width]))
        name = "trunc" if to < one.width else self.draw(st.sampled_from(["zext", "sext"]))
        read = (lambda number: to_signed(number, one.width)) if name == "sext" else (lambda number: number)
        self.put(getattr(self.b, name)(one.value, ir.IntType(to)), self.combine(read, one), one.tainted)

    def convert(self) -> None:
        """An integer as a float, which is its number rounded to nearest, or one of another size."""
        one = self.one()
        kind = self.draw(st.sampled_from(sorted(FLOATS)))
        with_sign = self.draw(st.booleans())
        read = (lambda number: to_signed(number, one.width)) if with_sign else (lambda number: number)
        exact = self.combine(read, one)
        column = {
            place: [None if number is None else rounded(number, kind) for number in row] for place, row in exact.items()
        }
        large = any(abs(number or 0) > _EXACT[kind] for row in exact.values() for number in row)
        tainted = one.tainted or large or one.width > 64
        made = (self.b.sitofp if with_sign else self.b.uitofp)(one.value, FLOATS[kind])
        if kind == "float" and self.draw(st.booleans()):
            made = self.b.fpext(made, FLOATS["double"])
        self.floats.append(Witness(made, column, tainted))

    def compare_floats(self) -> None:
        if not self.floats:
            self.convert()
        a = self.draw(st.sampled_from(self.floats))
        same = [one for one in self.floats if one.value.type == a.value.type]
        number = self.draw(st.sampled_from([0.0, 1.5, -2.0, 31.0, 32.5, 1024.0]))
        constant = Witness(
            ir.Constant(a.value.type, number), {place: [number] * self.threads for place in self.places}, tainted=False
        )
        b = self.draw(st.sampled_from([constant, *same]))
        name = self.draw(st.sampled_from(sorted(COMPARE)))
        made = (self.b.fcmp_ordered if self.draw(st.booleans()) else self.b.fcmp_unordered)(name, a.value, b.value)
        self.put(made, self.combine(lambda x, y: int(COMPARE[name](x, y)), a, b), a.tainted or b.tainted)

    def members(self) -> Witness:
        mask = self.draw(st.sampled_from([ALL, ALL, ALL, 0xFFFF, 0x80000001]))
        column = {place: [mask] * self.threads for place in self.places}
        return Witness(ir.Constant(ir.IntType(32), mask), column, tainted=False)

    def warps(self, function: Callable[..., list[int | None]], *operands: Witness) -> Column:
        """What `function` makes of the lanes of a warp."""
        return {
            place: [
                number
                for start in range(0, self.threads, 32)
                for number in function(*(one.column[place][start : start + 32] for one in operands))
            ]
            for place in self.places
        }

    def shuffle(self) -> None:
        mode, in_range = self.draw(st.sampled_from(warp.SHUFFLE_MODES)), self.draw(st.booleans())
        value, lane, members = self.one(32), self.one(32), self.members()
        width = self.draw(st.sampled_from([32, 32, 32, 16, 8, 2]))
        clamp = (0 if mode == "up" else 31) | (32 - width) << 8
        operands = {"members": members.value, "value": value.value, "lane": lane.value, "clamp": clamp}
        made = lower(self.b, warp.shuffle(mode, in_range), operands)

        def read(there: list[int], numbers: list, lanes: list) -> Iterator[tuple[int | None, int | None]]:
            for own in range(32):
                if lanes[own] is None or not there[own] >> own & 1:
                    yield None, None
                    continue
                by, first = lanes[own] & 31, own // width * width
                other = {"up": own - by, "down": own + by, "bfly": own ^ by, "idx": first + by % width}[mode]
                # Of a butterfly the lanes of earlier segments are in range.
                within = first <= other if mode == "up" else other < first + width
                source = other if within else own
                yield (numbers[source] if there[own] >> source & 1 else None), int(within)

        tainted = value.tainted or lane.tainted
        results = self.warps(lambda *of: [one for one, _ in read(*of)], members, value, lane)
        self.put(made["result"][0], results, tainted)
        if in_range:
            column = self.warps(lambda *of: [one for _, one in read(*of)], members, value, lane)
            self.put(made["in_range"][0], column, lane.tainted)

    def collect(self, row, operand: str, value: Witness, function: Callable[[list[int], int, int], int]) -> None:
        """A vote, match or reduction: `function` has the numbers of the members, the own one, and the mask."""
        members = self.members()
        made = lower(self.b, row, {"members": members.value, operand: value.value})

        def collected(there: list[int], numbers: list) -> list[int | None]:
            used = [number for lane, number in enumerate(numbers) if there[0] >> lane & 1]
            defined = None not in used
            return [
                function(used, numbers[own], there[0], numbers) if defined and there[0] >> own & 1 else None
                for own in range(32)
            ]

        (result,) = made.values() if len(made) == 1 else (made["lanes"],)
        self.put(result[0], self.warps(collected, members, value), value.tainted)

    def vote(self) -> None:
        mode = self.draw(st.sampled_from(warp.VOTES))
        functions = {
            "any": lambda used, *_: int(any(used)),
            "all": lambda used, *_: int(all(used)),
            "uni": lambda used, *_: int(len(set(used)) == 1),
            "ballot": lambda _, __, there, numbers: sum(
                1 << lane for lane, one in enumerate(numbers) if one and there >> lane & 1
            ),
        }
        self.collect(warp.vote(mode), "predicate", self.one(1), functions[mode])

    def match(self) -> None:
        bits, mode = self.draw(st.sampled_from([32, 64])), self.draw(st.sampled_from(warp.MATCHES))
        row = warp.match(mode, bits, mode == "all" and self.draw(st.booleans()))
        functions = {
            "any": lambda _, own, there, numbers: sum(
                1 << lane for lane, one in enumerate(numbers) if one == own and there >> lane & 1
            ),
            "all": lambda used, _, there, __: there if len(set(used)) == 1 else 0,
        }
        self.collect(row, "value", self.one(bits), functions[mode])

    def reduce(self) -> None:
        operation, element = self.draw(st.sampled_from(sorted(REDUCTIONS)))
        function = REDUCTIONS[operation, element]
        self.collect(warp.reduce(operation, element), "value", self.one(32), lambda used, *_: function(used))


SIMPLE = ("binary", "binary", "compare", "select", "cast", "extreme", "convert", "compare_floats")
OF_WARPS = ("shuffle", "vote", "match", "reduce")


@st.composite
def programs(draw: st.DrawFn) -> Program:
    program = Program(draw)
    for _ in range(draw(st.integers(4, 10))):
        getattr(program, draw(st.sampled_from((*SIMPLE, *OF_WARPS))))()
    return program


def scope_of(program: Program, column: Column) -> Scope:
    """The largest scope over which a value is the same, whichever lanes are elected."""
    groups = {Scope.CTA: program.threads, Scope.WARPGROUP: 128, Scope.WARP: 32}

    def same(size: int, *, everywhere: bool) -> bool:
        """Whether groups of that size agree; of one warp it is one lane that is elected."""
        places = program.places
        sets: dict[object, set[int | None]] = {}
        for leader, rank, parameter in places:
            row = column[leader, rank, parameter]
            for start in range(0, program.threads, size):
                key = () if everywhere else (start, rank, *((leader,) if size == 32 else ()))
                sets.setdefault((key, parameter), set()).update(set(row[start : start + size]) - {None})
        return all(len(one) <= 1 for one in sets.values())

    if same(program.threads, everywhere=True):
        return Scope.GRID
    return next((scope for scope, size in groups.items() if same(size, everywhere=False)), Scope.THREAD)


def assert_known(program: Program, witness: Witness, known: Known) -> None:
    whole = not any(None in row for row in witness.column.values())
    axes = len({leader for leader, _, _ in program.places}), program.cluster, program.threads
    where = known.numbers is not None if known.where is None else array(known.where).astype(bool)
    sure = np.broadcast_to(where, axes).tolist()
    numbers = np.broadcast_to(0 if known.numbers is None else array(known.numbers), axes).tolist()
    for (leader, rank, _), row in witness.column.items():
        found = zip(row, numbers[leader][rank], sure[leader][rank], strict=True)
        for thread, (number, claimed, is_sure) in enumerate(found):
            place = witness.value, leader, rank, thread
            assert number in (None, claimed) if is_sure else number is None or witness.tainted, place
    scope = scope_of(program, witness.column)
    assert known.certain <= scope
    if not witness.tainted and whole:
        assert known.certain == known.apparent == scope


@settings(max_examples=60, deadline=None)
@given(programs())
def test_values_are_those_of_every_thread_by_itself(program: Program) -> None:
    evaluator = Evaluator(Cta(program.threads, program.cluster, program.shape))
    for witness in (*reversed(program.values), *program.floats):
        assert_known(program, witness, evaluator.known(witness.value))


@pytest.mark.exhaustive
@settings(max_examples=5000, deadline=None)
@given(programs())
def test_many_more_values_are_those_of_every_thread(program: Program) -> None:
    evaluator = Evaluator(Cta(program.threads, program.cluster, program.shape))
    for witness in (*reversed(program.values), *program.floats):
        assert_known(program, witness, evaluator.known(witness.value))


def test_long_chains_need_no_recursion_and_each_value_once() -> None:
    """Each step uses the one before three times: whoever evaluates it anew each time never ends."""
    module = ir.Module()
    b = ir.IRBuilder(ir.Function(module, ir.FunctionType(ir.VoidType(), []), "f").append_basic_block())
    index = lower(b, special_registers.special_register("tid.x"), {})["value"][0]
    value, numbers = index, list(range(64))
    for step in range(3000):
        limit = ir.Constant(index.type, step % 61)
        value = b.select(b.icmp_unsigned("<", value, limit), b.add(value, index), b.xor(value, limit))
        numbers = [(one + t) % 2**32 if one < step % 61 else one ^ step % 61 for t, one in enumerate(numbers)]
    known = Evaluator(Cta(64, 1, (64, 1, 1))).known(value)
    assert known.numbers is not None
    assert array(known.numbers)[0, 0].tolist() == numbers
