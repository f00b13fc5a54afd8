"""Registers that a warpgroup takes and gives back."""

from __future__ import annotations

from nvbackend.builder.core.instructions import issue
from nvbackend.builder.core.noun import Noun
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.sync import register_budget
from nvbackend.isel.operands.sync import check_register_count, check_setmaxnreg_target


@user_facing
class SetMaxNReg(Noun):
    """Registers that a warpgroup takes and gives back (PTX ISA 9.7.19)."""

    __noun__ = "setmaxnreg"
    __usual__ = "dec"

    def inc(self, count: int) -> None:
        """Wait for registers in the CTA's pool, and take them until each thread has `count` (24 to 256 by 8)."""
        self._set_registers("inc", count)

    def dec(self, count: int) -> None:
        """Give registers back so that each thread has `count` left (24 to 256 by 8)."""
        self._set_registers("dec", count)

    def _set_registers(self, action: str, count: int) -> None:
        check_setmaxnreg_target(self._k.target)
        check_register_count(count)
        issue(self._k, register_budget.setmaxnreg(action), registers=count)
