"""Behind an exit every call that emits something is refused, and leaves nothing behind."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import f32, s64, u8, u32
from nvbackend.isel.target.target import Target
from tests.support.row_bench import Bench
from tests.support.row_calls import call_of
from tests.support.rows import newest_target


def _entered(block: Any) -> None:
    with block:
        pass


@nvb.function
def added(k, x: u32) -> u32:  # type: ignore[no-untyped-def, valid-type]
    return x + 1


@nvb.function
def itself(k, x: u32) -> u32:  # type: ignore[no-untyped-def, valid-type]
    """It emits nothing."""
    return x


@nvb.function(inline=False)
def added_apart(k, x: u32) -> u32:  # type: ignore[no-untyped-def, valid-type]
    return x + 1


OTHERS: dict[str, Callable[[Bench], object]] = {
    "var": lambda u: u.k.var(u.word),
    "if_": lambda u: _entered(u.k.if_(u.values_pred)),
    "range": lambda u: _entered(u.k.range(4)),
    "loop": lambda u: _entered(u.k.loop()),
    "return_": lambda u: u.k.return_(),
    "return_if": lambda u: u.k.return_if(u.values_pred),
    "assume": lambda u: u.k.assume(u.values_pred),
    "select": lambda u: u.k.select(u.values_pred, u.word, u.word),
    "thread_id": lambda u: u.k.thread_id("y"),
    "uniform": lambda u: u.k.uniform(u.word),
    "one_thread": lambda u: _entered(u.k.one_thread()),
    "print": lambda u: u.k.print("{}", u.word),
    "assert_": lambda u: u.k.assert_(u.values_pred),
    "trap": lambda u: u.k.trap("text"),
    "breakpoint": lambda u: u.k.breakpoint(),
    "clock": lambda u: u.k.clock(),
    "local.array": lambda u: u.k.local.array(u32, 4),
    "an element of a local array": lambda u: u.values_local[1],
    "ptx": lambda u: u.k.ptx("mov.u32 {d}, {a};", outputs={"d": u32}, inputs={"a": u.word}),
    "ptx alone": lambda u: u.k.ptx("nanosleep.u32 20;", effects=["volatile"]),
    "load": lambda u: u.memory.cast(u32)[0],
    "store": lambda u: u.memory.cast(u32).store(u.word),
    "+": lambda u: u.word + 1,
    "to": lambda u: u.word.to(f32),
    "bitcast": lambda u: u.word.bitcast(f32),
    "map_shared_rank": lambda u: u.shared_of_peer,
    "math.exp": lambda u: u.k.math.exp(u.values[f32]),
    "math.max": lambda u: u.k.math.max(u.values[f32], 1.0),
    "warp.reduce": lambda u: u.k.warp.reduce("mul", u.values[f32]),
    "warp.scan": lambda u: u.k.warp.scan("add", u.values[s64]),
    "cta.reduce": lambda u: u.k.cta.reduce("add", u.word),
    "cta.scan": lambda u: u.k.cta.scan("add", u.word),
    "cluster.reduce": lambda u: u.k.cluster.reduce("add", u.word),
    "function": lambda u: added(u.k, u.word),
    "function of nothing": lambda u: itself(u.k, u.word),
    "function apart": lambda u: added_apart(u.k, u.word),
}


@functools.cache
def _benches(target: Target) -> Bench:
    """A kernel whose threads have all ended."""
    u: Any = Bench(target)
    u.values_pred = u.values[u32] == 3
    u.values_local = u.k.local.array(u32, 4, fill=0)
    u.k.return_()
    return u


def _rows() -> dict[str, Row]:
    """One for each opcode."""
    return {row.opcode: row for family in FAMILIES.values() for row in family()}


def _refused(call: Callable[..., object], u: Bench, *row: Row) -> list[str]:
    """The rules of the refusal, and that something was emitted."""
    before = str(u.k.function)
    try:
        call(u, *row)
    except nvb.DiagnosticError as error:
        rules = [one.rule_id for one in error.diagnostics]
    else:
        rules = []
    return rules if str(u.k.function) == before else [*rules, "emitted"]


def test_no_instruction_is_emitted() -> None:
    rows = _rows().items()
    refused = {name: _refused(call_of(row), _benches(newest_target(row)), row) for name, row in rows}
    assert {name: rules for name, rules in refused.items() if rules != ["control.unreachable"]} == {}


@pytest.mark.parametrize("debug", [True, False])
def test_no_other_call_emits_anything(debug: bool) -> None:
    u: Any = Bench(Target.parse("sm_90a"))
    u.k.core.debug = debug
    u.values_pred = u.values[u32] == 3
    u.values_local = u.k.local.array(u32, 4, fill=0)
    u.k.return_()
    refused = {name: _refused(call, u) for name, call in OTHERS.items()}
    assert {name: rules for name, rules in refused.items() if rules != ["control.unreachable"]} == {}


@pytest.mark.parametrize("leave", ["break_", "continue_"])
def test_leaving_a_loop_is_an_exit_too(leave: str) -> None:
    k = nvb.KernelBuilder("left", "sm_90a", threads=32)
    array = k.shared(u8, 4)
    with k.range(4) as i, k.if_(i == 2):
        getattr(k, leave)()
        with pytest.raises(nvb.DiagnosticError, match=f"unconditional {leave}") as caught:
            array.store(k.const(1, u8))
    assert [one.rule_id for one in caught.value.diagnostics] == ["control.unreachable"]


EXITS: dict[str, Callable[[Any], object]] = {
    "return_": lambda k: k.return_(),
    "break_": lambda k: k.break_(),
    "continue_": lambda k: k.continue_(),
    "return_if": lambda k: k.return_if(k.thread_id() == 3),
    "break_if": lambda k: k.break_if(k.thread_id() == 3),
    "continue_if": lambda k: k.continue_if(k.thread_id() == 3),
    "trap": lambda k: k.trap("text"),
}


@pytest.mark.parametrize("loop", ["loop", "range"])
@pytest.mark.parametrize("second", EXITS)
@pytest.mark.parametrize("first", ["return_", "break_", "continue_"])
def test_a_second_exit_is_refused_as_any_other_call(first: str, second: str, loop: str) -> None:
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    with k.loop() if loop == "loop" else k.range(4):
        k.break_if(k.thread_id() == 5)
        with k.if_(k.thread_id() < 3):
            EXITS[first](k)
            with pytest.raises(nvb.DiagnosticError) as caught:
                EXITS[second](k)
        assert [each.rule_id for each in caught.value.diagnostics] == ["control.unreachable"]
