"""Divergence analysis on the LLVM IR: the scope over which each branch of a finished function is uniform.

Mutable variables are stack slots there, so what a slot may hold is followed along the control flow, as SSA form would.
A slot also diverges where threads meet that came by different paths, if a path sets it: after the two sides of a
divergent branch, and after a loop that they leave after different numbers of iterations.

A value counts as divergent only with a proof that it comes from a thread's index, its lane, its election or a load from
such an address; an unknown value counts as uniform over the grid.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from llvmlite import ir

from nvbackend.builder.thread_tables.table import each
from nvbackend.builder.thread_tables.tables import Cta, signed
from nvbackend.builder.value_tracking import strides
from nvbackend.builder.value_tracking.agreement import Agreement
from nvbackend.builder.value_tracking.known import Known, meet
from nvbackend.builder.value_tracking.results import constant_of, result_of
from nvbackend.builder.value_tracking.strided_values import promised, refined, strided_of
from nvbackend.builder.value_tracking.uniformity_graph import Bounds, Entry, Graph, Node, Rounds, Stores, reads_slot
from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.successors import successors_of
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.graphs import ControlFlow, on_cycles, postorder
from nvbackend.isel.machine.function import Branch

_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    **dict.fromkeys(("lshr", "ashr"), ">>"),
    **dict.fromkeys(("udiv", "sdiv"), "//"),
    **dict.fromkeys(("urem", "srem"), "%"),
    "eq": "==",
    "ne": "!=",
    **dict.fromkeys(("slt", "ult"), "<"),
    **dict.fromkeys(("sle", "ule"), "<="),
    **dict.fromkeys(("sgt", "ugt"), ">"),
    **dict.fromkeys(("sge", "uge"), ">="),
}
_CALLS = {
    "llvm.nvvm.read.ptx.sreg.": "",
    "llvm.nvvm.shfl.sync.idx": "uniform",
    "llvm.nvvm.elect.sync": "elect",
}
_CUT = "..."
_DEPTH = 4
"""Expressions deeper than this are cut off."""


def described(value: ir.Value, depth: int = _DEPTH) -> str:
    """`value` as an expression over special registers, parameters and variables."""
    value = _source(value)
    if not isinstance(value, ir.Instruction):
        return str(value.constant if isinstance(value, ir.Constant) else getattr(value, "name", _CUT))
    if isinstance(value, ir.LoadInstr):
        return str(value.operands[0].name) if isinstance(value.operands[0], ir.AllocaInstr) else _CUT
    if depth and isinstance(value, ir.CallInstr):
        return _call(value, depth)
    operator = _OPERATORS.get(value.op if isinstance(value, ir.ICMPInstr) else value.opname)
    if operator is None or depth == 0:
        return _CUT
    left, right = (_inner(operand, depth) for operand in value.operands)
    return f"{left} {operator} {right}"


def _inner(value: ir.Value, depth: int) -> str:
    text = described(value, depth - 1)
    return f"({text})" if " " in text and not isinstance(_source(value), ir.CallInstr) else text


def _source(value: ir.Value) -> ir.Value:
    """What a value is a part of, or is converted from."""
    while isinstance(value, (ir.CastInstr, ir.ExtractValue)):
        value = value.aggregate if isinstance(value, ir.ExtractValue) else value.operands[0]
    return value


def _call(call: ir.CallInstr, depth: int) -> str:
    name = "" if isinstance(call.callee, ir.InlineAsm) else str(call.callee.name)
    for prefix, spelling in _CALLS.items():
        if name.startswith(prefix):
            if not spelling:
                return name.removeprefix(prefix)
            return f"{spelling}({described(call.args[1], depth - 1) if len(call.args) > 1 else ''})"
    return _CUT


@dataclass(frozen=True, slots=True)
class Choice:
    """What the builder knows of the branch at the end of a block.

    `rounds` are start, end and step of a counted loop whose header it is: the branch diverges where threads run other
    numbers of rounds, although each counts from a number of its own.
    """

    location: Location | None
    rounds: Bounds | None = None


def branches(
    function: ir.Function,
    cta: Cta,
    choices: Mapping[str, Choice],
    scopes: dict[ir.Value, Scope] | None = None,
    divisor: Callable[[ir.Value], int] = lambda _: 1,
) -> dict[str, Branch]:
    """The two-way branches of `function` by the names of their blocks, over the threads of `cta`.

    What `scopes` has as keys is asked as well: it gets the largest scope over which each of these values is the same.
    `divisor` says of what a parameter is promised to be a multiple.
    """
    ends = {block.name: block.terminator for block in function.blocks}
    conditional = {name: end for name, end in ends.items() if isinstance(end, ir.ConditionalBranch)}
    values = {} if scopes is None else scopes
    analysis = _Analysis(function, cta, choices, divisor)
    analysis.solve(conditional, values)
    values.update({value: analysis.scope(value) for value in values})
    return {name: analysis.branch(name, end.operands[0]) for name, end in conditional.items()}


class _Analysis:
    """What is known of each node of the graph that the conditions are computed from."""

    def __init__(
        self, function: ir.Function, cta: Cta, choices: Mapping[str, Choice], divisor: Callable[[ir.Value], int]
    ) -> None:
        self._divisor = divisor
        self._asked: dict[str, Node] = {}
        self._cta = cta
        self._choices = choices
        self._function = function
        self._stores = Stores(function)
        self._graph = Graph((), self._stores, self._before)
        self._known: list[Known | None] = []
        self._scopes: dict[int, Scope] = {}
        self._slots: dict[str, list[Entry]] = {}
        self._varying: dict[Entry, Scope] = {}
        self._applied: dict[str, Scope] = {}
        self._agreement: Agreement | None = None

    @cached_property
    def _flow(self) -> ControlFlow:
        """Of the blocks that are there: a mistake may have left one open, and what follows it unmade."""
        blocks = self._function.blocks
        there = {block.name: [target.name for target in successors_of(block.terminator)] for block in blocks}
        return ControlFlow(
            {name: [other for other in following if other in there] for name, following in there.items()}
        )

    @cached_property
    def _repeated(self) -> set[str]:
        """The blocks that a thread may run more than once."""
        flow = self._flow
        order = postorder(list(flow.successors)[:1], flow.successors.__getitem__)
        return on_cycles(order[::-1], flow.predecessors.__getitem__)

    def _before(self, block: str) -> Iterable[str]:
        return self._flow.predecessors.get(block, ())

    def solve(self, conditional: Mapping[str, ir.Instruction], values: Iterable[ir.Value] = ()) -> None:
        """Find what is known of every condition, and of `values`."""
        for name, end in conditional.items():
            bounds = self._rounds(name)
            self._asked[name] = end.operands[0] if bounds is None else Rounds(name, bounds)
        self._graph = graph = Graph([*self._asked.values(), *values], self._stores, self._before)
        self._known = [None] * len(graph.nodes)
        self._agreement = Agreement(graph, self._known.__getitem__, self._cta.threads, self._repeated)
        for node in graph.nodes:
            if isinstance(node, Entry):
                self._slots.setdefault(node.block, []).append(node)
        waiting = list(range(len(graph.nodes)))
        while waiting:
            self._evaluate_all(waiting)
            changed: set[int] = set()
            for name, node in self._asked.items() if self._slots else ():
                scope = self.scope(node)
                if scope < self._applied.get(name, Scope.GRID) and name in self._flow.successors:
                    self._applied[name] = scope
                    changed.update(graph.numbers[id(entry)] for entry in self._diverge(name, scope))
            waiting = sorted(changed)

    def _rounds(self, name: str) -> Bounds | None:
        choice = self._choices.get(name)
        return None if choice is None else choice.rounds

    def scope(self, node: Node) -> Scope:
        """The largest scope over which a condition or value that was asked for is the same."""
        number = self._graph.numbers[id(node)]
        scope = self._scopes.get(number)
        if scope is None:
            known = self._known[number]
            scope = self._scopes[number] = Scope.GRID if known is None else known.apparent
        return scope

    def branch(self, name: str, condition: ir.Value) -> Branch:
        """What is known of the branch at the end of block `name`."""
        asked = self._asked[name]
        known = self._known[self._graph.numbers[id(asked)]]
        fixed = known is not None and known.is_whole
        alone = known is not None and known.is_one_lane(self._cta.threads)
        choice = self._choices.get(name)
        place = choice.location if choice else None
        formula = None if self._agreement is None or isinstance(asked, Rounds) else self._agreement.formula(condition)
        return Branch(self.scope(asked), alone, fixed, described(condition), place, formula)

    def _evaluate_all(self, waiting: list[int]) -> None:
        """Evaluate the nodes `waiting`, by their numbers, and those that are computed from what changes."""
        queued = set(waiting)
        while waiting:
            index = heapq.heappop(waiting)
            queued.discard(index)
            known = self._evaluate(index)
            before = self._known[index]
            if known is not None and (before is None or not known.equals(before)):
                self._known[index] = known
                self._scopes.pop(index, None)
                for user in self._graph.users[index]:
                    if user not in queued:
                        queued.add(user)
                        heapq.heappush(waiting, user)

    # -- what is known of it ------------------------------------------------------------------------------------------

    def _evaluate(self, index: int) -> Known | None:
        """What is known of a node now; None where nothing that it depends on is known yet."""
        node, sources = self._graph.nodes[index], self._graph.sources[index]
        operands = [known for source in sources if (known := self._known[source]) is not None]
        if isinstance(node, Entry):
            return self._at_entry(node, operands)
        if isinstance(node, ir.PhiInstr):
            return meet(operands)
        if len(operands) < len(sources):
            return None
        if isinstance(node, Rounds):
            start, *_ = node.bounds
            return _rounds(operands, start.type.width)
        return self._computed(node, operands)

    def _at_entry(self, entry: Entry, alternatives: list[Known]) -> Known | None:
        known, varying = meet(alternatives), self._varying.get(entry)
        if known is None or varying is None or known.is_whole:
            return known  # all ways bring the same numbers, or nothing is known of any of them
        return known.narrowed(varying)

    def _computed(self, node: ir.Value, operands: list[Known]) -> Known:
        if not isinstance(node, ir.Instruction):
            return promised(constant_of(node), node, self._divisor(node))
        if self._stores.is_unknown(node):
            return Known()
        if reads_slot(node):
            return operands[0]
        return refined(result_of(node, operands, self._cta), node, operands, self._cta)

    def _diverge(self, name: str, scope: Scope) -> list[Entry]:
        """Groups larger than `scope` part at the end of block `name`: where they meet, slots set on the ways differ.

        Returns those of which that was not known.
        """
        region = self._flow.region(name)
        places = self._joins(name, region)
        changed_slots = self._stores.written(region)
        if name in region:
            rounds = {name, *self._flow.reaching(name, region)}
            left = {follower for block in rounds for follower in self._flow.successors[block]} - rounds
            places |= left
        entries = (entry for place in places for entry in self._slots.get(place, ()))
        changed = [
            entry for entry in entries if entry.slot in changed_slots and scope < self._varying.get(entry, Scope.GRID)
        ]
        self._varying.update(dict.fromkeys(changed, scope))
        return changed

    def _joins(self, name: str, region: set[str]) -> set[str]:
        """The blocks that two ways from the branch reach which have no block in common before."""
        labels = {follower: follower for follower in self._flow.successors[name]}
        waiting = list(labels)
        joins: set[str] = set()
        while waiting:
            block = waiting.pop()
            if block == name or block not in region:
                continue
            for follower in self._flow.successors[block]:
                label = labels.setdefault(follower, "")
                if not label:
                    labels[follower] = labels[block]
                elif label == labels[block]:
                    continue
                else:
                    joins.add(follower)
                    if label == follower:
                        continue
                    labels[follower] = follower
                waiting.append(follower)
        return joins


def _rounds(bounds: list[Known], width: int) -> Known:
    """The number of rounds from start to end by step, in each thread where all three are known."""
    whole = [signed(known.numbers, width) for known in bounds if known.numbers is not None and known.where is None]
    if len(whole) < len(bounds):
        followed = [side for known in bounds if (side := strided_of(known, width)) is not None]
        same = strides.rounds(*followed) if len(followed) == len(bounds) else Scope.THREAD
        return Known(apparent=max(same, min(known.apparent for known in bounds)))
    start, end, step = whole
    distance = each(operator.sub, end, start)
    return Known(each(lambda far, by: max(-(-far // by), 0) if by > 0 else 0, distance, step))
