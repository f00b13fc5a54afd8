"""Walks, cycles, dominators and loops of thousands of random graphs, against their definitions by removing blocks."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.graphs import immediate_dominators, on_cycles, postorder
from nvbackend.isel.flow.loops import Loop, Loops
from nvbackend.isel.flow.paths import coming, coming_ranks, is_for_each, rank_paths, reachable, warp_paths
from nvbackend.isel.machine.function import Branch, MachineFunction, Update
from nvbackend.isel.protocols.mbarrier.life import some_thread
from nvbackend.isel.protocols.proxy.unwaited import _until
from nvbackend.isel.target.target import Target

Graph = dict[str, list[str]]
SEEDS = range(6)
WARPS = ((1 << 32) - 1, (1 << 32) - 1 << 32, (1 << 8) - 1 << 64)
"""The lanes of 72 threads."""
EVERYBODY = (1 << 72) - 1
EACH = 150


def graphs(seed: int) -> Iterator[tuple[Graph, random.Random]]:
    """Graphs of up to nine blocks, most of them irreducible, with unreachable blocks and edges that come twice."""
    for number in range(EACH):
        chance = random.Random(EACH * seed + number)
        names = [f"b{index}" for index in range(chance.randint(1, 9))]
        chance.shuffle(names)
        most = chance.choice((2, 2, 3))
        yield {name: [chance.choice(names) for _ in range(chance.randint(0, most))] for name in names}, chance


def walked(graph: Graph, starts: list[str], without: str | None = None) -> set[str]:
    """What can be reached from `starts`, not through `without`."""
    found: set[str] = set()
    waiting = [one for one in starts if one != without]
    while waiting:
        block = waiting.pop()
        if block not in found:
            found.add(block)
            waiting += [one for one in graph[block] if one != without]
    return found


def walked_to(graph: Graph, start: str, end: str) -> set[str]:
    """The same without going on from `end`, which is among it where it is come to."""
    inside = walked(graph, [start], without=end)
    return inside | {one for block in inside for one in graph[block]}


def entry(graph: Graph) -> str:
    return next(iter(graph))


def dominating(graph: Graph, block: str) -> set[str]:
    """The blocks without which nothing leads to `block`; itself among them."""
    return {one for one in graph if block not in walked(graph, [entry(graph)], without=one)}


def before(graph: Graph) -> dict[str, list[str]]:
    return {block: [one for one in graph for successor in graph[one] if successor == block] for block in graph}


def function_of(graph: Graph) -> MachineFunction:
    function = MachineFunction("f", Target.parse("sm_90a"))
    for name, successors in graph.items():
        function.block(name).successors = successors
    return function


@pytest.mark.parametrize("seed", SEEDS)
def test_walks_cycles_and_dominators(seed: int) -> None:
    for graph, _ in graphs(seed):
        first, known = entry(graph), walked(graph, [entry(graph)])
        order = postorder([first], graph.__getitem__)[::-1]
        assert set(order) == known
        assert len(order) == len(known)
        assert on_cycles(order, before(graph).__getitem__) == {one for one in known if one in walked(graph, graph[one])}
        found = immediate_dominators(order, before(graph).__getitem__)
        assert found.pop(first) == first
        # The nearest of those that dominate it is the one that all others of them dominate.
        for block in known - {first}:
            others = dominating(graph, block) - {block}
            assert found.pop(block) == next(one for one in others if dominating(graph, one) == others)
        assert found == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_walks_from_many_starts(seed: int) -> None:
    """What an earlier start reached is not walked again, and the later starts are."""
    for graph, chance in graphs(seed):
        starts = [chance.choice(list(graph)) for _ in range(3)]
        order = postorder([*starts[:2], starts[0], starts[2]], graph.__getitem__)
        assert len(order) == len(set(order))
        assert set(order) == walked(graph, starts)


def loop_by_definition(graph: Graph, header: str, known: set[str]) -> Loop | None:
    """The natural loop of a header: what comes back to it without passing it."""
    latches = {one for one in known if header in graph[one] and header in dominating(graph, one)}
    if not latches:
        return None
    inside = {one for one in known - {header} if latches & walked(graph, [one], without=header)}
    return Loop(header, frozenset(latches), frozenset(inside | {header}))


@pytest.mark.parametrize("seed", SEEDS)
def test_loops(seed: int) -> None:
    for graph, chance in graphs(seed):
        function, known = function_of(graph), walked(graph, [entry(graph)])
        for block in function.blocks.values():
            block.updates = {name: chance.choice([*Update]) for name in "xy" if chance.random() < 0.3}
        loops = Loops(function)
        by_header = [one for header in graph if (one := loop_by_definition(graph, header, known))]
        assert {one for one in graph if loops.is_reachable(one)} == known
        for block in known:
            assert sorted(loops.predecessors(block)) == sorted(one for one in before(graph)[block] if one in known)
            assert {one for one in known if loops.dominates(one, block)} == dominating(graph, block) & known
            others = dominating(graph, block) - {block} or {block}
            assert loops.dominator(block) in others
            assert others <= dominating(graph, loops.dominator(block))
        # Every cycle of a regular graph goes through the header of a loop that has all its blocks.
        regular = all(
            successor in dominating(graph, block)
            for block, successor in back_edges(graph, postorder([entry(graph)], graph.__getitem__))
        )
        assert loops.regular is regular
        if not regular:
            continue
        for block in known:
            around = [one for one in by_header if block in one.blocks]
            smallest = min(around, key=lambda one: len(one.blocks), default=None)
            assert loops.innermost(block) == smallest
            for other in graph[block]:
                one, two = (
                    max((loop for loop in by_header if each in loop.blocks), key=size, default=None)
                    for each in (block, other)
                )
                assert loops.goes_on(block, other) is (one is not None and one == two)
            if smallest is not None:
                expected = all(block in dominating(graph, one) for one in smallest.latches)
                assert loops.every_round(smallest, block) is expected
        for loop in by_header:
            updates = [function.blocks[one].updates for one in loop.blocks]
            changed = {name: [one[name] for one in updates if name in one] for name in "xy"}
            assert loops.updates(loop) == {
                name: several[0] if len(several) == 1 else Update.SET for name, several in changed.items() if several
            }


def size(loop: Loop) -> int:
    return len(loop.blocks)


def back_edges(graph: Graph, finished: list[str]) -> Iterator[tuple[str, str]]:
    """The edges that go against a reverse postorder; which ones of a regular graph is the same in each."""
    rank = {block: index for index, block in enumerate(reversed(finished))}
    for block, place in rank.items():
        for successor in graph[block]:
            if rank[successor] <= place:
                yield block, successor


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_time_that_a_block_is_entered(seed: int) -> None:
    """From `other` alone: no way that has not been in the block before comes to it from elsewhere."""
    for graph, _ in graphs(seed):
        loops, known = Loops(function_of(graph)), walked(graph, [entry(graph)])
        for block in known - {entry(graph)}:
            coming_first = {one for one in walked(graph, [entry(graph)], without=block) if block in graph[one]}
            for other in loops.predecessors(block):
                assert loops.is_entered_from(block, other) is (coming_first == {other})


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_that_some_threads_run(seed: int) -> None:
    """A branch over the threads goes on in the ways that the other one does not lead to: what some thread runs."""
    for graph, chance in graphs(seed):
        function, known = function_of(graph), walked(graph, [entry(graph)])
        decided = {name for name, ways in graph.items() if len(ways) == 2 and chance.random() < 0.7}
        for name in decided:
            function.blocks[name].sides = (1, 2)
        found = some_thread(function, Loops(function))
        for name, (*ways,) in graph.items():
            expected = ways
            if name in decided & known and ways[0] != ways[1]:
                reached = [way in walked_to(graph, ways[way == ways[0]], name) for way in ways]
                expected = [way for way, comes in zip(ways, reached, strict=True) if not comes] or ways
            assert found.blocks[name].successors == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_that_come(seed: int) -> None:
    """A thread comes to a block where some way leads that no branch keeps it from."""
    for graph, chance in graphs(seed):
        function = function_of(graph)
        function.attributes["threads"] = 3
        for block in function.blocks.values():
            if len(block.successors) == 2 and chance.random() < 0.7:
                first = chance.randrange(8)
                block.sides = first, chance.randrange(8) & ~first
        found = coming(function)
        assert found[entry(graph)] == 0b111
        for thread in range(3):
            own = {name: [*_taken(function, name, thread)] for name in graph}
            assert {name for name in graph if found[name] >> thread & 1} == walked(own, [entry(graph)])
        without = {name for name in graph if chance.random() < 0.3}
        starts = [name for name in graph if chance.random() < 0.5]
        left = {name: [one for one in ways if one not in without] for name, ways in graph.items()}
        expected = walked(left, [one for one in starts if one not in without])
        assert reachable(function, starts, without=without) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_paths_of_warps(seed: int) -> None:
    """Each warp goes where one of its threads may go; a part of one takes the arm and then the rest."""
    for graph, chance in graphs(seed):
        function = function_of(graph)
        function.attributes["threads"] = 72
        decided = {name for name, ways in graph.items() if len({*ways}) == len(ways) == 2 and chance.random() < 0.8}
        for name in decided:
            first = sum(chance.choice((0, 1, -1)) * lanes & lanes for lanes in WARPS)
            function.blocks[name].sides = first, EVERYBODY & ~first if chance.random() < 0.7 else 0
        expected = []
        for lanes in WARPS:
            taken = {name: [*graph[name]] for name in graph}
            for name in decided:
                (arm, rest), sides = graph[name], function.blocks[name].sides
                assert sides is not None
                if lanes & ~sides[0] == 0:
                    taken[name] = [arm]
                elif lanes & ~sides[1] == 0:
                    taken[name] = [rest]
                elif rest in walked(graph, [arm], without=name):
                    taken[name] = [arm]
            if taken not in expected:
                expected.append(taken)
        found = [{name: [*one.blocks[name].successors] for name in graph} for one in warp_paths(function)]
        assert found == expected
        del function.attributes["threads"]
        assert [*warp_paths(function)] == [function]
        assert coming(function)[entry(graph)] == -1


@pytest.mark.parametrize("seed", SEEDS)
def test_paths_of_ctas(seed: int) -> None:
    """A block that has but one successor goes on there, whatever is said of the CTAs."""
    for graph, chance in graphs(seed):
        function = function_of(graph)
        function.attributes["cluster"] = 3
        for block in function.blocks.values():
            if chance.random() < 0.8:
                first = chance.randrange(8)
                block.ranks = first, chance.randrange(8) & ~first
        paths, found = rank_paths(function), coming_ranks(function)
        assert len(paths) == 3
        for rank, path in enumerate(paths):
            taken = {}
            for name, ways in graph.items():
                first, second = (bits >> rank & 1 for bits in function.blocks[name].ranks)
                decided = first + second and len(ways) > 1
                taken[name] = [ways[second]] if decided else ways
            assert {name: block.successors for name, block in path.blocks.items()} == taken
            assert {name for name in graph if found[name] >> rank & 1} == walked(taken, [entry(graph)])


@pytest.mark.parametrize("seed", SEEDS)
def test_ways_that_lead_to_a_block_for_the_first_time(seed: int) -> None:
    """No round of a loop that certainly runs the block comes back to it; all that comes before the block stays."""
    for graph, chance in graphs(seed):
        function, known = function_of(graph), walked(graph, [entry(graph)])
        block = chance.choice(sorted(known))
        found = _until(function, Loops(function), block)
        for name, ways in graph.items():
            behind = name in known and block in dominating(graph, name)
            expected = [one for one in ways if not (behind and one in dominating(graph, block))]
            assert found.blocks[name].successors == expected


def _taken(function: MachineFunction, name: str, thread: int) -> Iterator[str]:
    block = function.blocks[name]
    for index, successor in enumerate(block.successors):
        if block.sides is None or not block.sides[1 - index] >> thread & 1:
            yield successor


@pytest.mark.parametrize("seed", SEEDS)
def test_what_each_cta_runs_that_goes_so(seed: int) -> None:
    """A block that can be reached, and that no branch which CTAs may take differently leads around to an end."""
    for graph, chance in graphs(seed):
        function = function_of(graph)
        for block in function.blocks.values():
            if len(block.successors) > 1 and chance.random() < 0.8:
                block.branch = Branch(chance.choice((Scope.WARP, Scope.CTA, Scope.CLUSTER, Scope.GRID)))
                block.sides = (1, 2) if chance.random() < 0.2 else None
        known = walked(graph, [entry(graph)])
        for name in graph:
            differing = [
                one
                for one in known
                if len(graph[one]) > 1
                and function.blocks[one].sides is None
                and (function.blocks[one].branch or Branch(Scope.CTA)).uniform in (Scope.WARP, Scope.CTA)
            ]
            avoided = any(
                name in walked(graph, graph[one])
                and any(not graph[end] for end in walked(graph, graph[one], without=name))
                for one in differing
            )
            assert is_for_each(function, name) is (name in known and not avoided)


@pytest.mark.parametrize("seed", SEEDS)
def test_cycles_are_found_by_asking_for_each_node_twice_at_most(seed: int) -> None:
    """Once where the component is collected, once for a node that may follow itself: or the walk does not end."""
    for graph, _ in graphs(seed):
        asked: dict[str, int] = {}
        leading = before(graph)

        def ask(node: str, asked: dict[str, int] = asked, leading: Graph = leading) -> list[str]:
            asked[node] = asked.get(node, 0) + 1
            assert asked[node] <= 2
            return leading[node]

        on_cycles(postorder([entry(graph)], graph.__getitem__)[::-1], ask)
