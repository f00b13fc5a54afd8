"""A note in a kernel's IR of which numbers in memory its launches begin and end with: zeros."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.isel.machine.zeros import ZEROS, Zeros


def note_zeros(k: Core, address: Address, what: str, *, words: int = 0, of_each_cta: int = 0) -> None:
    """Note that words from `address` on are 0, if it is at a known place of an argument."""
    base, offset = address._base, 0 if address._offset is None else address._offset.constant
    if isinstance(base, ir.Argument) and base.parent is k.function and isinstance(offset, int):
        k.function.module.add_named_metadata(ZEROS, Zeros(base.name, offset, words, of_each_cta, what).texts())
