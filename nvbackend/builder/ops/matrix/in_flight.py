"""The fragments of A that an mma may still read, so that LLVM gives their registers to nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.scopes.blocks import Region


@dataclass
class _Multiplied:
    """Registers of a fragment, the regions around the mma, and those of the commits since."""

    registers: tuple[ir.Value, ...]
    around: tuple[Region, ...]
    commits: list[Region] = field(default_factory=list)


class FragmentsInFlight:
    """LLVM takes an mma for done when it is issued: what follows may get the registers of its A.

    So a wait reads the registers of every fragment that was multiplied and not certainly drained. A fragment whose
    region has ended is left out: no wait outside of it can read its registers.
    """

    def __init__(self, k: Core) -> None:
        self._k = k
        self._multiplied: list[_Multiplied] = []

    def multiply(self, registers: Sequence[ir.Value]) -> None:
        """An mma multiplies the fragment in these registers."""
        values = tuple(one for one in registers if not isinstance(one, ir.Constant))
        self._multiplied.append(_Multiplied(values, tuple(self._k.regions)))

    def commit(self) -> None:
        """The mma issued so far become a group."""
        for one in self._multiplied:
            one.commits.append(self._k.regions[-1])

    def registers(self) -> list[ir.Value]:
        """The registers that a wait here has to read."""
        given = (value for one in self._multiplied for value in one.registers if self._is_in_reach(value))
        return list({id(value): value for value in given}.values())

    def wait(self, pending: int) -> None:
        """All groups but the `pending` newest are drained."""
        self._multiplied = [one for one in self._multiplied if not self._is_drained(one, pending)]

    def _is_drained(self, one: _Multiplied, pending: int) -> bool:
        here = self._k.regions
        certain = sum(region in one.around or region in here for region in one.commits)
        return here[-1] in one.around and certain > pending

    def _is_in_reach(self, value: ir.Value) -> bool:
        if not isinstance(value, ir.Instruction):
            return True
        if self._k.attached is not None:  # the caller's blocks are in no region
            return value.parent is self._k.llvm.block
        home = self._k.homes.get(value.parent)
        return home is not None and home.open
