"""Where a diagnostic asks for a barrier: never inside a branch that some of its threads do not take."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import f32
from nvbackend.builder.core.memory import Address
from nvbackend.builder.values.values import Value
from nvbackend.diagnostics import Diagnostic, gather

Body = Callable[[nvb.KernelBuilder, Address, Value], None]


def found(body: Body) -> list[Diagnostic]:
    k = nvb.KernelBuilder("advised", "sm_90a", threads=128)
    body(k, k.shared(f32, 256), k.thread_id())
    return gather(k.finish)


def in_one_branch(k: nvb.KernelBuilder, buffer: Address, thread: Value, *, follow: bool) -> None:
    with k.if_(thread < 72):
        buffer[thread] = 1.0
        if not follow:
            buffer[71 - thread].to(f32)
    if follow:
        k.barrier.sync()
        with k.if_(thread < 72):
            buffer[71 - thread].to(f32)


def before_the_branch(k: nvb.KernelBuilder, buffer: Address, thread: Value, *, follow: bool) -> None:
    buffer[thread] = 1.0
    if follow:
        k.barrier.sync()
    with k.if_(thread < 72):
        buffer[127 - thread].to(f32)


def of_whole_warps(k: nvb.KernelBuilder, buffer: Address, thread: Value, *, follow: bool) -> None:
    with k.if_(thread < 64):
        buffer[thread] = 1.0
        if follow:
            k.barrier.sync(1, 64)
        buffer[63 - thread].to(f32)


def of_all(k: nvb.KernelBuilder, buffer: Address, thread: Value, *, follow: bool) -> None:
    buffer[thread] = 1.0
    if follow:
        k.barrier.sync()
    buffer[127 - thread].to(f32)


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        (in_one_branch, "end the block of the branch of line"),
        (before_the_branch, "put k.barrier.sync() before the branch of line"),
        (of_whole_warps, "put k.barrier.sync(number, 64) between the two"),
        (of_all, "put k.barrier.sync(), or a named barrier of the threads concerned, between the two"),
    ],
    ids=["in one branch", "before the branch", "of whole warps", "of all"],
)
def test_the_barrier_that_is_asked_for_can_be_there(body: Callable[..., None], advice: str) -> None:
    (missing,) = found(lambda k, buffer, thread: body(k, buffer, thread, follow=False))
    assert missing.rule_id == "shared.missing-barrier"
    assert missing.fix.startswith(advice)
    assert found(lambda k, buffer, thread: body(k, buffer, thread, follow=True)) == []


def test_one_line_in_one_branch_is_one_mistake_however_often_python_runs_it() -> None:
    def reduction(k: nvb.KernelBuilder, buffer: Address, thread: Value) -> None:
        for step in (64, 32, 16, 8, 4, 2):
            with k.if_(thread < step):
                k.barrier.sync()

    assert len(found(reduction)) == 1
