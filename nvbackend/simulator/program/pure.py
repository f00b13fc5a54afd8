"""Instructions that only compute: pure array functions between slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from nvbackend.ptx.syntax import Instruction, Name, Operand, Pair
from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.symbols import CARRY_FLAG
from nvbackend.simulator.machine.types import extended
from nvbackend.simulator.machine.wave import Step, Wave

CARRY = "cc"
"""The type of an operand or result that is the carry flag."""


class PureInstruction(Protocol):
    """What `scalar.find` gives: PTX types of results and operands, and the function."""

    @property
    def results(self) -> tuple[str, ...]:
        """The types of the destinations."""

    @property
    def operands(self) -> tuple[str, ...]:
        """The types of the sources, in PTX order."""

    @property
    def call(self) -> Callable[..., tuple[Bits, ...]]:
        """Arrays of one length in, arrays out."""

    @property
    def optional(self) -> int:
        """How many of the last operands may be missing."""


class Domain:
    """What values are. Here numbers; another domain may lift a function to values of which some are unknown."""

    def lift(self, pure: PureInstruction) -> Callable[..., tuple[Bits, ...]]:
        """The function over values of this domain."""
        return pure.call


def compile_pure(instruction: Instruction, place: Compiling, pure: PureInstruction, domain: Domain) -> Step:
    """The step of a pure instruction."""
    destinations, sources = _split(instruction, place, pure)
    call = domain.lift(pure)
    types = pure.operands[: len(sources)]
    found = [place.symbols.slot(one, type) for one, type in zip(sources, types, strict=True)]
    targets = [_target(one, place) for one in destinations]
    slots = [each[0] for each in found if each is not None]
    if len(slots) < len(found) or len(targets) != 1 or targets[0] is None or not 1 <= len(slots) <= 3:
        results = list(zip(destinations, pure.results, strict=False))
        return _any(place, call, list(zip(sources, types, strict=True)), results)
    if any(each is not None and each[1] is not None for each in found):
        converts = [each[1] for each in found if each is not None]
        call = _converted(call, converts)
    return _DIRECT[len(slots)](call, *slots, *targets[0], pure.results[0].startswith("s"))


def _split(instruction: Instruction, place: Compiling, pure: PureInstruction) -> tuple[list[Operand], list[Operand]]:
    """Destinations and sources: two destinations are `d|p`."""
    operands = list(instruction.operands)
    first = operands[0] if operands else None
    destinations: list[Operand] = [first.first, first.second] if isinstance(first, Pair) else operands[:1]
    sources = [one for operand in operands[1:] for one in place.elements(operand)]
    if pure.results[-1] == CARRY:
        destinations += [CARRY_FLAG] * (len(pure.results) - len(destinations))
    if pure.operands[-1] == CARRY:
        sources.append(CARRY_FLAG)
    most = len(pure.operands)
    if not most - pure.optional <= len(sources) <= most or len(destinations) > len(pure.results):
        place.unknown(f"{len(sources)} source operands of {instruction.opcode}, which takes {most}")
    return destinations, sources


def _target(operand: Operand, place: Compiling) -> tuple[int, Any] | None:
    if isinstance(operand, Name) and operand.text == "_":
        return None
    register = place.symbols.register(operand)
    return register if register is not None else place.unknown("a destination that is not a register")


def _converted(call: Callable[..., tuple[Bits, ...]], converts: Sequence[Callable[[Bits], Bits] | None]) -> Any:
    def run(*values: Bits) -> tuple[Bits, ...]:
        return call(*(one if to is None else to(one) for one, to in zip(values, converts, strict=True)))

    return run


def _any(
    place: Compiling,
    call: Callable[..., tuple[Bits, ...]],
    sources: list[tuple[Operand, str]],
    destinations: list[tuple[Operand, str]],
) -> Step:
    """For every form of operands, of the threads that are here only."""
    readers = [place.read(operand, type) for operand, type in sources]
    writers = [place.write(operand, type) for operand, type in destinations]

    def step(wave: Wave, lanes: Lanes) -> None:
        results = call(*(reader(wave, lanes) for reader in readers))
        for writer, values in zip(writers, results, strict=False):
            writer(wave, lanes, values)

    return step


def _set(registers: list[Bits], slot: int, lanes: Lanes, values: Bits) -> None:
    changed = registers[slot].copy()
    changed[lanes.index] = values
    registers[slot] = changed


def _one(call: Any, a: int, target: int, dtype: Any, is_signed: bool) -> Step:
    def step(wave: Wave, lanes: Lanes) -> None:
        registers = wave.registers
        if lanes.whole:
            values = call(registers[a])[0]
            registers[target] = values if values.dtype == dtype else extended(values, dtype, is_signed=is_signed)
        else:
            values = call(registers[a][lanes.index])[0]
            values = values if values.dtype == dtype else extended(values, dtype, is_signed=is_signed)
            _set(registers, target, lanes, values)

    return step


def _two(call: Any, a: int, b: int, target: int, dtype: Any, is_signed: bool) -> Step:
    def step(wave: Wave, lanes: Lanes) -> None:
        registers = wave.registers
        if lanes.whole:
            values = call(registers[a], registers[b])[0]
            registers[target] = values if values.dtype == dtype else extended(values, dtype, is_signed=is_signed)
        else:
            index = lanes.index
            values = call(registers[a][index], registers[b][index])[0]
            values = values if values.dtype == dtype else extended(values, dtype, is_signed=is_signed)
            _set(registers, target, lanes, values)

    return step


def _three(call: Any, a: int, b: int, c: int, target: int, dtype: Any, is_signed: bool) -> Step:
    def step(wave: Wave, lanes: Lanes) -> None:
        registers = wave.registers
        if lanes.whole:
            values = call(registers[a], registers[b], registers[c])[0]
            registers[target] = values if values.dtype == dtype else extended(values, dtype, is_signed=is_signed)
        else:
            index = lanes.index
            values = call(registers[a][index], registers[b][index], registers[c][index])[0]
            values = values if values.dtype == dtype else extended(values, dtype, is_signed=is_signed)
            _set(registers, target, lanes, values)

    return step


_DIRECT: dict[int, Callable[..., Step]] = {1: _one, 2: _two, 3: _three}
