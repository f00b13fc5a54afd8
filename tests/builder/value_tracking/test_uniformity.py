"""Which threads a branch parts: random structured programs against an interpreter that runs every thread alone."""

from __future__ import annotations

import contextlib
import operator
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from nvbackend import i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.graphs import ControlFlow
from nvbackend.isel.protocols.convergence.regions import Divergence
from nvbackend.signature import Parameter, Scalar

THREADS = 256
PARAMETER = 3
VARIABLES = 2
GROUPS = {Scope.WARP: 32, Scope.WARPGROUP: 128, Scope.CTA: THREADS}
COMPARISONS = {"<": operator.lt, "==": operator.eq, ">=": operator.ge}
OPERATIONS = {"+": operator.add, "^": operator.xor, "//": operator.floordiv, "%": operator.mod}
MOST_STEPS = 4000

leaves = st.one_of(
    st.sampled_from([("tid",), ("tid",), ("parameter",), ("warp",), ("warpgroup",)]),
    st.tuples(st.just("var"), st.integers(0, VARIABLES - 1)),
    st.tuples(st.just("const"), st.sampled_from([0, 1, 2, 31, 32, 64, 128, 255])),
)
values = st.one_of(
    leaves,
    st.tuples(st.just("op"), st.sampled_from(["+", "^"]), leaves, leaves),
    st.tuples(
        st.just("op"), st.sampled_from(["//", "%"]), leaves, st.tuples(st.just("const"), st.sampled_from([2, 32]))
    ),
)
conditions = st.tuples(st.sampled_from(sorted(COMPARISONS)), values, values)


def statements(depth: int, in_loop: bool) -> st.SearchStrategy:
    choices = [
        st.tuples(st.just("probe")),
        st.tuples(st.just("set"), st.integers(0, VARIABLES - 1), values),
        st.tuples(st.just("return_if"), conditions),
    ]
    if in_loop:
        choices += [st.tuples(st.just(name), conditions) for name in ("break_if", "continue_if")]
    if depth:
        inner = bodies(depth - 1, in_loop)
        choices += [
            st.tuples(st.just("if"), conditions, inner, inner),
            st.tuples(st.just("range"), leaves, st.integers(0, 3), bodies(depth - 1, in_loop=True)),
        ]
    return st.one_of(choices)


def bodies(depth: int, in_loop: bool) -> st.SearchStrategy:
    return st.lists(statements(depth, in_loop), min_size=1, max_size=3)


class Leave(Exception):
    """A thread leaves a round, a loop or the kernel: how is its argument."""


@dataclass
class Thread:
    """One thread, run alone."""

    index: int
    probes: list[int]
    variables: list[int] = field(default_factory=lambda: [0] * VARIABLES)
    place: int = 0
    steps: int = 0

    def value(self, tree) -> int:
        match tree:
            case ("const", number):
                return number
            case ("var", number):
                return self.variables[number]
            case ("op", name, left, right):
                return OPERATIONS[name](self.value(left), self.value(right))
        return {"tid": self.index, "warp": self.index // 32, "warpgroup": self.index // 128, "parameter": PARAMETER}[
            tree[0]
        ]

    def holds(self, condition) -> bool:
        name, left, right = condition
        return COMPARISONS[name](self.value(left), self.value(right))

    def run(self, body, numbers) -> None:
        for statement in body:
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise Leave("kernel")
            match statement:
                case ("probe",):
                    self.probes[numbers[id(statement)]] += 1
                case ("set", number, tree):
                    self.variables[number] = self.value(tree)
                case ("if", condition, yes, no):
                    self.run(yes if self.holds(condition) else no, numbers)
                case ("range", start, rounds, inner):
                    self.loop(self.value(start) % 4, rounds, inner, numbers)
                case (name, condition):
                    if self.holds(condition):
                        raise Leave(name)

    def loop(self, start, stop, inner, numbers) -> None:
        for _ in range(start, stop):
            try:
                self.run(inner, numbers)
            except Leave as left:
                if left.args[0] == "break_if":
                    return
                if left.args[0] != "continue_if":
                    raise


class Builder:
    """The same program through the kernel builder; a probe is a fence."""

    def __init__(self) -> None:
        self.k = KernelBuilder("program", "sm_90a", threads=THREADS, parameters=[Parameter("n", Scalar(i32))])
        k = self.k
        self.leaves = {"tid": k.thread_id(), "parameter": k.arguments[0], "warp": k.warp_id()}
        self.leaves["warpgroup"] = k.warpgroup_id()
        self.variables = [k.var(0, i32) for _ in range(VARIABLES)]

    def value(self, tree):
        match tree:
            case (name,):
                return self.leaves[name]
            case ("const", number):
                return self.k.const(number, i32)
            case ("var", number):
                return self.variables[number].value
            case ("op", name, left, right):
                return OPERATIONS[name](self.value(left), self.value(right))
        raise AssertionError(tree)

    def condition(self, tree):
        name, left, right = tree
        return COMPARISONS[name](self.value(left), self.value(right))

    def emit(self, body) -> None:
        k = self.k
        for statement in body:
            match statement:
                case ("probe",):
                    k.fence.proxy_async()
                case ("set", number, tree):
                    self.variables[number].set(self.value(tree))
                case ("if", condition, yes, no):
                    with k.if_(self.condition(condition)):
                        self.emit(yes)
                    with k.else_():
                        self.emit(no)
                case ("range", start, rounds, inner):
                    with k.range(self.value(start) % 4, rounds):
                        self.emit(inner)
                case (name, condition):
                    getattr(k, name)(self.condition(condition))


def numbered(body, numbers=None):
    """Each probe gets a tuple and a number of its own, in the order of the text."""
    numbers = {} if numbers is None else numbers
    copies = []
    for statement in body:
        parts = [numbered(part, numbers)[0] if isinstance(part, list) else part for part in statement]
        copy = tuple(parts) if len(parts) > 1 else ("".join(parts),)
        if copy == ("probe",):
            copy = (*copy,)  # one of its own: equal constants may be one object
            numbers[id(copy)] = len(numbers)
        copies.append(copy)
    return copies, numbers


FEW = ("<", ("tid",), ("const", 31))
ASKS = ("if", ("==", ("var", 0), ("const", 0)), [("probe",)], [("probe",)])
SIDES = [("if", FEW, [("set", 0, ("const", 1))], [("probe",)]), ASKS]
ROUNDS = [("range", ("tid",), 3, [("set", 0, ("const", 1))]), ASKS]
BREAK = [("range", ("const", 0), 3, [("break_if", FEW), ("set", 0, ("const", 1))]), ASKS]
CONTINUE = [("range", ("const", 0), 3, [("continue_if", FEW), ("set", 0, ("const", 1))]), ASKS]


@example(SIDES)
@example(ROUNDS)
@example(BREAK)
@example(CONTINUE)
@settings(max_examples=150, deadline=None)
@given(bodies(3, in_loop=False))
def test_what_is_not_parted_is_executed_by_the_whole_group(body):
    body, numbers = numbered([*body, ("probe",)])
    executed = []
    for index in range(THREADS):
        probes = [0] * len(numbers)
        with contextlib.suppress(Leave):
            Thread(index, probes).run(body, numbers)
        executed.append(probes)
    builder = Builder()
    builder.emit(body)
    machine = builder.k.finish().machine
    divergence = Divergence(machine, ControlFlow({name: one.successors for name, one in machine.blocks.items()}))
    places = [name for name, block in machine.blocks.items() for instr in block.instructions if instr.opcode == "fence"]
    assert len(places) == len(numbers)
    for probe, block in enumerate(places):
        for scope, size in GROUPS.items():
            if divergence.is_parted(block, scope):
                continue
            for start in range(0, THREADS, size):
                assert len({executed[thread][probe] for thread in range(start, start + size)}) == 1, (probe, scope)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(COMPARISONS)), values, values)
def test_a_condition_over_indices_has_the_scope_that_its_numbers_have(name, left, right):
    """Without variables and parameters the scope is exact: the largest group in which no two threads differ."""
    builder = Builder()
    text = repr((left, right))
    numbers = [Thread(index, []).holds((name, left, right)) for index in range(THREADS)]
    with builder.k.if_(builder.condition((name, left, right))):
        builder.k.fence.proxy_async()
    machine = builder.k.finish().machine
    branch = machine.entry.branch
    assert branch is not None
    largest = Scope.THREAD
    for scope, size in GROUPS.items():
        if all(len(set(numbers[start : start + size])) == 1 for start in range(0, THREADS, size)):
            largest = scope
    found = min(branch.uniform, Scope.CTA)
    alone = all(sum(numbers[start : start + 32]) <= 1 for start in range(0, THREADS, 32))
    assert found <= largest
    assert alone or not branch.one_thread
    if "parameter" not in text:
        assert found == largest
        assert branch.one_thread is alone


@example(("tid",), ("const", 1))
@example(("const", 1), ("op", "//", ("tid",), ("const", 31)))
@example(("const", 0), ("op", "%", ("tid",), ("const", 32)))
@settings(max_examples=50, deadline=None)
@given(values, values)
def test_one_thread_runs_a_loop_where_the_others_have_no_rounds(start, stop):
    builder = Builder()
    with builder.k.range(builder.value(start), builder.value(stop)):
        builder.k.fence.proxy_async()
    machine = builder.k.finish().machine
    [branch] = [block.branch for block in machine.blocks.values() if block.branch is not None]
    runs = [Thread(index, []).value(start) < Thread(index, []).value(stop) for index in range(THREADS)]
    alone = all(sum(runs[first : first + 32]) <= 1 for first in range(0, THREADS, 32))
    assert alone or not branch.one_thread
    if "parameter" not in repr((start, stop)):
        assert branch.one_thread is alone
