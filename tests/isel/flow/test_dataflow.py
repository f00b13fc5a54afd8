"""The dataflow solver, with an analysis small enough to know its answer: which instructions may have run before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvbackend.isel.flow.dataflow import Site, reverse_postorder, sites_of, solve
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target


class Seen:
    """The opcodes that may have run."""

    def entry(self) -> frozenset[str]:
        return frozenset()

    def join(self, left: frozenset[str], right: frozenset[str], /) -> frozenset[str]:
        return left | right

    def transfer(self, state: frozenset[str], site: Site, /) -> frozenset[str]:
        return state | {site.instr.opcode}


def function_of(edges: dict[str, str]) -> MachineFunction:
    """One instruction a block, called like it; `edges` give each block's successors, by their letters."""
    function = MachineFunction("f", Target.parse("sm_90a"))
    for name, successors in edges.items():
        block = function.block(name)
        block.instructions.append(MachineInstr(name))
        block.successors = list(successors)
    return function


def seen_before(function: MachineFunction) -> dict[str, str]:
    """By opcode: what may have run before it, sorted."""
    return {site.instr.opcode: "".join(sorted(state)) for site, state in solve(function, Seen()).visit()}


@pytest.mark.parametrize(
    ("edges", "before"),
    [
        ({"a": "b", "b": "c", "c": ""}, {"a": "", "b": "a", "c": "ab"}),
        ({"a": "bc", "b": "d", "c": "d", "d": ""}, {"a": "", "b": "a", "c": "a", "d": "abc"}),
        ({"a": "b", "b": "bc", "c": ""}, {"a": "", "b": "ab", "c": "ab"}),
        ({"a": "b", "b": "cd", "c": "b", "d": ""}, {"a": "", "b": "abc", "c": "abc", "d": "abc"}),
        ({"a": "a"}, {"a": "a"}),
    ],
    ids=["line", "diamond", "self loop", "loop", "entry loops"],
)
def test_states_at_the_fixed_point(edges: dict[str, str], before: dict[str, str]) -> None:
    assert seen_before(function_of(edges)) == before


def test_unreachable_blocks_are_left_out() -> None:
    assert seen_before(function_of({"a": "c", "b": "c", "c": ""})) == {"a": "", "c": "a"}


def test_an_empty_function_has_no_states() -> None:
    solution = solve(function_of({}), Seen())
    assert list(solution.visit()) == []
    assert solution.transfers == 0


def test_sites_count_in_the_order_of_the_text() -> None:
    function = function_of({"a": "b", "b": ""})
    function.blocks["a"].instructions.append(MachineInstr("second"))
    places = [(site.position, site.block, site.instr.opcode) for sites in sites_of(function).values() for site in sites]
    assert places == [(0, "a", "a"), (1, "a", "second"), (2, "b", "b")]


@given(st.dictionaries(st.sampled_from("abcdef"), st.text("abcdef", max_size=3), min_size=1))
def test_any_graph_reaches_what_walking_it_reaches(edges: dict[str, str]) -> None:
    edges = {name: "".join(one for one in successors if one in edges) for name, successors in edges.items()}
    expected: dict[str, set[str]] = {}
    paths = [(next(iter(edges)), frozenset[str]())]
    walked = set(paths)
    while paths:
        name, before = paths.pop()
        expected.setdefault(name, set()).update(before)
        new = {(one, before | {name}) for one in edges[name]} - walked
        walked |= new
        paths += new
    function = function_of(edges)
    assert seen_before(function) == {name: "".join(sorted(before)) for name, before in expected.items()}
    assert set(reverse_postorder(function)) == set(expected)


def test_reverse_postorder_has_joins_behind_their_branches() -> None:
    assert reverse_postorder(function_of({"a": "bd", "b": "c", "c": "d", "d": ""})) == ["a", "b", "c", "d"]


def test_a_deep_function_needs_no_deep_stack() -> None:
    names = [f"b{index}" for index in range(20000)]
    function = MachineFunction("deep", Target.parse("sm_90a"))
    for name, successor in zip(names, [*names[1:], ""], strict=True):
        function.block(name).successors = [successor] if successor else []
    assert reverse_postorder(function) == names


def test_straight_code_is_transferred_once_and_a_loop_body_twice() -> None:
    line = function_of({"a": "b", "b": "c", "c": "d", "d": "e", "e": ""})
    assert solve(line, Seen()).transfers == 5
    assert solve(function_of({"a": "b", "b": "bc", "c": ""}), Seen()).transfers == 4


@given(st.lists(st.sets(st.integers(1, 5), max_size=3), min_size=1, max_size=12))
def test_code_without_loops_is_transferred_once(steps: list[set[int]]) -> None:
    """Each block that is reached, in whatever ways: it waits for all that come before it."""
    names = [chr(ord("a") + index) for index in range(len(steps))]
    edges = {
        name: "".join(names[index + step] for step in steps[index] if index + step < len(names))
        for index, name in enumerate(names)
    }
    function = function_of(edges)
    assert solve(function, Seen()).transfers == len(reverse_postorder(function))
