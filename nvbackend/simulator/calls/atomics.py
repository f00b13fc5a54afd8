"""atom and red: read, change and write memory at once. PTX ISA 9.7.13.6, 9.7.13.7.

Threads of one step that meet at an address go one after another, in their order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator import scalar
from nvbackend.simulator.calls.memory import Qualifiers
from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.types import bits
from nvbackend.simulator.machine.wave import Step, Wave
from nvbackend.simulator.memory.memory import Change

Update = Callable[..., Bits]
"""The new words of memory, from the old ones and the operands."""
_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")
_COUNTS = {"add": 1, "cas": 2}


def compile(instruction: Instruction, place: Compiling) -> Step:
    """atom, red."""
    asked = Qualifiers(place, (*_OPERATIONS, "noftz"))
    operation = next((part for part in instruction.parts if part in _OPERATIONS), "")
    operands = list(instruction.operands)
    target = operands.pop(0) if instruction.parts[0] == "atom" else None
    address, sources = place.address(operands[0]), operands[1 : 1 + _COUNTS.get(operation, 1)]
    update = _update(operation, asked, place)
    space, size = asked.space, (bits(asked.type) or 32) // 8
    readers = [place.reads(source, asked.type) for source in sources]
    writer = place.writes(target, asked.type) if target is not None else None
    order = asked.order if asked.order != "weak" else "relaxed"
    scope = asked.scope or "gpu"

    def step(wave: Wave, lanes: Lanes) -> None:
        by = place.by(lanes, order=order, scope=scope)
        first = address(wave, lanes)
        values = [reader(wave, lanes) for reader in readers]
        old = []
        for number in range(asked.count):
            change = _change(update, [one[number] for one in values])
            old.append(wave.memory.update(by, space, first + np.uint64(size * number), size, change))
        if writer is not None:
            writer(wave, lanes, np.stack(old))

    return step


def _change(update: Update, values: list[Bits]) -> Change:
    return lambda words, which: update(words, *(one[which] for one in values))


def _update(operation: str, asked: Qualifiers, place: Compiling) -> Update:
    if operation in _OWN:
        return _OWN[operation]
    type = asked.type
    rounding = ("rn",) if operation == "add" and "f" in type else ()
    # In global memory, f32 has no subnormal numbers here.
    flush = ("ftz",) if type == "f32" and asked.space != "shared" and operation == "add" else ()
    pure = scalar.find((operation, *rounding, *flush, type))
    if pure is None:
        place.unknown(f"{operation}.{type}")
    call = pure.call
    return lambda old, value: call(old, value)[0]


def _increment(old: Bits, most: Bits) -> Bits:
    return np.where(old >= most, np.uint32(0), old + np.uint32(1))


def _decrement(old: Bits, most: Bits) -> Bits:
    return np.where((old == 0) | (old > most), most, old - np.uint32(1))


def _exchange(_old: Bits, value: Bits) -> Bits:
    return value


def _compare_and_swap(old: Bits, expected: Bits, value: Bits) -> Bits:
    same = old == expected
    if same.ndim > 1:
        same = same.all(axis=1, keepdims=True)
    return np.where(same, value, old)


_OWN: dict[str, Update] = {"inc": _increment, "dec": _decrement, "exch": _exchange, "cas": _compare_and_swap}
