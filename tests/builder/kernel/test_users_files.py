"""After an edit of a file of the user's nothing comes from disk that was built before."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from nvbackend.builder.kernel.again.users_files import users_files

Load = Callable[[str], Path]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """A module of the user's with this text, whose file is a minute old, in a program that has a file."""
    program = ModuleType("__main__")
    program.__file__ = __file__
    monkeypatch.setitem(sys.modules, "__main__", program)

    def load(text: str) -> Path:
        path = tmp_path / "users_helper.py"
        path.write_text(text)
        os.utime(path, (time.time() - 60,) * 2)
        module = ModuleType("users_helper")
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, "users_helper", module)
        return path

    return load


def now() -> str | None:
    return users_files(time.time_ns())


def test_an_edit_of_any_users_file_is_another_digest(load: Load) -> None:
    load("N = 1\n")
    one = now()
    load("N = 1  # the same\n")
    other = now()
    load("N = 1\n")
    assert None not in (one, other)
    assert now() == one != other


def test_a_file_that_changed_since_the_process_began_may_not_be_what_runs(load: Load) -> None:
    path = load("N = 1\n")
    began = time.time_ns() - 10**9
    assert users_files(began) is not None
    path.write_text("N = 2\n")
    assert users_files(began) is None
    path.unlink()
    assert now() is None


def test_a_program_in_no_file_has_no_digest(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    load("N = 1\n")
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    assert now() is None


def test_installed_packages_are_not_the_users(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    load("N = 1\n")
    before = now()
    installed = ModuleType("installed")
    installed.__file__ = "/usr/lib/python3/site-packages/installed/__init__.py"
    monkeypatch.setitem(sys.modules, "installed", installed)
    assert now() == before
