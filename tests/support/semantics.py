"""What an instruction of the machine form is to the analyses, for tests that build it from its opcode alone."""

from __future__ import annotations

from functools import cache

from nvbackend.intrinsics.catalogue import rows
from nvbackend.intrinsics.row.semantics import NOTHING, Semantics
from nvbackend.intrinsics.sync import mbarrier


def semantics_of(name: str) -> Semantics:
    """Those of the first row with this opcode or spelling; a try_wait waits until the phase has completed."""
    return mbarrier.WAITS if name.startswith("mbarrier.try_wait") else _by_name().get(name, NOTHING)


@cache
def _by_name() -> dict[str, Semantics]:
    found: dict[str, Semantics] = {}
    for row in rows():
        found.setdefault(row.ptx, row.semantics)
    for row in rows():
        found.setdefault(row.opcode, row.semantics)
    return found
