"""Mistakes that only the values of the threads, the width of a register, or the place of a builder show."""

from __future__ import annotations

import itertools
import math

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f16, f32, i32, u8
from nvbackend.intrinsics.sync import barriers as sync
from tests.support.runtime import broken, rules


def built(body, *, threads=128, cluster=1):
    """The rules that a part of a kernel breaks, such as one barrier."""

    @nvb.kernel("sm_90a", threads=threads, cluster=cluster)
    def whole(k, x: nvb.Pointer[f32], n: i32):
        body(k, x, n)

    return rules(lambda: whole.build(check=False))


@pytest.mark.parametrize(
    ("index", "found"),
    [
        (lambda k, n: k.thread_id(), ["barrier.id"]),
        (lambda k, n: k.warp_id() * 4, []),
        (lambda k, n: k.warp_id() * 4 + 4, ["barrier.id"]),
        (lambda k, n: n, []),
    ],
)
def test_barriers_by_the_threads_own_numbers(index, found) -> None:
    assert built(lambda k, x, n: k.barrier.sync(index(k, n), 32)) == found


def wrong(k, n) -> None:
    """A barrier that is none of the sixteen, for whoever comes here."""
    k.barrier.sync(n | 16, 32)


CONDITIONS = {
    "all": lambda t, n: t < 128,
    "none": lambda t, n: t >= 128,
    "some": lambda t, n: t < 37,
    "others": lambda t, n: t >= 37,
    "some at times": lambda t, n: (t < 37) & (n > 0),
    "at times": lambda t, n: n > 0,
}


def in_both(k, n, first, second):
    with k.if_(first), k.if_(second):
        wrong(k, n)


def in_an_else_of_the_first(k, n, first, second):
    with k.if_(first):
        k.thread_id("y")
    with k.else_(), k.if_(second):
        wrong(k, n)


def after_the_first_that_leaves(k, n, first, second):
    with k.if_(first):
        k.return_()
    with k.if_(second):
        wrong(k, n)


def after_one_that_leaves_unless_the_first(k, n, first, second):
    with k.if_(first):
        k.thread_id("y")
    with k.else_():
        k.return_()
    with k.if_(second):
        wrong(k, n)


def after_a_return_by_the_first(k, n, first, second):
    k.return_if(first)
    with k.if_(second):
        wrong(k, n)


def in_a_loop_that_the_first_leaves(k, n, first, second):
    with k.loop():
        k.break_if(first)
        with k.if_(second):
            wrong(k, n)
        k.break_()


REACHED = {
    in_both: lambda first, second: first and second,
    in_an_else_of_the_first: lambda first, second: not first and second,
    after_the_first_that_leaves: lambda first, second: not first and second,
    after_one_that_leaves_unless_the_first: lambda first, second: first and second,
    after_a_return_by_the_first: lambda first, second: not first and second,
    in_a_loop_that_the_first_leaves: lambda first, second: not first and second,
}
"""Whether a thread comes to the wrong barrier, by the conditions that hold for it."""


@pytest.mark.parametrize("form", REACHED, ids=lambda form: form.__name__)
def test_nothing_is_said_where_no_thread_comes(form) -> None:
    """What n is, is not known, nor that it is the same in both conditions."""
    for one, another in itertools.product(CONDITIONS.values(), repeat=2):
        cases = itertools.product((0, 36, 37, 127), (0, 1), (0, 1))
        comes = any(REACHED[form](one(t, n), another(t, m)) for t, n, m in cases)
        found = built(
            lambda k, x, n, one=one, another=another: form(k, n, one(k.thread_id(), n), another(k.thread_id(), n))
        )
        assert found == (["barrier.id"] if comes else []), (one(0, 0), another(0, 0))


@pytest.mark.parametrize(
    ("rounds", "comes"), [((0,), False), ((1,), True), ((4, 4), False), ((4, 2), False), ((2, 4), True)]
)
def test_nothing_is_said_in_a_loop_of_no_round(rounds, comes) -> None:
    def body(k, x, n):
        with k.range(*rounds):
            wrong(k, n)

    assert built(body) == (["barrier.id"] if comes else [])


@pytest.mark.parametrize(("width", "found"), [(1, []), (8, []), (32, []), (3, 1), (0, 1), (64, 1), (-8, 1)])
def test_segments_of_a_shuffle(width, found) -> None:
    assert built(lambda k, x, n: k.warp.shuffle(n, "bfly", 1, width=width)) == (["shuffle.lanes"] if found else [])


@pytest.mark.parametrize(("lane", "found"), [(0, []), (31, []), (32, 1), (-1, 1)])
def test_lanes_of_a_shuffle(lane, found) -> None:
    assert built(lambda k, x, n: k.warp.shuffle(n, "idx", lane)) == (["shuffle.lanes"] if found else [])


@pytest.mark.parametrize("number", [1 << 32, -(1 << 31) - 1, 1 << 40])
def test_numbers_that_no_register_holds(number) -> None:
    assert built(lambda k, x, n: k.emit(sync.elect(), {"mask": number})) == ["machine.operand"]


@pytest.mark.parametrize("number", [0xFFFFFFFF, -(1 << 31), 0])
def test_numbers_that_a_register_holds(number) -> None:
    assert built(lambda k, x, n: k.emit(sync.elect(), {"mask": number})) == []


@pytest.mark.parametrize(("mask", "found"), [(0, 1), (1, 0), (3, 0), (4, 1), (7, 1)])
def test_masks_of_a_cluster_of_two(mask, found) -> None:
    def body(k, x, n):
        full, memory = k.mbarrier.array(1, 1), k.shared(u8, 16)
        k.mbarrier.ready()
        with k.one_thread():
            k.bulk.load(memory, x, 16, full, multicast_mask=mask)

    assert ("tma.multicast-mask" in built(body, cluster=2)) is bool(found)


@pytest.mark.parametrize("given", [float("nan"), float("inf"), 0.5])
def test_addresses_take_no_fractions(given) -> None:
    assert built(lambda k, x, n: x + given) == ["value.constant"]


@pytest.mark.parametrize(
    "use",
    [
        lambda x, n: list(range(n)),
        lambda x, n: [1, 2][n],
        lambda x, n: math.sqrt(n),
        lambda x, n: int(n),
        lambda x, n: n**2,
        lambda x, n: list(x),
    ],
)
def test_what_python_can_not_do_is_told_at_the_users_line(use) -> None:
    @nvb.kernel("sm_90a", threads=32)
    def whole(k, x: nvb.Pointer[f32], n: i32):
        use(x, n)

    [found] = broken(whole.build)
    assert (found.rule_id, found.location.file) == ("value.number", __file__)


def test_an_error_of_the_users_own_stays_one() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def whole(k):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        whole.build()


def test_shifts_of_numbers() -> None:
    def body(k, x, n):
        assert (k.const(3, i32) << 2).constant == 12
        assert (1 << k.const(4, i32)).constant == 16
        assert (256 >> k.const(4, i32)).constant == 16

    assert built(body) == []


def test_kernels_are_not_called() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def whole(k, n: i32): ...

    assert rules(lambda: whole(3)) == ["launch.call"]
    assert rules(lambda: whole[1](3)) == ["launch.call"]


def test_parameters_of_a_kernel_have_no_defaults() -> None:
    def whole(k, n: i32 = 3): ...

    assert rules(lambda: nvb.kernel("sm_90a", threads=32)(whole)) == ["kernel.function"]


def test_an_address_of_another_kernel() -> None:
    first, second = (nvb.KernelBuilder(name, "sm_90a", threads=32) for name in ("first", "second"))
    memory = first.shared(u8, 512)
    assert rules(lambda: second.mma.ldmatrix(memory, 4)) == ["value.kernel"]
    assert rules(lambda: second.cp_async.copy(memory, memory, 4)) == ["value.kernel"]
    assert rules(lambda: second.generic_address(memory)) == ["value.kernel"]


def test_an_llvm_value_of_another_kernel() -> None:
    """LLVM would end the process, whichever call lets it by."""
    first, second = (nvb.KernelBuilder(name, "sm_90a", threads=32) for name in ("first", "second"))
    index = first.thread_id().ir
    assert rules(lambda: second.core.llvm.add(index, index)) == ["value.kernel"]
    second.finish().compile(assemble=False)


def attached():
    """A function, its builder, and ours on it."""
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32)])
    own, other = ir.Function(module, kind, "own"), ir.Function(module, kind, "other")
    builder = ir.IRBuilder(own.append_basic_block("entry"))
    return own, other, builder, nvb.attach(builder, "sm_90a", threads=32)


def test_behind_the_end_of_a_block() -> None:
    *_, builder, k = attached()
    builder.ret_void()
    assert rules(k.barrier.sync) == ["attach.block"]


def test_before_the_end_of_a_block() -> None:
    *_, builder, k = attached()
    builder.position_before(builder.ret_void())
    assert rules(k.barrier.sync) == []
    assert k.verify() == ()


def test_in_another_function() -> None:
    _, other, builder, k = attached()
    builder.position_at_end(other.append_basic_block())
    assert rules(k.barrier.sync) == ["attach.block"]
    assert rules(lambda: k.value(other.args[0], i32)) == ["value.kernel"]


def test_a_stride_shorter_than_a_row() -> None:
    @nvb.kernel("sm_90a", threads=128)
    def whole(k, x: nvb.Pointer[f16], n: i32):
        acc = k.wgmma.accumulator(32, f16)
        acc.fill(0)
        k.store_accumulator(acc, x, 16)

    assert rules(whole.build) == ["accumulator.overlap"]
