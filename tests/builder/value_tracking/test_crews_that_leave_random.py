"""Which blocks all of a crew run, where threads leave loops or the kernel in between: a walk over the program."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32

THREADS = 64
INSIDE = ("if", "loop", "part", "data")
Item = tuple[str, "list[Item]"]
"""A place, a way out ("exit", "break" or "continue", of "all" or of "some" threads), or a block with what is in it."""


def program(draw: random.Random, depth: int, *, in_loop: bool) -> list[Item]:
    items: list[Item] = [("place", [])]
    for _ in range(draw.choice([1, 1, 2])):
        kind = draw.choice(INSIDE if depth else ("exit some",))
        if draw.random() < (0.45 if in_loop else 0.15):
            kind = draw.choice(["exit all", "exit all", "exit some", *["break all", "continue some"] * in_loop])
        inside = program(draw, depth - 1, in_loop=in_loop or kind == "loop") if kind in INSIDE else []
        items += [(kind, inside), ("place", [])]
    return items


@dataclass
class Frame:
    """An open block: whether all of the crew are there, and the places in it so far."""

    kind: str
    is_known: bool
    places: list[int] = field(default_factory=list)


def known(items: list[Item]) -> list[bool]:
    """Of each place whether the whole crew of its block certainly comes, each time that one of them does."""
    found: list[bool] = []

    def left(frames: list[Frame], *, kept: int) -> None:
        """Threads are missing in these blocks from now on, and in loops from the start of the next round on."""
        for frame in frames[: len(frames) - kept]:
            frame.is_known = False
            for place in frame.places if frame.kind == "loop" else ():
                found[place] = False

    def walk(items: list[Item], frames: list[Frame]) -> None:
        for kind, inside in items:
            if kind == "place":
                for frame in frames:
                    frame.places.append(len(found))
                found.append(frames[-1].is_known)
            elif kind in INSIDE:
                walk(inside, [*frames, Frame(kind, frames[-1].is_known and kind != "data")])
            elif kind.startswith(("break", "continue")):
                loop = max(index for index, frame in enumerate(frames) if frame.kind == "loop")
                left(frames[loop:], kept=0)
            else:
                part = max((index for index, frame in enumerate(frames) if frame.kind == "part"), default=0)
                whole = len(frames) - part if kind == "exit all" and frames[-1].is_known else 0
                left(frames, kept=whole)

    walk(items, [Frame("kernel", is_known=True)])
    return found


def emitted(items: list[Item]) -> list[bool]:
    names: list[str] = []

    def emit(k: Any, items: list[Item], n: Any, x: Any) -> None:
        thread = k.thread_id()
        for kind, inside in items:
            if kind == "place":
                x[thread] = 1.0
                names.append(k.llvm.block.name)
            elif kind == "if":
                with k.if_(n > len(names)):
                    emit(k, inside, n, x)
            elif kind == "part":
                with k.if_(thread < THREADS // 2):
                    emit(k, inside, n, x)
            elif kind == "data":
                with k.if_(x[thread] > 1.0):
                    emit(k, inside, n, x)
            elif kind == "loop":
                with k.range(n):
                    emit(k, inside, n, x)
            else:
                way, who = kind.split()
                condition = n == 7 + len(names) if who == "all" else x[thread] > 3.0
                {"exit": k.return_if, "break": k.break_if, "continue": k.continue_if}[way](condition)

    def kernel(k, n: i32, x: nvb.Pointer[f32]):
        emit(k, items, n, x)

    blocks = nvb.kernel("sm_90a", threads=THREADS)(kernel).build(check=False).machine.blocks
    return [blocks[name].crew is not None for name in names]


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_blocks_that_a_whole_crew_runs(start: int) -> None:
    seen: set[bool] = set()
    for seed in range(start, start + 20):
        items = program(random.Random(seed), 3, in_loop=False)
        found = emitted(items)
        assert found == known(items), (seed, items)
        seen |= set(found[2:])
    assert seen == {True, False}
