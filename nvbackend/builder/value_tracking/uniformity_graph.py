"""The def-use graph of a function's conditions, in which equal expressions are one node.

Two values are one node where the divergence analysis cannot tell them apart: the same operation on the same nodes.
Side effects do not matter here, so calls are included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from llvmlite import ir

from nvbackend.builder.value_tracking.results import inputs, key_of
from nvbackend.diagnostics.classes.dataclass import dataclass

Bounds: TypeAlias = tuple[ir.Value, ir.Value, ir.Value]
"""Start, end and step of a counted loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """What a slot holds where a block begins. There is one object of each."""

    block: str
    slot: ir.AllocaInstr


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """How many rounds the loop with this header runs, from its `bounds`."""

    header: str
    bounds: Bounds


Node: TypeAlias = "ir.Value | Entry | Rounds"


class Graph:
    """The nodes that `starts` depend on, by numbers: those that a node depends on first where there is no cycle.

    `before` gives the blocks that go on in the one that it is asked for.
    """

    def __init__(self, starts: Iterable[Node], stores: Stores, before: Callable[[str], Iterable[str]]) -> None:
        self.nodes: list[Node] = []
        """One of the values that are the node."""
        self.sources: list[tuple[int, ...]] = []
        """The nodes that a node is computed from, in the order of its operands."""
        self._stores = stores
        self._before = before
        self._entries: dict[tuple[str, int], Entry] = {}
        self.numbers: dict[int, int] = {}
        """The node of each value. Values are slow to compare, so they go by their `id`: all of them are in use."""
        self._equal: dict[tuple[object, ...], int] = {}
        self._in_cycles: list[tuple[int, tuple[Node, ...]]] = []
        for start in starts:
            self._collect(start)
        for index, operands in self._in_cycles:
            self.sources[index] = tuple([self.numbers[id(operand)] for operand in operands])
        self.users: list[list[int]] = [[] for _ in self.nodes]
        """The nodes that are computed from a node."""
        for index, sources in enumerate(self.sources):
            for source in sources:
                self.users[source].append(index)

    def _collect(self, start: Node) -> None:
        numbers = self.numbers
        if id(start) in numbers:
            return
        numbers[id(start)] = -1
        operands = self._operands(start)
        path: list[tuple[Node, tuple[Node, ...], Iterator[Node]]] = [(start, operands, iter(operands))]
        while path:
            node, operands, rest = path[-1]
            for operand in rest:
                if id(operand) in numbers:
                    continue
                if isinstance(operand, ir.Constant):
                    self._finish(operand, ())
                else:
                    numbers[id(operand)] = -1
                    inner = self._operands(operand)
                    if inner:
                        path.append((operand, inner, iter(inner)))
                        break
                    self._finish(operand, inner)
            else:
                self._finish(node, operands)
                path.pop()

    def _finish(self, node: Node, operands: tuple[Node, ...]) -> None:
        """Number a node, of which all that it depends on has a number unless there is a cycle."""
        sources = tuple([self.numbers[id(operand)] for operand in operands]) if operands else ()
        if -1 in sources:
            self._in_cycles.append((len(self.nodes), operands))
            key = None
        else:
            key = key_of(node, sources)
        number = None if key is None else self._equal.get(key)
        if number is None:
            number = len(self.nodes)
            self.nodes.append(node)
            self.sources.append(sources)
            if key is not None:
                self._equal[key] = number
        self.numbers[id(node)] = number

    def _operands(self, node: Node) -> tuple[Node, ...]:
        if isinstance(node, ir.LoadInstr):
            if self._stores.is_unknown(node):
                return ()
            if reads_slot(node):
                return (self._stores.before[node] or self._entry(node.parent.name, node.operands[0]),)
        if isinstance(node, ir.Instruction):
            return inputs(node)
        if isinstance(node, Rounds):
            return node.bounds
        return tuple(self._leaving(node)) if isinstance(node, Entry) else ()

    def _leaving(self, entry: Entry) -> Iterator[Node]:
        """What the slot holds at the end of the blocks before."""
        for block in self._before(entry.block):
            yield self._stores.last(block, entry.slot) or self._entry(block, entry.slot)

    def _entry(self, block: str, slot: ir.AllocaInstr) -> Entry:
        key = block, id(slot)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = Entry(block, slot)
        return entry


def reads_slot(node: ir.Value) -> bool:
    """Whether it is the load of a stack slot."""
    return isinstance(node, ir.LoadInstr) and isinstance(node.operands[0], ir.AllocaInstr)


class Stores:
    """The stores to stack slots: which one a load reads, and which is the last of a block."""

    def __init__(self, function: ir.Function) -> None:
        self.before: dict[ir.Instruction, ir.Value | None] = {}
        """The value that a load in the same block as its store reads; None where the block did not store before."""
        self._last: dict[str, dict[ir.AllocaInstr, ir.Value]] = {}
        self._escaped: set[ir.Value] = set()
        kinds = {kind for block in function.blocks for kind in set(map(type, block.instructions))}
        if not any(issubclass(kind, ir.AllocaInstr) for kind in kinds):
            return
        # Most instructions of a GEMM are parts of aggregates, and no aggregate is a slot.
        parts, stores, loads = (
            {kind for kind in kinds if issubclass(kind, base)}
            for base in (ir.ExtractValue, ir.StoreInstr, ir.LoadInstr)
        )
        for block in function.blocks:
            last = self._last[block.name] = {}
            for instruction in block.instructions:
                kind = type(instruction)
                if kind in parts:
                    continue
                if kind in stores:
                    value, place = instruction.operands
                    if isinstance(place, ir.AllocaInstr):
                        last[place] = value
                    if isinstance(value, ir.AllocaInstr):
                        self._escaped.add(value)
                elif kind in loads:
                    (place,) = instruction.operands
                    if isinstance(place, ir.AllocaInstr):
                        self.before[instruction] = last.get(place)
                else:
                    self._escaped.update([used for used in instruction.operands if isinstance(used, ir.AllocaInstr)])

    def last(self, block: str, slot: ir.AllocaInstr) -> ir.Value | None:
        """What `block` leaves in `slot`, None where it does not store there."""
        return self._last[block].get(slot)

    def written(self, blocks: Iterable[str]) -> set[ir.AllocaInstr]:
        """The slots that some of `blocks` store to."""
        return {slot for block in blocks for slot in self._last[block]}

    def is_unknown(self, instruction: ir.Instruction) -> bool:
        """Whether it reads a slot whose address escapes."""
        return isinstance(instruction, ir.LoadInstr) and instruction.operands[0] in self._escaped
