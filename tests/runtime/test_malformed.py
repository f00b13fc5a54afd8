"""Arguments that are malformed, not merely wrong: each is a diagnostic, none an exception of Python's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nvbackend import DiagnosticError, Pointer, TensorMap, f32, f64, i32, runtime
from nvbackend.signature import Scalar
from tests.support.runtime import FakeArray, FakeCompiled, FakeDevice, rules, signature


def loaded(*kinds):
    return runtime.load(FakeCompiled(signature(*kinds)), device=FakeDevice())


@pytest.mark.parametrize(
    "broken",
    [
        *({"typestr": None}, {"data": None}, {"shape": 4}, {"strides": (4, 4)}, {"shape": ("x",)}, {"data": (0,)}),
        *(
            {"shape": (-4,)},
            {"shape": (-4, 4)},
            {"shape": (4, -4)},
            {"shape": (4.5,)},
            {"strides": (4.5,)},
            {"data": (1 << 64, False)},
            {"data": (-16, False)},
        ),
    ],
)
def test_an_interface_that_is_none(broken) -> None:
    array = FakeArray((4,), "<f4")
    array.__cuda_array_interface__ |= broken
    for kind in (Pointer(f32), TensorMap(f32, (4,), 0)):
        assert rules(lambda kind=kind: loaded(kind).launch(1, array)) == ["launch.argument-kind"]


@pytest.mark.parametrize("kind", [f32, f64])
def test_integers_past_every_float(kind) -> None:
    assert rules(lambda: loaded(Scalar(kind)).launch(1, 10**400)) == ["launch.scalar-range"]


@pytest.mark.parametrize("value", [np.array("x"), np.array(None, dtype=object), np.array(1j)])
def test_arrays_without_dimensions_that_are_no_numbers(value) -> None:
    assert rules(lambda: loaded(Scalar(f32)).launch(1, value)) == ["launch.argument-kind"]


@pytest.mark.parametrize("brackets", [(1, 128), (1, 32), (1, 3), (1, 1024), (1, 128, 0, 0), ()])
def test_numbas_grid_and_block(brackets) -> None:
    assert rules(lambda: loaded()[brackets](*())) == ["launch.grid"]


@pytest.mark.parametrize("brackets", [1, (1, None), (1, 0), (1, 2), (1, 0x1000), ((2, 2), 0x7F00000000)])
def test_grids_and_streams(brackets) -> None:
    assert rules(lambda: loaded()[brackets](*())) == []


def test_a_launch_without_a_grid() -> None:
    assert rules(lambda: loaded(Scalar(i32))(3)) == ["launch.call"]


@pytest.mark.parametrize("stream", [-5, True, 3, 1025, 1 << 64])
def test_numbers_that_are_no_streams(stream) -> None:
    assert rules(lambda: loaded().launch(1, stream=stream)) == ["launch.stream"]


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        (None, "nvb.runtime.load(kernel.compile())"),
        (signature(), "nvb.runtime.load(kernel.compile())"),
        ("gemm.nvb", "nvb.runtime.load(nvb.load_compiled('gemm.nvb'))"),
        (Path("a") / "gemm.nvb", "nvb.runtime.load(nvb.load_compiled('a/gemm.nvb'))"),
        (".version 8.0\n.target sm_80", "nvb.simulator.Simulator().load(text)"),
    ],
)
def test_what_was_not_compiled(given, fix: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        runtime.load(given, device=FakeDevice())
    (found,) = caught.value.diagnostics
    assert found.rule_id == "launch.not-compiled"
    assert found.fix.endswith(fix)


@pytest.mark.parametrize("options", [{"rounds": 0}, {"repeats": 0}, {"warmup": -1}])
def test_nothing_to_measure(options) -> None:
    assert rules(lambda: runtime.time_launches({"a": list}, **options)) == ["launch.timing"]


def test_a_prepared_launch_is_timed_by_its_method() -> None:
    prepared = loaded().prepare(1)
    with pytest.raises(DiagnosticError, match="'a' is a prepared launch") as caught:
        runtime.time_launches({"a": prepared})
    assert caught.value.diagnostics[0].fix == "pass prepared.run"


def test_nothing_to_time() -> None:
    assert rules(lambda: runtime.time_launches({})) == ["launch.timing"]
    assert rules(lambda: runtime.time_launches([list])) == ["call.argument"]


@pytest.mark.parametrize(
    ("name", "fix"), [("block", "leave it out"), ("num_warps", "leave it out"), ("n", "pass the grid")]
)
def test_arguments_by_name(name: str, fix: str) -> None:
    for call in (loaded().launch, loaded().prepare):
        with pytest.raises(DiagnosticError, match=f"got an unexpected keyword argument '{name}'") as caught:
            call(1, **{name: 32})
        assert caught.value.diagnostics[0].fix.startswith(fix)
