"""Threads of Python have short turns while a kernel is compiled beside its dry run, and their own after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32
from nvbackend.builder.kernel import kernel as kernel_module
from nvbackend.builder.kernel.switch_interval import SECONDS, ShortTurns

LONG = 0.25


@nvb.kernel("sm_80", threads=32)
def plain(k, out: nvb.Pointer[f32]):
    out[k.thread_id()] = 1.0


@nvb.kernel("sm_80", threads=32)
def racing(k, out: nvb.Pointer[f32]):
    tile = k.shared(f32, 32, name="tile")
    tile[k.thread_id()] = 1.0
    out[k.thread_id()] = tile[31 - k.thread_id()]


@pytest.fixture(autouse=True)
def interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(LONG)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The intervals in dry runs."""
    found: list[float] = []
    run = kernel_module.dry_run

    def noted(*given: Any) -> Any:
        found.append(sys.getswitchinterval())
        return run(*given)

    monkeypatch.setattr(kernel_module, "dry_run", noted)
    return found


def test_turns_are_short_beside_a_compile(seen: list[float]) -> None:
    plain.compile(assemble=False, cache=nvb.Cache.disabled())
    assert seen == [pytest.approx(SECONDS)]
    assert sys.getswitchinterval() == pytest.approx(LONG)


def test_a_refused_kernel_gives_them_back(seen: list[float]) -> None:
    with pytest.raises(nvb.DiagnosticError):
        racing.compile(assemble=False, cache=nvb.Cache.disabled())
    assert seen == [pytest.approx(SECONDS)]
    assert sys.getswitchinterval() == pytest.approx(LONG)


def test_a_build_alone_leaves_them(seen: list[float]) -> None:
    plain.build()
    assert seen == [pytest.approx(LONG)]


def test_turns_that_are_short_already_stay() -> None:
    sys.setswitchinterval(SECONDS / 4)
    short = sys.getswitchinterval()
    turns = ShortTurns()
    turns.begin()
    assert sys.getswitchinterval() == short
    turns.end()
    assert sys.getswitchinterval() == short


def test_what_the_program_sets_meanwhile_stays() -> None:
    turns = ShortTurns()
    turns.begin()
    sys.setswitchinterval(LONG * 2)
    turns.end()
    assert sys.getswitchinterval() == pytest.approx(LONG * 2)


def test_a_compile_inside_another_ends_before_it() -> None:
    outer, inner = ShortTurns(), ShortTurns()
    outer.begin()
    inner.begin()
    inner.end()
    assert sys.getswitchinterval() == pytest.approx(SECONDS)
    outer.end()
    sys.setswitchinterval(SECONDS / 2)
    outer.end()
    assert sys.getswitchinterval() == pytest.approx(SECONDS / 2)
