"""Checks of a `wgmma` call's operands against its request: accumulator, tiles, fragments, threads.

Unchecked, each mistake compiles and launches, and the tensor core misreads the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.matrix.operand_descriptor import OperandDescriptor
from nvbackend.builder.values.accumulator import Accumulator, Fragment
from nvbackend.diagnostics import Diagnostic, Rule, raise_all
from nvbackend.intrinsics.mma.wgmma import N_STEP, N_VALUES
from nvbackend.intrinsics.row.hierarchy import WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import ElementType, f16, f32, s32
from nvbackend.intrinsics.words.majors import Major
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.layout.descriptors.smem_layout import SmemLayout

ACCUMULATOR_TYPES = (f16, f32, s32)
FRAGMENT_REGISTERS = 4

ACCUMULATOR = Rule(
    id="wgmma.accumulator",
    message="accumulator {name} holds {given}; {needs}",
    fix="make it with {wanted}",
    why="The instruction writes as many registers as its shape and type have, in an order of their own.",
    reference="PTX ISA 9.7.15.5.1.1 (wgmma register fragments)",
)
OPERAND_ELEMENT = Rule(
    id="wgmma.operand-element",
    message="{operand} of the instruction is {wanted}; this tile or fragment holds {given}",
    fix="make the tile or fragment of {wanted}, or ask for an instruction that multiplies {given}",
    why="The bits would be read as numbers of another type: wrong results, no fault.",
    reference="PTX ISA 9.7.15.3 (wgmma matrix types)",
)
OPERAND_MAJOR = Rule(
    id="wgmma.operand-major",
    message="the tile of {operand} is {major}; the request has trans_{operand} = {trans}",
    fix="ask with dataclasses.replace(request, trans_{operand}={wanted}), or lay the tile out the other way",
    why="The tensor core would read the tile transposed: wrong results, no fault.",
    reference="PTX ISA 9.7.15.5.2 (imm-trans-a, imm-trans-b)",
)
RESIDENCY = Rule(
    id="wgmma.residency",
    message="A is given {given}; the request says a_in_registers={asked}",
    fix="ask with a_in_registers={wanted}, or give A {other}",
    why="The two are different instructions.",
    reference="PTX ISA 9.7.15.5.2 (wgmma.mma_async: a, a-desc)",
)
FRAGMENT = Rule(
    id="wgmma.fragment",
    message="a fragment of A has {wanted} registers a thread, not {given}",
    fix="pack the thread's elements into {wanted} values of u32, as the figures of PTX ISA 9.7.15.5.1 show",
    why="The instruction reads that many.",
    reference="PTX ISA 9.7.15.5.1 (register fragments)",
)
THREADS = Rule(
    id="wgmma.threads",
    message="wgmma is executed by whole warpgroups of {warpgroup} threads; the kernel has {threads}",
    fix="use threads={wanted}, or branch on the thread's index to keep out the warps after the last whole warpgroup",
    why="The missing threads hold a part of the accumulator, and the instruction is undefined without them.",
    reference="PTX ISA 9.7.15 (wgmma: warpgroup)",
)


def check_accumulator(name: str, n: int, element: ElementType) -> None:
    """Raises wgmma.accumulator unless some wgmma writes an m64`n` accumulator of `element`."""
    if type(n) is not int or n not in N_VALUES or element not in ACCUMULATOR_TYPES:
        n_values = f"N is a multiple of {N_STEP} from {N_VALUES[0]} to {N_VALUES[-1]}"
        types = ", ".join(map(str, ACCUMULATOR_TYPES))
        ACCUMULATOR.fail(
            name=name,
            given=f"m64n{n} {element}",
            needs=f"{n_values}, the element one of {types}",
            wanted="k.wgmma.accumulator(n, element) within these",
        )


def check_threads(threads: int, among: int | None) -> None:
    """Raises wgmma.threads unless the threads that may come, a bit of `among` each, are whole warpgroups."""
    whole = threads // WARPGROUP_SIZE * WARPGROUP_SIZE
    if threads != whole and (among is None or among >> whole):
        wanted = -(-threads // WARPGROUP_SIZE) * WARPGROUP_SIZE
        THREADS.fail(warpgroup=WARPGROUP_SIZE, threads=threads, wanted=wanted)


def check_fragment(registers: int) -> None:
    """Raises wgmma.fragment unless these are the registers of a thread's part of A."""
    if registers != FRAGMENT_REGISTERS:
        FRAGMENT.fail(wanted=FRAGMENT_REGISTERS, given=registers)


def check_operands(request: WgmmaRequest, accumulator: Accumulator, a: object, b: object) -> None:
    """Raises, all together, what `request` does not multiply or write (wgmma.accumulator, wgmma.operand-...)."""
    raise_all([*_accumulator(request, accumulator), *_operand("a", request, a), *_operand("b", request, b)])


def check_operand(name: str, request: WgmmaRequest, given: object) -> None:
    """Raises, all together, what of `given` is not operand `name`, "a" or "b", of `request` (wgmma.operand-...)."""
    raise_all(_operand(name, request, given))


def _accumulator(request: WgmmaRequest, accumulator: Accumulator) -> Iterator[Diagnostic]:
    if (accumulator.n, accumulator.element) != (request.n, request.d):
        yield ACCUMULATOR.diagnose(
            name=accumulator.name,
            given=f"m64n{accumulator.n} {accumulator.element}",
            needs=f"the instruction writes m64n{request.n} {request.d}",
            wanted=f"k.wgmma.accumulator({request.n}, nvb.{request.d})",
        )


def _operand(name: str, request: WgmmaRequest, given: object) -> Iterator[Diagnostic]:
    in_registers = isinstance(given, Fragment)
    if name == "a" and in_registers != request.a_in_registers:
        places = ("in shared memory", "in registers")
        yield RESIDENCY.diagnose(
            given=places[in_registers],
            other=places[not in_registers],
            asked=request.a_in_registers,
            wanted=in_registers,
        )
    element, trans = (request.a, request.trans_a) if name == "a" else (request.b, request.trans_b)
    tile = given.layout if isinstance(given, SharedTile) else given
    if isinstance(tile, (Fragment, SmemLayout, OperandDescriptor)) and tile.element is not element:
        yield OPERAND_ELEMENT.diagnose(operand=name.upper(), wanted=element, given=tile.element)
    if isinstance(tile, (SmemLayout, OperandDescriptor)) and (tile.major is Major.MN) != bool(trans):
        yield OPERAND_MAJOR.diagnose(operand=name, major=tile.major, trans=trans, wanted=int(not trans))
