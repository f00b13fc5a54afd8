"""ldmatrix, stmatrix, movmatrix. PTX ISA 9.7.14.5.15 to 9.7.14.5.17."""

from __future__ import annotations

from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.together import gathered, spread, warps
from nvbackend.simulator.events import Addresses, By
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import WARP, Lanes
from nvbackend.simulator.machine.wave import Step, Wave
from nvbackend.simulator.tensor import matrix_moves


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of ldmatrix, stmatrix or movmatrix."""
    if instruction.parts[0] == "movmatrix":
        return _movmatrix(instruction, place)
    found = matrix_moves.find(instruction.parts)
    if found is None:
        place.unknown("this form")
    space = next((part for part in instruction.parts if part.startswith("shared")), "")
    first, second = instruction.operands
    registers, source = (first, second) if instruction.parts[0] == "ldmatrix" else (second, first)
    if len(place.elements(registers)) != found.registers:
        place.unknown(f"{len(place.elements(registers))} registers, where it has {found.registers}")
    address = place.address(source)

    def rows(wave: Wave, lanes: Lanes) -> tuple[By, Addresses]:
        """Who gives the address of each row, and the addresses, (warps, rows)."""
        threads, addresses = (
            spread(lanes, one).reshape(-1, WARP)[:, : found.rows] for one in (lanes.threads, address(wave, lanes))
        )
        return By(place.site, threads.ravel()), addresses

    if instruction.parts[0] == "ldmatrix":
        write = place.writes(registers, "b32")

        def load(wave: Wave, lanes: Lanes) -> None:
            by, addresses = rows(wave, lanes)
            data = wave.read(by, space, addresses, matrix_moves.ROW)
            write(wave, lanes, gathered(lanes, found.load(data)))

        return warps(place, load)
    read = place.reads(registers, "b32")

    def store(wave: Wave, lanes: Lanes) -> None:
        by, addresses = rows(wave, lanes)
        wave.write(by, space, addresses, found.store(spread(lanes, read(wave, lanes))))

    return warps(place, store)


def _movmatrix(instruction: Instruction, place: Compiling) -> Step:
    if instruction.parts != ("movmatrix", "sync", "aligned", "m8n8", "trans", "b16"):
        place.unknown("this form")
    read, write = place.read(instruction.operands[1], "b32"), place.write(instruction.operands[0], "b32")

    def move(wave: Wave, lanes: Lanes) -> None:
        write(wave, lanes, gathered(lanes, matrix_moves.transposed(spread(lanes, read(wave, lanes)))))

    return warps(place, move)
