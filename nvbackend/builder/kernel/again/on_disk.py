"""Compiled kernels on disk, by what they were built from: a process that asks for one again does not build it."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nvbackend.builder.kernel.again.constants import PACKAGE
from nvbackend.builder.kernel.again.lasting import lasting_key, lasting_name
from nvbackend.builder.kernel.again.reads import Reads, UnknownRead
from nvbackend.builder.kernel.again.users_files import users_files
from nvbackend.diagnostics.announce import announce
from nvbackend.diagnostics.location import is_of_compiler

if TYPE_CHECKING:
    from nvbackend.codegen.compiled import CompiledKernel

_STARTED_NS = time.time_ns()
"""When this module was imported, with the package around it: what changed later on disk is not what runs."""
_STAGE = "kernel"
_BUILDERS = (PACKAGE, "llvmlite")
"""The packages whose code makes PTX of a function."""
_BY_VERSION = ("numpy",)
"""Those that they compute with: the file that has the version says enough."""
_CODE = (".py", ".so", ".dylib", ".dll")


class KernelsOnDisk:
    """The kernels of a cache, by the content of what their functions read, and of the programs that made them."""

    __slots__ = ("_reads",)

    def __init__(self) -> None:
        self._reads = Reads(lasting_name)

    def key(
        self,
        function: Callable[..., Any],
        inputs: tuple[object, ...],
        options: dict[str, Any],
        ptxas: tuple[str, object] | None,
    ) -> str | None:
        """What the kernel is kept under; None where not all that it depends on is known.

        `ptxas` is the program that assembles, where none is given, and what says whether it is another one.
        Where forms are to be dumped, the kernel is built: they are written on the way.
        """
        from nvbackend.codegen.cache import cache_key
        from nvbackend.codegen.looking.dump import is_wanted
        from nvbackend.codegen.toolchain import is_script

        programs, files = installed(), users_files(_STARTED_NS)
        # Lines of a compiler's own package are not its user's: those of the kernel are where it is compiled.
        if None in (programs, files) or is_wanted() or is_of_compiler(function.__globals__):
            return None
        if ptxas is not None and ptxas[0] and is_script(ptxas[0]):
            return None
        chosen = {name: value for name, value in options.items() if name != "cache"}
        try:
            content, _ = self._reads.of(function, inputs, (chosen, ptxas))
            return cache_key(_STAGE, content=lasting_key(content), programs=programs, files=files)
        except UnknownRead:
            return None

    def get(self, key: str, options: dict[str, Any]) -> CompiledKernel | None:
        """The kernel, which gives its warnings and its line once more; None where it is not there. Raises log.write."""
        from nvbackend.codegen.kept import unpacked
        from nvbackend.codegen.looking.log import log_compiled

        entry = _cache(options).get(key)
        kernel = None if entry is None else unpacked(entry)
        if kernel is not None:
            announce(kernel.diagnostics, kernel.suppressed)
            log_compiled(kernel, kept=True)
        return kernel

    def put(self, key: str, options: dict[str, Any], kernel: CompiledKernel) -> None:
        """Keep the kernel, if it can be."""
        from nvbackend.codegen.kept import packed

        entry = packed(kernel)
        if entry is not None:
            _cache(options).put(key, entry)


def _cache(options: dict[str, Any]) -> Any:
    from nvbackend.codegen.cache import Cache

    return options.get("cache") or Cache.default()


@functools.cache
def installed() -> str | None:
    """A digest of the programs that compile, but for ptxas; None where a file of theirs changed since they began."""
    digest = hashlib.sha256(f"{sys.version} {sys.flags.optimize}".encode())
    try:
        files = [each for package in _BUILDERS for each in _files(_folder(package))]
        files += [_file(os.path.join(_folder(package), "version.py")) for package in _BY_VERSION]
    except OSError:
        return None
    if max(changed for _, changed, _ in files) > _STARTED_NS:
        return None
    digest.update(repr(files).encode())
    return digest.hexdigest()


def _folder(package: str) -> str:
    """Where a package is, which need not be imported for that. Raises OSError where it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(package)
    return os.path.dirname(spec.origin)


def _files(folder: str) -> list[tuple[str, int, int]]:
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


def _file(path: str) -> tuple[str, int, int]:
    """A file: path, time of the last change, and size."""
    stat = os.stat(path)
    return path, stat.st_mtime_ns, stat.st_size
