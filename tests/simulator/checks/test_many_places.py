"""Copies that write many places, each of which publishes what its threads had seen: they share one row of times."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32
from nvbackend.simulator.checks import clocks as checked
from nvbackend.simulator.checks.clocks import SEEN, Clocks

CTAS, EACH = 8, 4


@nvb.kernel("sm_90a", threads=256, cluster=CTAS)
def exchanged(k: nvb.KernelBuilder, out: nvb.Pointer[f32]) -> None:
    """Each thread sends `EACH` vectors of four to the same thread of the next CTA."""
    box, full = k.shared(f32, 4 * EACH * 256), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    thread, rank = k.thread_id(), k.cluster.rank()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=16 * EACH * 256)
    for number in range(EACH):
        values = [(rank * 100 + number).to(f32)] * 4
        k.async_store.store(box + (number * 256 + thread) * 4, values, full, (rank + 1) % CTAS)
    k.mbarrier.wait(full, 0)
    out[rank * 256 + thread] = box[((EACH - 1) * 256 + thread) * 4 + 3]
    k.cluster.sync()


def test_what_many_stores_publish_takes_little_memory() -> None:
    loaded = nvb.runtime.load(exchanged.compile(assemble=False), device="simulator")
    out = np.zeros((CTAS, 256), np.float32)
    tracemalloc.start()
    try:
        loaded.launch(CTAS, out)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (out == (np.arange(CTAS)[:, None] - 1) % CTAS * 100 + EACH - 1).all()
    assert most < 300e6, f"{most / 1e6:.0f} MB"


def test_what_is_published_at_a_place_is_added_to_what_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two operations, each of one thread of another warp."""
    monkeypatch.setattr(checked, "LaneClocks", lambda *_: None)
    wave: Any = SimpleNamespace(size=64, cta_count=1, cta_threads=64, sites=tuple)
    clocks = Clocks(wave)
    of = {number: SimpleNamespace(rows=clocks.rows[[number]], source=4, warps=np.array([number])) for number in (0, 1)}
    monkeypatch.setattr(Clocks, "of", lambda _, operation: of[operation])
    began = clocks.now
    for number, places in ((0, "ab"), (1, "b")):
        by: Any = SimpleNamespace(threads=np.array([32 * number]), operation=number)
        clocks.publish(clocks.of_operation(by, by.operation), places)
        clocks.now += 1
    first, both = (clocks._tokens[place][SEEN, [2, 3]].tolist() for place in "ab")
    assert first == [began, 0]
    assert both == [began, began + 1]
