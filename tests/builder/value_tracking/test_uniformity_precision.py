"""What is certainly not parted is not said to be: random structured programs against scopes by their nesting alone.

The witness follows no control flow graph: after an if or a loop, what it sets differs as far as its condition does.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.graphs import ControlFlow
from nvbackend.isel.protocols.convergence.regions import Divergence
from tests.builder.value_tracking.test_uniformity import VARIABLES, Builder, conditions, leaves, numbered, values

SCOPES = {"tid": Scope.THREAD, "warp": Scope.WARP, "warpgroup": Scope.WARPGROUP}
PARTS = (Scope.WARP, Scope.WARPGROUP, Scope.CTA)


def bodies(depth: int) -> st.SearchStrategy:
    choices = [
        st.tuples(st.just("probe")),
        st.tuples(st.just("set"), st.integers(0, VARIABLES - 1), values),
    ]
    if depth:
        inner = bodies(depth - 1)
        choices += [
            st.tuples(st.just("if"), conditions, inner, inner),
            st.tuples(st.just("range"), leaves, st.integers(0, 3), inner),
        ]
    return st.lists(st.one_of(choices), min_size=1, max_size=4)


class Nested:
    """How far each variable is the same, and how far all threads come to each probe."""

    def __init__(self) -> None:
        self.variables = [Scope.GRID] * VARIABLES
        self.probes: dict[int, Scope] = {}

    def value(self, tree) -> Scope:
        match tree:
            case ("var", number):
                return self.variables[number]
            case ("op", _, left, right):
                return min(self.value(left), self.value(right))
        return SCOPES.get(tree[0], Scope.GRID)

    def run(self, body, here: Scope) -> None:
        for statement in body:
            match statement:
                case ("probe",):
                    self.probes[id(statement)] = here
                case ("set", number, tree):
                    self.variables[number] = self.value(tree)
                case ("if", (_, left, right), yes, no):
                    self.sides(min(self.value(left), self.value(right)), yes, no, here)
                case ("range", start, _, inner):
                    self.loop(start, inner, here)

    def sides(self, scope: Scope, yes, no, here: Scope) -> None:
        before = [*self.variables]
        self.run(yes, min(here, scope))
        after, self.variables = self.variables, before
        self.run(no, min(here, scope))
        written = set_in(yes) | set_in(no)
        for number in written:
            self.variables[number] = min(scope, after[number], self.variables[number])

    def loop(self, start, inner, here: Scope) -> None:
        scope, before = self.value(start), None
        while before != self.variables:
            before = [*self.variables]
            self.run(inner, min(here, scope))
            for number in set_in(inner):
                self.variables[number] = min(scope, before[number], self.variables[number])


def set_in(body) -> set[int]:
    numbers: set[int] = set()
    for statement in body:
        match statement:
            case ("set", number, _):
                numbers.add(number)
            case ("if", _, yes, no):
                numbers |= set_in(yes) | set_in(no)
            case ("range", _, _, inner):
                numbers |= set_in(inner)
    return numbers


FEW = ("<", ("tid",), ("const", 31))
ASKS = ("if", ("==", ("var", 0), ("const", 0)), [("probe",)], [("probe",)])
ONE, OTHER = (("set", 0, ("const", number)) for number in (1, 2))
FIXED = ("set", 0, ("parameter",))


@example([("if", FEW, [ONE], [OTHER]), FIXED, ASKS, ("probe",), ASKS])
@example([("if", FEW, [ONE], [OTHER]), FIXED, ("range", ("parameter",), 3, [ASKS, ("probe",)]), ASKS])
@example([("range", ("tid",), 3, [("if", ("==", ("parameter",), ("const", 0)), [ONE], [OTHER])]), FIXED, ASKS])
@settings(max_examples=80, deadline=None)
@given(bodies(3))
def test_what_nesting_alone_shows_to_be_whole_is_not_parted(body):
    body, numbers = numbered([*body, ("probe",)])
    nested = Nested()
    nested.run(body, Scope.GRID)
    builder = Builder()
    builder.emit(body)
    machine = builder.k.finish().machine
    divergence = Divergence(machine, ControlFlow({name: one.successors for name, one in machine.blocks.items()}))
    places = [name for name, block in machine.blocks.items() for instr in block.instructions if instr.opcode == "fence"]
    assert len(places) == len(numbers)
    for probe, (place, block) in enumerate(zip(numbers, places, strict=True)):
        wrong = [scope for scope in PARTS if nested.probes[place] >= scope and divergence.is_parted(block, scope)]
        assert not wrong, probe
