"""mbarrier.*: initialise, arrive, expect bytes, wait. PTX ISA 9.7.13.15."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.holding import held
from nvbackend.simulator.calls.qualifiers import SCOPES, SHARED, chosen, only
from nvbackend.simulator.events import Mask
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Step, Waiting, Wave
from nvbackend.simulator.sync.mbarrier import pending_of
from nvbackend.simulator.sync.mbarriers import Mbarriers, Places

_KNOWN = (*SHARED, *SCOPES, "b64", "acquire", "release", "relaxed")


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of any mbarrier instruction."""
    verb = instruction.parts[1]
    if verb == "init":
        return _init(instruction, place)
    if verb == "inval":
        return _invalidate(instruction, place)
    if verb in ("expect_tx", "complete_tx"):
        return _transact(instruction, place, completed=verb == "complete_tx")
    if verb in ("arrive", "arrive_drop"):
        return _arrive(instruction, place)
    if verb in ("test_wait", "try_wait"):
        return _wait(instruction, place)
    if verb == "pending_count":
        return _pending_count(instruction, place)
    place.unknown(f"mbarrier.{verb}")


def _init(instruction: Instruction, place: Compiling) -> Step:
    only(place, ("init", *_KNOWN))
    space, address = chosen(place, SHARED), place.address(instruction.operands[0])
    count = place.read(instruction.operands[1], "u32")

    def step(wave: Wave, lanes: Lanes) -> None:
        by = place.by(lanes)
        places = wave.locate(by, space, address(wave, lanes))
        wave.part(Mbarriers).init(by, places, count(wave, lanes))

    return step


def _invalidate(instruction: Instruction, place: Compiling) -> Step:
    only(place, ("inval", *_KNOWN))
    space, address = chosen(place, SHARED), place.address(instruction.operands[0])

    def step(wave: Wave, lanes: Lanes) -> None:
        by = place.by(lanes)
        wave.part(Mbarriers).invalidate(by, wave.locate(by, space, address(wave, lanes)))

    return step


def _transact(instruction: Instruction, place: Compiling, *, completed: bool) -> Step:
    only(place, ("expect_tx", "complete_tx", *_KNOWN))
    space, address = chosen(place, SHARED), place.address(instruction.operands[0])
    count = place.read(instruction.operands[1], "u32")

    def step(wave: Wave, lanes: Lanes) -> None:
        by = place.by(lanes)
        places = wave.locate(by, space, address(wave, lanes))
        counts = count(wave, lanes).view(np.int32)
        wave.part(Mbarriers).transact(by, places, counts, completed=completed)

    return step


def _arrive(instruction: Instruction, place: Compiling) -> Step:
    only(place, ("arrive", "arrive_drop", "expect_tx", "noComplete", *_KNOWN))
    parts, operands = instruction.parts, instruction.operands
    drops, expects, completes = parts[1] == "arrive_drop", "expect_tx" in parts, "noComplete" not in parts
    publishes = "relaxed" not in parts
    space = chosen(place, SHARED)
    state, address = place.write(operands[0], "b64"), place.address(operands[1])
    number = place.read(operands[2], "u32") if len(operands) > 2 else None

    def step(wave: Wave, lanes: Lanes) -> None:
        by = place.by(lanes)
        places = wave.locate(by, space, address(wave, lanes))
        numbers = None if number is None else number(wave, lanes)
        states = wave.part(Mbarriers).arrive(
            by,
            places,
            None if expects else numbers,
            expect=numbers.view(np.int32) if expects and numbers is not None else None,
            drop=drops,
            completes=completes,
            publishes=publishes,
        )
        state(wave, lanes, states)

    return step


def _wait(instruction: Instruction, place: Compiling) -> Step:
    """test_wait looks; try_wait holds the thread until the phase is over, or nothing else can go on.

    PTX lets try_wait come back before the phase is over. With an odd seed each does so at first, so that a result
    that the program ignores is found.
    """
    only(place, ("test_wait", "try_wait", "parity", *_KNOWN))
    operands, by_parity = instruction.operands, "parity" in instruction.parts
    acquires = "relaxed" not in instruction.parts
    space, address = chosen(place, SHARED), place.address(operands[1])
    result = place.write(operands[0], "pred")
    phase = place.read(operands[2], "u32" if by_parity else "b64")

    def at(wave: Wave, lanes: Lanes) -> Places:
        return wave.locate(place.by(lanes), space, address(wave, lanes))

    def parity(wave: Wave, lanes: Lanes) -> NDArray[np.int64]:
        """The parity of the phase that each lane waits for."""
        phases = phase(wave, lanes)
        return (phases if by_parity else phases & np.uint64(1)).astype(np.int64)

    def passed(wave: Wave, lanes: Lanes) -> Mask:
        barriers, phases = wave.part(Mbarriers), phase(wave, lanes)
        asked = barriers.passed if by_parity else barriers.passed_state
        return asked(place.by(lanes), at(wave, lanes), phases)

    def test(wave: Wave, lanes: Lanes) -> None:
        done = passed(wave, lanes)
        result(wave, lanes, done)
        gone = lanes.where(done)
        wave.part(Mbarriers).leave(place.by(gone), at(wave, gone), acquires=acquires)

    def leave(wave: Wave, lanes: Lanes) -> None:
        result(wave, lanes, np.ones(lanes.count, bool))
        wave.part(Mbarriers).leave(place.by(lanes), at(wave, lanes), acquires=acquires)

    def give_up(wave: Wave, lanes: Lanes) -> None:
        result(wave, lanes, np.zeros(lanes.count, bool))
        wave.part(Mbarriers).hold(lanes.threads, None)

    def step(wave: Wave, lanes: Lanes) -> Waiting | None:
        barriers = wave.part(Mbarriers)
        if wave.launch.seed % 2 and barriers.comes_back(place.site, lanes.threads):
            test(wave, lanes)
            return None
        waiting = held(
            lanes,
            lambda here: passed(wave, here),
            lambda here: leave(wave, here),
            lambda here: barriers.text(at(wave, here)),
            lambda here: give_up(wave, here),
            lambda here: barriers.causes(here.threads, at(wave, here), parity(wave, here)),
        )
        if waiting is not None:
            barriers.hold(waiting.lanes.threads, at(wave, waiting.lanes))
        return waiting

    return test if instruction.parts[1] == "test_wait" else step


def _pending_count(instruction: Instruction, place: Compiling) -> Step:
    only(place, ("pending_count", "b64"))
    result, state = place.write(instruction.operands[0], "u32"), place.read(instruction.operands[1], "b64")

    def step(wave: Wave, lanes: Lanes) -> None:
        counts = [pending_of(word) for word in state(wave, lanes).tolist()]
        result(wave, lanes, np.array(counts, np.uint32))

    return step
