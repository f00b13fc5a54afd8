"""Reads of a tile that only copies fill, by warps that wait for none of the copies' mbarriers, wherever they stand."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from nvbackend import f16
from tests.support.proxy_program import Program


def read(p: Program) -> None:
    p.pointer[p.k.thread_id()] = p.tile.address.cast(f16)[p.k.thread_id()]


def told(*, first: str, rounds: bool, wait: int | None, filled: str = "load") -> list[str]:
    """Warp 0 fills the tile by barrier 0 and warp 1 reads it, one after the other in the text."""
    p = Program()
    with p.k.range(p.n) if rounds else nullcontext():
        for step in (first, {"fill": "read", "read": "fill"}[first]):
            with p.k.if_(p.k.warp_id() == ("fill", "read").index(step)):
                if step == "fill":
                    p.load()
                elif wait is not None:
                    p.k.mbarrier.wait(p.full + wait, 0)
                if step == "read":
                    read(p)
    if filled == "both":
        p.write()
    return [one.rule_id for one in p.found() if one.rule_id == "proxy.read-before-wait"]


@pytest.mark.parametrize("first", ["fill", "read"])
@pytest.mark.parametrize("rounds", [False, True])
def test_a_read_without_a_wait(first: str, rounds: bool) -> None:
    assert told(first=first, rounds=rounds, wait=None) == ["proxy.read-before-wait"]


@pytest.mark.parametrize("rounds", [False, True])
def test_a_read_after_a_wait(rounds: bool) -> None:
    assert told(first="fill", rounds=rounds, wait=0) == []


def test_what_ordinary_stores_fill_as_well_may_be_read_before() -> None:
    assert told(first="read", rounds=False, wait=None, filled="both") == []
