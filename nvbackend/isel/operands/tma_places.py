"""What the hardware wants of a bulk copy beyond its form: where it lies, what its box is, who issues it.

Read off the facts of the instruction (`isel.machine.facts`), at the call and again from the machine form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.intrinsics.copy.map_elements import ELEMENT_TYPES
from nvbackend.intrinsics.copy.tma import BULK_ALIGNMENT, FAMILY, TENSOR_ALIGNMENT
from nvbackend.intrinsics.copy.tma_tensor import REDUCTIONS
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.target.target import Target

PTX_TENSORS = "PTX ISA 5.5 (tensors: bounding box, swizzling modes)"

ALIGNMENT = Rule(
    id="tma.alignment",
    message="{instruction}: its {operand} in shared memory is promised to be a multiple of {given} bytes; it must be "
    "one of {wanted}",
    fix="ask for it where the memory comes from, k.shared(..., align={wanted}), for a tile tile.address, and step by "
    "multiples of it; a step that is known at run time keeps the promise with byte_offset(step, align={wanted})",
    why="The copy faults at run time, or writes to the address with its low bits cut off.",
    reference="PTX ISA 9.7.9 (cp.async.bulk, cp.async.bulk.tensor: alignment of addresses)",
)
BOX_ROW = Rule(
    id="tma.box-row",
    message="tensor map of {instruction}: a row of the box takes {given} bytes, which is not a multiple of {step}",
    fix="make the innermost extent of the box a multiple of {step} bytes",
    why="The driver makes no such map; the copy of a map made elsewhere faults.",
    reference=f"{PTX_TENSORS}; CUDA driver API, cuTensorMapEncodeTiled",
)
BOX_SWIZZLE = Rule(
    id="tma.box-swizzle",
    message="tensor map of {instruction}: a row of the box takes {given} bytes, and is swizzled by {swizzle}",
    fix="make the innermost extent of the box at most {swizzle} bytes, or choose a wider swizzle or none",
    why="A row must fit the swizzle's span: the driver refuses the map, or rows land on one another.",
    reference=f"{PTX_TENSORS}; CUDA driver API, cuTensorMapEncodeTiled",
)
START = Rule(
    id="tma.start",
    message="{instruction}: the box starts {given} byte(s) after a multiple of {step} bytes of the innermost dimension",
    fix="start it at an innermost coordinate that is a multiple of {step} bytes, and move what lies elsewhere with "
    "ordinary loads and stores",
    why="The kernel stops with an illegal instruction, whether the box is loaded, prefetched, stored or reduced.",
    reference="measured on an H200 (docs/divergences.md); PTX ISA 9.7.9 (cp.async.bulk.tensor) does not say so",
)
BEFORE = Rule(
    id="tma.before",
    message="{instruction}: the box starts before the tensor along {dimension}",
    fix="start it at 0 or later, and write what lies at the edge with ordinary stores; only a load may start before "
    "the tensor, and fills what lies outside of it",
    why="The kernel stops with an illegal instruction; a box that ends past the tensor is cut off instead.",
    reference="measured on an H200 (docs/divergences.md); PTX ISA 9.7.9 (cp.async.bulk.tensor) does not say so",
)
REDUCED_TYPE = Rule(
    id="tma.reduced-type",
    message="{instruction} on a tensor map of {element}, which it does not {operation}",
    fix="declare the map as one of {elements}, or choose what its type has ({operations})",
    why="The instruction takes its type from the map: on another one the kernel stops with an illegal instruction.",
    reference="PTX ISA 9.7.9 (cp.reduce.async.bulk.tensor: valid combinations of .redOp and element type); measured on "
    "an H200 (docs/divergences.md)",
)
ONE_THREAD = Rule(
    id="tma.one-thread",
    message="{instruction} is executed by {threads} threads, and each of them copies the same box",
    fix="let one thread do it: with k.one_thread(): ...",
    why="Each thread that executes it starts a copy of its own: bytes come many times, reductions add up many times.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor); tileiras documents: TMA and im2col validation",
)

_WRITES = ("store", "reduce")
_MEASURED = ("tile", "im2col", "im2col_no_offs")
"""Modes of which it is known where boxes may start; no chip at hand has the others."""


def place_faults(row: Row, known: Mapping[str, int], at: Location | None = None) -> Iterator[Diagnostic]:
    """What is certainly wrong with a bulk copy, by the facts that are `known` of it."""
    tensor = "rank" in row.axes
    wanted = TENSOR_ALIGNMENT if tensor else BULK_ALIGNMENT
    alignment = known.get(facts.ALIGNMENT)
    if alignment is not None and alignment % wanted:
        operand = "source" if row.axes.get("direction") in _WRITES else "destination"
        yield ALIGNMENT.diagnose(at=at, instruction=row.ptx, operand=operand, given=alignment, wanted=wanted)
    width, swizzle = known.get(facts.BOX_ROW), known.get(facts.SWIZZLE, 0)
    if width is not None and width % BULK_ALIGNMENT:
        yield BOX_ROW.diagnose(at=at, instruction=row.ptx, given=width, step=BULK_ALIGNMENT)
    if width is not None and swizzle and width > swizzle:
        yield BOX_SWIZZLE.diagnose(at=at, instruction=row.ptx, given=width, swizzle=swizzle)
    if row.axes.get("mode") in _MEASURED:
        yield from _start_faults(row, known, at)
    code, operation = known.get(facts.ELEMENT), str(row.axes.get("operation"))
    if code is not None and ELEMENT_TYPES[code] not in REDUCTIONS.get(operation, ELEMENT_TYPES):
        yield _no_reduction(row, ELEMENT_TYPES[code], operation, at)
    threads = known.get(facts.THREADS, 1)
    if threads > 1 and known.get(facts.SAME):
        yield ONE_THREAD.diagnose(at=at, instruction=row.ptx, threads=threads)


def _start_faults(row: Row, known: Mapping[str, int], at: Location | None) -> Iterator[Diagnostic]:
    if start := known.get(facts.START):
        yield START.diagnose(at=at, instruction=row.ptx, given=start, step=BULK_ALIGNMENT)
    before = known.get(facts.BEFORE)
    if before is not None and row.axes["direction"] in _WRITES:
        innermost = " (the innermost)" if before == 0 else ""
        yield BEFORE.diagnose(at=at, instruction=row.ptx, dimension=f"dimension {before}{innermost}")


def _no_reduction(row: Row, element: str, operation: str, at: Location | None) -> Diagnostic:
    others = [name for name, elements in REDUCTIONS.items() if element in elements]
    return REDUCED_TYPE.diagnose(
        at=at,
        instruction=row.ptx,
        element=element,
        operation=operation,
        elements=", ".join(REDUCTIONS[operation]),
        operations=", ".join(others) or "no reduction at all",
    )


def check_places(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:  # noqa: ARG001
    """The same, of an instruction of the machine form."""
    if instr.row is not None and instr.row.family == FAMILY:
        yield from place_faults(instr.row, instr.facts, instr.location)
