"""Where the tools are found, and what is said where they are not."""

from __future__ import annotations

import importlib.util
import os
import stat
import tempfile
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from nvbackend.codegen import toolchain
from nvbackend.codegen.ptxas import assemble
from nvbackend.codegen.toolchain import Tool, find_disassembler, find_ptxas, locate
from nvbackend.diagnostics import DiagnosticError
from nvbackend.isel.target.target import Target
from tests.support import wgmma_ptx
from tests.support.hostile import Endless
from tests.support.process import python_output


def program(path: Path, says: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without wheels, with one directory on PATH and one standard directory, both empty."""
    monkeypatch.setattr(importlib.util, "find_spec", Mock(return_value=None))
    monkeypatch.setattr(toolchain, "STANDARD_DIRECTORIES", (tmp_path / "standard",))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path


def test_the_installed_wheel_is_found_with_its_own_version() -> None:
    tool = find_ptxas()
    assert ".".join(map(str, tool.version)) == version("nvidia-cuda-nvcc")
    assert tool.release == ".".join(version("nvidia-cuda-nvcc").split(".")[:2])
    assert "ptxas" in tool.identity


def test_order_of_places(bare: Path) -> None:
    assert locate("ptxas") is None
    standard = program(bare / "standard" / "ptxas")
    assert locate("ptxas") == standard
    on_path = program(bare / "path" / "ptxas")
    assert locate("ptxas") == on_path
    explicit = bare / "mine"
    assert locate("ptxas", explicit) == explicit


def test_wheels_come_before_path_and_the_newest_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "path" / "ptxas")
    root = bare / "nvidia"
    spec = type("Spec", (), {"submodule_search_locations": [str(root)]})
    monkeypatch.setattr(importlib.util, "find_spec", Mock(return_value=spec))
    for folder in ("cuda_nvcc", "cu9", "cu13"):
        found = program(root / folder / "bin" / "ptxas")
        assert locate("ptxas") == found
    (root / "cu13" / "bin" / "ptxas").chmod(stat.S_IRUSR)
    assert locate("ptxas") == root / "cu9" / "bin" / "ptxas"


def test_missing_tools_name_the_pip_command(bare: Path) -> None:
    with pytest.raises(DiagnosticError, match=r"(?s)ptxas\.missing.*pip install nvbackend\[ptxas\]"):
        find_ptxas()
    with pytest.raises(DiagnosticError, match=r"(?s)sass\.missing.*pip install nvbackend\[sass\]"):
        find_disassembler()


def test_a_missing_ptxas_is_not_told_before_it_is_needed(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    toolchain._ask_version.cache_clear()
    toolchain.ask_early()
    for thread in threading.enumerate():
        if thread.name == "nvbackend ptxas":
            thread.join()
    assert told == []


def test_a_program_that_states_no_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match=r"toolchain\.broken.*states no CUDA release"):
        Tool.at(program(tmp_path / "ptxas", "hello"))
    with pytest.raises(DiagnosticError) as caught:
        Tool.at(program(tmp_path / "long", "hello\nand a licence of many lines"))
    assert caught.value.diagnostics[0].message.endswith("it states no CUDA release: hello")
    with pytest.raises(DiagnosticError, match=r"toolchain\.broken.*No such file"):
        find_ptxas(tmp_path / "nothing")


def _pretender(folder: Path) -> Path:
    """A program that states another release and compiles nothing, and says where it was started."""
    return program(folder / "ptxas", "Cuda compilation tools, release 11.1, V11.1.7 pretender")


@pytest.mark.parametrize("given", ["./ptxas", "ptxas", "../here/ptxas"])
def test_a_relative_path_is_of_the_directory_it_was_given_in(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of the directory that it runs in, and not a name to look for on PATH."""
    mine = _pretender(tmp_path / "here")
    monkeypatch.setenv("PATH", str(find_ptxas().path.parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path / "here")
    for tool in (Tool.at(given), Tool.at(Path(given)), find_ptxas(given), find_disassembler(given)):
        monkeypatch.chdir(tmp_path / "here")
        assert tool.path.is_absolute()
        assert (tool.version, tool.release) == ((11, 1, 7), "11.1")
        monkeypatch.chdir(tmp_path)
        assert "pretender" in tool.run([], tmp_path).stdout
        assert tool.path.samefile(mine)
    monkeypatch.chdir(tmp_path / "here")
    assert "pretender" in Tool(Path(given), (11, 1, 7)).run([], tmp_path).stdout


def test_a_program_of_another_kind_than_a_path_is_refused() -> None:
    with pytest.raises(
        DiagnosticError, match=r"call\.argument.*: Tool\.at: path must be .*, not 5(?s:.*)as Tool\.at\(path: "
    ):
        Tool.at(5)  # type: ignore[arg-type]


def test_a_program_that_waits_for_input_or_does_not_answer_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, sleeper = tmp_path / "reader", tmp_path / "sleeper"
    reader.write_text("#!/bin/sh\ncat\n", encoding="utf-8")
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    monkeypatch.setattr(toolchain, "_PATIENCE_SECONDS", 1)
    for path, reason in ((reader, "it states no CUDA release"), (sleeper, "no answer to --version within 1 s")):
        path.chmod(0o755)
        with pytest.raises(DiagnosticError, match=rf"toolchain\.broken.*{reason}"):
            Tool.at(path)


TEMPORARY = """
import sys
import nvbackend as nvb
from nvbackend.codegen.ptxas import assemble
try:
    assemble(sys.argv[1], nvb.Target.parse("sm_90a"))
except nvb.DiagnosticError as error:
    print(error)
"""


@pytest.mark.parametrize("state", ["missing", "a file"])
def test_without_a_temporary_directory_there_is_a_diagnostic(tmp_path: Path, state: str) -> None:
    """Python tries more directories than TMPDIR; here all of them fail."""
    place = tmp_path / "tmp"
    if state == "a file":
        place.write_text("", encoding="utf-8")
    code = f"import tempfile; tempfile._candidate_tempdir_list = lambda: [{str(place)!r}]\n" + TEMPORARY
    said = python_output(code, wgmma_ptx.kernel(""))
    assert said.startswith("error[toolchain.directory]")
    assert "No usable temporary directory" in said


def test_a_temporary_directory_that_went_away_is_a_diagnostic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(DiagnosticError, match=r"toolchain\.directory.*No such file or directory"):
        assemble(wgmma_ptx.kernel(""), Target.parse("sm_90a"))


def test_the_version_is_asked_again_when_the_file_changes(tmp_path: Path) -> None:
    path = program(tmp_path / "ptxas", "Cuda compilation tools, release 12.8, V12.8.93")
    assert Tool.at(path).version == (12, 8, 93)
    program(path, "Cuda compilation tools, release 13.10, V13.10.4 ")
    assert Tool.at(path).version == (13, 10, 4)
    assert Tool.at(path).release == "13.10"


class Numbers(Endless):
    def __repr__(self) -> str:
        return "<numbers without an end>"


@pytest.mark.parametrize("arguments", [Numbers(), [3], 3], ids=["endless", "a number in it", "a number"])
def test_the_arguments_of_a_run_are_texts(arguments: Any, tmp_path: Path) -> None:
    tool = Tool.at(program(tmp_path / "ptxas", "Cuda compilation tools, release 13.5, V13.5.37"))
    with pytest.raises(DiagnosticError) as caught:
        tool.run(arguments, tmp_path)
    assert [one.rule_id for one in caught.value.diagnostics] == ["call.argument"]


def test_an_argument_has_no_zero_byte(tmp_path: Path) -> None:
    tool = Tool.at(program(tmp_path / "ptxas", "Cuda compilation tools, release 13.5, V13.5.37"))
    with pytest.raises(DiagnosticError, match="does not run: embedded null byte") as caught:
        tool.run(["--output-file", "a\0b"], tmp_path)
    assert [one.rule_id for one in caught.value.diagnostics] == ["toolchain.broken"]
