"""The evaluator of per-thread integers while a function is built: each value in every thread.

A variable's value depends on the path; where two paths meet, the condition that parted them selects it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from llvmlite import ir

from nvbackend.builder.thread_tables.tables import Cta
from nvbackend.builder.value_tracking.known import Known
from nvbackend.builder.value_tracking.results import constant_of, inputs, result_of, selected
from nvbackend.builder.value_tracking.uniformity_graph import key_of
from nvbackend.intrinsics.row.semantics import Scope


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """What a variable holds after an if: `yes` in the threads where `condition` holds, else `no`; either may be one."""

    condition: ir.Value
    yes: ir.Value | Merged
    no: ir.Value | Merged


class Evaluator:
    """The values over `cta`; `counters` are the slots of loop counters that are the same in all its threads.

    `merged` has the loads of variables that an if has set, and what they read.
    """

    def __init__(
        self, cta: Cta, counters: Container[ir.Value] = (), merged: Mapping[ir.Value, Merged] | None = None
    ) -> None:
        self.cta = cta
        self._counters = counters
        self._merged = {} if merged is None else merged
        self._found: dict[int, tuple[ir.Value, Known]] = {}
        self._equal: dict[tuple[object, ...], Known] = {}
        """What is known of equal expressions."""

    def known(self, value: ir.Value) -> Known:
        """What is known of `value`. Its operands are evaluated first, without recursion, because chains are long."""
        found = self._found
        waiting = [value]
        while waiting:
            one = waiting[-1]
            if id(one) in found:
                waiting.pop()
                continue
            sources = self._sources(one)
            missing = [each for each in sources if id(each) not in found]
            if missing:
                waiting += missing
                continue
            found[id(one)] = one, self._once(one, [found[id(each)][1] for each in sources])
            waiting.pop()
        return found[id(value)][1]

    def _sources(self, value: ir.Value) -> tuple[ir.Value, ...]:
        if isinstance(value, Merged):
            return value.condition, value.yes, value.no
        if isinstance(value, ir.LoadInstr):
            return (self._merged[value],) if value in self._merged else ()
        if not isinstance(value, ir.Instruction) or isinstance(value, (ir.PhiInstr, ir.AllocaInstr)):
            return ()
        return inputs(value)

    def _once(self, value: ir.Value, sources: list[Known]) -> Known:
        """What is known of a value, evaluated once for all that are equal."""
        key = None if isinstance(value, (ir.LoadInstr, Merged)) else key_of(value, tuple(map(id, sources)))
        if key is None:
            return self._evaluate(value, sources)
        if key not in self._equal:
            self._equal[key] = self._evaluate(value, sources)
        return self._equal[key]

    def _evaluate(self, value: ir.Value, sources: list[Known]) -> Known:
        if isinstance(value, Merged):
            return Known(*(selected(*sources) or ()))
        if isinstance(value, ir.LoadInstr):
            if sources:
                return sources[0]
            return Known(certain=Scope.CTA if value.operands[0] in self._counters else Scope.THREAD)
        if not isinstance(value, ir.Instruction):
            return constant_of(value)
        return result_of(value, sources, self.cta)
