"""Random accesses around griddepcontrol.wait: what of each array comes before it, and what after."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.diagnostics import Diagnostic

CONFLICT, EARLY = "griddepcontrol.early-conflict", "griddepcontrol.early-access"
DONE = {"r": "read", "w": "written", "l": "read", "s": "written"}
"""What each kind of access does: plain ones, and copies of a tile."""
Step = tuple[str, str]
"""A kind and an array; or "wait" or "barrier"."""


def drawn(draw: random.Random) -> list[Step]:
    """Some steps, with a wait or two among them; each may be under a condition."""
    steps = [(draw.choice("rw"), draw.choice("xyz")) for _ in range(draw.randint(3, 6))]
    steps += [(draw.choice("ls"), "a") for _ in range(draw.randint(0, 2))]
    steps += [("barrier", "")] * draw.randint(0, 2)
    draw.shuffle(steps)
    for _ in range(draw.randint(1, 2)):
        steps.insert(draw.randint(1, len(steps)), ("wait", ""))
    return steps


def expected(steps: list[Step]) -> list[tuple[str, str, str, str]]:
    """Rule, array, what is done early, and what is done late, or must not be done by kernels before."""
    first = steps.index(("wait", ""))
    early = [step for step in steps[:first] if step[1]]
    late = [step for step in steps[first:] if step[1]]
    found = []
    for name in dict.fromkeys(name for _, name in early):
        done = next(DONE[kind] for kind, other in early if other == name)
        after = [DONE[kind] for kind, other in late if other == name and "written" in (DONE[kind], done)]
        use = "write" if done == "read" else "use"
        found.append((CONFLICT, name, done, after[0]) if after else (EARLY, name, done, use))
    return found


def said(steps: list[Step], conditions: list[bool]) -> list[Diagnostic]:
    """What is said of a kernel of these steps."""

    def kernel(
        k, x: nvb.Pointer[f32], y: nvb.Pointer[f32], z: nvb.Pointer[f32], a: nvb.TensorMap(f32, (8, 32)), n: i32
    ):
        thread, tile, full = k.thread_id(), k.shared(f32, 256, align=128), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        value = k.var(0.0)
        for (kind, name), conditional in zip(steps, conditions, strict=True):
            array = {"x": x, "y": y, "z": z}.get(name)
            if kind == "wait":
                k.griddepcontrol("wait")
            elif kind == "barrier":
                k.barrier.sync()
            else:
                with k.if_(n > 3) if conditional else nullcontext():
                    if kind == "r":
                        value.set(array[thread])
                    elif kind == "w":
                        array[thread] = value
                    else:
                        with k.one_thread():
                            if kind == "l":
                                k.mbarrier.arrive(full, expect_tx=1024)
                                k.tma.load_box(tile, a, (0, 0), full)
                            else:
                                k.tma.store_box(a, (0, 0), tile)

    try:
        return [*nvb.kernel("sm_90a", threads=64)(kernel).build().diagnostics]
    except nvb.DiagnosticError as error:
        return [*error.diagnostics]


@pytest.mark.filterwarnings("ignore::nvbackend.DiagnosticWarning")
@pytest.mark.parametrize("seed", range(30))
def test_what_comes_before_the_wait(seed: int) -> None:
    draw = random.Random(seed)
    steps = drawn(draw)
    found = [one for one in said(steps, [draw.random() < 0.3 for _ in steps]) if one.rule_id in (CONFLICT, EARLY)]
    told = [
        (one.rule_id, one.values["name"], one.values["early"], one.values.get("late", one.values.get("use")))
        for one in found
    ]
    assert told == expected(steps), steps
    assert all(one.location is not None for one in found)
    assert all(bool(one.notes) == (one.rule_id == CONFLICT) for one in found)
