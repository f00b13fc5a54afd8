"""A kernel's file as it was in a commit, beside everything else of the commit, which the file may import."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nvbackend.cli.files.source_file import fail

_OWN = "nvbackend"


@contextmanager
def file_in(commit: str, file: Path) -> Iterator[Path]:
    """The file in a folder with everything of the commit, removed afterwards. Raises cli.build.

    What was imported of the project's present tree is imported anew from there, and once more when it is left.
    """
    root = Path(_git(file.resolve().parent, "rev-parse", "--show-toplevel").decode().strip())
    name = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}").decode().strip()
    inner = file.resolve().relative_to(root.resolve())
    archive = _git(root, "archive", "--format=tar", name)
    with tempfile.TemporaryDirectory(prefix="nvbackend-") as place:
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(place, filter="data")
        there = Path(place) / inner
        if not there.is_file():
            fail(f"{inner} is not in commit {commit}", "name a commit that has it")
        with _modules_of(root.resolve()):
            yield there


def is_commit(text: str, file: Path) -> bool:
    """Whether git knows a commit by this text, in the repository of the file."""
    return _is_known(file, "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")


def in_repository(file: Path) -> bool:
    """Whether git runs and the file is in a repository."""
    return _is_known(file, "--show-toplevel")


def _is_known(file: Path, *arguments: str) -> bool:
    try:
        done = subprocess.run(
            ["git", "rev-parse", *arguments],
            cwd=file.resolve().parent,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError:
        return False
    return done.returncode == 0


@contextmanager
def _modules_of(root: Path) -> Iterator[None]:
    """Without the modules whose files are under `root`, but for this package's own: both would be of one name."""
    taken = {name: module for name, module in sys.modules.items() if _is_under(module, root, name)}
    for name in taken:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in [
            name for name, module in sys.modules.items() if name not in taken and _is_under(module, root, name)
        ]:
            del sys.modules[name]
        sys.modules.update(taken)


def _is_under(module: object, root: Path, name: str) -> bool:
    file = getattr(module, "__file__", None)
    is_own = name.partition(".")[0] in (_OWN, "__main__")
    return not is_own and isinstance(file, str) and Path(file).resolve().is_relative_to(root)


def _git(folder: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        fail(f"git does not run: {error.strerror}", "install git, or compare targets and constants")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        fail(f"git {arguments[0]} fails in {folder}: {said or 'it says nothing'}", "name a commit that git knows")
    return done.stdout
