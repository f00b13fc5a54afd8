"""Compiled kernels on disk, by what they were built from: a process that asks for one again does not build it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nvbackend.builder.kernel.again import STARTED_NS, programs
from nvbackend.builder.kernel.again.content import Content, UnknownRead
from nvbackend.builder.kernel.again.lasting import lasting_key
from nvbackend.builder.kernel.again.users_files import users_files
from nvbackend.diagnostics import functions_in
from nvbackend.diagnostics.announce import announce
from nvbackend.diagnostics.location import is_of_compiler

if TYPE_CHECKING:
    from nvbackend.codegen.compiled import CompiledKernel

_STAGE = "kernel"
_MADE_BY = "made_by"
"""The part of an entry beside those of the kernel: the files of this package that took part."""


class KernelsOnDisk:
    """The kernels of a cache, by the content of what their functions read, and by the programs that made them.

    The key says which programs these are; of the many files of this package an entry names those that were loaded when
    the kernel was made, and counts while they are as they were.
    """

    __slots__ = ()

    def key(self, function: Callable[..., Any], content: Content, ptxas: tuple[str, object] | None) -> str | None:
        """What the kernel of `function`, which reads `content`, is kept under; None where not all of that is known.

        `ptxas` is the program that assembles, where none is given, and what says whether it is another one.
        Where forms are to be dumped, the kernel is built: they are written on the way.
        """
        from nvbackend.codegen.cache import cache_key
        from nvbackend.codegen.looking.asked import DUMP, asked
        from nvbackend.codegen.toolchain import is_script

        others, files = programs.installed(), users_files(STARTED_NS)
        # Lines of a compiler's own package are not its user's: those of the kernel are where it is compiled.
        if (
            None in (others, files)
            or asked(DUMP)
            or any(is_of_compiler(each.__globals__) for each in functions_in(function))
        ):
            return None
        if ptxas is not None and ptxas[0] and is_script(ptxas[0]):
            return None
        try:
            return cache_key(_STAGE, content=lasting_key(content), programs=others, files=files)
        except UnknownRead:
            return None

    def get(self, key: str, options: dict[str, Any]) -> CompiledKernel | None:
        """The kernel, which gives its warnings and its line once more; None where it is not there. Raises log.write."""
        from nvbackend.codegen.kept import unpacked
        from nvbackend.codegen.looking.asked import LOG, asked

        parts = _made_by_these(_cache(options).get(key))
        kernel = None if parts is None else unpacked(parts)
        if kernel is not None:
            announce(kernel.diagnostics, kernel.suppressed)
            if asked(LOG):
                from nvbackend.codegen.looking.log import log_compiled

                log_compiled(kernel, kept=True)
        return kernel

    def put(self, key: str, options: dict[str, Any], kernel: CompiledKernel) -> None:
        """Keep the kernel, if it can be."""
        from nvbackend.codegen.cache import pack
        from nvbackend.codegen.kept import packed

        parts, files = packed(kernel), programs.loaded()
        if parts is not None and files is not None:
            _cache(options).put(key, pack({_MADE_BY: pickle.dumps(files), **parts}))


def _made_by_these(entry: bytes | None) -> dict[str, bytes] | None:
    """The parts of an entry of the cache, if the files that made it would make it now."""
    from nvbackend.codegen.cache import unpack
    from nvbackend.codegen.pickled import loaded

    if entry is None:
        return None
    try:
        parts = unpack(entry)
        return parts if programs.are_as_then(loaded(parts[_MADE_BY])) else None
    except Exception:  # noqa: BLE001 (bytes of anything else may raise anything)
        return None


def _cache(options: dict[str, Any]) -> Any:
    from nvbackend.codegen.cache import Cache

    cache = options.get("cache")
    return Cache.default() if cache is None or isinstance(cache, type) else cache  # compile_kernel refuses a class
