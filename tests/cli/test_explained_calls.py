"""`nvbackend explain` of a call of nvbackend: what Python's help would say, which needs a builder for it."""

from __future__ import annotations

import inspect
import json

import pytest

import nvbackend as nvb
from nvbackend.cli import main

Printed = pytest.CaptureFixture[str]


def explained(capsys: Printed, *arguments: str) -> str:
    assert main(["explain", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("text", ["k.mbarrier.wait", "k.mbarrier.wait(full, 0)"])
def test_a_call_has_its_arguments_and_what_it_does(text: str, capsys: Printed) -> None:
    first, _, *doc = explained(capsys, text).split("\n")
    assert first == "k.mbarrier.wait(barrier: Address, parity: Operand) -> None"
    k = nvb.KernelBuilder("whatever", "sm_90a", threads=32)
    assert "\n".join(doc).strip() == inspect.getdoc(k.mbarrier.wait)


def test_texts_keep_their_quotes(capsys: Printed) -> None:
    assert "name: str = 'i', unroll: int | bool | None = None)" in explained(capsys, "k.range")


def test_a_noun_has_its_calls(capsys: Printed) -> None:
    said = explained(capsys, "k.setmaxnreg")
    assert [line.split()[0] for line in said.splitlines() if line.startswith("  ")] == [
        "k.setmaxnreg.dec",
        "k.setmaxnreg.inc",
    ]


@pytest.mark.parametrize("name", ["nvb.tune", "nvb.Pointer", "nvb.runtime.load", "nvb.AxisValues.map"])
def test_names_of_the_package(name: str, capsys: Printed) -> None:
    assert explained(capsys, name).startswith(f"{name}(")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ring.fill", "nvb.Ring.fill"),
        ("acc.elements(warpgroup)", "nvb.Accumulator.elements"),
        ("mma.load_metadata", "nvb.TiledWarpMma.load_metadata"),
        ("Value.to", "nvb.Value.to"),
        ("MmaAtom", "nvb.atoms.MmaAtom"),
        ("atomic.add", "k.atomic.add"),
        ("tiled_mma", "k.tiled_mma"),
    ],
)
def test_a_name_may_be_as_short_as_in_a_program(text: str, name: str, capsys: Printed) -> None:
    assert explained(capsys, text) == explained(capsys, name)


def test_a_short_name_of_several_calls_lists_them(capsys: Printed) -> None:
    listed = dict(line.split(maxsplit=1) for line in explained(capsys, "fill").splitlines())
    assert listed.keys() == {"nvb.Ring.fill", "nvb.Accumulator.fill"}
    assert listed["nvb.Ring.fill"].startswith("Wait until the next stage is empty")
    assert json.loads(explained(capsys, "fill", "--json"))["calls"] == listed


def test_a_class_has_its_calls(capsys: Printed) -> None:
    said = explained(capsys, "nvb.TiledWarpMma")
    assert said.startswith("nvb.TiledWarpMma(")
    assert "\n  nvb.TiledWarpMma.load_metadata " in said


@pytest.mark.parametrize("text", ["ld.global.f32", "add.s32", "wgma.mma_async"])
def test_a_wrong_spelling_of_ptx_is_no_name(text: str, capsys: Printed) -> None:
    assert main(["explain", text]) == 2
    assert "is not the spelling of an instruction" in capsys.readouterr().err


def test_as_json(capsys: Printed) -> None:
    told = json.loads(explained(capsys, "k.tma", "--json"))["call"]
    assert (told["name"], told["form"]) == ("k.tma", "")
    assert told["calls"]["k.tma.load"].startswith("Copy the operand's tile")


@pytest.mark.parametrize(
    ("text", "said", "fix"),
    [
        ("k.tma.lod", "k.tma.lod does not exist", "did you mean k.tma.load?"),
        ("k.syncthreads", "k.syncthreads does not exist", "use k.barrier.sync"),
        ("nvb.float32", "'nvb.float32' is not the name of a call", "the element type is nvb.f32"),
        ("nvb.runtime.lod", "'nvb.runtime.lod' is not the name of a call", "docs/api.md"),
        ("k.tma.load.x", "'k.tma.load.x' is not the name of a call", "docs/api.md"),
    ],
)
def test_names_that_there_are_not(text: str, said: str, fix: str, capsys: Printed) -> None:
    assert main(["explain", text]) == 2
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert said in first
    assert fix in second
