"""The report of a deadlock: who waits where for what, each cause once however many threads it holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import numpy as np

from nvbackend.diagnostics import Location
from nvbackend.simulator.events import Site
from nvbackend.simulator.machine.wave import Cause, Waiting, Wave
from nvbackend.simulator.rules import DEADLOCK


def causes_of(waiting: Waiting) -> list[Cause]:
    """What the threads that wait wait for."""
    return waiting.causes() if waiting.causes is not None else [Cause(waiting.lanes.threads, waiting.reason())]


def fail(wave: Wave, waits: Iterable[tuple[Site, Cause]]) -> NoReturn:
    """Raise simulator.deadlock."""
    merged: dict[tuple[int, str, str], list[tuple[Site, Cause]]] = {}
    for site, cause in waits:
        merged.setdefault((site.line, site.text, cause.text), []).append((site, cause))
    texts: list[str] = []
    notes: dict[tuple[str, Location | None], None] = {}
    places: list[Site] = []
    for parts in merged.values():
        site, cause = parts[0]
        threads = np.sort(np.concatenate([each.threads for _, each in parts]))
        texts.append(f"{wave.threads_name(threads)}: {cause.text} (PTX {site})")
        places.append(site)
        notes.update(dict.fromkeys(cause.notes))
    others = {(f"PTX {site}", site.location): None for site in places[1:]}
    DEADLOCK.fail(at=places[0].location, notes=(*others, *notes), kernel=wave.launch.kernel, waits="; ".join(texts))
