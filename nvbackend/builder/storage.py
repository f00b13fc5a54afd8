"""Registers that can be set again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

if TYPE_CHECKING:
    from nvbackend.builder.blocks import Region


class Storage:
    """Stack slots, one a register. The builder keeps the registers it knows and writes slots where blocks end."""

    __slots__ = ("name", "region", "slots")

    def __init__(self, name: str, slots: tuple[ir.AllocaInstr, ...], region: Region) -> None:
        self.name = name
        self.slots = slots
        self.region = region
