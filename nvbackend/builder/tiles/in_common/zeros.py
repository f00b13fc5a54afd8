"""A note in a kernel's IR of which numbers in memory its launches begin and end with: zeros."""

from __future__ import annotations

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.isel.machine.zeros import ZEROS, Zeros


def note_zeros(k: Core, address: Address, what: str, *, words: int = 0, of_each_cta: int = 0) -> None:
    """Note that words from `address` on are 0, if it is at a known place of an argument."""
    base, offset = address._base, 0 if address._offset is None else address._offset.constant
    place = next((place for place, each in enumerate(k.function.args) if each is base), None)
    if place is not None and isinstance(offset, int):
        zeros = Zeros(k.function.name, place, offset, words, of_each_cta, what)
        k.function.module.add_named_metadata(ZEROS, zeros.texts())
