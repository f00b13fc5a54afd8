"""Over which threads each branch of a finished function goes the same way: a divergence analysis on the LLVM IR.

Mutable variables are stack slots there, so what a slot may hold is followed along the control flow, as SSA form would.
A slot also differs between threads that reach a place by different ways, where one of the ways sets it: behind the two
sides of a divergent branch, and behind a loop that they leave after different numbers of rounds.

Nothing is taken to differ without a proof that it comes from a thread's index, its lane, its election or a load from
such a place: what is not known counts as the same in the whole grid.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from nvbackend.builder.uniformity_text import described
from nvbackend.builder.uniformity_values import (
    Known,
    constant_of,
    meet,
    result_of,
    scope_of,
    signed,
)
from nvbackend.diagnostics import Location
from nvbackend.intrinsics.hierarchy import WARP_SIZE
from nvbackend.isel.control_flow import ControlFlow
from nvbackend.isel.machine import Branch, Scope

_OTHER_AXES = ("tid.y", "tid.z")


@dataclass(frozen=True, slots=True)
class Choice:
    """What the builder knows of the branch at the end of a block.

    `rounds` are start, end and step of a counted loop whose header it is: the branch diverges where threads run other
    numbers of rounds, although each counts from a number of its own.
    """

    location: Location | None
    rounds: tuple[ir.Value, ir.Value, ir.Value] | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a slot holds where a block begins."""

    block: str
    slot: ir.AllocaInstr


@dataclass(frozen=True, slots=True)
class _Rounds:
    """How many rounds the loop with this header runs, a node of its own."""

    header: str


_Node: TypeAlias = "ir.Value | _Entry | _Rounds"


def branches(
    function: ir.Function, threads: int, choices: Mapping[str, Choice], scopes: dict[ir.Value, Scope] | None = None
) -> dict[str, Branch]:
    """The two-way branches of `function` by the names of their blocks; `threads` is the size of its CTA.

    What `scopes` has as keys is asked as well: it gets the largest scope over which each of these values is the same.
    """
    ends = {block.name: block.terminator for block in function.blocks if block.terminator is not None}
    conditional = {name: end for name, end in ends.items() if isinstance(end, ir.ConditionalBranch)}
    values = {} if scopes is None else scopes
    if not conditional and not values:
        return {}
    analysis = _Analysis(function, threads, choices)
    analysis.solve(conditional, values)
    values.update({value: scope_of(analysis.known_of(value)) for value in values})
    found = {}
    for name, end in conditional.items():
        choice = choices.get(name)
        known = analysis.known_of(analysis.asked[name])
        is_test = choice is None or choice.rounds is None
        found[name] = Branch(
            scope_of(known),
            one_thread=isinstance(known, tuple) and _one_of_a_warp(known) and is_test,
            fixed=isinstance(known, tuple),
            condition=described(end.operands[0]),
            location=choice.location if choice else None,
        )
    return found


def _one_of_a_warp(numbers: tuple[int, ...]) -> bool:
    return all(sum(numbers[start : start + WARP_SIZE]) <= 1 for start in range(0, len(numbers), WARP_SIZE))


class _Analysis:
    """Nodes are what conditions are computed from; edges lead to what a node is computed from."""

    def __init__(self, function: ir.Function, threads: int, choices: Mapping[str, Choice]) -> None:
        self.asked: dict[str, _Node] = {}
        self._threads = threads
        self._choices = choices
        self._blocks = {block.name: block for block in function.blocks}
        self._flow = ControlFlow({name: _following(block) for name, block in self._blocks.items()})
        self._stores = _Stores(function)
        # With several axes a thread's number in its CTA is not its index along x.
        self._exact = not any(f"llvm.nvvm.read.ptx.sreg.{axis}" in function.module.globals for axis in _OTHER_AXES)
        self._edges: dict[_Node, tuple[_Node, ...]] = {}
        # Values of llvmlite are slow to look up: once they are collected, nodes go by their numbers in this order.
        self._order: list[_Node] = []
        self._rank: dict[_Node, int] = {}
        self._sources: list[tuple[int, ...]] = []
        self._users: list[list[int]] = []
        self._known: list[Known | None] = []
        self._slots: dict[str, list[_Entry]] = {}
        self._varying: dict[_Entry, Scope] = {}
        self._applied: dict[str, Scope] = {}

    def solve(self, conditional: Mapping[str, ir.Instruction], values: Iterable[ir.Value] = ()) -> None:
        """Find what is known of every condition, and of `values`."""
        for name, end in conditional.items():
            choice = self._choices.get(name)
            self.asked[name] = end.operands[0] if choice is None or choice.rounds is None else _Rounds(name)
        self._order = order = self._collect([*self.asked.values(), *values])
        self._rank = rank = {node: index for index, node in enumerate(order)}
        self._sources = [tuple([rank[operand] for operand in self._edges[node]]) for node in order]
        self._users = [[] for _ in order]
        self._known = [None] * len(order)
        for index, node in enumerate(order):
            if isinstance(node, _Entry):
                self._slots.setdefault(node.block, []).append(node)
            for source in self._sources[index]:
                self._users[source].append(index)
        waiting = list(range(len(order)))
        while waiting:
            self._evaluate_all(waiting)
            changed: set[int] = set()
            for name, node in self.asked.items() if self._slots else ():
                scope = scope_of(self.known_of(node))
                if name in self._flow.successors and scope < self._applied.get(name, Scope.GRID):
                    self._applied[name] = scope
                    changed.update(rank[entry] for entry in self._diverge(name, scope))
            waiting = sorted(changed)

    def known_of(self, node: _Node) -> Known:
        """What is known of a condition or value that was asked for."""
        known = self._known[self._rank[node]]
        return Scope.GRID if known is None else known

    def _evaluate_all(self, waiting: list[int]) -> None:
        """Evaluate the nodes `waiting`, by their numbers, and those that are computed from what changes."""
        queued = set(waiting)
        while waiting:
            index = heapq.heappop(waiting)
            queued.discard(index)
            known = self._evaluate(index)
            if known is not None and known != self._known[index]:
                self._known[index] = known
                for user in self._users[index]:
                    if user not in queued:
                        queued.add(user)
                        heapq.heappush(waiting, user)

    # -- what a node is computed from --------------------------------------------------------------------------------

    def _collect(self, starts: Iterable[_Node]) -> list[_Node]:
        """Every node that the conditions depend on, those that it depends on first where there is no cycle."""
        finished: list[_Node] = []
        for start in starts:
            if start in self._edges:
                continue
            self._edges[start] = self._operands(start)
            path = [(start, iter(self._edges[start]))]
            while path:
                node, rest = path[-1]
                for operand in rest:
                    if operand not in self._edges:
                        self._edges[operand] = self._operands(operand)
                        path.append((operand, iter(self._edges[operand])))
                        break
                else:
                    finished.append(node)
                    path.pop()
        return finished

    def _operands(self, node: _Node) -> tuple[_Node, ...]:
        if isinstance(node, _Rounds):
            return self._choices[node.header].rounds or ()
        if isinstance(node, _Entry):
            before = self._flow.predecessors.get(node.block, ())
            return tuple(self._stores.last(block, node.slot) or _Entry(block, node.slot) for block in before)
        if not isinstance(node, ir.Instruction) or self._stores.is_unknown(node):
            return ()
        if _reads_slot(node):
            return (self._stores.before[node] or _Entry(node.parent.name, node.operands[0]),)
        return _inputs(node)

    # -- what is known of it ------------------------------------------------------------------------------------------

    def _evaluate(self, index: int) -> Known | None:
        """What is known of a node now; None where nothing that it depends on is known yet."""
        node, sources = self._order[index], self._sources[index]
        found = [known for source in sources if (known := self._known[source]) is not None]
        if isinstance(node, _Entry):
            return self._at_entry(node, found)
        if isinstance(node, ir.PhiInstr):
            return meet(found)
        if len(found) < len(sources):
            return None
        if isinstance(node, _Rounds):
            start, _, _ = self._edges[node]
            return _rounds(found, start.type.width)  # type: ignore[union-attr]
        return self._computed(node, found)

    def _at_entry(self, entry: _Entry, found: list[Known]) -> Known | None:
        known, varying = meet(found), self._varying.get(entry)
        if known is None or varying is None or isinstance(known, tuple):
            return known  # all ways bring the same numbers, or nothing is known of any of them
        return min(known, varying)

    def _computed(self, node: ir.Value, found: list[Known]) -> Known:
        if not isinstance(node, ir.Instruction):
            return constant_of(node, self._threads)
        if self._stores.is_unknown(node):
            return Scope.GRID
        return found[0] if _reads_slot(node) else result_of(node, found, self._threads, exact=self._exact)

    def _diverge(self, name: str, scope: Scope) -> list[_Entry]:
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
    tables = [known for known in bounds if isinstance(known, tuple)]
    if len(tables) < len(bounds):
        return min(scope_of(known) for known in bounds)
    start, end, step = ([signed(number, width) for number in table] for table in tables)
    return tuple(max(0, -(-(b - a) // by)) if by > 0 else 0 for a, b, by in zip(start, end, step, strict=True))


def _reads_slot(node: ir.Instruction) -> bool:
    return isinstance(node, ir.LoadInstr) and isinstance(node.operands[0], ir.AllocaInstr)


def _inputs(node: ir.Instruction) -> tuple[ir.Value, ...]:
    if isinstance(node, ir.PhiInstr):
        return tuple(value for value, _ in node.incomings)
    if isinstance(node, ir.ExtractValue):
        return (node.aggregate,)
    return tuple(node.args if isinstance(node, ir.CallInstr) else node.operands)


def _following(block: ir.Block) -> list[str]:
    end = block.terminator
    return [] if end is None else [one.name for one in end.operands if isinstance(one, ir.Block)]


class _Stores:
    """The stores to stack slots: which one a load reads, and which is the last of a block."""

    def __init__(self, function: ir.Function) -> None:
        self.before: dict[ir.Instruction, ir.Value | None] = {}
        """The value that a load in the same block as its store reads; None where the block did not store before."""
        self._last: dict[str, dict[ir.AllocaInstr, ir.Value]] = {}
        self._escaped: set[ir.Value] = set()
        for block in function.blocks:
            last = self._last[block.name] = {}
            for instruction in block.instructions:
                for used in instruction.operands:
                    if isinstance(used, ir.AllocaInstr):
                        self._follow(instruction, used, last)
                        break

    def _follow(self, instruction: ir.Instruction, slot: ir.AllocaInstr, last: dict[ir.AllocaInstr, ir.Value]) -> None:
        """What an instruction does with the slots among its operands, of which `slot` is the first."""
        if isinstance(instruction, ir.StoreInstr):
            value, place = instruction.operands
            if isinstance(place, ir.AllocaInstr):
                last[place] = value
            if isinstance(value, ir.AllocaInstr):
                self._escaped.add(value)
        elif isinstance(instruction, ir.LoadInstr):
            self.before[instruction] = last.get(slot)
        else:
            self._escaped.update(one for one in instruction.operands if isinstance(one, ir.AllocaInstr))

    def last(self, block: str, slot: ir.AllocaInstr) -> ir.Value | None:
        """What `block` leaves in `slot`, None where it does not store there."""
        return self._last[block].get(slot)

    def written(self, blocks: Iterable[str]) -> set[ir.AllocaInstr]:
        """The slots that some of `blocks` store to."""
        return {slot for block in blocks for slot in self._last[block]}

    def is_unknown(self, instruction: ir.Instruction) -> bool:
        """Whether it reads a slot whose address somebody else has."""
        return isinstance(instruction, ir.LoadInstr) and instruction.operands[0] in self._escaped
