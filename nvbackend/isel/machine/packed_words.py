"""Which words of which instructions decode to what: for the verifier, and for print."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.intrinsics.words.smem_descriptor import SmemDescriptor
from nvbackend.intrinsics.words.tcgen05_control import COLLECTOR, CONTROL, Tcgen05Collector, Tcgen05Ctrl
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor, Tcgen05SmemDescriptor
from nvbackend.isel.machine.parts import MachineInstr

Decoded = SmemDescriptor | Tcgen05SmemDescriptor | InstructionDescriptor | Tcgen05Ctrl | Tcgen05Collector

INSTRUCTION_DESCRIPTOR = "idesc"
"""The name of the instruction descriptor among the words of a tcgen05.mma."""

_REMEMBERED = 1024
"""So many words of each kind are remembered with what they say: those of a kernel come again and again."""
instruction_descriptor = lru_cache(maxsize=_REMEMBERED)(InstructionDescriptor.decode)
control_word = lru_cache(maxsize=_REMEMBERED)(Tcgen05Ctrl.decode)
collector_word = lru_cache(maxsize=_REMEMBERED)(Tcgen05Collector.decode)

_shared_descriptor = lru_cache(maxsize=_REMEMBERED)(SmemDescriptor.decode)
_shared_descriptor_5 = lru_cache(maxsize=_REMEMBERED)(Tcgen05SmemDescriptor.decode)
_WORDS: dict[str, Callable[[int], Decoded]] = {
    CONTROL: control_word,
    COLLECTOR: collector_word,
}
"""The words of a tcgen05.mma whose meaning is the same in all of them."""
_DESCRIPTORS: dict[Completion | None, Callable[[int], Decoded]] = {
    Completion.MMA_GROUP: _shared_descriptor,
    Completion.COMMIT: _shared_descriptor_5,
}
"""What decodes a descriptor of shared memory, by how the operation that reads there completes."""


def decoder(instr: MachineInstr, word: str) -> Callable[[int], Decoded] | None:
    """What decodes the packed word called `word` of `instr`, and raises on bits without meaning; None: none does."""
    said = instr.semantics
    if instr.row is None or said.issues not in _DESCRIPTORS:
        return None
    if said.accesses(word) is not None:
        return _DESCRIPTORS[said.issues]
    if said.issues is not Completion.COMMIT or not said.multiplies:
        return None
    if word == INSTRUCTION_DESCRIPTOR:
        return partial(instruction_descriptor, kind=str(instr.row.axes["kind"]))
    return _WORDS.get(word)
