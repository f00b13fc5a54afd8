"""The fragments of A that an mma may still read, so that LLVM gives their registers to nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.scopes.blocks import Region
from nvbackend.diagnostics.classes.dataclass import dataclass


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
        values = tuple(register for register in registers if not isinstance(register, ir.Constant))
        self._multiplied.append(_Multiplied(values, tuple(self._k.regions)))

    def commit(self) -> None:
        """The mma issued so far become a group."""
        for multiplied in self._multiplied:
            multiplied.commits.append(self._k.regions[-1])

    def registers(self) -> list[ir.Value]:
        """The registers that a wait here has to read."""
        registers = (value for each in self._multiplied for value in each.registers if self._is_in_reach(value))
        return list({id(value): value for value in registers}.values())

    def wait(self, pending: int) -> None:
        """All groups but the `pending` newest are drained."""
        self._multiplied = [multiplied for multiplied in self._multiplied if not self._is_drained(multiplied, pending)]

    def _is_drained(self, multiplied: _Multiplied, pending: int) -> bool:
        here = self._k.regions
        certain = sum(region in multiplied.around or region in here for region in multiplied.commits)
        return here[-1] in multiplied.around and certain > pending

    def _is_in_reach(self, value: ir.Value) -> bool:
        if not isinstance(value, ir.Instruction):
            return True
        if self._k.attached is not None:  # the caller's blocks are in no region
            return value.parent is self._k.llvm.block
        home = self._k.homes.get(value.parent)
        return home is not None and home.open
