"""Alignment checks: addresses that certainly break a promised or required alignment."""

from __future__ import annotations

import math
from typing import Protocol

from llvmlite import ir

from nvbackend.builder.scopes.rules import MISALIGNED
from nvbackend.builder.value_tracking.addresses.places import Places
from nvbackend.builder.value_tracking.execution import Execution
from nvbackend.diagnostics import printed
from nvbackend.signature import LARGEST_ALIGNMENT


class Addressed(Protocol):
    """What the checks need from the builder: sums of values, and their numbers in the threads that reach this place."""

    places: Places
    execution: Execution


def how_to_align(root: int, wanted: int, *, shared: bool, stepped: bool) -> str:
    """The fix: how to make an address a known multiple of `wanted` bytes; its memory begins at a multiple of `root`.

    In shared memory `root` is that of the whole window, so it says nothing of one allocation.
    """
    steps = f"step by multiples of {wanted} bytes"
    promise = f"for a run-time step that is one, promise it: address.byte_offset(step, align={wanted})"
    if root % wanted == 0 and not shared:
        return f"{steps} from where the memory begins, which is a multiple of {root}; {promise}"
    source = f"k.shared(..., align={wanted})" if shared else f"Pointer(element, align={wanted})"
    asked = f"ask for memory that begins at a multiple of {wanted} bytes, {source}"
    return f"{asked}, and {steps} from there; {promise}" if stepped else asked


def check_promise(k: Addressed, offset: ir.Value, root: int, align: int, proven: int) -> None:
    """Raises memory.misaligned unless `align` is an alignment that an address may have.

    The address lies `offset` bytes after a multiple of `root`; its arithmetic shows it to be a multiple of `proven`.
    """
    check_alignment(align)
    if proven % align:
        check_aligned(k, offset, root, align, f"align={align}")


def check_alignment(align: int) -> None:
    """Raises memory.misaligned unless `align` is a power of two that LLVM takes."""
    if type(align) is not int:
        raise TypeError("alignments are integers")  # the boundary finds the argument
    if not 1 <= align <= LARGEST_ALIGNMENT or align & (align - 1):
        problem, advice = "an alignment is a power of two, in bytes, up to 2^32", "give a power of two"
        MISALIGNED.fail(what=f"align={printed(align)}", problem=problem, advice=advice)


def check_aligned(k: Addressed, offset: ir.Value | None, root: int, wanted: int, what: str) -> None:
    """Raises memory.misaligned if some thread certainly comes here and has no multiple of `wanted` bytes.

    An `offset` of None is 0. Offsets that depend on run-time values pass.
    """
    span = math.gcd(root, wanted)
    is_judged = offset is not None and span > 1 and not k.execution.is_unreached()
    fault = _misaligned(k, offset, span) if is_judged else None
    if fault is not None:
        behind, who = fault
        problem = f"the address lies {behind} byte(s) after a multiple of {span} bytes{who}"
        MISALIGNED.fail(
            what=what, problem=problem, advice=f"step by multiples of {span} bytes, or access fewer at once"
        )


def _misaligned(k: Addressed, offset: ir.Value, span: int) -> tuple[int, str] | None:
    """An offset modulo `span`, and the thread that has it; None if that is not certain."""
    steps = k.places.step(offset)
    known = math.gcd(span, *steps.terms.values())
    if steps.constant % known:
        return steps.constant % known, ""
    numbers = {} if known == span else k.execution.numbers_here(offset)
    thread = next((thread for thread, number in numbers.items() if number % span), None)
    return None if thread is None else (numbers[thread] % span, f" in thread {thread}")
