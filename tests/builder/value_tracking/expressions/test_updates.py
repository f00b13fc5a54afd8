"""How a variable changes in a block, and which parity a wait takes of it: against the numbers that Python computes."""

from __future__ import annotations

import pytest

from nvbackend import i8, i32, i64, u16, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineBlock, Update
from nvbackend.signature import Parameter, Scalar

FORMS = {
    "v ^ 1": lambda v, w, n: v ^ 1,
    "1 - v": lambda v, w, n: 1 - v,
    "v ^ 2": lambda v, w, n: v ^ 2,
    "2 - v": lambda v, w, n: 2 - v,
    "v + 1": lambda v, w, n: v + 1,
    "v + 2": lambda v, w, n: v + 2,
    "v - 1": lambda v, w, n: v - 1,
    "v * 2": lambda v, w, n: v * 2,
    "v & 1": lambda v, w, n: v & 1,
    "w + 1": lambda v, w, n: w + 1,
    "w ^ 1": lambda v, w, n: w ^ 1,
    "1 - w": lambda v, w, n: 1 - w,
    "v + n": lambda v, w, n: v + n,
    "n - v": lambda v, w, n: n - v,
    "n": lambda v, w, n: n,
    "3": lambda v, w, n: 3,
}


def kind(form) -> Update:
    """Counts by a constant, or takes 0 to 1 and 1 to 0, whatever else there is; everything else sets."""
    others = [(w, n) for w in (5, 8) for n in (11, 14)]
    steps = {form(v, w, n) - v for v in (0, 1, 6, 9) for w, n in others}
    if len(steps) == 1:
        return Update.COUNT
    flips = all((form(0, w, n), form(1, w, n)) == (1, 0) for w, n in others)
    return Update.FLIP if flips else Update.SET


def builder():
    k = KernelBuilder("updates", "sm_90a", threads=32, parameters=[Parameter("n", Scalar(i32))])
    return k, k.var(0, name="v"), k.var(0, name="w"), k.arguments[0]


def changed_in(k) -> tuple[MachineBlock, str]:
    """The block of the loop, and the name of the variable that it changes."""
    machine = k.finish(check=False).machine
    ((block, name),) = [
        (block, name) for block in machine.blocks.values() for name in block.updates if name.startswith("v")
    ][-1:]
    return block, name


@pytest.mark.parametrize("form", FORMS)
def test_how_a_block_changes_a_variable(form):
    k, v, w, n = builder()
    with k.range(n):
        k.fence.proxy_async()
        v.set(FORMS[form](v.value, w.value, n))
    block, name = changed_in(k)
    assert block.updates[name] is kind(FORMS[form])
    assert block.constants.get(name) == (3 if form == "3" else None)


@pytest.mark.parametrize("second", ["v ^ 1", "3", "n"])
@pytest.mark.parametrize("first", ["v ^ 1", "v + 1", "3"])
def test_what_changes_twice_in_a_block_is_set(first, second):
    k, v, w, n = builder()
    with k.range(n):
        k.fence.proxy_async()
        v.set(FORMS[first](v.value, w.value, n))
        v.set(FORMS[second](v.value, w.value, n))
    block, name = changed_in(k)
    assert block.updates[name] is Update.SET
    numbers = {FORMS[second](FORMS[first](before, 0, n), 0, n) for before in (0, 1) for n in (5, 6)}
    assert block.constants.get(name) == (numbers.pop() if len(numbers) == 1 else None)


PARITIES = {
    "v": lambda v: v,
    "v ^ 1": lambda v: v ^ 1,
    "1 - v": lambda v: 1 - v,
    "v & 1": lambda v: v & 1,
    "(v ^ 1) & 1": lambda v: (v ^ 1) & 1,
    "1 - (1 - v)": lambda v: 1 - (1 - v),
    "(1 - v) ^ 1": lambda v: (1 - v) ^ 1,
    "1 - (v & 1)": lambda v: 1 - (v & 1),
    "v + 1": lambda v: v + 1,
    "v ^ 3": lambda v: v ^ 3,
    "v & 2": lambda v: v & 2,
    "v | 1": lambda v: v | 1,
    "3 - v": lambda v: 3 - v,
}


@pytest.mark.parametrize("form", PARITIES)
def test_the_parity_of_a_wait_is_a_variable_or_the_other_one(form):
    k, v, _, n = builder()
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.range(n):
        k.mbarrier.arrive(full)
        k.mbarrier.wait(full, PARITIES[form](v.value))
        v.set(v.value ^ 1)
    sides = tuple(PARITIES[form](number) for number in (0, 1))
    wanted = {(0, 1): 0, (1, 0): 1}.get(sides)
    assert flipped(k) == wanted


@pytest.mark.parametrize("form", ["v", "v ^ 1", "1 - v", "(1 - v) ^ 1"])
@pytest.mark.parametrize("type", [i8, u16, i64, u64], ids=str)
def test_a_parity_of_another_type_is_the_same_one(type, form):
    k, _, _, n = builder()
    v = k.var(k.const(0, type), name="v")
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.range(n):
        k.mbarrier.arrive(full)
        k.mbarrier.wait(full, PARITIES[form](v.value).to(i32))
        v.set(v.value ^ 1)
    assert flipped(k) == PARITIES[form](0)


def test_a_parity_that_was_read_in_another_block_may_be_old():
    k, v, _, n = builder()
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    before = v.value
    with k.range(n):
        k.mbarrier.arrive(full)
        k.mbarrier.wait(full, before)
        v.set(v.value ^ 1)
    assert flipped(k) is None


def flipped(k) -> int | None:
    instructions = [instr for block in k.machine.blocks.values() for instr in block.instructions]
    (wait,) = [instr for instr in instructions if "wait" in instr.opcode and "mbarrier" in instr.opcode]
    return wait.facts.get(facts.FLIPPED)
