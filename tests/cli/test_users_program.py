"""Kernels and files that raise, exit or print while `nvbackend build` runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nvbackend.cli import main

Printed = pytest.CaptureFixture[str]
HEAD = "import nvbackend as nvb\nfrom nvbackend import f32\n"


def built(tmp_path: Path, body: str, *options: str, before: str = "") -> tuple[int, Path]:
    """The exit status of building a kernel with this body, on line 5 where nothing comes before."""
    file = tmp_path / "kernels.py"
    decorated = '@nvb.kernel("sm_80", threads=32)\ndef scale(k, x: nvb.Pointer[f32]):\n'
    file.write_text(f"{HEAD}{before}{decorated}    {body}\n")
    return main(["build", f"{file}:scale", *options]), file


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('raise ValueError("boom")', "ValueError: boom"),
        ('assert k is None, "no"', "AssertionError: no"),
        ("x[0] = undefined", "NameError: name 'undefined' is not defined"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("raise GeneratorExit", "GeneratorExit"),
        ('raise StopIteration("x")', "StopIteration: x"),
        ('raise ValueError("two\\nlines")', "ValueError: two"),
    ],
)
def test_a_kernel_that_raises_shows_its_own_lines(tmp_path: Path, capsys: Printed, body: str, problem: str) -> None:
    """One line with file and kernel, then the user's part of the traceback; an exit is never a success."""
    status, file = built(tmp_path, body)
    printed = capsys.readouterr()
    lines = printed.err.splitlines()
    assert (status, printed.out) == (1, "")
    assert lines[0] == f"error[cli.build]: {file}: kernel scale ends with {problem} (line 5)"
    assert [line for line in lines if line.startswith("  File ")] == [f'  File "{file}", line 5, in scale']


def test_a_deep_recursion_is_short(tmp_path: Path, capsys: Printed) -> None:
    status, _ = built(tmp_path, "f()", before="def f():\n    f()\n")
    said = capsys.readouterr().err
    assert (status, "error[function.recursion]: function f calls itself: f -> f -> ..., " in said) == (2, True)
    assert len(said.splitlines()) < 30


@pytest.mark.parametrize("place", ["kernel", "file"])
def test_an_exception_whose_text_raises(tmp_path: Path, capsys: Printed, place: str) -> None:
    wrong = "class E(Exception):\n    def __str__(self): raise RuntimeError\n"
    status, _ = built(tmp_path, "raise E", before=wrong if place == "kernel" else wrong + "raise E\n")
    assert (status, "E: its str() raises" in capsys.readouterr().err) == (1, True)


def test_the_cause_is_shown_without_our_frames(tmp_path: Path, capsys: Printed) -> None:
    helper = "def f(k):\n    try: k.thread_id(7)\n    except Exception as error: raise KeyError(1) from error\n"
    status, file = built(tmp_path, "f(k)", before=helper)
    files = [line for line in capsys.readouterr().err.splitlines() if line.startswith("  File ")]
    assert status == 1
    assert [line.split(",")[0] for line in files] == [f'  File "{file}"'] * 3


def test_interrupts_stay(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        built(tmp_path, "raise KeyboardInterrupt")


def test_a_mistake_of_this_package_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_ours: dict[str, object] = {"__name__": "nvbackend.made_here"}
    exec("def broken(*_, **__): raise IndexError('ours')", of_ours)
    monkeypatch.setattr("nvbackend.builder.kernel.definition.KernelDefinition.compile", of_ours["broken"])
    with pytest.raises(IndexError, match="ours"):
        built(tmp_path, "pass")


def test_prints_go_to_stderr(tmp_path: Path, capsys: Printed) -> None:
    """What the file and the kernel print never mixes with what the command shows."""
    status, _ = built(tmp_path, 'print("of the kernel")', "--json", before='print("of the file")\n')
    printed = capsys.readouterr()
    assert (status, json.loads(printed.out)["kernel"]) == (0, "scale")
    assert printed.err == "of the file\nof the kernel\n"


def test_an_object_that_hides_its_class(tmp_path: Path, capsys: Printed) -> None:
    hidden = "class O:\n    @property\n    def __class__(self): raise RuntimeError\no = O()\n"
    status, _ = built(tmp_path, "pass", before=hidden)
    assert (status, capsys.readouterr().err) == (0, "")


def test_a_mistake_of_a_kernel_without_a_place_is_told_without_one(tmp_path: Path, capsys: Printed) -> None:
    """Such as one that a helper found and raised again."""
    before = (
        'ODD = nvb.diagnostics.Rule(id="own.odd", message="it is odd", fix="add one", why="So.", reference="none")\n'
    )
    body = "import dataclasses; raise nvb.DiagnosticError([dataclasses.replace(ODD.diagnose(), location=None)])"
    status, _ = built(tmp_path, body, before=before)
    assert status == 2
    assert capsys.readouterr().err == "error[own.odd]: it is odd\n  fix: add one\n  see: none\n"


@pytest.mark.parametrize("init", ["", "from .kernels import scale\n"], ids=["empty", "imports it"])
def test_a_file_with_relative_imports_is_of_its_package(tmp_path: Path, capsys: Printed, init: str) -> None:
    """In a folder inside of the package, too; the package's __init__ may import the file."""
    package, name = tmp_path / f"of_{len(init)}", "scale"
    for folder, text in ((package, init), (package / "inner", "")):
        folder.mkdir()
        (folder / "__init__.py").write_text(text)
    (package / "sizes.py").write_text("FACTOR = 3.0\n")
    kernel = f'@nvb.kernel("sm_80", threads=32)\ndef {name}(k, x: nvb.Pointer[f32]):\n    x[0] = FACTOR\n'
    for file, relative in ((package / "kernels.py", ".sizes"), (package / "inner" / "deep.py", "..sizes")):
        file.write_text(f"from {relative} import FACTOR\n{HEAD}{kernel}")
        assert main(["build", f"{file}:{name}", "--show", "ptx", "--plain"]) == 0
        assert f".entry {name}" in capsys.readouterr().out


def test_a_relative_import_without_a_package_is_the_users_mistake(tmp_path: Path, capsys: Printed) -> None:
    status, _ = built(tmp_path, "pass", before="from .sizes import FACTOR\n")
    assert (status, "ImportError: attempted relative import" in capsys.readouterr().err) == (1, True)
