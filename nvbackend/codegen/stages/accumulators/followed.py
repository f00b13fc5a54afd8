"""What registers would hold of the variables that assembly of wgmma sets, followed through a kernel's blocks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from nvbackend.codegen.stages.accumulators.statements import (
    Code,
    FlowBlock,
    ResultTakes,
    TiedAsm,
    Value,
    VariableLoads,
    VariableStores,
)
from nvbackend.diagnostics.classes.dataclass import dataclass

_MOST_ROUNDS = 8
"""Blocks that it takes longer to follow are rare, and stay as they are."""

_State = tuple[dict[str, Value], frozenset[str]]
"""What registers hold, and the variables whose own values may be older. It is shared, and never changed."""


@dataclass
class Followed:
    """What the registers of `variables` hold.

    `tied` has the operands of each assembly that are registers: the variable and its argument, by the result; `names`
    the values that are in registers, `copied` those of them that others read; `unclear` the variables that are not to
    be held.
    """

    variables: dict[str, str]
    tied: dict[int, dict[int, tuple[str, int]]] = field(default_factory=dict)
    names: dict[str, tuple[str, Value]] = field(default_factory=dict)
    copied: set[str] = field(default_factory=set)
    unclear: set[str] = field(default_factory=set)
    _now: dict[str, Value] = field(default_factory=dict)
    _newer: frozenset[str] = frozenset()
    _results: dict[str, dict[int, tuple[str, Value]]] = field(default_factory=dict)
    _in_flight: set[int] = field(default_factory=set)
    _missed: set[str] = field(default_factory=set)
    """What was asked for in this round and not known."""

    def follow(self, code: Code) -> None:
        """Go through the blocks until each begins with what those before it end with."""
        begins: dict[int, _State] = {}
        ends: dict[int, _State] = {}
        for _ in range(_MOST_ROUNDS):
            self.tied, self.copied, self.unclear, self._missed = {}, set(), set(), set()
            for number, block in enumerate(code.blocks):
                begins[number] = self._begin(block, ends)
                for each in block.statements:
                    self._statement(each)
                ends[number] = self._now, self._newer
            if self._is_settled(code, begins, ends):
                break
        else:
            self.unclear |= self.variables.keys()
        self._read(code.others.keys() & self.names.keys())
        self.unclear |= {self.names[name][0] for name in code.merged & self.names.keys()}

    def _is_settled(self, code: Code, begins: dict[int, _State], ends: dict[int, _State]) -> bool:
        """Whether another round would find the same: each block began as now, and all that is known now was known."""
        if not self._missed.isdisjoint(self.names) or not self._missed.isdisjoint(self._results):
            return False
        return all(begins[number] == self._begin(block, ends) for number, block in enumerate(code.blocks))

    def _begin(self, block: FlowBlock, ends: dict[int, _State]) -> _State:
        """A block after those that end so; what differs between them is not known."""
        before = [ends[number] for number in block.before if number in ends]
        self._now, self._newer = before[0] if before else ({}, frozenset())
        for values, newer in before[1:]:
            if values is not self._now and values != self._now:
                self._now = {name: value for name, value in self._now.items() if values.get(name) == value}
            self._newer = self._newer.union(newer)
        return self._now, self._newer

    def _statement(self, each: TiedAsm | ResultTakes | VariableLoads | VariableStores) -> None:
        if isinstance(each, ResultTakes):
            self._take(each)
        elif isinstance(each, VariableLoads):
            self._load(each)
        elif isinstance(each, VariableStores):
            self._store(each)
        else:
            self._call(each)

    def _take(self, run: ResultTakes) -> None:
        results, now, names = self._results.get(run.whole, {}), self._now, self.names
        if not results:
            self._missed.add(run.whole)
        for name, number in zip(run.names, run.numbers, strict=True) if results else ():
            if number in results:
                names[name] = variable, value = results[number]
                if now.get(variable) != value:
                    self.unclear.add(variable)

    def _load(self, run: VariableLoads) -> None:
        now, first = self._now, dict[str, Value]()
        for place, (name, variable) in enumerate(zip(run.names, run.variables, strict=True), run.place):
            if variable in self.variables:
                if variable in self._newer:
                    self.unclear.add(variable)
                self.names[name] = variable, now.get(variable) or first.setdefault(variable, (place, 0))
        if first:
            self._now = now | first

    def _store(self, run: VariableStores) -> None:
        """A variable gets what its register holds. What goes elsewhere may not be there yet."""
        now, names, in_step = self._now, self.names, set[str]()
        for value, variable in zip(run.values, run.variables, strict=True):
            held, value_held = names.get(value, ("", None))
            if held == variable and value_held == now.get(variable):
                in_step.add(variable)
            else:
                self.unclear |= {variable} & self.variables.keys()
                self._move(value)
        self._newer = self._newer.difference(in_step)

    def _move(self, name: str) -> None:
        if name in self.names:
            self.unclear.add(self.names[name][0])
        else:
            self._missed.add(name)

    def _read(self, names: Iterable[str]) -> None:
        """The values are copied where they are made: too early, if a wgmma makes them."""
        for name in names:
            if name in self.names:
                self.copied.add(name)
                variable, (place, _) = self.names[name]
                if place in self._in_flight:
                    self.unclear.add(variable)
            else:
                self._missed.add(name)

    def _call(self, call: TiedAsm) -> None:
        """Operands that are registers keep them, and have new values after it."""
        self._read(call.read)
        tied: dict[int, tuple[str, int]] = {}
        results: dict[int, tuple[str, Value]] = {}
        after: dict[str, Value] = {}
        now, names, can_name_registers = self._now, self.names, call.can_name_registers
        for value_after, argument, name in call.tied:
            if name in names:
                variable, value = names[name]
                if can_name_registers and now.get(variable) == value and variable not in after:
                    output = value_after[1]
                    tied[output] = variable, argument
                    results[output] = variable, value_after
                    after[variable] = value_after
                else:
                    self._move(name)
            else:
                self._missed.add(name)
        if tied:
            self.tied[call.place], self._results[call.name] = tied, results
            self._now = self._now | after
            self._newer = self._newer.union(after)
            self._in_flight |= set() if call.waits else {call.place}


def followed(code: Code) -> Followed:
    """What is followed of the variables that can be held."""
    variables = code.variables
    while True:
        attempt = Followed(variables)
        attempt.follow(code)
        if not attempt.unclear:
            return attempt
        variables = {name: kind for name, kind in variables.items() if name not in attempt.unclear}
