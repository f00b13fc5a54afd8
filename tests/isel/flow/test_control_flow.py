"""Post-dominators and the blocks a branch decides about, against their definitions by removing blocks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend.isel.flow.graphs import ControlFlow, on_cycles, postorder

Graph = dict[str, list[str]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    names = [f"b{index}" for index in range(draw(st.integers(1, 8)))]
    return {name: draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) for name in names}


def reachable(graph: Graph, start: str, without: str | None = None) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        block = waiting.pop()
        if block != without and block not in found:
            found.add(block)
            waiting += graph[block]
    return found


def ends(graph: Graph, blocks: set[str]) -> bool:
    return any(not graph[block] for block in blocks)


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_all_ways_meet_in_the_nearest_block_that_none_avoids(graph: Graph) -> None:
    flow = ControlFlow(graph)
    assert set(flow.successors) == reachable(graph, "b0")
    for block in flow.successors:
        if not ends(graph, reachable(graph, block)):
            assert flow.meeting[block] is None
            continue
        after = {other for other in reachable(graph, block) if other != block}
        unavoidable = {other for other in after if not ends(graph, reachable(graph, block, without=other))}
        met = flow.meeting[block]
        if met is None:
            assert unavoidable == set()
        else:
            assert met in unavoidable
            # The nearest: every other one is still to come behind it.
            assert all(not ends(graph, reachable(graph, met, without=other)) for other in unavoidable - {met})


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_a_region_ends_where_the_ways_meet(graph: Graph) -> None:
    flow = ControlFlow(graph)
    for block in flow.successors:
        met = flow.meeting[block]
        expected = set().union(*(reachable(graph, one, without=met) for one in graph[block])) if graph[block] else set()
        assert flow.region(block) == expected


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_a_block_on_a_cycle_comes_again(graph: Graph) -> None:
    flow = ControlFlow(graph)
    order = postorder(["b0"], graph.__getitem__)[::-1]
    again = {block for block in flow.successors for one in graph[block] if block in reachable(graph, one)}
    assert on_cycles(order, flow.predecessors.__getitem__) == again


def test_many_branches_with_one_meeting_are_followed_once() -> None:
    count = 200
    graph: Graph = {}
    for index in range(count):
        graph[f"b{index}"] = [f"exit{index}", f"b{index + 1}"]
        graph[f"exit{index}"] = []
    graph[f"b{count}"] = []
    flow = ControlFlow(graph)
    sources = [f"b{index}" for index in range(count)]
    assert {flow.meeting[source] for source in sources} == {None}
    assert flow.decided(sources) == set(graph) - {"b0"}
