"""What the packed words of a tcgen05.mma say, against its row and the exact target: the second look at the same facts.

The words are decoded from their bits. Where a word differs from the row, the request that it
encodes goes through the gates of `rules` too: the verifier reports what the selector would have reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Rule
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.intrinsics.words.tcgen05_control import (
    COLLECTOR,
    CONTROL,
    SeedCollector,
    Tcgen05Collector,
    Tcgen05Ctrl,
    collector_of,
    control_of,
)
from nvbackend.isel.machine.function import (
    INSTRUCTION_DESCRIPTOR,
    MachineInstr,
    instruction_descriptor,
    words_of_tcgen05,
)
from nvbackend.isel.select.tcgen05.request import Tcgen05Request, request_of
from nvbackend.isel.select.tcgen05.select import GATES
from nvbackend.isel.select.tcgen05.shapes import shape_faults
from nvbackend.isel.target.target import Target, why_not

FOUR_CTAS = 3
"""The control word's code for a group of four CTAs."""

CONTROL_WORD = Rule(
    id="tcgen05.control-word",
    message="{instruction}: its {word} word {given} says {field} = {said}, and the instruction has {wanted}",
    fix="pack the word with control_words(row), from the very row that is emitted",
    why="One of the two is not the instruction that was meant, and only the printed one is executed.",
    reference="tileiras documents: tcgen05 emission, End-To-End Lowering",
)
NO_CONTROL_WORD = Rule(
    id="tcgen05.no-control-word",
    message="{instruction} carries no {word} word",
    fix="give the machine instruction words=control_words(row)",
    why="Its modifiers cannot be checked again after selection.",
    reference="tileiras documents: tcgen05 emission, Control-Word Bit Layout",
)


def word_faults(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:
    """What is wrong with the words of a `tcgen05.mma`; words that do not decode are another check's."""
    row = instr.row
    if row is None or row.semantics.issues is not Completion.COMMIT or not row.semantics.multiplies:
        return
    missing = [name for name in (CONTROL, COLLECTOR) if name not in instr.words]
    for name in missing:
        yield NO_CONTROL_WORD.diagnose(at=instr.location, instruction=row.ptx, word=name)
    if not missing:
        yield from _disagreements(instr, row, target)
    if (word := instr.words.get(INSTRUCTION_DESCRIPTOR)) is not None:
        yield from _shapes(instr, row, word, target)


def _disagreements(instr: MachineInstr, row: Row, target: Target) -> Iterator[Diagnostic]:
    try:
        control, collector = (words_of_tcgen05()[word](instr.words[word]) for word in (CONTROL, COLLECTOR))
    except DiagnosticError:
        return
    pairs = ((CONTROL, control, control_of(row)), (COLLECTOR, collector, collector_of(row)))
    differing = [
        (word, field, getattr(said, field), getattr(meant, field))
        for word, said, meant in pairs
        for field in type(said).__dataclass_fields__
        if getattr(said, field) != getattr(meant, field)
    ]
    if not differing:
        return
    for word, field, said_value, wanted in differing:
        yield CONTROL_WORD.diagnose(
            at=instr.location,
            instruction=row.ptx,
            word=word,
            given=f"{instr.words[word]:#x}",
            field=field,
            said=_shown(said_value),
            wanted=_shown(wanted),
        )
    said = _said(row, control, collector, {field for _, field, _, _ in differing})
    yield from why_not(GATES, said, target, instr.location)


def _said(row: Row, control: Tcgen05Ctrl, collector: Tcgen05Collector, fields: set[str]) -> Tcgen05Request:
    """The request of the row with what the words say otherwise."""
    request = request_of(row)
    changes: dict[str, Any] = {}
    if "cta_group" in fields:
        changes["cta_group"] = 4 if control.cta_group == FOUR_CTAS else control.cta_group
    if "mma_kind" in fields:
        changes["kind"] = control.kind
    if "scale_vec_size" in fields:
        changes["scale_vector"] = f"scale_vec::{1 << control.scale_vec_size}X"
    if "scale_input_acc" in fields:
        changes["scale_input_d"] = control.scale_input_acc
    if "block_scale" in fields:
        changes["block_scale"] = control.block_scale
    if collector.ashift:
        changes["ashift"] = True
    elif fields & {"valid", "collector_a"}:
        # The shared bit with an explicit collector is a collector that uses what it fills: the row keeps its ashift.
        filled = collector.collector_a is SeedCollector.FILL
        changes["collector"] = ("a::fill" if filled else "a::use") if collector.valid else None
    return replace(request, **changes)


def _shapes(instr: MachineInstr, row: Row, word: int, target: Target) -> Iterator[Diagnostic]:
    """The instruction descriptor's shape, sparsity and kind against the instruction's, and its K against the chip."""
    try:
        descriptor = instruction_descriptor(word, kind=str(row.axes["kind"]))
    except DiagnosticError:
        return
    faults = shape_faults(request_of(row), descriptor, target)
    yield from (replace(fault, location=instr.location) for fault in faults)


def _shown(value: object) -> object:
    return value.name if isinstance(value, SeedCollector) else value
