"""Garbage is collected less often inside a build, and as before after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32
from nvbackend.builder.kernel.ahead import Ahead
from nvbackend.builder.kernel.garbage import RarelyCollected
from tests.support.process import python_output

OFTEN = (500, 9, 8)
inside: list[tuple[int, int, int]] = []


@nvb.kernel("sm_80", threads=32)
def noting(k, out: nvb.Pointer[f32]):
    inside.append(gc.get_threshold())
    out[0] = 1.0


@nvb.kernel("sm_80", threads=32)
def failing(k, out: nvb.Pointer[f32]):
    inside.append(gc.get_threshold())
    out[0] = 1 / 0


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*OFTEN)
    inside.clear()
    yield
    gc.set_threshold(*before)


def test_a_build_collects_less_often_and_ends_as_it_began() -> None:
    noting.build()
    noting.compile(assemble=False, cache=nvb.Cache.disabled())
    with pytest.raises(ZeroDivisionError):
        failing.build()
    assert gc.get_threshold() == OFTEN
    assert len(inside) == 3
    assert all(first > 100 * OFTEN[0] and tuple(rest) == OFTEN[1:] for first, *rest in inside)


def test_a_compiled_kernel_keeps_nothing_that_it_was_built_of() -> None:
    gc.collect()
    before = modules()
    compiled = noting.compile(assemble=False, cache=nvb.Cache.disabled())
    gc.collect()
    assert modules() == before
    finished = noting.build()
    gc.collect()
    assert modules() == before + 1  # the witness sees
    assert [*compiled.machine.blocks] == [*finished.machine.blocks]


def modules() -> int:
    """How many modules of llvmlite live."""
    return sum(isinstance(each, ir.Module) for each in gc.get_objects())


def test_python_may_collect_while_llvm_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    noting.build()  # what the first one imports is not walked
    compiled = Ahead.compiled

    def watched(*given: Any) -> Any:
        inside.append(gc.get_threshold())
        return compiled(*given)

    monkeypatch.setattr(Ahead, "compiled", watched)
    noting.compile(assemble=False, cache=nvb.Cache.disabled())
    assert inside[-1] == OFTEN
    assert inside[-2] != OFTEN


def test_what_a_program_chooses_while_llvm_compiles_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    noting.build()
    compiled, chosen = Ahead.compiled, (321, 7, 6)

    def choosing(*given: Any) -> Any:
        gc.set_threshold(*chosen)
        return compiled(*given)

    monkeypatch.setattr(Ahead, "compiled", choosing)
    noting.compile(assemble=False, cache=nvb.Cache.disabled())
    assert gc.get_threshold() == chosen


@pytest.mark.parametrize("chosen", [(0, 9, 8), (10**6, 9, 8)], ids=["off", "rare"])
def test_what_a_program_chose_itself_stays(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    noting.build()
    assert inside == [chosen]
    assert gc.get_threshold() == chosen


def test_builds_in_threads_leave_the_thresholds_of_before() -> None:
    """One begins inside another and ends after it: it must not bring back what the other had set."""
    first_in, both_in, first_out = Barrier(2), Barrier(2), Barrier(2)

    def first() -> None:
        with RarelyCollected():
            first_in.wait()
            both_in.wait()
        first_out.wait()

    def second() -> None:
        first_in.wait()
        with RarelyCollected():
            both_in.wait()
            first_out.wait()

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(first), threads.submit(second)]:
            done.result()
    assert gc.get_threshold() == OFTEN


FIRST_BUILD = """
import gc
import nvbackend as nvb

def kernel(k, out: nvb.Pointer[nvb.f32]):
    out[0] = 1.0

definition = nvb.kernel("sm_80", threads=32)(kernel)
seen = []
{before}
gc.callbacks.append(lambda phase, info: seen.append(phase == "start" and len(gc.get_objects(0)) > 10_000))
definition.{call}
a_few = [[] for _ in range(200)]  # Python looks when something is made
print(sum(seen), gc.get_freeze_count())
"""


@pytest.mark.parametrize("call", ["build()", "compile(assemble=False, cache=nvb.Cache.disabled())"])
def test_what_the_first_build_imports_is_not_walked(call: str) -> None:
    assert python_output(FIRST_BUILD.format(before="", call=call)).split() == ["0", "0"]


PTXAS = "import subprocess; subprocess.Popen.poll = lambda process: {}"
"""Lets ptxas seem to be at work, or ended, whenever a build asks."""


@pytest.mark.parametrize(
    ("state", "before", "walks"),
    [("None", "", "1"), ("None", "gc.disable()", "0"), ("None", "definition.build()", "0"), ("0", "", "0")],
)
def test_what_the_first_build_imports_is_walked_while_ptxas_is_at_work(state: str, before: str, walks: str) -> None:
    """Once, if the program lets Python walk at all; a build before has imported it already."""
    call = "compile(cache=nvb.Cache.disabled())"
    before = "\n".join((PTXAS.format(state), before))
    assert python_output(FIRST_BUILD.format(before=before, call=call)).split() == [walks, "0"]


def test_what_a_program_froze_stays_frozen() -> None:
    walks, frozen = map(int, python_output(FIRST_BUILD.format(before="gc.freeze()", call="build()")).split())
    assert frozen > 1000
    assert walks > 0  # the witness counts
