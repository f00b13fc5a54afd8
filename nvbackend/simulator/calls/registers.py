"""setmaxnreg: a warp gives registers back, or waits until its CTA has more. PTX ISA 9.7.19."""

from __future__ import annotations

from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.holding import held
from nvbackend.simulator.calls.together import warps
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Step, Waiting, Wave
from nvbackend.simulator.sync.registers import RegisterPool


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of setmaxnreg, in either direction."""
    count = place.immediate(instruction.operands[0])
    direction = instruction.parts[1]
    if direction not in ("inc", "dec"):
        place.unknown(f".{direction}")
    if direction == "dec":
        return warps(place, lambda wave, lanes: wave.part(RegisterPool).lower(place.by(lanes), count))

    def step(wave: Wave, lanes: Lanes) -> Waiting | None:
        pool = wave.part(RegisterPool)
        return held(
            lanes,
            lambda here: pool.room(here.threads, count),
            lambda here: pool.take(here.threads, count),
            lambda _here: f"setmaxnreg.inc to {count} registers",
            causes=lambda here: pool.causes(here.threads, count),
        )

    return step
