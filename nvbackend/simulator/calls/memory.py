"""Loads and stores of every state space, and hints to caches. PTX ISA 9.7.9."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from nvbackend.ptx.syntax import Address, Instruction, Name, Operand, Variable
from nvbackend.simulator.calls.moves import joined
from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.symbols import size_of
from nvbackend.simulator.machine.types import bits, container
from nvbackend.simulator.machine.wave import Reader, Step, Wave
from nvbackend.simulator.rules import BOUNDS, MISALIGNED

SPACES = (
    "global",
    "shared",
    "shared::cta",
    "shared::cluster",
    "local",
    "const",
    "param",
    "param::entry",
    "param::func",
)
ORDERS = ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio")
SCOPES = ("cta", "cluster", "gpu", "sys")
NON_COHERENT = "nc"
"""The order of ld.global.nc, which is weak."""
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_HINTS = (
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L2::cache_hint",
    "unified",
    "L2::64B",
    "L2::128B",
    "L2::256B",
)


class Qualifiers:
    """What the pieces of an opcode say of an access: space, order, scope, vector, type."""

    def __init__(self, place: Compiling, known: tuple[str, ...] = ()) -> None:
        self.space, self.order, self.scope, self.count = "", "weak", "", 1
        self.type = place.instruction.parts[-1]
        if bits(self.type) is None:
            place.unknown(f".{self.type}")
        for part in place.instruction.parts[1:-1]:
            if part in SPACES:
                self.space = part.removesuffix("::entry").removesuffix("::func") if part.startswith("param") else part
            elif part in ORDERS or part == NON_COHERENT:
                self.order = part
            elif part in SCOPES:
                self.scope = part
            elif part in _VECTORS:
                self.count = _VECTORS[part]
            elif part not in _HINTS and part not in known and not part.startswith(("L1::", "L2::")):
                place.unknown(f".{part}")


def compile(instruction: Instruction, place: Compiling) -> Step:
    """ld, ldu, st; prefetch, discard and applypriority, which change nothing; createpolicy."""
    opcode = instruction.parts[0]
    if opcode in ("ld", "ldu"):
        return _load(instruction, place)
    if opcode == "st":
        return _store(instruction, place)
    return _policy(instruction, place) if opcode == "createpolicy" else nothing


def nothing(_wave: Wave, _lanes: Lanes) -> None:
    """What a hint does."""


def _policy(instruction: Instruction, place: Compiling) -> Step:
    """A cache policy is a word that nothing here looks at."""
    write = place.write(instruction.operands[0], "b64")

    def step(wave: Wave, lanes: Lanes) -> None:
        write(wave, lanes, np.ones(lanes.count, np.uint64))

    return step


def _load(instruction: Instruction, place: Compiling) -> Step:
    asked = Qualifiers(place)
    target, source = instruction.operands[:2]
    width = (bits(asked.type) or 8) // 8
    size = width * asked.count
    targets = place.elements(target)
    if len(targets) != asked.count:
        place.unknown(f"{len(targets)} destinations of {instruction.opcode}")
    writers = [place.write(one, asked.type) for one in targets]
    fetch = _parameter(source, size, place) if asked.space == "param" else None
    if fetch is None:
        fetch = _fetch(asked, source, size, place)
    dtype = container(asked.type)
    if asked.count == 1:
        (write,) = writers

        def one(wave: Wave, lanes: Lanes) -> None:
            write(wave, lanes, fetch(wave, lanes))

        return one

    def several(wave: Wave, lanes: Lanes) -> None:
        parts = np.ascontiguousarray(fetch(wave, lanes)).view(dtype).reshape(lanes.count, asked.count, -1)
        for number, write in enumerate(writers):
            part = np.ascontiguousarray(parts[:, number])
            write(wave, lanes, part if width == 16 else part[:, 0])

    return several


def _fetch(asked: Qualifiers, source: Operand, size: int, place: Compiling) -> Reader:
    """The words at the address of each thread."""
    address = place.address(source)
    space, order, scope = asked.space, asked.order, asked.scope

    def fetch(wave: Wave, lanes: Lanes) -> Bits:
        by = place.by(lanes, order=order, scope=scope)
        return wave.memory.load(by, space, address(wave, lanes), size)

    return fetch


def _parameter(source: Operand, size: int, place: Compiling) -> Reader | None:
    """A kernel's parameter is the same in all threads; a function's is bytes of each thread. None: an address."""
    variable = _variable(source, place)
    if variable is None or not isinstance(source, Address):
        return None
    offset, dtype = source.offset, np.dtype(f"u{min(size, 8)}")
    end = offset + size
    found = place.symbols.slot(source.base, "u64") if variable.position in place.symbols.places else None
    if found is None:
        beside = _beside(source, variable, size, "reads", place)
        if beside is not None:
            return beside
        slot = place.symbols.parameter(variable)
        return lambda wave, lanes: _words(wave.registers[slot][lanes.index, offset:end], dtype)
    name = variable.name

    def initial(wave: Wave) -> Bits:
        given = wave.launch.parameters[wave.launch.names.index(name)][offset:end]
        words = np.frombuffer(given.ljust(size, b"\0"), dtype)
        return np.full(wave.size, words[0], dtype) if size <= 8 else np.tile(words, (wave.size, 1))

    constant = place.symbols.slots.named(("parameter", variable.position, offset, size), initial)
    return lambda wave, lanes: wave.registers[constant][lanes.index]


def _beside(
    address: Address, variable: Variable, size: int, does: str, place: Compiling
) -> Callable[[Wave, Lanes], NoReturn] | None:
    """What raises simulator.bounds or simulator.misaligned where an access is beside a function's parameter."""
    offset, width = address.offset, size_of(variable)
    is_inside = 0 <= offset <= width - size
    if is_inside and offset % size == 0:
        return None
    problem = {} if is_inside else {"problem": f"{variable.name} has {width} bytes"}
    values: dict[str, Any] = {
        "does": does,
        "size": size,
        "space": "param",
        "address": f"{variable.name}+{offset}",
        **problem,
    }
    site = place.site

    def fail(_wave: Wave, _lanes: Lanes) -> NoReturn:
        rule = MISALIGNED if is_inside else BOUNDS
        rule.fail(at=site.location, thread="a thread", line=site.line, text=site.text, **values)

    return fail


def _words(data: Bits, dtype: np.dtype[np.unsignedinteger]) -> Bits:
    words = np.ascontiguousarray(data).view(dtype)
    return words[:, 0] if words.shape[1] == 1 else words


def _variable(operand: Operand, place: Compiling) -> Variable | None:
    """The `.param` variable that an address names."""
    base = operand.base if isinstance(operand, Address) else None
    declared = place.symbols.declared(base) if isinstance(base, Name) else None
    return declared if declared is not None and declared.space == "param" else None


def _store(instruction: Instruction, place: Compiling) -> Step:
    asked = Qualifiers(place)
    target, source = instruction.operands[:2]
    sources = place.elements(source)
    if len(sources) != asked.count:
        place.unknown(f"{len(sources)} sources of {instruction.opcode}")
    data = _data(asked, [place.read(one, asked.type) for one in sources])
    variable = _variable(target, place)
    if asked.space == "param" and variable is not None and isinstance(target, Address):
        beside = _beside(target, variable, (bits(asked.type) or 8) // 8 * asked.count, "writes", place)
        if beside is not None:
            return beside
        return _store_parameter(data, place.symbols.parameter(variable), target.offset)
    address = place.address(target)
    space, order, scope = asked.space, asked.order, asked.scope

    def step(wave: Wave, lanes: Lanes) -> None:
        by = place.by(lanes, order=order, scope=scope)
        wave.memory.store(by, space, address(wave, lanes), data(wave, lanes))

    return step


def _data(asked: Qualifiers, readers: list[Reader]) -> Reader:
    """What is stored: one word, or the words of a vector side by side."""
    if len(readers) == 1:
        return readers[0]
    size = (bits(asked.type) or 8) // 8 * asked.count
    whole = f"b{8 * size}" if size <= 16 else "b64"

    def read(wave: Wave, lanes: Lanes) -> Bits:
        parts = np.stack([reader(wave, lanes) for reader in readers], axis=1).reshape(lanes.count, -1)
        return joined(parts, whole) if size <= 16 else parts.view(np.uint64)

    return read


def _store_parameter(data: Callable[[Wave, Lanes], Bits], slot: int, offset: int) -> Step:
    def step(wave: Wave, lanes: Lanes) -> None:
        values = np.ascontiguousarray(data(wave, lanes))
        given = values.view(np.uint8).reshape(lanes.count, -1)
        changed = wave.registers[slot].copy()
        changed[lanes.index, offset : offset + given.shape[1]] = given
        wave.registers[slot] = changed

    return step
