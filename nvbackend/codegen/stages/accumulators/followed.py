"""What registers would hold of the variables that assembly of wgmma sets, followed through a kernel's blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field

from nvbackend.codegen.stages.accumulators.statements import Code, TiedAsm
from nvbackend.diagnostics.classes.dataclass import dataclass

_MOST_ROUNDS = 8
"""Blocks that it takes longer to follow are rare, and stay as they are."""

_Value = tuple[int, int]
"""What a register holds: the place of the statement that put it there, and which of its results it is."""
_State = tuple[dict[str, _Value], frozenset[str]]
"""What registers hold, and the variables whose own values may be older."""


@dataclass
class Followed:
    """What the registers of `variables` hold.

    `tied` has the operands of each assembly that are registers: the variable and its argument, by the result; `names`
    the values that are in registers, `copied` those of them that others read; `unclear` the variables that are not to
    be held.
    """

    variables: dict[str, str]
    tied: dict[int, dict[int, tuple[str, int]]] = field(default_factory=dict)
    names: dict[str, tuple[str, _Value]] = field(default_factory=dict)
    copied: set[str] = field(default_factory=set)
    unclear: set[str] = field(default_factory=set)
    _now: dict[str, _Value] = field(default_factory=dict)
    _newer: set[str] = field(default_factory=set)
    _results: dict[str, dict[int, tuple[str, _Value]]] = field(default_factory=dict)
    _in_flight: set[int] = field(default_factory=set)

    def follow(self, code: Code) -> None:
        """Go through the blocks until each begins with what those before it end with."""
        ends: dict[int, _State] = {}
        for _ in range(_MOST_ROUNDS):
            self.tied, self.copied, self.unclear = {}, set(), set()
            earlier = dict(ends)
            for number, block in enumerate(code.blocks):
                self._begin([ends[before] for before in block.before if before in ends])
                for place, each in block.statements:
                    self._call(place, each) if isinstance(each, TiedAsm) else self._statement(place, each)
                ends[number] = self._now, frozenset(self._newer)
            if ends == earlier:
                break
        else:
            self.unclear |= self.variables.keys()
        self._read(code.others & self.names.keys())
        self.unclear |= {self.names[name][0] for name in code.merged & self.names.keys()}

    def _begin(self, before: list[_State]) -> None:
        """A block after those that end so; what differs between them is not known."""
        self._now = dict(before[0][0]) if before else {}
        for values, _ in before[1:]:
            self._now = {name: value for name, value in self._now.items() if values.get(name) == value}
        self._newer = set().union(*(newer for _, newer in before))

    def _statement(self, place: int, each: re.Match[str]) -> None:
        if each["number"]:
            self._take(each["result"], each["whole"], int(each["number"]))
        elif each["source"] in self.variables:
            self._load(place, each["result"], each["source"])
        elif each["target"]:
            self._store(each["value"], each["target"])

    def _take(self, result: str, whole: str, number: int) -> None:
        results = self._results.get(whole, {})
        if number in results:
            self.names[result] = variable, value = results[number]
            if self._now.get(variable) != value:
                self.unclear.add(variable)

    def _load(self, place: int, result: str, variable: str) -> None:
        if variable in self._newer:
            self.unclear.add(variable)
        self.names[result] = variable, self._now.setdefault(variable, (place, 0))

    def _store(self, value: str, variable: str) -> None:
        """The variable gets what its register holds. What goes elsewhere may not be there yet."""
        if variable in self.variables and self.names.get(value) == (variable, self._now.get(variable)):
            self._newer.discard(variable)
        else:
            self.unclear |= {variable} & self.variables.keys()
            self._move(value)

    def _move(self, name: str) -> None:
        if name in self.names:
            self.unclear.add(self.names[name][0])

    def _read(self, names: Iterable[str]) -> None:
        """The values are copied where they are made: too early, if a wgmma makes them."""
        for name in names:
            if name in self.names:
                self.copied.add(name)
                variable, (place, _) = self.names[name]
                if place in self._in_flight:
                    self.unclear.add(variable)

    def _call(self, place: int, call: TiedAsm) -> None:
        """Operands that are registers keep them, and have new values after it."""
        self._read(call.read)
        tied: dict[int, tuple[str, int]] = {}
        taken: set[str] = set()
        for output, argument, name in call.tied:
            if name in self.names:
                variable, value = self.names[name]
                if call.can_name_registers and self._now.get(variable) == value and variable not in taken:
                    tied[output] = variable, argument
                    taken.add(variable)
                else:
                    self._move(name)
        if tied:
            self.tied[place] = tied
            results = self._results[call.match["call"]] = {}
            for output, (variable, _) in tied.items():
                self._now[variable] = value = place, output
                results[output] = variable, value
            self._newer |= taken
            self._in_flight |= set() if call.waits else {place}


def followed(code: Code) -> Followed:
    """What is followed of the variables that can be held."""
    variables = code.variables
    while True:
        attempt = Followed(variables)
        attempt.follow(code)
        if not attempt.unclear:
            return attempt
        variables = {name: kind for name, kind in variables.items() if name not in attempt.unclear}
