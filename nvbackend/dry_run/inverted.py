"""Waits that nobody passes because each waits for the other to begin: which of them is to wait for the other parity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic
from nvbackend.dry_run.machine.machine import Machine
from nvbackend.dry_run.rules import ARRIVALS, BYTES, DEADLOCK
from nvbackend.dry_run.seam import Launch, Protocols

_MOST = 4
"""So many waits are tried."""
_RULES = frozenset({DEADLOCK.id, BYTES.id, ARRIVALS.id})
"""What is said where nothing goes on."""
Again = Callable[..., tuple[list[Diagnostic], Machine]]
"""The same run with another `launch`."""


def told_where_it_is(found: list[Diagnostic], stuck: Protocols, launch: Launch, again: Again) -> list[Diagnostic]:
    """What was found, told of the one wait with whose parity inverted nothing is found, where there is one."""
    if not found or found[0].rule_id not in _RULES:
        return found
    waits = [*{id(one): one for one in stuck.first_waits()}.values()]
    right = [one for one in waits if _is_right(again, replace(launch, inverted=one))] if len(waits) <= _MOST else []
    return stuck.told_at(right[0]) if len(right) == 1 else found


def _is_right(again: Again, launch: Launch) -> bool:
    """Whether a run comes to its end, and nothing is found."""
    found, machine = again(launch=launch)
    return machine.has_ended and not found and not machine.contradicted
