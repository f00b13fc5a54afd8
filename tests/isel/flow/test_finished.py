"""Answers that a finished function keeps: each is found once, and again where what it depends on has changed."""

from __future__ import annotations

from nvbackend.isel.flow.finished import finished, kept, kept_of_text, with_successors
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.target.target import Target


def test_an_answer_is_found_once_for_each_text_or_flow() -> None:
    asked: list[str] = []

    @kept
    def ways(function: MachineFunction) -> int:
        asked.append("ways")
        return sum(len(block.successors) for block in function.blocks.values())

    @kept_of_text
    def blocks(function: MachineFunction) -> int:
        asked.append("blocks")
        return len(function.blocks)

    function = MachineFunction("f", Target.parse("sm_90a"))
    function.block("a").successors = ["b", "a"]
    function.block("b")
    assert [(ways(function), blocks(function)) for _ in range(2)] == [(2, 2), (2, 2)]
    assert asked == ["ways", "blocks"] * 2  # nothing is kept of a function that may change
    asked.clear()
    same = finished(function)
    assert [(ways(same), blocks(same)) for _ in range(2)] == [(2, 2), (2, 2)]
    assert asked == ["ways", "blocks"]
    other = with_successors(same, {"a": ["b"]})
    assert [(ways(other), blocks(other)) for _ in range(2)] == [(1, 2), (1, 2)]
    assert asked == ["ways", "blocks", "ways"]
    assert (ways(same), function.blocks["a"].successors) == (2, ["b", "a"])
