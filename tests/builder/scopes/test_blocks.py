"""With-blocks used wrongly: never entered, left by an exception, left open, endless, an else that is none."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.host import run_on_host

LARGEST = 2**31 - 1


def builder() -> tuple:
    parameters = [Parameter("out", Pointer(i32)), Parameter("a", Scalar(i32))]
    k = KernelBuilder("blocks", "sm_90a", threads=32, parameters=parameters)
    return k, *k.arguments


def never_entered(k, out, a):
    k.if_(a > 0)
    out[0] = 1
    k.finish()


def never_entered_role(k, out, a):
    k.one_thread()
    k.wgmma.group()
    k.finish()


def entered_twice(k, out, a):
    once = k.if_(a > 0)
    with once:
        out[0] = 1
    with once:
        out[1] = 1


def entered_in_itself(k, out, a):
    once = k.range(a)
    with once, once:
        out[0] = 1


def entered_again_after_a_refusal(k, out, a):
    once = k.range(a > 0)
    with pytest.raises(nvb.DiagnosticError, match=r"value\.operation"):
        once.__enter__()
    once.__enter__()


def a_scope_twice(k, out, a):
    once = k.mbarrier.scope(1, 1)
    with once:
        out[0] = 1
    with once:
        out[0] = 1


def a_group_twice(k, out, a):
    once = k.wgmma.group()
    with once:
        pass
    with once:
        pass


def else_twice(k, out, a):
    with k.if_(a > 0):
        out[0] = 1
    with k.else_():
        out[0] = 2
    with k.else_():
        out[0] = 3


def variable_between(k, out, a):
    with k.if_(a > 0):
        out[0] = 1
    k.var(7)
    with k.else_():
        out[0] = 2


def written_between(k, out, a):
    x = k.var(1)
    with k.if_(a > 0):
        out[0] = 1
    x.set(7)
    with k.else_():
        out[0] = 2


def record_between(k, out, a):
    acc = k.wgmma.accumulator(8)
    with k.if_(a > 0):
        out[0] = 1
    acc.values()
    with k.else_():
        out[0] = 2


def endless(k, out, a):
    with k.loop():
        out[0] = 1


def endless_inside(k, out, a):
    with k.loop(), k.loop():
        k.break_if(a > 0)


def endless_after_a_helper(k, out, a):
    opened = k.loop()
    opened.__enter__()
    out[0] = 1
    closed_elsewhere(opened)


def closed_elsewhere(opened) -> None:
    opened.__exit__(None, None, None)


def finished_inside(k, out, a):
    with k.if_(a > 0):
        k.finish()


def left_open(k, out, a):
    opened = k.if_(a > 0)
    opened.__enter__()
    k.finish()


def torn(k, out, a):
    with pytest.raises(KeyError, match="mine"), k.range(4):
        raise KeyError("mine")
    out[0] = 1


def torn_by_a_generator(k, out, a):
    def half() -> Iterator[None]:
        with k.if_(a > 0):
            yield

    opened = half()
    next(opened)
    opened.close()
    k.finish()


def torn_and_returned(k, out, a):
    def half() -> None:
        with k.if_(a > 0):
            k.return_()
            raise KeyError("mine")

    with pytest.raises(KeyError):
        half()
    k.finish()


def value_after_return(k, out, a):
    k.return_()
    a + 1


@pytest.mark.parametrize(
    ("broken", "rules"),
    [
        (never_entered, ["control.not-entered"]),
        (never_entered_role, ["control.not-entered"] * 2),
        *(
            (one, ["control.entered-twice"])
            for one in (entered_twice, entered_in_itself, entered_again_after_a_refusal, a_scope_twice, a_group_twice)
        ),
        (else_twice, ["control.else"]),
        (variable_between, ["control.else"]),
        (written_between, ["control.else"]),
        (record_between, ["control.else"]),
        (endless, ["control.endless"]),
        (endless_inside, ["control.endless"]),
        (finished_inside, ["control.open"]),
        (left_open, ["control.open"]),
        (torn, ["control.torn"]),
        (torn_by_a_generator, ["control.torn"]),
        (torn_and_returned, ["control.torn"]),
        (value_after_return, ["control.unreachable"]),
        (lambda k, out, a: k.range(0, LARGEST, 2).__enter__(), ["control.range-end"]),
        (lambda k, out, a: k.range(a, LARGEST, 128).__enter__(), ["control.range-end"]),
        (lambda k, out, a: k.range(a > 0).__enter__(), ["value.operation"]),
        (lambda k, out, a: k.range(a.to(nvb.f32)).__enter__(), ["value.operation"]),
        (lambda k, out, a: k.range(0, a, 1.0).__enter__(), ["control.step"]),
    ],
)
def test_misuse_is_a_diagnostic_at_the_line(broken: Callable[..., None], rules: list[str]) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        broken(*builder())
    assert [one.rule_id for one in caught.value.diagnostics] == rules
    assert all(one.location is not None and one.location.file == __file__ for one in caught.value.diagnostics)


def test_an_endless_loop_is_told_at_the_line_that_opens_it() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        endless_after_a_helper(*builder())
    [found] = caught.value.diagnostics
    assert found.rule_id == "control.endless"
    assert found.location is not None
    assert found.location.source == "opened.__enter__()"


def test_what_was_not_entered_is_told_at_its_own_line() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        never_entered(*builder())
    (found,) = caught.value.diagnostics
    assert found.location is not None and found.location.source == "k.if_(a > 0)"
    assert re.search(r"k\.if_\(\.\.\.\)", found.message)


def test_an_exception_caught_inside_a_block_tears_nothing() -> None:
    k, out, a = builder()
    with k.if_(a > 0):
        with pytest.raises(nvb.DiagnosticError):
            a + 0.5
        out[0] = 5
    found = np.zeros(1, np.int32)
    run_on_host(k.finish(), found, 1)
    assert found[0] == 5


@pytest.mark.parametrize(("start", "stop", "step"), [(1, LARGEST, 2), (0, LARGEST, 1), (LARGEST - 3, LARGEST, 3)])
def test_a_range_may_end_at_the_largest_number(start: int, stop: int, step: int) -> None:
    k, out, _ = builder()
    with k.range(start, stop, step) as i:
        k.break_if(i - start > 10)
        out[0] = i
    found = np.zeros(1, np.int32)
    run_on_host(k.finish(), found, 1)
    assert found[0] == range(start, stop, step)[: 10 // step + 1][-1]


def test_blocks_may_be_made_first_and_entered_later() -> None:
    k, out, a = builder()
    positive = k.if_(a > 0)
    with positive:
        out[0] = 3
    found = np.zeros(1, np.int32)
    run_on_host(k.finish(), found, 1)
    assert found[0] == 3


AFTER_AN_EXIT: dict[str, Callable] = {
    "a moved address": lambda k, out, a: out.byte_offset(a * 4),
    "an address as a number": lambda k, out, a: out.bytes,
    "an index": lambda k, out, a: out[a + 1],
    "a sum": lambda k, out, a: a + 1,
    "a negation": lambda k, out, a: -a,
    "a comparison": lambda k, out, a: a < 3,
    "a conversion": lambda k, out, a: a.to(f32),
    "bits": lambda k, out, a: a.bitcast(f32),
    "a quotient": lambda k, out, a: a // 7,
    "a minimum": lambda k, out, a: k.math.min(a, 3),
    "a root": lambda k, out, a: k.math.sqrt(a.to(f32)),
    "a warp's number": lambda k, out, a: k.warp_id(),
    "a store": lambda k, out, a: out.store(a),
    "an atomic": lambda k, out, a: out.atomic("add", a),
    "a branch": lambda k, out, a: k.return_if(a == 3),
    "a loop": lambda k, out, a: k.loop().__enter__(),
    "a range": lambda k, out, a: k.range(a).__enter__(),
    "a role": lambda k, out, a: k.one_thread().__enter__(),
}


@pytest.mark.parametrize("operation", AFTER_AN_EXIT.values(), ids=AFTER_AN_EXIT)
def test_nothing_is_left_of_what_was_refused_after_an_exit(operation: Callable) -> None:
    """LLVM takes no instruction after the end of a block; the kernel is the one without the call."""
    texts = []
    for calls in ((operation,), ()):
        k, out, a = builder()
        out[0] = a
        k.return_()
        for call in calls:
            with pytest.raises(nvb.DiagnosticError) as caught:
                call(k, out, a)
            assert caught.value.diagnostics[0].rule_id == "control.unreachable"
        texts.append(k.finish().compile(assemble=False).ptx)
    assert texts[0] == texts[1]


def of_a_block_that_ended(k, a):
    with k.if_(a > 5):
        return a < 3


REFUSED_BLOCKS: dict[str, Callable] = {
    "if_": lambda k, a: k.if_(of_a_block_that_ended(k, a)),
    "range": lambda k, a: k.range(k.select(of_a_block_that_ended(k, a), a, 1)),
    "return_if": lambda k, a: k.return_if(of_a_block_that_ended(k, a)),
    "a number": lambda k, a: k.if_(a),
}


@pytest.mark.parametrize("ask", REFUSED_BLOCKS.values(), ids=REFUSED_BLOCKS)
def test_a_block_that_is_refused_leaves_the_kernel_as_it_was(ask: Callable) -> None:
    k, out, a = builder()
    with contextlib.suppress(nvb.DiagnosticError):
        ask(k, a).__enter__()
        pytest.fail("not refused")
    out[0] = a + 1
    found = np.zeros(1, np.int32)
    run_on_host(k.finish(), found, 1)
    assert found[0] == 2


def test_a_break_that_is_refused_leaves_the_loop_as_it_was() -> None:
    k, out, a = builder()
    with k.range(4) as i:
        found = of_a_block_that_ended(k, a)
        with pytest.raises(nvb.DiagnosticError):
            k.break_if(found)
        out[i] = i
    numbers = np.zeros(4, np.int32)
    run_on_host(k.finish(), numbers, 1)
    assert list(numbers) == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [0.5, 1.0, True, "1"])
def test_a_load_that_is_refused_leaves_the_block_as_it_was(count: object) -> None:
    k, out, a = builder()
    with pytest.raises(nvb.DiagnosticError) as caught:
        out.load(count)
    assert [one.rule_id for one in caught.value.diagnostics] == ["call.argument"]
    out[0] = a
    found = np.zeros(1, np.int32)
    run_on_host(k.finish(), found, 7)
    assert found[0] == 7


def test_a_range_from_an_address_of_shared_memory() -> None:
    """A constant for LLVM, and no number."""
    k, out, _ = builder()
    with k.range(k.shared(i32, 4).bytes, 31) as i:
        out[i] = 1
    assert ".entry blocks" in k.finish().compile(assemble=False).ptx


def arguments_of(method: Callable[..., object]) -> int:
    """How many it must be given."""
    parameters = [*inspect.signature(method).parameters.values()][1:]
    return sum(one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters)


def refused(method: Callable[..., object], *arguments: object) -> tuple[str, str] | None:
    """The rule that a call breaks, and the method that it names."""
    try:
        method(*arguments)
    except nvb.DiagnosticError as error:
        (found,) = error.diagnostics
        return found.rule_id, found.message.split()[-1]
    return None


TAKES_ANYTHING = {"position_at_start", "goto_block", "goto_entry_block", "if_then", "if_else"}
"""What llvmlite does nothing with yet when they are called."""


def test_each_method_of_llvmlite_says_what_it_takes_for_a_value_of_ours() -> None:
    k, _, a = builder()
    methods = {
        name: arguments_of(method)
        for name, method in vars(ir.IRBuilder).items()
        if inspect.isfunction(method) and not name.startswith("_") and name not in TAKES_ANYTHING
    }
    said = {name: refused(getattr(k.llvm, name), *[a] * count) for name, count in methods.items() if count}
    assert said == {name: ("value.kind", f"k.llvm.{name}") for name in said}
    assert len(said) > 80
