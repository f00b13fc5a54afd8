"""Pseudo-instructions: what the builder records of ordinary code, and what each is to the analyses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from nvbackend.intrinsics.row.semantics import Semantics, reads, writes

RETURN = "ret"
"""Ends a kernel's thread."""
LOAD_SHARED = "ld.shared"
STORE_SHARED = "st.shared"
ATOMIC_SHARED = "atom.shared"
"""Record what ordinary code reads and writes in shared memory."""
LOAD_LOCAL, STORE_LOCAL = "ld.local", "st.local"
"""Record what a thread does with an array of its own."""
LOAD_GLOBAL, STORE_GLOBAL = "ld.global", "st.global"
"""Plain accesses of global memory, which LLVM may move, join and drop: kept apart, for rules of users' own."""
ATOMIC_GLOBAL = "atom.global"
"""Records an atomic of global memory: threads may wait for one another by it."""
IN_CLUSTER = {opcode: f"{opcode}::cluster" for opcode in (LOAD_SHARED, STORE_SHARED, ATOMIC_SHARED)}
"""The same of the shared memory of the cluster's other CTAs."""
OF_GLOBAL = {LOAD_SHARED: LOAD_GLOBAL, STORE_SHARED: STORE_GLOBAL}
"""The same access of global memory."""
CALL = "call"
"""Records the call of a device function, whose body follows."""
PRINT, ASSERT = "print", "assert"
"""Record what a thread prints, and where it may end the launch."""
UNKNOWN = "unknown"
"""Code of another compiler of which nothing is known: paths end there."""
READ_REGISTERS, WRITE_REGISTERS = "registers.read", "registers.write"
"""Record what ordinary code does to registers that asynchronous instructions also touch."""

ADDRESS = "address"
"""The operand of an ordinary access."""
ARRAY = "array"
"""The parameter that a plain access of global memory is to, where that is known: no operand, but named like one."""


@cache
def global_access(opcode: str, bytes: int) -> Semantics:
    """What a plain access of so many bytes of global memory is to the analyses."""
    return Semantics(memory=((reads if opcode == LOAD_GLOBAL else writes)(ADDRESS, bytes),))


_OF_SHARED = {
    LOAD_SHARED: Semantics(memory=(reads(ADDRESS),)),
    STORE_SHARED: Semantics(memory=(writes(ADDRESS),)),
    ATOMIC_SHARED: Semantics(memory=(reads(ADDRESS), writes(ADDRESS)), atomic=True),
}
PSEUDO: Mapping[str, Semantics] = {
    RETURN: Semantics(exits=True),
    UNKNOWN: Semantics(unknown=True),
    ATOMIC_GLOBAL: Semantics(atomic=True),
    **_OF_SHARED,
    **{IN_CLUSTER[name]: replace(said, in_peer=True) for name, said in _OF_SHARED.items()},
}
"""By name; those that are not here say nothing but their touches."""
