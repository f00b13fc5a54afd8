"""tcgen05: allocation, loads and stores of tensor memory, fences and commits. PTX ISA 9.7.16.7, .8, .11, .12."""

from __future__ import annotations

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.holding import held
from nvbackend.simulator.calls.tensor import tcgen05_copy, tcgen05_mma, tcgen05_registers
from nvbackend.simulator.calls.tensor.tmem import TensorMemory
from nvbackend.simulator.calls.together import warps
from nvbackend.simulator.events import By, Mask, Pending
from nvbackend.simulator.machine.compiling import Compile, Compiling
from nvbackend.simulator.machine.lanes import WARP, Lanes, one_lane
from nvbackend.simulator.machine.wave import Step, Waiting, Wave
from nvbackend.simulator.memory import windows
from nvbackend.simulator.sync.mbarriers import Mbarriers


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of any tcgen05 instruction."""
    action = instruction.parts[1].partition("::")[0]
    if action not in _COMPILERS:
        place.unknown(f".{action}")
    return _COMPILERS[action](instruction, place)


def _alloc(instruction: Instruction, place: Compiling) -> Step:
    """A warp's allocation: it waits until there is room."""
    space = next((part for part in instruction.parts if part.startswith("shared")), "")
    address, columns = place.address(instruction.operands[0]), place.read(instruction.operands[1], "u32")

    def has_room(wave: Wave, lanes: Lanes) -> Mask:
        memory = wave.part(TensorMemory)
        asked = zip(wave.cta(lanes.threads).tolist(), columns(wave, lanes).tolist(), strict=True)
        rooms = {one: memory.room(*one) is not None or one[1] > 512 or one[1] < 1 for one in set(asked)}
        asked = zip(wave.cta(lanes.threads).tolist(), columns(wave, lanes).tolist(), strict=True)
        return np.array([rooms[one] for one in asked])

    def allocate(wave: Wave, lanes: Lanes) -> None:
        memory = wave.part(TensorMemory)
        for first in lanes.threads[::WARP].tolist():
            one = one_lane(first)
            by = place.by(one)
            start = memory.allocate(by, int(wave.cta(one.threads)[0]), int(columns(wave, one)[0]))
            wave.write(by, space, address(wave, one), np.array([[start]], np.uint32).view(np.uint8))

    def step(wave: Wave, lanes: Lanes) -> Waiting | None:
        absent = wave.missing(lanes)
        if absent is not None:
            return Waiting(lanes, lambda: False, lambda: "tcgen05.alloc, which a whole warp executes", again=True)
        return held(
            lanes,
            lambda here: has_room(wave, here),
            lambda here: allocate(wave, here),
            lambda here: f"tensor memory for {int(columns(wave, here)[0])} columns, which another CTA or warp has",
        )

    return step


def _dealloc(instruction: Instruction, place: Compiling) -> Step:
    address, columns = (place.read(one, "u32") for one in instruction.operands)

    def free(wave: Wave, lanes: Lanes) -> None:
        for first in lanes.threads[::WARP].tolist():
            one = one_lane(first)
            given = int(address(wave, one)[0]), int(columns(wave, one)[0])
            wave.part(TensorMemory).free(place.by(one), int(wave.cta(one.threads)[0]), *given)

    return warps(place, free)


def _relinquish(_: Instruction, place: Compiling) -> Step:
    def step(wave: Wave, lanes: Lanes) -> None:
        wave.part(TensorMemory).relinquished.update(wave.cta(lanes.threads).tolist())

    return warps(place, step)


def _fence(instruction: Instruction, place: Compiling) -> Step:
    kind = f"tcgen05.{instruction.parts[1]}"

    def step(wave: Wave, lanes: Lanes) -> None:
        by = place.by(lanes)
        for observer in wave.observers:
            observer.fence(by, kind)

    return step


@dataclass(eq=False)
class _Commit(Pending):
    """An arrival at mbarriers when the operations before it are done."""

    wave: Wave
    space: str
    addresses: list[int]

    def complete(self) -> None:
        """Arrive at each."""
        by = By(self.site, self.threads, operation=self, proxy="async")
        # Without a state space it is generic, and yet Triton gives an address of shared memory: the chip takes it.
        shared = max(self.addresses) < windows.SHARED_BYTES
        places = self.wave.locate(by, "shared::cluster" if shared else self.space, np.array(self.addresses, np.uint64))
        self.wave.part(Mbarriers).arrive(by, places)


def _commit(instruction: Instruction, place: Compiling) -> Step:
    parts = instruction.parts
    known = {"commit", "cta_group::1", "cta_group::2", "mbarrier::arrive::one", "b64", "shared::cluster"}
    if set(parts[1:]) - known - {"multicast::cluster"}:
        place.unknown("this form")
    space = "shared::cluster" if "shared::cluster" in parts else ""
    address = place.address(instruction.operands[0])
    mask = place.read(instruction.operands[1], "u16") if "multicast::cluster" in parts else None

    def step(wave: Wave, lanes: Lanes) -> None:
        memory = wave.part(TensorMemory)
        for number, thread in enumerate(lanes.threads.tolist()):
            one = one_lane(thread)
            at = [int(address(wave, lanes)[number])]
            if mask is not None:
                low = at[0] & ~(0xFF << 24)
                at = [low | rank << 24 for rank in range(16) if int(mask(wave, lanes)[number]) >> rank & 1]
            before = memory.last.get(int(wave.cta(one.threads)[0]))
            after = () if before is None else (before,)  # one that is done too: the commit publishes what it did
            wave.start(_Commit(place.site, one.threads, "tcgen05.commit", wave, space, at, after=after))

    return step


_COMPILERS: dict[str, Compile] = {
    "alloc": _alloc,
    "dealloc": _dealloc,
    "relinquish_alloc_permit": _relinquish,
    "fence": _fence,
    "commit": _commit,
    "ld": tcgen05_registers.compile,
    "st": tcgen05_registers.compile,
    "wait": tcgen05_registers.compile,
    "cp": tcgen05_copy.compile,
    "shift": tcgen05_copy.compile,
    "mma": tcgen05_mma.compile,
}
