"""Tensor maps that a kernel changes in global memory and uses: a release after the change, an acquire before the copy.

Which map an instruction works on is known where parameters and the index of the CTA decide its address; of others
nothing is said. Any thread may release or acquire, for barriers order what they do.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.row.semantics import TensorMapUse
from nvbackend.isel.flow.dataflow import Site, sites_of
from nvbackend.isel.flow.graphs import ControlFlow
from nvbackend.isel.flow.plain_accesses import with_plain
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineBlock, MachineFunction
from nvbackend.isel.machine.naming import with_line
from nvbackend.isel.protocols.tensor_maps import rules

_CHANGES = (TensorMapUse.CHANGE, TensorMapUse.PUBLISH)
_RELEASES = (TensorMapUse.PUBLISH, TensorMapUse.RELEASE)


def check_tensor_maps(function: MachineFunction) -> Iterator[Diagnostic]:
    """Every copy by a map that the kernel changes before and that nothing acquires, and every change not released."""
    return _TensorMaps(with_plain(function)).find()


class _TensorMaps:
    """The search in one function."""

    def __init__(self, function: MachineFunction) -> None:
        self._function = function
        self._flow = ControlFlow({name: block.successors for name, block in function.blocks.items()})
        self._sites = [
            site
            for name, sites in sites_of(function).items()
            if name in self._flow.successors
            for site in sites
            if site.instr.semantics.tensor_map is not None or facts.MAP in site.instr.facts
        ]

    def find(self) -> Iterator[Diagnostic]:
        """What is wrong, each copy once."""
        for copy in self._of(TensorMapUse.COPY):
            number = copy.instr.facts.get(facts.MAP)
            for change in self._changes() if number is not None else ():
                if change.instr.facts.get(facts.MAP) == number and self._precedes(change, copy):
                    diagnostic = self._judged(change, copy)
                    if diagnostic is not None:
                        yield diagnostic
                        break

    def _judged(self, change: Site, copy: Site) -> Diagnostic | None:
        """What is wrong between a change and a copy after it."""
        number = copy.instr.facts[facts.MAP]
        acquires = [
            site
            for site in self._of(TensorMapUse.ACQUIRE)
            if site.instr.facts.get(facts.MAP, number) == number and self._is_between(change, site, copy)
        ]
        values = {"change": with_line(change.instr), "copy": with_line(copy.instr)}
        if not acquires:
            notes = (("the map is changed here", change.instr.location),)
            return rules.NOT_ACQUIRED.diagnose(at=copy.instr.location, notes=notes, **values)
        if change.instr.semantics.tensor_map in _RELEASES:
            return None
        if any(self._is_between(change, site, last) for site in self._of(*_RELEASES) for last in acquires):
            return None
        notes = (("the map is used here", copy.instr.location),)
        return rules.NOT_RELEASED.diagnose(at=change.instr.location, notes=notes, **values)

    def _changes(self) -> list[Site]:
        """What changes maps, plain stores to one as well."""
        return [site for site in self._sites if site.instr.semantics.tensor_map in (*_CHANGES, None)]

    def _of(self, *uses: TensorMapUse) -> list[Site]:
        return [site for site in self._sites if site.instr.semantics.tensor_map in uses]

    def _precedes(self, change: Site, copy: Site) -> bool:
        """Whether the copy comes after the change wherever it is executed, but for conditions that both are under."""
        return self._follows(change, copy) and self._deciding(change.block) <= self._deciding(copy.block)

    def _is_between(self, first: Site, site: Site, last: Site) -> bool:
        return self._follows(first, site) and self._follows(site, last)

    def _follows(self, first: Site, second: Site) -> bool:
        if first.block == second.block and first.position < second.position:
            return True
        return second.block in self._flow.reached(self._flow.successors[first.block])

    def _deciding(self, block: str) -> set[object]:
        """The conditions that decide whether a block is run, those over indices of threads left out."""
        branching = (name for name, following in self._flow.successors.items() if len(following) > 1)
        deciding = (self._function.blocks[name] for name in branching if block in self._flow.region(name))
        return {_condition(branch) for branch in deciding if branch.sides is None}


def _condition(block: MachineBlock) -> object:
    formula = None if block.branch is None else block.branch.formula
    return block.name if formula is None else formula
