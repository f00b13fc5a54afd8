"""What is run under compute-sanitizer: every kernel that can be chosen, by names of its own, at shapes that fit it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samples.attention.__main__ import FORMS as USES
from samples.gemm import choice
from samples.gemm.forms import FORMS
from samples.gemm.fused import EPILOGUES
from tests.samples.test_problems import ELSEWHERE, SAMPLES
from tests.sanitizer import __main__ as program
from tests.sanitizer import gemms
from tests.sanitizer.kernels import compile_all, kernel_of
from tests.sanitizer.lines import Step, read
from tests.sanitizer.problems import MULTIPROCESSORS, ONE_OF, problems
from tests.sanitizer.worker import main as work

NAMES = list(problems())
QUICK = ["sample rows softmax 3 8", "attention narrow 2x216: 128 queries, 128 keys, 3 stages"]


def kind_of(name: str) -> str:
    """Two words of the name, of GEMMs that are chosen three."""
    words = name.partition(":")[0].split()
    return " ".join(words[: {"gemm": 3, "w4a16": 1}.get(words[0], 2)])


KINDS = Counter(map(kind_of, NAMES))
FIRST = {kind_of(name): name for name in reversed(NAMES)}
"""A problem of each kind."""


def test_every_kind_is_there() -> None:
    alike = ("f16", "e4m3", "s8", "tf32")
    wanted = {f"gemm {name} {kind}" for name in alike for kind in ("wide", "deep", "unaligned", "skinny")}
    wanted |= {f"gemm {name} wide" for name in FORMS} | {f"fused {name}" for name in EPILOGUES}
    wanted |= {"gemm f16 thin", "gemm f16_nn deep", "gemm f16_tt deep", "w4a16"}
    wanted |= {"block_scaled large", "block_scaled few"}
    wanted |= {f"attention {name}" for name, use in USES.items() if use.long is None}
    wanted |= {f"sample {name}" for name in SAMPLES if name not in ELSEWHERE}
    assert wanted == set(KINDS)


def test_all_tiles_of_f16_are_there() -> None:
    assert KINDS["gemm f16 wide"] == len(list(choice.wide_ones()))
    assert KINDS["gemm f16 deep"] == len(list(choice.deep_ones()))
    assert 900 < len(NAMES) < 1600


def test_all_of_other_types_can_be_asked_for() -> None:
    everything = set(problems(1))
    assert set(NAMES) < everything
    for name in ("e4m3", "s8", "tf32"):
        of_it = {one for one in everything if one.startswith(f"gemm {name} wide")}
        assert len(of_it) == len(list(choice.wide_ones(FORMS[name].operand, FORMS[name].result)))


def test_what_is_left_out_leaves_no_value_of_a_constant_out() -> None:
    every = list(choice.wide_ones(FORMS["e4m3"].operand, FORMS["e4m3"].result))
    some = list(gemms.some("e4m3", every, ONE_OF))
    assert len(some) < len(every) / 3
    for constant in vars(every[0]):
        assert {getattr(one, constant) for one in some} == {getattr(one, constant) for one in every}


@pytest.mark.parametrize("names", [[*FIRST.values()], pytest.param(NAMES, marks=pytest.mark.exhaustive(seconds=10))])
def test_problems_are_made_and_launched_with_arguments_of_their_kernels(names: list[str]) -> None:
    """At small extents: only K may be long, so that a ring is filled again."""
    every, launches = problems(), []
    limits = SimpleNamespace(multiprocessors=132)
    loaded: Any = SimpleNamespace(
        device=SimpleNamespace(limits=limits), launch=lambda *arguments: launches.append(arguments)
    )
    for number, name in enumerate(names):
        problem = every[name]()
        problem.launch(loaded, *problem.inputs, problem.output)
        assert len(launches) > number, name
        if not name.startswith("sample"):
            assert max(problem.output.shape) < 300, name


def test_ctas_have_several_tiles() -> None:
    name = next(name for name in NAMES if name.startswith("gemm f16 wide 136x264"))
    problem, grids = problems()[name](), []
    loaded: Any = SimpleNamespace(launch=lambda grid, *_: grids.append(grid))
    problem.launch(loaded, *problem.inputs, problem.output)
    assert grids == [MULTIPROCESSORS]


def test_a_worker_runs_what_was_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names, reasons = compile_all(tmp_path, [QUICK[0], "none"], jobs=1, until=float("inf"), simulate=True)
    assert names == QUICK[:1]
    assert reasons == {"none": "not compiled: KeyError: 'none'"}
    assert kernel_of(tmp_path, QUICK[0]).name == "softmax"
    (tmp_path / "names").write_text("\n".join(QUICK))
    monkeypatch.setattr(sys, "argv", ["worker", str(tmp_path), str(tmp_path / "names"), "--simulate"])
    work()
    said = [read(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one.step, one.name) for one in said if one] == [
        *((step, QUICK[0]) for step in (Step.BEGUN, Step.LAUNCHED, Step.RIGHT)),
        *((step, QUICK[1]) for step in (Step.BEGUN, Step.RAISED)),
    ]
    assert said[-1] is not None and said[-1].text.startswith("FileNotFoundError")


def asked(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["sanitizer", *words])
    return program.main()


def test_the_program_runs_in_the_simulator(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(monkeypatch, "--simulate", "--only", QUICK[0], "--jobs", "1") == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["| simulator | 1 | 1 | 0 | 0 | 0 | 0 |"]
    assert asked(monkeypatch, "--simulate", "--only", QUICK[0], "--jobs", "1", "--seconds", "0") == 1
    assert capsys.readouterr().out.splitlines()[2:] == ["| simulator | 1 | 0 | 0 | 0 | 0 | 1 |"]


def test_the_program_lists_names(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(monkeypatch, "--list", "--only", "sample rows") == 0
    assert capsys.readouterr().out.splitlines() == [name for name in NAMES if name.startswith("sample rows")]
    with pytest.raises(SystemExit):
        asked(monkeypatch, "--list", "--only", "of no name")
    assert "no problem's name has 'of no name'" in capsys.readouterr().err


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(program, "why_not", lambda _: "no GPU on this machine")
    assert asked(monkeypatch) == 2
    assert capsys.readouterr().err == "the kernels need a GPU: no GPU on this machine\n"
    monkeypatch.setattr(program, "why_not", lambda _: "")
    monkeypatch.setattr(program, "sanitizer", lambda: None)
    assert asked(monkeypatch) == 2
    assert capsys.readouterr().err == "compute-sanitizer is not installed: COMPUTE_SANITIZER may name it\n"


def test_the_tool_is_asked_for_all_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "sanitizer", lambda: Path("compute-sanitizer"))
    words = program.command("racecheck", Path("kernels"), 5.0, Path("names"))
    assert words[:7] == ["compute-sanitizer", "--tool", "racecheck", "--error-exitcode", "99", "--print-limit", "0"]
    assert words[-6:] == ["-m", "tests.sanitizer.worker", "kernels", "names", "--until", "5.0"]
