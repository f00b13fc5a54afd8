"""What is kept of code and objects between two looks is bounded, and functions of trusted modules are looked at."""

from __future__ import annotations

import dataclasses
import types

import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from nvbackend.builder.kernel.again import reads
from nvbackend.builder.kernel.again.reads import Reads
from tests.support.compiled_again import OUT, Runs, compiled

MOST = 3


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "MOST_VALUES", MOST)
    looking = Reads()
    kept = [nvb.Pointer(f32, align=1 << power) for power in range(2, 8)]
    for number, value in enumerate(kept):
        content = looking.constant(value)
        assert content is not None and looking.constant(value) == content
        looking.names(compile(f"a{number}", "text", "eval"))
        sizes = [len(getattr(looking, name)) for name in ("_constants", "_codes")]
        assert max(sizes) <= MOST


@pytest.mark.parametrize("module", ["nvbackend.made_here", "users.made_here"])
def test_the_annotations_of_a_function_of_any_module_are_read(module: str) -> None:
    def content(element: nvb.ElementType) -> tuple[object, ...]:
        function = types.FunctionType((lambda k, out: None).__code__, {"__name__": module}, "same")
        function.__annotations__["out"] = nvb.Pointer(element)
        return Reads().of(function, (), ()).parts

    assert content(f32) == content(f32)
    assert content(f32) != content(f16)


def test_constants_are_those_of_ours_alone() -> None:
    @dataclasses.dataclass(frozen=True)
    class Own:
        number: int = 1

    assert Reads().constant(Own()) is None


def test_bounds_are_worked_out_again_after_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with which the kernel was built are not those with which it was asked for."""
    runs, asked = Runs(monkeypatch), list[int]()

    def threads(n: int) -> int:
        asked.append(n)
        return 32 if len(asked) == 1 else 64

    @nvb.kernel("sm_80", threads=threads)
    def kernel(k: nvb.KernelBuilder, out: OUT, *, n: int = 1) -> None:
        out[0] = 1.0

    for count in (1, 2):
        asked.clear()
        compiled(kernel)
        assert runs.count == count


RUN = nvb.runtime.PreparedLaunch.run


def test_a_method_that_is_its_own_boundary_is_read_as_it_is() -> None:
    def reading(k: object) -> object:
        return RUN

    assert RUN.__code__.co_name == "run"
    assert RUN.__code__ in [named for _, named in Reads().of(reading, (), ()).named]
