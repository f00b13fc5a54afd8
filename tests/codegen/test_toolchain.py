"""Where the tools are found, and what is said where they are not."""

from __future__ import annotations

import importlib.util
import stat
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pytest

from nvbackend.codegen import toolchain
from nvbackend.codegen.toolchain import Tool, find_disassembler, find_ptxas, locate
from nvbackend.diagnostics import DiagnosticError


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


def test_a_program_that_states_no_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match=r"toolchain\.broken.*states no CUDA release"):
        Tool.at(program(tmp_path / "ptxas", "hello"))
    with pytest.raises(DiagnosticError, match=r"toolchain\.broken.*No such file"):
        find_ptxas(tmp_path / "nothing")


def test_the_version_is_asked_again_when_the_file_changes(tmp_path: Path) -> None:
    path = program(tmp_path / "ptxas", "Cuda compilation tools, release 12.8, V12.8.93")
    assert Tool.at(path).version == (12, 8, 93)
    program(path, "Cuda compilation tools, release 13.10, V13.10.4 ")
    assert Tool.at(path).version == (13, 10, 4)
    assert Tool.at(path).release == "13.10"
