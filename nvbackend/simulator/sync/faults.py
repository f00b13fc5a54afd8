"""How a fault of a running kernel is reported: the instruction and the thread that did it."""

from __future__ import annotations

from typing import NoReturn

from nvbackend.diagnostics import Rule
from nvbackend.simulator.events import By
from nvbackend.simulator.machine.wave import Wave


def thread_name(wave: Wave, thread: int) -> str:
    """What messages call a thread."""
    return f"thread {thread % wave.cta_threads} of CTA {thread // wave.cta_threads}"


def fail(rule: Rule, wave: Wave, by: By, lane: int = 0, **values: object) -> NoReturn:
    """Raise the rule's diagnostic about what lane number `lane` of `by` does: its texts get `what` and `thread`."""
    thread = int(by.threads[0 if len(by.threads) == 1 else lane])
    what = by.site.text if by.operation is None else f"{by.operation.engine} ({by.site.text})"
    note = (f"PTX {by.site}", None)
    rule.fail(at=by.site.location, notes=(note,), what=what, thread=thread_name(wave, thread), **values)
