"""How a fault of a running kernel is reported: the instruction and the thread that did it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from nvbackend.diagnostics import DiagnosticError, Rule
from nvbackend.simulator.events import By
from nvbackend.simulator.machine.wave import Wave


@contextmanager
def located(wave: Wave, by: By, lane: int = 0) -> Iterator[None]:
    """What is raised inside is about what lane number `lane` of `by` does: it gets the place, and a note who it is."""
    try:
        yield
    except DiagnosticError as error:
        thread = wave.thread_name(int(by.threads[0 if len(by.threads) == 1 else lane]))
        note = (f"{thread} at PTX {by.site}", None)
        found = [replace(one, location=by.site.location, notes=(*one.notes, note)) for one in error.diagnostics]
        raise DiagnosticError(found) from None


def opcode(text: str) -> str:
    """The opcode of an instruction's text: without guard and operands."""
    return next(part for part in text.split() if not part.startswith("@")).rstrip(";")


def fail(rule: Rule, wave: Wave, by: By, lane: int = 0, **values: object) -> NoReturn:
    """Raise the rule's diagnostic about what lane number `lane` of `by` does: its texts get `what` and `thread`."""
    thread = int(by.threads[0 if len(by.threads) == 1 else lane])
    what = opcode(by.site.text) if by.operation is None else f"the {by.operation.engine}"
    note = (f"PTX {by.site}", None)
    rule.fail(at=by.site.location, notes=(note,), what=what, thread=wave.thread_name(thread), **values)
