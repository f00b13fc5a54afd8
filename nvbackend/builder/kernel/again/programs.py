"""The programs that make kernels: which they are, and by which of their files a kernel was made."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from nvbackend.builder.kernel.again import STARTED_NS
from nvbackend.builder.kernel.again.constants import PACKAGE
from nvbackend.codegen.cache import sha256

_WHOLE = ("llvmlite",)
"""Packages that count with every file of code: a few, and libraries among them."""
_BY_VERSION = ("numpy",)
"""Those that are only computed with: the file that has the version says enough."""
_CODE = (".py", ".so", ".dylib", ".dll")

File = tuple[str, int, int]
"""Path, time of the last change in nanoseconds, size in bytes."""


@functools.cache
def installed() -> str | None:
    """A digest of Python, of where this package is, and of the packages that it calls; None where a file of theirs
    changed since the process began, or is not there."""
    try:
        files = [each for package in _WHOLE for each in _files(folder_of(package))]
        files += [_file(os.path.join(folder_of(package), "version.py")) for package in _BY_VERSION]
        programs = sys.version, sys.flags.optimize, folder_of(PACKAGE), _older(files)
    except OSError:
        return None
    return sha256(repr(programs).encode()).hexdigest()


def loaded() -> tuple[File, ...] | None:
    """The files of this package that the process has loaded; None where one is gone, or changed since it began.

    What a process has not loaded took no part in a kernel that it made. Paths begin at the package's folder.
    """
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == PACKAGE]
    paths = {path for module in modules if isinstance(path := getattr(module, "__file__", None), str)}
    try:
        files, folder = _older([_file(path) for path in sorted(paths)]), os.path.join(folder_of(PACKAGE), "")
    except OSError:
        return None
    return tuple((path.removeprefix(folder), changed, size) for path, changed, size in files)


def are_as_then(files: Iterable[File]) -> bool:
    """Whether the files of `loaded` are what they were, and nothing that changed since this process began."""
    try:
        with _from(folder_of(PACKAGE)) as status:
            for path, changed, size in files:
                now = status(path)
                if now.st_mtime_ns != changed or changed > STARTED_NS or now.st_size != size:
                    return False
    except OSError:
        return False
    return True


@contextmanager
def _from(folder: str) -> Iterator[Callable[[str], os.stat_result]]:
    """`os.stat` of paths that begin at `folder`, or at the root. Of hundreds of files a short path saves a tenth."""
    if os.stat not in os.supports_dir_fd:
        yield lambda path: os.stat(os.path.join(folder, path))
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield functools.partial(os.stat, dir_fd=handle)
    finally:
        os.close(handle)


def folder_of(package: str) -> str:
    """Where a package is, which need not be imported for that. Raises OSError where it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(package)
    return os.path.dirname(spec.origin)


def _older(files: list[File]) -> tuple[File, ...]:
    """`files`. Raises FileNotFoundError where one changed since this process began: what runs is gone."""
    for path, changed, _ in files:
        if changed > STARTED_NS:
            raise FileNotFoundError(path)
    return tuple(files)


def _files(folder: str) -> list[File]:
    """The files of code in a folder and its folders, sorted."""
    files, folders = [], [folder]
    while folders:
        with os.scandir(folders.pop()) as scan:
            for item in scan:
                name = item.name
                if name.endswith(_CODE):
                    files.append(_file(item.path))
                elif "." not in name and name != "__pycache__" and item.is_dir():
                    folders.append(item.path)
    return sorted(files)


def _file(path: str) -> File:
    stat = os.stat(path)
    return path, stat.st_mtime_ns, stat.st_size
