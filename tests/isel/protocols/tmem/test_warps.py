"""Tensor memory that one warp finds as another one left it: who writes, reads, allocates and gives back, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from llvmlite import ir

from nvbackend.diagnostics import Location
from nvbackend.intrinsics.copy import tcgen05_memory
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.machine.tensor_memory_uses import accumulates
from nvbackend.isel.protocols.tmem.protocol import check_tmem_protocol
from nvbackend.isel.target.target import Target
from tests.support.semantics import semantics_of

D = MemoryObject(1, "d", "tmem", 64, 64)
FULL, EMPTY = (MemoryObject(number, name, "shared", 8, 8) for number, name in ((2, "full"), (3, "empty")))
BARRIERS = {"full": FULL, "empty": EMPTY}
LANES = (1 << 32) - 1
USES = {
    "ld": MemoryUse.ASYNC_READ,
    **dict.fromkeys(("st", "mma", "add", "cp"), MemoryUse.ASYNC_WRITE),
    **dict.fromkeys(("alloc", "dealloc"), MemoryUse.DECLARE),
}
OPCODES = {
    "add": "tcgen05.mma",
    "fence": "tcgen05.fence",
    "ret": "ret",
    "bar": "bar.sync",
    "lanes": "bar.warp.sync",
    "wait": "mbarrier.try_wait",
}


def instruction(text: str) -> MachineInstr:
    """`add 32`: to column 32 on. `mma 0 a`: A is in the same allocation, at a place that is known when it runs."""
    name, *words = text.split()
    memory: list[MemoryTouch] = []
    if name in USES:
        column = next((int(word) for word in words if word.isdigit()), 0)
        memory.append(MemoryTouch(D, USES[name], "d", column, bytes=64 if name.endswith("alloc") else 32))
    if "a" in words:
        memory.append(MemoryTouch(D, MemoryUse.ASYNC_READ, "a", 0, "%i@b*8", 8))
    memory += (MemoryTouch(BARRIERS[word], MemoryUse.SYNCHRONIZE, "barrier") for word in words if word in BARRIERS)
    operands = {"enable_d": "1" if name == "add" else "0"} if name in ("mma", "add") else {}
    row = tcgen05_memory.fence("after") if name == "fence" else None
    opcode = OPCODES.get(name, f"tcgen05.{name}")
    said = semantics_of(opcode) if row is None else row.semantics
    return MachineInstr(opcode, row, operands=operands, memory=tuple(memory), semantics=said)


def told(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """What is said of two warps, the first of which allocates and gives back, by the rules' names."""
    function = MachineFunction("kernel", Target.parse("sm_100a"), attributes={"threads": 64})
    texts = {"entry": [], "one": ["alloc", *first, "dealloc", "ret"], "two": [*second, "ret"]}
    for position, (name, lines) in enumerate(texts.items()):
        block = function.block(name)
        places = (Location("kernel.py", 100 * position + line, "kernel") for line in range(len(lines)))
        block.instructions = [
            replace(instruction(line), location=place) for line, place in zip(lines, places, strict=True)
        ]
    function.blocks["entry"].successors = ["one", "two"]
    function.blocks["entry"].sides = LANES, LANES << 32
    return [one.rule_id.removeprefix("tcgen05.") for one in check_tmem_protocol(function)]


DONE = ("commit full", "wait full", "fence")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # What a warp adds to is written by itself, by another warp, or by nobody.
        ([], ["mma 0", *DONE], []),
        ([], ["add 0", *DONE], ["undefined-accumulator"]),
        ([], ["mma 0", "add 0", *DONE], []),
        ([], ["mma 0", "add 32", *DONE], ["undefined-accumulator"]),
        ([], ["mma 0 a", "add 32", *DONE], ["undefined-accumulator"]),
        ([], ["mma 0 a", "add 0 a", *DONE], []),
        (["st 0", "wait.st"], ["add 0", *DONE], []),
        (["cp"], ["add 0", *DONE], []),
        (["mma 0", *DONE], ["add 0", *DONE], []),
        (["add 0", *DONE], ["add 0", *DONE], ["undefined-accumulator"] * 2),
        # What a warp reads is done by the wait that it comes after, and ordered by its own fence.
        (["mma 0", *DONE], ["wait full", "fence", "ld", "wait.ld", "fence", "bar"], ["missing-fence-before"]),
        (["mma 0", "commit full"], ["ld", "wait.ld"], ["missing-wait", "missing-fence-before"]),
        (["mma 0", "commit full"], ["wait empty", "ld"], ["missing-wait", "missing-fence-before"]),
        (["mma 0", "commit full"], ["wait full", "ld"], ["missing-fence-after", "missing-fence-before"]),
        (["st 0", "wait.st", "mma 0", *DONE], ["ld"], ["missing-fence-before"]),
        (["mma 0", *DONE], ["mma 0", *DONE, "ld"], ["missing-fence-before"]),
        # A barrier behind the mma hands on what another warp may have waited for, one in front of it nothing.
        (["mma 0", "commit full", "bar", "ld", "wait.ld"], ["wait full", "bar"], []),
        (["bar", "mma 0", "commit full", "ld", "wait.ld"], ["wait full", "bar"], ["missing-wait"]),
        (["mma 0", "commit full", "lanes", "ld", "wait.ld"], ["wait full", "lanes"], ["missing-wait"]),
    ],
)
def test_what_the_second_warp_finds(first: Sequence[str], second: Sequence[str], expected: list[str]) -> None:
    found = told(first, second)
    # What is read and not fenced before it is given back has a test of its own: whichever of the two rules says so.
    alike = {"missing-barrier": "missing-fence-before"}
    assert sorted(alike.get(one, one) for one in found) == sorted(expected)


def test_a_loop_of_waits_without_the_mma_may_have_no_round() -> None:
    """Where the mma is in the loop too, there is none then."""
    function = MachineFunction("kernel", Target.parse("sm_100a"), attributes={"threads": 64})
    texts = {
        "entry": ([], ["one", "two"]),
        "one": (["mma 0", "commit full", "ret"], []),
        "two": ([], ["round", "out"]),
        "round": (["wait full", "fence"], ["two"]),
        "out": (["ld", "wait.ld", "ret"], []),
    }
    for name, (lines, successors) in texts.items():
        block = function.block(name)
        block.instructions, block.successors = [instruction(line) for line in lines], successors
    function.blocks["entry"].sides = LANES, LANES << 32
    assert [one.rule_id for one in check_tmem_protocol(function)] == ["tcgen05.missing-wait"]


@pytest.mark.parametrize("enable", [True, False, 1, 0])
def test_an_mma_adds_where_its_constant_says_so(enable: bool) -> None:
    assert accumulates(ir.Constant(ir.IntType(1), enable).get_reference()) is bool(enable)


def test_what_is_computed_may_be_either() -> None:
    assert accumulates('%"x"') is None
