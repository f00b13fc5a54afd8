"""mma.sync, dense, sparse and block-scaled. PTX ISA 9.7.14.5.14, 9.7.14.6.3."""

from __future__ import annotations

from typing import Any

from nvbackend.ptx.syntax import Instruction, Operand
from nvbackend.simulator.calls.tensor.sparse_codes import check_codes
from nvbackend.simulator.calls.together import chip, gathered, spread, warps
from nvbackend.simulator.events import By
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Reader, Step, Wave
from nvbackend.simulator.tensor import elements, mma
from nvbackend.simulator.tensor.fragments import Fragment


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of an mma.sync of any shape and type."""
    found = mma.find(instruction.parts, chip(place))
    if found is None:
        place.unknown("this form")
    d, a, b, c, *rest = instruction.operands
    readers = [fragment_reader(place, one, has) for one, has in ((a, found.a), (b, found.b), (c, found.c))]
    write = place.writes(d, register_type(found.d))
    metadata, selector, in_order = None, 0, "sp" not in instruction.parts
    if found.sparse:
        metadata, selector = place.read(rest[0], "b32"), place.immediate(rest[1])
        rest = rest[2:]
    if len(rest) != (4 if found.factors else 0):
        place.unknown(f"{len(instruction.operands)} operands")
    scales = [
        (place.read(word, "b32"), place.reads(ids, "b16")) for word, ids in zip(rest[::2], rest[1::2], strict=True)
    ]

    def multiply(wave: Wave, lanes: Lanes) -> None:
        fragments = [spread(lanes, reader(wave, lanes)) for reader in readers]
        extras: dict[str, Any] = {}
        if metadata is not None and found.codes is not None:
            words = spread(lanes, metadata(wave, lanes))
            codes, width = found.codes(words, selector), elements.width(found.product.a)
            check_codes(wave, By(place.site, lanes.threads), codes, width, in_order=in_order)
            extras = {"metadata": words, "selector": selector}
        if scales:
            extras["scales"] = tuple(
                (spread(lanes, word(wave, lanes)), *spread(lanes, ids(wave, lanes))) for word, ids in scales
            )
        write(wave, lanes, gathered(lanes, found.call(*fragments, **extras)))

    return warps(place, multiply)


def register_type(fragment: Fragment) -> str:
    """The type of the registers of a fragment."""
    return "b64" if fragment.width > 32 else "b32"


def fragment_reader(place: Compiling, operand: Operand, fragment: Fragment) -> Reader:
    """Reads the registers of a fragment, (registers, n)."""
    count = len(place.elements(operand))
    if count != fragment.registers:
        place.unknown(f"{count} registers, where the fragment has {fragment.registers}")
    return place.reads(operand, register_type(fragment))
