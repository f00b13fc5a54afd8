"""Which conditions agree: formulas over what does not change while a thread runs.

Parameters, indices of the thread and of its CTA, and what is computed of them alone. An election gives the same lane
each time (PTX ISA 9.7.13.12, elect.sync), and the index of a warp, taken from one of its lanes, is the same one. What
one instruction outside of loops gives, such as a load, a thread has once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container
from dataclasses import replace

from llvmlite import ir

from nvbackend.builder.value_tracking.calls import PURE
from nvbackend.builder.value_tracking.expressions.bits import FIXED
from nvbackend.builder.value_tracking.known import Known
from nvbackend.builder.value_tracking.results import MEMORY
from nvbackend.builder.value_tracking.uniformity_graph import Graph
from nvbackend.isel.machine.agreement import Formula

_CALLS = (*FIXED, *PURE, "llvm.nvvm.elect.sync", "llvm.nvvm.shfl.sync.idx.")
_OPPOSITE = {"ne": "eq", "sge": "slt", "uge": "ult", "sgt": "sle", "ugt": "ule"}
"""Comparisons that are facts by their opposites."""
_DEPTH = 8
"""Formulas deeper than this are one fact."""


class Agreement:
    """The formulas of one graph's conditions."""

    def __init__(
        self, graph: Graph, known: Callable[[int], Known | None], threads: int, repeated: Container[str]
    ) -> None:
        """`repeated` are the blocks that a thread may run more than once."""
        self._graph = graph
        self._known = known
        self._threads = threads
        self._fixed: list[bool] = []
        values = Counter(graph.numbers.values())
        for index, node in enumerate(graph.nodes):
            fixed = all(source < index and self._fixed[source] for source in graph.sources[index])
            once = isinstance(node, ir.Instruction) and values[index] == 1 and node.parent.name not in repeated
            self._fixed.append(once or (fixed and _is_fixed(node, graph.sources[index])))
        self._compared: dict[tuple[str, tuple[int, ...]], int] = {}

    def formula(self, condition: ir.Value) -> Formula | None:
        """The formula of one of the graph's conditions; None where it may change."""
        number = self._graph.numbers[id(condition)]
        return self._of(number, _DEPTH) if self._fixed[number] else None

    def _of(self, number: int, depth: int) -> Formula:
        node, sources = self._graph.nodes[number], self._graph.sources[number]
        if not all(self._fixed[source] for source in sources):
            return self._fact(number)  # it is asked once, of what may be others elsewhere
        if isinstance(node, ir.ICMPInstr):
            told = _OPPOSITE.get(node.op, node.op)
            return self._fact(number, self._compared.setdefault((told, sources), number), negated=told != node.op)
        if not depth or not isinstance(node, ir.Instruction) or node.opname not in ("and", "or", "xor"):
            return self._fact(number)
        if node.opname == "xor":
            right = self._graph.nodes[sources[1]]
            if not isinstance(right, ir.Constant):
                return self._fact(number)
            inner = self._of(sources[0], depth - 1)
            return replace(inner, negated=inner.negated is not bool(right.constant))
        return Formula(parts=tuple([self._of(source, depth - 1) for source in sources]), every=node.opname == "and")

    def _fact(self, number: int, fact: int | None = None, *, negated: bool = False) -> Formula:
        """What node `number` says as a `fact`, which is its own where none is given; or that its opposite holds."""
        known, fact = self._known(number), number if fact is None else fact
        if known is None:
            return Formula(fact, negated=negated)
        sides = known.sides(self._threads)
        if sides is not None and negated:
            sides = sides[1], sides[0]
        return Formula(fact, negated=negated, uniform=known.certain, sides=sides)


def _is_fixed(node: object, sources: tuple[int, ...]) -> bool:
    """Whether an operation on what does not change gives what does not change."""
    if not isinstance(node, ir.Instruction):
        return isinstance(node, (ir.Constant, ir.Argument))
    if isinstance(node, ir.CallInstr):
        return str(getattr(node.callee, "name", "")).startswith(_CALLS)
    if isinstance(node, ir.LoadInstr):
        return bool(sources) and isinstance(node.operands[0], ir.AllocaInstr)  # of a slot that holds what is stored
    return node.opname not in MEMORY
