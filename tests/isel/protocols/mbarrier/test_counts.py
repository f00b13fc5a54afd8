"""Sums of arrivals and bytes of random small programs, against the same sums written down a second time."""

from __future__ import annotations

import contextlib
import itertools
import random
from itertools import combinations, product

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import gather
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.intrinsics.sync import mbarrier, mbarrier_phases
from nvbackend.isel.flow.loops import Loops
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import Branch, MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.mbarrier.counts import Counts, multiplicity
from nvbackend.isel.protocols.mbarrier.protocol import check_mbarrier_protocol
from nvbackend.isel.protocols.mbarrier.reach import Reaches
from nvbackend.isel.protocols.mbarrier.transactions import Transactions
from nvbackend.isel.protocols.mbarrier.uses import Cell, find_uses
from nvbackend.isel.target.target import Target
from tests.support.semantics import semantics_of

BARRIER = MemoryObject(1, "full", "shared", 8, 8)
TOUCHES = (MemoryTouch(BARRIER, MemoryUse.SYNCHRONIZE, "barrier"),)
Line = tuple[str, dict[str, int]]


def known(chance: random.Random, **values: tuple[int | None, ...]) -> dict[str, int]:
    """A number of each, where it is known."""
    found = {name: chance.choice(given) for name, given in values.items()}
    return {name: value for name, value in found.items() if value is not None}


def line(chance: random.Random) -> Line:
    threads = (1, 1, 1, 2, 32, None)
    match chance.choice(("arrive", "arrive", "hand over", "wait", "announce", "fill", "fill")):
        case "arrive":
            return "mbarrier.arrive", known(chance, threads=threads, count=(None, None, 1, 3))
        case "hand over":
            return "mbarrier.arrive", known(chance, threads=threads, arrivals=(2, 4))
        case "wait":
            return "mbarrier.try_wait", known(chance, threads=threads, parity=(0, 0, 1, None))
        case "announce":
            return "mbarrier.arrive.expect_tx", known(chance, threads=threads, bytes=(16, 16, 32, 0, None))
    return "cp.async.bulk", known(chance, threads=threads, bytes=(16, 16, 32, None))


def program(seed: int) -> tuple[int, list[Line], list[Line]]:
    """The count of the barrier, and what is done once and in each round of a loop."""
    chance = random.Random(seed)
    some = lambda most: [line(chance) for _ in range(chance.randint(0, most))]  # noqa: E731
    return chance.choice((1, 1, 2, 3, 4, 6, 32)), some(3), some(3)


def machine(count: int, before: list[Line], inside: list[Line], uniform: Scope) -> MachineFunction:
    function = MachineFunction("f", Target.parse("sm_90a"))
    lines = {"entry": [("mbarrier.init", {facts.COUNT: count}), *before], "loop": inside, "end": []}
    for name, successors in (("entry", ["loop"]), ("loop", ["loop", "end"]), ("end", [])):
        block = function.block(name)
        block.successors = successors
        block.instructions = [
            MachineInstr(opcode, memory=TOUCHES, facts=said, semantics=semantics_of(opcode))
            for opcode, said in lines[name]
        ]
    function.block("loop").branch = Branch(uniform)
    return function


def parts(lines: list[Line], *, once: bool, even: bool = True) -> list[int | None]:
    """The arrivals of each line on one phase, None where that is not known."""
    found: list[int | None] = []
    for opcode, said in lines:
        if opcode.startswith("mbarrier.arrive"):
            given, threads = said.get("arrivals"), said.get("threads")
            one = None if threads is None or not once or (threads > 1 and not even) else threads * said.get("count", 1)
            found.append(one if given is None else given)
    return found


def wrong_arrivals(count: int, before: list[Line], inside: list[Line], *, even: bool) -> set[str]:
    waits = [said for opcode, said in before + inside if opcode == "mbarrier.try_wait"]
    each = any(opcode == "mbarrier.try_wait" and "threads" in said for opcode, said in inside)
    arrivals = [*parts(before, once=True), *parts(inside, once=each, even=even)]
    if not arrivals:
        return {"mbarrier.no-arrival"} if any(said.get("parity") != 1 for said in waits) else set()
    if None in arrivals:
        return set()
    numbers = [one or 0 for one in arrivals]
    sums = {sum(some) for many in range(1, len(numbers) + 1) for some in combinations(numbers, many)}
    return set() if count in sums else {"mbarrier.arrivals"}


def total(lines: list[Line], *, even: bool) -> int | None:
    found = 0
    for _, said in lines:
        if "bytes" not in said or "threads" not in said or (said["threads"] > 1 and not even):
            return None
        found += said["bytes"] * said["threads"]
    return found


def wrong_bytes(before: list[Line], inside: list[Line], *, even: bool) -> set[str]:
    announced, brought = (
        [[one for one in lines if one[0] == opcode] for lines in (before, inside)]
        for opcode in ("mbarrier.arrive.expect_tx", "cp.async.bulk")
    )
    if not any(announced):
        return {"mbarrier.unexpected-bytes"} if any(brought) else set()
    if not any(brought):
        sure = all(said.get("bytes") for lines in announced for _, said in lines)
        return {"mbarrier.missing-bytes"} if sure else set()
    groups = [(*both, is_even) for *both, is_even in zip(announced, brought, (True, even), strict=True) if any(both)]
    if not all(one and two for one, two, _ in groups):
        return set()
    sums = [(total(one, even=is_even), total(two, even=is_even)) for one, two, is_even in groups]
    return {"mbarrier.wrong-bytes"} if any(None not in pair and pair[0] != pair[1] for pair in sums) else set()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 1500, 500))
def test_sums_are_told_where_all_of_them_are_known(first: int) -> None:
    said: set[str] = set()
    for seed in range(first, first + 500):
        count, before, inside = program(seed)
        even = seed % 4 > 0
        function = machine(count, before, inside, Scope.CTA if even else Scope.WARP)
        uses, loops = find_uses(function), Loops(function)
        sums = Counts(uses, loops, None), Transactions(uses, loops, Reaches(function, loops), None)
        found = {one.rule.id for some in sums for one in some.findings(Cell(BARRIER, 0))}
        expected = wrong_arrivals(count, before, inside, even=even) | wrong_bytes(before, inside, even=even)
        assert found == expected, (count, before, inside, even)
        said |= found
    names = ("no-arrival", "arrivals", "unexpected-bytes", "missing-bytes", "wrong-bytes")
    assert said == {f"mbarrier.{name}" for name in names}


@pytest.mark.parametrize("threads", [*product((1, 2), repeat=2)])
@pytest.mark.parametrize("even", [True, False])
def test_bytes_of_rounds_that_differ_are_summed_of_one_thread_alone(threads: tuple[int, int], even: bool) -> None:
    """Of one thread, what it announces in its rounds and what it brings in them are as many."""
    for announced, brought in product((16, 32), repeat=2):
        inside = [
            ("mbarrier.arrive.expect_tx", {facts.BYTES: announced, facts.THREADS: threads[0]}),
            ("cp.async.bulk", {facts.BYTES: brought, facts.THREADS: threads[1]}),
        ]
        function = machine(1, [], inside, Scope.CTA if even else Scope.WARP)
        uses, loops = find_uses(function), Loops(function)
        sums = Transactions(uses, loops, Reaches(function, loops), None)
        assert {one.rule.id for one in sums.findings(Cell(BARRIER, 0))} == wrong_bytes([], inside, even=even)


# -- arrivals alone: drops, arrivals at peers, threads that are none, inits that are missing or differ, loops in loops

DROP, REMOTE, REMOTE_DROP = (
    mbarrier.arrive(space, drop=drop) for space, drop in (("cta", True), ("cluster", False), ("cluster", True))
)
INIT, WAIT = "mbarrier.init", "mbarrier.try_wait"
Act = tuple[str | Row, dict[str, int]]


def arrivals(chance: random.Random) -> dict[str, list[Act]]:
    """What is done once, in each round of a loop, and in each round of a loop inside that."""

    def one() -> Act:
        threads = (1, 1, 1, 2, 32, 0, None)
        match chance.choice(("arrive", "arrive", "arrive", "hand over", "wait", "drop", "remote")):
            case "hand over":
                return chance.choice(("mbarrier.arrive", REMOTE)), known(chance, threads=threads, arrivals=(0, 2, 4))
            case "wait":
                return WAIT, known(chance, threads=threads, parity=(0, 0, 1, None))
            case "drop":
                return chance.choice((DROP, DROP, REMOTE_DROP)), known(chance, threads=threads)
            case "remote":
                return REMOTE, known(chance, threads=threads)
        return "mbarrier.arrive", known(chance, threads=threads, count=(None, None, 1, 3))

    inits = chance.choice(([1], [1], [2], [3], [4], [6], [32], [], [2, 2], [2, 3], [None]))
    begun: list[Act] = [(INIT, {} if count is None else {facts.COUNT: count}) for count in inits]
    some = [[one() for _ in range(chance.choice(most))] for most in ((0, 0, 1, 2, 3), (0, 1, 2, 3), (0, 0, 0, 1, 2))]
    return {"entry": [*begun, *some[0]], "loop": some[1], "inner": some[2], "latch": [], "end": []}


def nested(lines: dict[str, list[Act]], even: dict[str, bool]) -> MachineFunction:
    """Two loops, the one in the other, of which some run equally often for all threads."""
    function = MachineFunction("f", Target.parse("sm_90a"))
    ways = {"entry": ["loop"], "loop": ["inner"], "inner": ["inner", "latch"], "latch": ["loop", "end"], "end": []}
    for name, acts in lines.items():
        block = function.block(name)
        block.successors = ways[name]
        for what, said in acts:
            row = what if isinstance(what, Row) else None
            semantics = semantics_of(what) if row is None else row.semantics
            opcode = str(what) if row is None else row.opcode
            block.instructions.append(MachineInstr(opcode, row, memory=TOUCHES, facts=said, semantics=semantics))
    for header, leaving in (("loop", "latch"), ("inner", "inner")):
        function.block(leaving).branch = Branch(Scope.CTA if even[header] else Scope.WARPGROUP)
    return function


def evenness(seed: int) -> dict[str, bool]:
    return {"loop": seed % 11 > 0, "inner": seed % 13 > 0}


def is_even(name: str, act: Act, even: dict[str, bool]) -> bool:
    """Whether what executes it does so equally often: one thread, or all threads in as many rounds."""
    around = {"loop": ["loop"], "inner": ["loop", "inner"]}.get(name, [])
    return act[1].get("threads") == 1 or all(even[header] for header in around)


def initial(lines: dict[str, list[Act]]) -> int | None:
    counts = {said.get(facts.COUNT) for what, said in lines["entry"] if what == INIT}
    return counts.pop() if len(counts) == 1 else None


def at_once(act: Act) -> int | None:
    """What arrives on this CTA's barrier where all threads execute it, and all in one phase; None if unknown."""
    what, said = act
    if "arrivals" in said:
        return said["arrivals"]
    return None if isinstance(what, Row) or "threads" not in said else said["threads"] * said.get("count", 1)


def wrong_sums(lines: dict[str, list[Act]], even: dict[str, bool]) -> set[str]:
    acts = [(name, act) for name, some in lines.items() for act in some]
    waits = [(name, said) for name, (what, said) in acts if what == WAIT]
    waited = {name for name, said in waits if "threads" in said}
    rounds = {"entry": True, "loop": bool(waited & {"loop", "inner"}), "inner": "inner" in waited}
    arriving = [(name, act) for name, act in acts if act[0] not in (INIT, WAIT)]
    numbers = [
        at_once(act) if (rounds[name] and is_even(name, act, even)) or "arrivals" in act[1] else None
        for name, act in arriving
    ]
    if all(number == 0 for number in numbers):
        begun = any(what == INIT for what, _ in lines["entry"])
        return {"mbarrier.no-arrival"} if begun and any(said.get("parity") != 1 for _, said in waits) else set()
    count = initial(lines)
    if count is None:
        return set()
    if None in numbers:
        drops = [said.get("threads", 0) for _, (what, said) in arriving if what is DROP]
        numbers = [number for number in drops if number > count]
    known = [number or 0 for number in numbers]
    sums = {sum(some) for many in range(1, len(known) + 1) for some in combinations(known, many)}
    return {"mbarrier.arrivals"} if known and count not in sums else set()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 3000, 1000))
def test_arrivals_are_summed_where_each_is_known(first: int) -> None:
    said = dict.fromkeys((frozenset(), frozenset({"mbarrier.no-arrival"}), frozenset({"mbarrier.arrivals"})), 0)
    for seed in range(first, first + 1000):
        lines = arrivals(random.Random(seed))
        even = evenness(seed)
        function = nested(lines, even)
        found = Counts(find_uses(function), Loops(function), None).findings(Cell(BARRIER, 0))
        rules = frozenset(one.rule.id for one in found)
        assert rules == wrong_sums(lines, even), (lines, even)
        said[rules] += 1
    assert min(said.values()) > 10


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 3000, 1000))
def test_one_phase_in_each_round(first: int) -> None:
    """Where all that arrives in the loop is known, is in no loop inside, and is the count."""
    completed = {"loop": 0, "inner": 0}
    for seed in range(first, first + 1000):
        lines = arrivals(random.Random(seed))
        even = evenness(seed)
        function = nested(lines, even)
        loops = Loops(function)
        counts = Counts(find_uses(function), loops, None)
        assert counts.initial(Cell(BARRIER, 0)) == initial(lines)
        inside = {name: [act for act in lines[name] if act[0] != WAIT] for name in completed}
        for name in completed:
            loop, arriving = loops.innermost(name), [at_once(act) for act in inside[name]]
            assert loop is not None
            alone = name == "inner" or not inside["inner"]
            alone &= all(is_even(name, act, even) for act in inside[name])
            expected = bool(arriving) and alone and None not in arriving and sum(map(int, arriving)) == initial(lines)
            assert counts.one_phase_a_round(Cell(BARRIER, 0), loop) is expected, (name, lines)
            completed[name] += expected
    assert min(completed.values()) > 10


def test_arrivals_whose_number_a_register_holds_are_not_counted() -> None:
    """Of every spelling that has one: of arrive.noComplete too."""
    for row in (mbarrier.arrive(counted=True), mbarrier_phases.arrive_no_complete()):
        for said, each in (({}, None), ({facts.COUNT: 3}, 3)):
            function = MachineFunction("f", Target.parse("sm_90a"))
            arrival = MachineInstr(row.opcode, row, memory=TOUCHES, facts={facts.THREADS: 1, **said})
            function.block("entry").instructions = [arrival]
            (use,) = find_uses(function).all
            assert multiplicity(use) == each, row.ptx


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("given", [None, 1, 3])
def test_what_leaves_is_at_most_what_there_is(alone: bool, given: int | None) -> None:
    """Whatever else arrives, and in whichever phase: mbarrier.arrive_drop of PTX ISA 9.7.13.15.14."""
    leaving = (given or 1) * (1 if alone else 64)
    for count, others in itertools.product((1, leaving - 1, leaving, leaving + 1, 200), (False, True)):
        if count < 1:
            continue
        k = KernelBuilder("kernel", "sm_90a", threads=64)
        barrier = k.mbarrier.array(1, count)
        k.mbarrier.ready()
        with k.one_thread() if alone else contextlib.nullcontext():
            k.mbarrier.arrive(barrier, count=given, drop=True)
        if others:
            k.mbarrier.arrive(barrier)
        found = [one.rule_id for one in gather(k.finish)]
        assert found == ["mbarrier.arrivals"] * (leaving > count), (leaving, count)


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize(("is_even", "wrong"), [(False, []), (True, ["mbarrier.arrivals"])])
def test_threads_that_run_other_numbers_of_rounds_may_fill_one_phase(cluster, is_even, wrong):
    """Two warps arrive in one round or in two, 96 times in all, and a third waits for the one phase."""
    k = KernelBuilder("kernel", "sm_90a", threads=96, cluster=cluster)
    full = k.mbarrier.array(1, arrivals=96)
    k.mbarrier.ready()
    odd = k.thread_id() % 2
    with k.range(2 if is_even else k.select(k.warp_id() == 2, 1, odd + 1)):
        with k.if_(k.warp_id() < 2):
            k.mbarrier.arrive(full)
        with k.else_():
            k.mbarrier.wait(full, 0)
    k.cluster.sync()
    assert [one.rule_id for one in gather(k.finish) if one.rule_id == "mbarrier.arrivals"] == wrong


def test_no_note_is_of_what_has_no_line() -> None:
    arrivals = [("mbarrier.arrive", {facts.THREADS: threads}) for threads in (2, 5)]
    told = check_mbarrier_protocol(machine(4, arrivals, [], Scope.CTA))
    assert "mbarrier.arrivals" in {one.rule_id for one in told}
    assert not any(one.notes for one in told)
