"""What is built in bounded time, and with diagnostics at most: long chains of values, many barriers, random kernels."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.isel.machine.function import MachineBlock, MachineInstr
from nvbackend.isel.protocols.proxy.protocol import reduce_function
from nvbackend.signature import Parameter, Pointer
from tests.support.process import python_output

_CHAIN = """
import sys
import nvbackend as nvb
from nvbackend import i32, u32, u64

STEPS = {
    "sum": lambda k, x, i: x + 1,
    "product": lambda k, x, i: (x * 3) ^ i,
    "square": lambda k, x, i: x * x,
    "mask": lambda k, x, i: x & (0xFFFF - i % 3),
    "quotient": lambda k, x, i: x // 1 if i % 2 else x % (1000 + i),
    "difference": lambda k, x, i: 5 - x,
    "threads": lambda k, x, i: x + k.thread_id().to(u32),
    "conversion": lambda k, x, i: x.to(u64).to(u32),
    "choice": lambda k, x, i: k.select(x < 5, x, x + 1),
    "larger": lambda k, x, i: k.math.max(x, i),
}


def chain(k, out: nvb.Pointer(u32, 16), a: u32):
    memory, barriers = k.shared(u32, 1024, align=16), k.mbarrier.array(4, arrivals=1)
    k.mbarrier.ready()
    x = k.thread_id().to(u32) if sys.argv[3] == "thread" else a
    for i in range(int(sys.argv[2])):
        x = step(k, x, i)
    memory[x & 31] = 1
    out[x] = memory[x % 7]
    with k.if_(x < 5):
        k.mbarrier.arrive(barriers + (x & 3).to(i32))
    with k.range((x & 3).to(i32)) as i:
        out[i] = 1
    k.mbarrier.wait(barriers + (x & 1).to(i32), (x & 1).to(i32))
    with k.if_(x > 7):
        k.barrier.sync()


for name in sys.argv[1].split(","):
    step = STEPS[name]
    try:
        nvb.kernel("sm_90a", threads=64)(chain).build()
    except nvb.DiagnosticError:
        pass
    print(name)
"""
_STEPS = ("sum", "product", "square", "mask", "quotient", "difference", "threads", "conversion", "choice", "larger")


@pytest.mark.parametrize(("start", "length"), [("thread", 400), ("parameter", 2000)])
def test_chains_of_values_of_any_length(start, length):
    assert python_output(_CHAIN, ",".join(_STEPS), str(length), start, timeout=100).split() == [*_STEPS]


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", ["thread", "parameter"])
@pytest.mark.parametrize("step", _STEPS)
def test_a_chain_of_five_thousand_values(step, start):
    assert python_output(_CHAIN, step, "5000", start, timeout=200) == f"{step}\n"


_CONDITIONS = """
import sys
import nvbackend as nvb
from nvbackend import u32


def kernel(k, out: nvb.Pointer[u32], a: u32):
    x = k.thread_id().to(u32) * 8
    condition = k.thread_id() < 5
    for i in range(int(sys.argv[1])):
        condition = condition & condition & (k.thread_id() >= 0)
        if i < 60:
            x = x * x
            out[x] = 1
            out[x << (k.thread_id().to(u32) * 10_000_000)] = 1
    with k.if_(condition):
        out[0] = 1


nvb.kernel("sm_90a", threads=64)(kernel).build()
print("done")
"""


@pytest.mark.parametrize("length", [60, 2000])
def test_conjunctions_of_themselves_and_squares_of_squares(length):
    """Their parts are many more than the instructions: 2^60 of them."""
    assert python_output(_CONDITIONS, str(length), timeout=60) == "done\n"


_RANDOM = "from tests.support.random_protocols import main; import sys; main(*map(int, sys.argv[1:]))"


def counted(statements: int, first: int, last: int, timeout: float) -> int:
    text = python_output(_RANDOM, str(statements), str(first), str(last), timeout=timeout)
    return sum(int(part.split()[0]) for part in text.split(", "))


def test_thirty_random_kernels_of_barriers_and_copies():
    assert counted(40, 0, 30, timeout=100) == 30


def test_one_large_random_kernel():
    assert counted(500, 7, 8, timeout=100) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(10))
def test_random_kernels_of_barriers_and_copies(part):
    assert counted(40, 100 * (part + 1), 100 * (part + 2), timeout=300) == 100
    assert counted(4000, part, part + 1, timeout=300) == 1


_COPIES = """
import nvbackend as nvb
from nvbackend import u32


def kernel(k, out: nvb.Pointer(u32, 16), a: u32):
    memory = k.shared(u32, 1024, align=16)
    for i in range(250):
        with k.if_(a > i):
            k.cp_async.copy(memory + k.thread_id(), out, 4)
            k.cp_async.commit_group()
        with k.if_(a > i + 1):
            k.cp_async.wait_group(1)
        out[k.thread_id()] = memory[k.thread_id() + i % 4]


try:
    nvb.kernel("sm_90a", threads=128)(kernel).build()
except nvb.DiagnosticError as error:
    print(*sorted({one.rule_id for one in error.diagnostics}))
"""


def test_races_that_each_follow_hundreds_of_accesses():
    """Each pair is looked at, and no way through the kernel is walked for each of them."""
    said = python_output(_COPIES, timeout=60).split()
    assert {"async-copy.read-before-wait", "shared.overwritten-early"} <= set(said)


# -- what failed by itself ------------------------------------------------------------------------------------------


def test_an_end_in_front_of_the_arrival_that_it_lacks_a_wait_for():
    """The block behind both sides, where the kernel ends, stands in front of the second side in the text."""

    def kernel(k):
        with k.if_(k.thread_id() < 32):
            k.cluster.arrive()
        with k.else_():
            k.cluster.arrive()

    finished = nvb.kernel("sm_90a", threads=64, cluster=2)(kernel).build()
    assert {one.rule_id for one in finished.diagnostics} == {"cluster.arrive-alone"}


@pytest.mark.parametrize("pending", [0, 7, 64, 1_000_000])
def test_ages_of_groups_are_followed_so_far(pending):
    """Each age that a wait can tell apart is a state; a wait that leaves a million groups leaves as good as all."""
    k = KernelBuilder("kernel", "sm_90a", threads=32, parameters=[Parameter("out", Pointer(nvb.u32, 16))])
    k.tma.wait_group(0)
    function = k.finish().machine
    block: MachineBlock = function.entry
    wait = next(one for one in block.instructions if one.opcode == "cp.async.bulk.wait_group")
    changed = MachineInstr(wait.opcode, wait.row, immediates={"pending": pending})
    block.instructions[block.instructions.index(wait)] = changed
    function.kept = None
    assert reduce_function(function).oldest == min(pending, 64) + 1
