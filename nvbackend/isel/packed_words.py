"""Which words of which instructions decode to what: for the verifier, and for print."""

from __future__ import annotations

from collections.abc import Callable

from nvbackend.intrinsics.smem_descriptor import SmemDescriptor
from nvbackend.isel.machine import MachineInstr

_SHARED_OPERANDS = ("a_desc", "b_desc")
_MMA_ASYNC = "wgmma.mma_async"


def decoder(instr: MachineInstr, word: str) -> Callable[[int], SmemDescriptor] | None:
    """What decodes the packed word called `word` of `instr`, and raises on bits without meaning; None: none does."""
    if instr.opcode.startswith(_MMA_ASYNC) and word in _SHARED_OPERANDS:
        return SmemDescriptor.decode
    return None
