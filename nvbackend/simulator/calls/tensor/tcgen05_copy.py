"""tcgen05.cp from shared to tensor memory, and tcgen05.shift. PTX ISA 9.7.16.9."""

from __future__ import annotations

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.tensor.pairs import ctas_of, shared_addresses, start
from nvbackend.simulator.calls.tensor.tmem import TensorMemory
from nvbackend.simulator.events import By, Pending
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import WARP, Lanes, one_lane
from nvbackend.simulator.machine.wave import Step, Wave
from nvbackend.simulator.tensor import descriptors
from nvbackend.simulator.tensor.tensor_memory import COPIES

_WORD = 4
_SHIFTED = 8
"""Columns of a row that shift moves: 32 bytes."""
_SOURCES = {"b6x16_p32": 6, "b4x16_p64": 4}


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of tcgen05.cp or tcgen05.shift."""
    parts = instruction.parts[2:]
    ctas = 2 if "cta_group::2" in parts else 1
    target = place.address(instruction.operands[0])
    if instruction.parts[1] == "shift":

        def shift(wave: Wave, lanes: Lanes) -> None:
            for number, thread in enumerate(lanes.threads.tolist()):
                at = int(target(wave, lanes)[number])
                start(wave, ctas, _Shift(place.site, one_lane(thread).threads, "tcgen05.shift", wave, ctas, at))

        return shift
    rest = [part for part in parts if not part.startswith("cta_group")]
    source = next((_SOURCES[part] for part in rest if part in _SOURCES), 8)
    form = ".".join(part for part in rest if part not in _SOURCES and part != "b8x16")
    if form not in COPIES:
        place.unknown("this form")
    word = place.read(instruction.operands[1], "b64")

    def copy(wave: Wave, lanes: Lanes) -> None:
        for number, thread in enumerate(lanes.threads.tolist()):
            at, described = int(target(wave, lanes)[number]), int(word(wave, lanes)[number])
            one = one_lane(thread).threads
            start(wave, ctas, _Copy(place.site, one, "tcgen05.cp", wave, ctas, at, described, form, source))

    return copy


@dataclass(eq=False)
class _Copy(Pending):
    """Rows of shared memory to the lanes of each CTA of the group."""

    wave: Wave
    ctas: int
    target: int
    word: int
    form: str
    bits: int

    def complete(self) -> None:
        """Copy."""
        memory = self.wave.part(TensorMemory)
        rows, size, lanes = COPIES[self.form]
        by = By(self.site, self.threads, operation=self, proxy="async")
        matrix = descriptors.of_tcgen05(self.word)
        if matrix is None:
            memory.refuse(by, f"descriptor {self.word:#018x} has a swizzle that does not exist")
        chunks = matrix.chunks(rows, size, k_major=True, bits=8)
        for cta in ctas_of(self.wave, self.threads, self.ctas):
            data = self.wave.read(by, "shared::cluster", shared_addresses(self.wave, cta, chunks), descriptors.CHUNK)
            words = np.ascontiguousarray(descriptors.in_bytes(data, self.bits)).view(np.uint32).reshape(rows, -1)
            column = (self.target & 0xFFFF) + np.arange(size // _WORD)
            for lane in lanes(np.arange(rows)):
                memory.write(by, cta, lane[:, None] + (self.target >> 16), column[None], words)


@dataclass(eq=False)
class _Shift(Pending):
    """Each of 31 lanes gets to the next one, 32 bytes of it."""

    wave: Wave
    ctas: int
    target: int

    def complete(self) -> None:
        """Shift."""
        memory = self.wave.part(TensorMemory)
        by = By(self.site, self.threads, operation=self)
        lane = np.arange(WARP - 1)[:, None] + (self.target >> 16)
        column = (self.target & 0xFFFF) + np.arange(_SHIFTED)[None]
        for cta in ctas_of(self.wave, self.threads, self.ctas):
            memory.write(by, cta, lane + 1, column, memory.read(by, cta, lane, column))
