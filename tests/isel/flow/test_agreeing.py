"""Branches on one condition are taken alike: what is found is found with some truth of the conditions, by walking."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from contextlib import nullcontext

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.isel.machine.agreement import Formula

REQUEST = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
DESCRIPTOR = nvb.InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
FACTS = 2
GUARDS: dict[str, Callable[..., object]] = {
    "always": lambda a, b: True,
    "a": lambda a, b: a,
    "not a": lambda a, b: ~a,
    "b": lambda a, b: b,
    "a and b": lambda a, b: a & b,
    "a or not b": lambda a, b: a | ~b,
}
PARITY = "a or b, not both"
STEPS = ("multiply", "wait", "read")
Statement = tuple[str, str]


def found(statements: list[Statement]) -> bool:
    """Whether a kernel of these steps, each under a guard of its own, is said to read what is in flight."""

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, n: i32, m: i32, out: nvb.Pointer[f32]):
        mma = k.tiled_mma(REQUEST)
        tile, acc = k.shared_tile(mma.smem_a(64)), mma.accumulator()
        for step, guard in statements:
            # The opposite of a comparison is written as people do.
            a, b = n > 3, m == k.cluster.rank()
            condition = a ^ b if guard == PARITY else n <= 3 if guard == "not a" else GUARDS[guard](a, b)
            with nullcontext() if guard == "always" else k.if_(condition):
                if step == "multiply":
                    k.wgmma.fence()
                    mma.accumulate(acc, tile, tile)
                    k.wgmma.commit_group()
                elif step == "wait":
                    k.wgmma.wait_group(0, drains=[acc])
                else:
                    k.store_accumulator(acc, out, stride=64)

    return "wgmma.read-in-flight" in said(kernel)


@pytest.mark.parametrize(("waits", "is_found"), [(PARITY, True), ("a", False)])
def test_one_of_two_conditions_is_neither_of_them(waits: str, is_found: bool) -> None:
    assert found([("multiply", "a"), ("wait", waits), ("read", "a")]) is is_found
    assert found([("multiply", PARITY), ("wait", PARITY), ("read", PARITY)]) is False


def said(kernel: nvb.KernelDefinition) -> list[str]:
    try:
        kernel.build(check=False)
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]
    return []


def walked(statements: list[Statement]) -> bool:
    """Whether it happens with some truth of the facts."""
    for a, b in itertools.product((-1, 0), repeat=FACTS):  # integers whose `~` is the opposite
        flying = False
        for step, guard in statements:
            if GUARDS[guard](a, b):
                if step == "read" and flying:
                    return True
                flying = step == "multiply" or (flying and step != "wait")
    return False


@pytest.mark.parametrize("seed", range(16))
def test_what_is_found_happens_with_some_truth_of_the_conditions(seed: int) -> None:
    chance = random.Random(seed)
    statements = [(chance.choice(STEPS), chance.choice([*GUARDS])) for _ in range(chance.randint(3, 6))]
    statements += [("multiply", "a"), ("wait", chance.choice(("a", "b", "a and b", "always"))), ("read", "a")]
    assert found(statements) is walked(statements), statements


def test_both_happen() -> None:
    assert found([("multiply", "a"), ("wait", "not a"), ("read", "always")])
    assert not found([("multiply", "a and b"), ("wait", "a"), ("read", "b")])


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("condition", ["rank", "number", "warp"])
def test_tensor_memory_of_a_pair_in_blocks_of_one_condition(condition: str, other: bool) -> None:
    """A first and a second product, the commit and the wait, each in a block of its own."""

    @nvb.kernel("sm_100a", threads=128, cluster=2)
    def kernel(k, n: i32):
        done = k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()

        def leads(again: bool):
            rank = k.cluster.rank() == (1 if again and other else 0)
            warp = (k.warp_id() == 1) & rank
            return {"rank": rank, "number": (n > 3) if not (again and other) else (n > 4), "warp": warp}[condition]

        with k.tcgen05.tmem(64) as tmem:
            for step in range(2):
                with k.if_(leads(False)), k.one_thread(1):
                    k.tcgen05.mma(nvb.Tcgen05Request("f16"), tmem, 0, 0, DESCRIPTOR, accumulate=step > 0)
            with k.if_(leads(True)), k.one_thread(1):
                k.tcgen05.commit(done)

    assert said(kernel) == ["tcgen05.missing-commit"] * other


@pytest.mark.parametrize("later", [False, True])
def test_products_that_take_turns_in_a_loop(later: bool) -> None:
    """The first round begins what the others add to; a first product that adds is wrong all the same."""

    @nvb.kernel("sm_100a", threads=128)
    def kernel(k, steps: i32):
        done = k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.tcgen05.tmem(64) as tmem, k.one_thread():
            with k.range(steps) as step:
                if later:
                    k.tcgen05.mma(nvb.Tcgen05Request("f16"), tmem, 0, 0, DESCRIPTOR, accumulate=True)
                with k.if_(step == 0):
                    k.tcgen05.mma(nvb.Tcgen05Request("f16"), tmem, 0, 0, DESCRIPTOR, accumulate=False)
                with k.if_(step > 0):
                    k.tcgen05.mma(nvb.Tcgen05Request("f16"), tmem, 0, 0, DESCRIPTOR, accumulate=True)
            k.tcgen05.commit(done)

    assert said(kernel) == ["tcgen05.undefined-accumulator"] * later


def test_a_formula_is_what_its_parts_are() -> None:
    """Against truth tables, with what the indices of four threads decide of the second fact."""
    everyone, lanes = 0b1111, 0b0011
    run_time, index = Formula(1), Formula(2, sides=(lanes, everyone & ~lanes))
    for every, first, second, whole in itertools.product((True, False), repeat=4):
        parts = tuple(
            Formula(one.fact, negated=no, sides=one.sides) for one, no in ((run_time, first), (index, second))
        )
        formula = Formula(parts=parts, every=every, negated=whole)
        for known in ({}, {1: True}, {1: False}):
            holds, fails = formula.threads(known, everyone)
            for thread in range(4):
                truths = {
                    (min if every else max)(one is not first, (lanes >> thread & 1 == 1) is not second) is not whole
                    for one in ([known[1]] if known else [True, False])
                }
                assert (holds >> thread & 1 == 1, fails >> thread & 1 == 1) == (truths == {True}, truths == {False})


@pytest.mark.parametrize("frees", [False, True])
@pytest.mark.parametrize("uses", [1, 2])
def test_columns_are_kept_by_ctas_that_leave(uses: int, frees: bool) -> None:
    """Where no thread that goes the way comes to the end, the mistake shows where the columns were allocated."""

    @nvb.kernel("sm_100a", threads=128)
    def kernel(k, out: nvb.Pointer[f32]):
        with k.tcgen05.tmem(32) as tmem:
            for use in range(uses):
                with k.if_(k.block_id() == 7):
                    out[use] = 1.0
            if not frees:
                k.return_if(k.block_id() == 7)
            k.tcgen05.st(tmem, "32x32b", [0])
            k.tcgen05.wait_st()

    assert ("tcgen05.missing-dealloc" in said(kernel)) is not frees


@pytest.mark.parametrize("again", [True, False])
def test_a_warpgroup_does_not_read_what_only_others_multiply(again: bool) -> None:
    """Each has its own accumulators: what is in flight in those of one is nothing to another."""

    @nvb.kernel("sm_90a", threads=256)
    def kernel(k, n: i32, out: nvb.Pointer[f32]):
        mma = k.tiled_mma(REQUEST)
        tile, acc = k.shared_tile(mma.smem_a(64)), mma.accumulator()
        acc.fill(1.0)
        with k.if_(k.warpgroup_id() < n):
            k.wgmma.fence()
            mma.accumulate(acc, tile, tile)
            k.wgmma.commit_group()
        with k.if_(k.warpgroup_id() < n if again else k.warpgroup_id() >= n):
            k.store_accumulator(acc, out, stride=64)
        k.wgmma.wait_group(0, drains=[acc])

    assert ("wgmma.read-in-flight" in said(kernel)) is again
