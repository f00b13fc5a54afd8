"""After an edit of a file of the user's nothing comes from disk that was built before."""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nvbackend.builder.kernel.again.users_files import _paths, users_files

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


def test_an_edit_of_the_same_length_is_another_digest(load: Load) -> None:
    load("N = 1\n")
    one = now()
    load("N = 2\n")
    assert None not in (one, now())
    assert one != now()


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


OTHERS = {
    "installed": "/usr/lib/python3/site-packages/installed/__init__.py",
    "of_a_distribution": "/usr/lib/python3/dist-packages/installed.py",
    "of_python": os.path.join(sysconfig.get_path("stdlib"), "not_there.py"),
    "nvbackend.not_there": "/home/users/not_there.py",
    "in_no_file": None,
    "of_a_path": Path("/home/users/not_there.py"),
}
"""Modules that are not the user's. A file that is not there, if it is looked at, leaves no digest."""


@pytest.mark.parametrize("name", OTHERS)
def test_other_modules_are_not_the_users(load: Load, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load("N = 1\n")
    before = now()
    other: Any = ModuleType(name)
    other.__file__ = OTHERS[name]
    monkeypatch.setitem(sys.modules, name, other)
    assert now() == before is not None


@pytest.mark.parametrize("file", ["/home/users/not_there.py", "a\0b.py"])
def test_a_users_file_that_is_not_there_leaves_no_digest(
    load: Load, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load("N = 1\n")
    gone = ModuleType("gone")
    gone.__file__ = file
    monkeypatch.setitem(sys.modules, "gone", gone)
    assert now() is None


def test_the_moment_at_which_the_process_began_is_not_later(load: Load) -> None:
    path = load("N = 1\n")
    changed = max(path.stat().st_mtime_ns, Path(__file__).stat().st_mtime_ns)
    newest = max(os.stat(each).st_mtime_ns for each in set(_paths()))
    assert changed <= newest
    assert users_files(newest) is not None
    assert users_files(newest - 1) is None


def test_where_a_file_ends_is_part_of_the_digest(tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files whose names and contents follow each other alike: the name of the second is in the first."""
    load("N = 1\n")
    first, second = tmp_path / "users_a.py", tmp_path / "users_b.py"
    digests = set()
    for split in (0, 1, 2):
        for path, text in ((first, "N" * split), (second, "N" * (2 - split))):
            path.write_text(text)
            os.utime(path, (time.time() - 60,) * 2)
            module = ModuleType(path.stem)
            module.__file__ = str(path)
            monkeypatch.setitem(sys.modules, path.stem, module)
        digests.add(now())
    assert len(digests - {None}) == 3


class ImportedOnUse:
    """Stands for a module that is imported when it is used, and is not installed."""

    def __getattr__(self, name: str) -> object:
        raise ImportError(name)


def test_what_stands_for_a_module_has_no_file(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    load("N = 1\n")
    before = now()
    monkeypatch.setitem(sys.modules, "users_other", ImportedOnUse())  # type: ignore[misc]
    assert now() == before is not None
