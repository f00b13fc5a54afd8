"""Reads of shared memory are judged by what was stored before them: the simulator, which knows all bytes, is the
witness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32
from tests.dry_run.refusals import refusals
from tests.support.runtime import rules

F32, I32 = Pointer[f32], Pointer[i32]


def accumulates(k: Any, acc: Any, x: Any, t: Any) -> None:
    acc[t] = acc[t] + x


def accumulates_in_rounds(k: Any, acc: Any, x: Any, t: Any) -> None:
    with k.range(4):
        acc[t] = acc[t] + x


def accumulates_beside(k: Any, acc: Any, x: Any, t: Any) -> None:
    acc[t] = 0.0
    acc[t + 128] = acc[t + 128] + x


def reduces(k: Any, acc: Any, x: Any, t: Any) -> None:
    k.atomic.reduce(acc + t, "add", x)


def reads_at_data(k: Any, acc: Any, x: Any, t: Any) -> None:
    y = acc[k.warp_id() * 32 + (x.to(i32) & 31)]
    k.warp.sync()
    acc[t] = y


MISTAKES = [accumulates, accumulates_in_rounds, accumulates_beside, reduces, reads_at_data]


@nvb.kernel("sm_80", threads=128)
def kernel(k, out: F32, *, body: Any, clears: bool, others: bool):
    acc, other, t = k.shared(f32, 256, name="acc"), k.shared(f32, 128, name="other"), k.thread_id()
    if others:
        other[t] = out[t]
        k.barrier.sync()
    if clears:
        acc[t] = 0.0
        acc[t + 128] = 0.0
        k.barrier.sync()
    body(k, acc, other[127 - t] if others else out[t], t)
    k.barrier.sync()
    out[t] = acc[127 - t] if body is not accumulates_beside else acc[255 - t]


@pytest.mark.parametrize("others", [True, False], ids=["", "nothing_before"])
@pytest.mark.parametrize("body", MISTAKES, ids=lambda body: body.__name__)
def test_what_is_stored_later_has_not_been_written(body, others) -> None:
    assert refusals(kernel, body=body, clears=False, others=others) == ["dry-run.unwritten"]
    assert refusals(kernel, body=body, clears=True, others=others) == []


@pytest.mark.parametrize("body", MISTAKES, ids=lambda body: body.__name__)
def test_the_simulator_agrees(body) -> None:
    out = np.ones(128, np.float32)
    for clears, found in ((False, ["simulator.unwritten"]), (True, [])):
        compiled = kernel.compile(body=body, clears=clears, others=True, check=False, assemble=False)
        loaded = nvb.runtime.load(compiled, device="simulator")
        assert rules(lambda: loaded.launch(1, out)) == found  # noqa: B023


@nvb.kernel("sm_80", threads=64)
def exchanges(k, x: I32, out: I32, *, meets: bool, own: bool):
    """The lanes of each warp exchange words, which data places: in the part of the warp, or anywhere."""
    first, words, t = k.shared(i32, 1, name="first"), k.shared(i32, 64, name="words"), k.thread_id()
    with k.if_(t == 0):
        first[0] = 1
    k.barrier.sync()
    words[(k.warp_id() * 32 if own else 0) + (x[t] & (31 if own else 63))] = t
    if meets:
        k.warp.sync()
    out[t] = words[t]


@nvb.kernel("sm_80", threads=64)
def permutes(k, x: I32, out: I32):
    """Each thread alone, in four words of its own."""
    first, words, t = k.shared(i32, 1, name="first"), k.shared(i32, 256, name="words"), k.thread_id()
    with k.if_(t == 0):
        first[0] = 1
    k.barrier.sync()
    for i in range(4):
        words[t * 4 + (x[i] & 3)] = i
    for i in range(4):
        out[t * 4 + i] = words[t * 4 + i]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"meets": True, "own": True}, []),
        ({"meets": True, "own": False}, []),
        ({"meets": False, "own": False}, ["shared.missing-barrier"]),
    ],
)
def test_what_data_places_may_have_been_written(given, found) -> None:
    assert refusals(exchanges, **given) == found


def test_a_thread_reads_what_it_has_stored_where_data_says() -> None:
    assert refusals(permutes) == []
