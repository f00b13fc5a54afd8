"""Python's operations on an object of each class of a kernel: each works, or a diagnostic says what to write instead.

Python's own error for an object that it cannot use names a class of this package, and nothing to write instead.
"""

from __future__ import annotations

import copy
import operator
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nvbackend as nvb
from tests.api.things import things_in_a_hopper_kernel, things_in_other_kernels


def _entered(thing: Any) -> None:
    with thing:
        pass


def _unpacked(thing: Any) -> None:
    first, *others = thing
    assert first is not others


OPERATIONS: dict[str, Callable[[Any], object]] = {
    "length": len,
    "elements": list,
    "reversed elements": lambda thing: list(reversed(thing)),
    "unpacked": _unpacked,
    "first element": lambda thing: thing[0],
    "named element": lambda thing: thing["a"],
    "elements set": lambda thing: operator.setitem(thing, 0, 1.0),
    "elements deleted": lambda thing: operator.delitem(thing, 0),
    "element in it": lambda thing: 3 in thing,
    "call": lambda thing: thing(),
    "with": _entered,
    "sum": lambda thing: thing + 1,
    "sum of a text": lambda thing: "a" + thing,
    "product": lambda thing: 2.0 * thing,
    "power": lambda thing: thing**2,
    "matrix product": lambda thing: thing @ thing,
    "negative": operator.neg,
    "inverse": operator.invert,
    "absolute": abs,
    "order": lambda thing: thing < 3,
    "equal": lambda thing: thing == 3,
    "truth": bool,
    "hash": hash,
    "int": int,
    "float": float,
    "index": range,
    "rounded": round,
    "text": str,
    "number in a text": lambda thing: f"{thing:d}",
    "attribute": lambda thing: thing.no_such_name,
    "place in a list": lambda thing: [1, 2][thing],
}


def things() -> dict[str, Any]:
    """An object of each class of the builder."""
    every = [each for scene in (things_in_a_hopper_kernel, things_in_other_kernels) for each in scene()]
    return {type(each).__name__: each for each in every if type(each).__module__.startswith("nvbackend.builder.")}


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return things()


def done(operation: Callable[[Any], object], thing: Any) -> Iterator[nvb.Diagnostic]:
    """What the operation is refused by."""

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k: nvb.KernelBuilder) -> None:
        operation(thing)

    try:
        kernel.build(check=False)
    except nvb.DiagnosticError as error:
        yield from error.diagnostics


@pytest.mark.parametrize("name", OPERATIONS)
def test_it_works_or_is_refused(name: str, made: dict[str, Any]) -> None:
    refused = {kind: list(done(OPERATIONS[name], thing)) for kind, thing in made.items()}
    assert len(refused) > 25
    for kind, found in refused.items():
        for one in found:
            assert one.fix, kind
            assert one.location is None or one.location.file == __file__, kind


SAID = {
    ("TmemColumns", "length"): "nvb.TmemColumns has no length: use .width",
    ("SharedTiles", "length"): "nvb.SharedTiles has no length: use .count",
    ("Ring", "first element"): "nvb.Ring has no elements in brackets: take its stages .*ring.fill",
    ("Ring", "elements"): "nvb.Ring has no elements to go through: take its stages .*ring.drain",
    ("DynamicTiles", "elements"): "nvb.DynamicTiles has no elements to go through: use `with tiles.draw.*tiles.take",
    ("DynamicTiles", "with"): "nvb.DynamicTiles has no with-block of its own: use `with tiles.draw",
    ("Stage", "unpacked"): "nvb.Stage has no elements to go through: take a tile by its name",
    ("TiledWgmma", "call"): "nvb.TiledWgmma has no call of its own: multiply by mma.accumulate",
    ("Ring", "with"): "nvb.Ring has no with-block of its own: use one of its attributes: .*drain",
    ("Stage", "order"): "nvb.Stage has no order: ",
    ("Mma", "length"): "k.mma has no length: use one of its attributes: .*sync",
    ("KernelBuilder", "sum"): "nvb.KernelBuilder has no use as a Python number, .* more",
    ("TensorLoad", "attribute"): "nvb.TensorLoad has no .no_such_name: use one of .*reduced",
    ("Address", "elements deleted"): "an object of a kernel has no elements to delete: ",
    ("Ring", "number in a text"): "nvb.Ring has no number to format: ",
}


@pytest.mark.parametrize(("kind", "name"), SAID)
def test_it_says_what_to_write(kind: str, name: str, made: dict[str, Any]) -> None:
    (found,) = done(OPERATIONS[name], made[kind])
    assert found.rule_id == "tile.attribute"
    assert re.match(SAID[kind, name], f"{found.message}: {found.fix}")


def test_objects_of_a_class_of_the_same_name_are_left_to_python() -> None:
    ring = type("Ring", (), {})()

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k: nvb.KernelBuilder) -> None:
        len(ring)

    with pytest.raises(TypeError, match="object of type 'Ring' has no len"):
        kernel.build()


@pytest.mark.parametrize("made", [copy.deepcopy, pickle.dumps])
def test_a_launch_that_runs_is_not_copied(made: Callable[[Any], object]) -> None:
    ptx = ".version 9.0 .target sm_90a .address_size 64 .entry k() { ret; }"
    with pytest.raises(nvb.DiagnosticError, match="it is a launch that is running") as caught:
        made(nvb.simulator.Simulator().load(ptx).start("k"))
    assert caught.value.diagnostics[0].rule_id == "call.copy"
