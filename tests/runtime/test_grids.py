"""Grids of launches: which are taken, and what is said of the others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import i32, runtime
from nvbackend.runtime.launch import check_grid, full_grid, grid_dimensions
from nvbackend.signature import BoundTensorMap, LaunchBounds, Signature


@nvb.kernel("sm_90a", threads=32)
def count(k, out: nvb.Pointer[i32]):
    with k.one_thread():
        out[k.block_id("x") + 2 * k.block_id("y") + 6 * k.block_id("z")] = 1


LOADED = runtime.load(count.compile(assemble=False), device="simulator")
MAPPED = BoundTensorMap(nvb.TensorMap(i32, box=(4, 4)), np.zeros((8, 8), np.int32))
FULL: dict[Any, tuple[int, int, int]] = {
    2: (2, 1, 1),
    (2,): (2, 1, 1),
    (2, 3): (2, 3, 1),
    (2, 3, 5): (2, 3, 5),
    np.int64(2): (2, 1, 1),
}


@pytest.mark.parametrize("grid", FULL)
def test_a_grid_is_its_extents_and_ones(grid: Any) -> None:
    assert full_grid(grid) == FULL[grid]
    out = np.zeros(30, np.int32)
    LOADED.launch(grid, out)
    x, y, z = FULL[grid]
    assert np.array_equal(out.reshape(5, 3, 2), _within(x, y, z))


def _within(x: int, y: int, z: int) -> np.ndarray[Any, Any]:
    at_z, at_y, at_x = np.indices((5, 3, 2))
    return (at_x < x) & (at_y < y) & (at_z < z)


@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1), 1.5, "2", None, (1.0,), ("x",), [[1]]])
def test_a_grid_is_one_to_three_integers(grid: Any) -> None:
    assert grid_dimensions(grid) is None
    message, fix = refused(grid)
    assert "a grid is an integer or one to three of them" in message
    is_of_floats = grid in (1.5, (1.0,))
    assert fix == (
        "divide by //, which gives an integer: -(-n // threads) is n / threads rounded up"
        if is_of_floats
        else "pass (x, y, z) in CTAs"
    )


@pytest.mark.parametrize("argument", [np.zeros(30, np.int32), MAPPED], ids=lambda each: type(each).__name__)
def test_an_argument_in_the_place_of_the_grid(argument: Any) -> None:
    """An array, or a tensor map over one."""
    message, fix = refused(argument)
    assert "the grid is missing: this is an argument of the kernel" in message
    assert fix == "pass the grid first, in CTAs"
    with pytest.raises(nvb.DiagnosticError) as caught:
        LOADED.launch(argument)
    assert [each.rule_id for each in caught.value.diagnostics] == ["launch.grid"], "no argument is missing besides"


def refused(grid: Any) -> tuple[str, str | None]:
    with pytest.raises(nvb.DiagnosticError) as caught:
        LOADED.launch(grid, np.zeros(30, np.int32))
    (found,) = [each for each in caught.value.diagnostics if each.rule_id == "launch.grid"]
    return found.message, found.fix


@pytest.mark.parametrize(
    ("clusters", "grid", "said"),
    [
        ((4, 1, 1), (6, 5, 3), ["x = 6 is not a multiple of the cluster of 4 CTAs -> 8"]),
        ((2, 3, 1), (5, 7, 3), [*("x = 5 ... 2 CTAs along x -> 6", "y = 7 ... 3 CTAs along y -> 9")]),
        ((1, 3, 1), (5, 7, 3), ["y = 7 ... 3 CTAs along y -> 9"]),
        ((1, 1, 2), (5, 7, 3), ["z = 3 ... 2 CTAs along z -> 4"]),
        ((5, 7, 1), (5, 7, 3), []),
        ((2, 1, 1), 7, ["x = 7 ... 2 CTAs -> 8"]),
        ((2, 3, 1), 4, ["y = 1 ... 3 CTAs along y -> 3"]),
        ((2, 1, 5), (4, 9), ["z = 1 ... 5 CTAs along z -> 5"]),
    ],
)
def test_whole_clusters_fill_a_grid(clusters: tuple[int, int, int], grid: Any, said: list[str]) -> None:
    """The axis is named where a cluster lies along others than x."""
    bounds = LaunchBounds(32, cluster=math.prod(clusters), cluster_shape=clusters)
    faults = list(check_grid(Signature("clustered", (), bounds), grid))
    advice = "round it up to {} and let the CTAs beyond the work leave"
    told = [each.replace("...", "is not a multiple of the cluster of").partition(" -> ") for each in said]
    assert [(one.rule_id, one.fix) for one in faults] == [("launch.grid", advice.format(fix)) for _, _, fix in told]
    assert all(one.message.endswith(problem) for one, (problem, _, _) in zip(faults, told, strict=True)), faults
