"""By which files a kernel on disk was made: any other file of the programs that make kernels makes it anew."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from nvbackend.builder.kernel.again import programs
from nvbackend.builder.kernel.again.compiled_again import CompiledBefore
from tests.support.process import python_output

LONG_AGO = 10**9
"""A time in seconds, before this process began."""

NO_CODE = ("LICENSE", "data.txt", "inside/__pycache__/code.py", "of.data/code.py")
"""Files that are no code of a package, and copies of it."""


def write(path: Path, text: str = "", at: int = LONG_AGO) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))
    return path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that kernels are made with."""
    folder = tmp_path / "a_builder"
    for name in ("__init__.py", "inside/__init__.py", "inside/code.py", "version.py", *NO_CODE):
        write(folder / name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(programs, "_WHOLE", ("a_builder",))
    monkeypatch.setattr(programs, "_BY_VERSION", ("a_builder",))
    return folder


def test_packages_that_are_called_are_known_by_every_file(package: Path) -> None:
    installed = programs.installed.__wrapped__
    before = installed()
    assert before is not None
    assert before == installed()
    (package / "inside" / "code.py").write_text("1")
    assert installed() is None
    write(package / "inside" / "code.py", "1")
    longer = installed()
    assert longer not in (None, before)
    write(package / "inside" / "code.py", "1", LONG_AGO + 1)
    assert installed() not in (None, before, longer)


@pytest.mark.parametrize(
    "name", ["inside/code.py", "inside/deeper/code.py", "a.so", "inside/a.dylib", "a.dll", *NO_CODE]
)
def test_files_of_code_count_and_no_others(package: Path, name: str) -> None:
    write(package / name)
    before = programs.installed.__wrapped__()
    write(package / name, "longer")
    after = programs.installed.__wrapped__()
    assert None not in (before, after)
    assert (before == after) is (name in NO_CODE)


@pytest.mark.parametrize("name", ["version.py", "__init__.py", "inside/code.py"])
def test_of_a_package_that_is_computed_with_the_version_counts(
    package: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_WHOLE", ())
    before = programs.installed.__wrapped__()
    write(package / name, "2")
    after = programs.installed.__wrapped__()
    assert None not in (before, after)
    assert (before == after) is (name != "version.py")


def test_what_changed_as_the_process_began_is_what_runs(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for later, runs in ((0, True), (1, False)):
        monkeypatch.setattr(programs, "STARTED_NS", LONG_AGO * 10**9 - later)
        assert (programs.loaded() is not None) is runs
        assert programs.are_as_then([(str(module), LONG_AGO * 10**9, 0)]) is runs


def test_a_package_that_is_missing_says_nothing(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package.parent / "without_init").mkdir()
    for name in ("no_builder_of_this_name", "without_init"):
        monkeypatch.setattr(programs, "_WHOLE", (name,))
        assert programs.installed.__wrapped__() is None


def test_two_places_of_this_package_are_two_programs(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = programs.installed.__wrapped__()
    monkeypatch.setattr(programs, "PACKAGE", "a_builder")
    assert programs.installed.__wrapped__() not in (None, before)


@pytest.fixture
def module(package: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the one module of this package that has been loaded."""
    found = ModuleType("a_builder.inside.code")
    found.__file__ = str(package / "inside" / "code.py")
    monkeypatch.setattr(programs, "PACKAGE", "a_builder")
    monkeypatch.setitem(sys.modules, found.__name__, found)
    return Path(found.__file__)


NAME = os.path.join("inside", "code.py")


@pytest.fixture(params=["by handles of folders", "by whole paths"])
def stat_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How files of a folder are looked at: not each system has handles of folders."""
    if request.param == "by whole paths":
        monkeypatch.setattr(os, "supports_dir_fd", set())


@pytest.mark.usefixtures("stat_by")
def test_files_of_loaded_modules_are_compared_by_time_and_size(module: Path) -> None:
    files = programs.loaded()
    assert files == ((NAME, LONG_AGO * 10**9, 0),)
    assert programs.are_as_then(files)
    write(module.with_name("other.py"))
    assert programs.are_as_then(files)
    write(module, "1")
    assert not programs.are_as_then(files)
    write(module, at=LONG_AGO - 1)
    assert not programs.are_as_then(files)
    write(module)
    assert programs.are_as_then(files)
    module.unlink()
    assert not programs.are_as_then(files)
    assert programs.loaded() is None


@pytest.mark.usefixtures("stat_by")
def test_a_module_from_elsewhere_is_at_its_own_place(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = write(tmp_path / "a_builder_of_another" / "code.py")
    monkeypatch.setattr(sys.modules["a_builder.inside.code"], "__file__", str(elsewhere))
    files = programs.loaded()
    assert files == ((str(elsewhere), LONG_AGO * 10**9, 0),)
    assert programs.are_as_then(files)
    write(elsewhere, "1")
    assert not programs.are_as_then(files)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux")
@pytest.mark.usefixtures("module")
def test_no_handle_stays_open() -> None:
    def handles() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = handles()
    assert programs.are_as_then([(NAME, LONG_AGO * 10**9, 0)])
    assert not programs.are_as_then([(NAME, LONG_AGO * 10**9, 1)])
    assert not programs.are_as_then([("gone", LONG_AGO * 10**9, 0)])
    assert handles() == before


def test_a_file_that_changed_since_the_process_began_is_not_what_runs(module: Path) -> None:
    module.write_text("1")
    assert programs.loaded() is None
    stat = module.stat()
    assert not programs.are_as_then([(str(module), stat.st_mtime_ns, stat.st_size)])


@pytest.mark.parametrize(("began", "is_old"), [(-1, False), (0, True), (1, True)])
def test_a_change_in_the_nanosecond_of_the_beginning_is_one_before(
    module: Path, monkeypatch: pytest.MonkeyPatch, began: int, is_old: bool
) -> None:
    """The process began so many nanoseconds after the change."""
    stat = module.stat()
    monkeypatch.setattr(programs, "STARTED_NS", stat.st_mtime_ns + began)
    files = ((NAME, stat.st_mtime_ns, stat.st_size),)
    assert programs.loaded() == (files if is_old else None)
    assert programs.are_as_then(files) is is_old
    assert (programs.installed.__wrapped__() is not None) is is_old


BUILT = """
import sys
import nvbackend as nvb
from nvbackend.builder.kernel.again import programs
from nvbackend.builder.kernel.again.compiled_again import CompiledBefore

@nvb.kernel("sm_90a", threads=32)
def fill(k, out: nvb.Pointer[nvb.f32]):
    out[k.thread_id()] = 1.0

before = {path for path, _, _ in programs.loaded()}
fill.compile(assemble=False, cache=nvb.Cache.disabled())
print(*sorted({path for path, _, _ in programs.loaded()} - before), sep="\\n")
"""


def test_what_builds_verifies_and_prints_is_loaded_by_then(tmp_path: Path) -> None:
    script = write(tmp_path / "fill.py", BUILT)
    found = {
        Path("nvbackend", line).as_posix()
        for line in python_output(f"import runpy; runpy.run_path({str(script)!r})").split()
    }
    assert {
        "nvbackend/builder/kernel/kernel.py",
        "nvbackend/isel/verify/verify.py",
        "nvbackend/codegen/stages/compiling.py",
        "nvbackend/dry_run/runs.py",
    } <= found


@pytest.mark.parametrize("assemble", [..., None, True, False])
@pytest.mark.parametrize("tool", [..., None, "a ptxas"])
def test_ptxas_is_looked_for_where_the_kernel_is_assembled_by_what_is_found(assemble: object, tool: object) -> None:
    """Without a word about it a kernel is assembled where there is a ptxas."""
    before = CompiledBefore()
    before._ptxas = SimpleNamespace(program=lambda: ("found", 1))
    options = {name: value for name, value in {"assemble": assemble, "tool": tool}.items() if value is not ...}
    is_sought = assemble is not False and tool in (..., None)
    assert before._program(options) == (("found", 1) if is_sought else None)
