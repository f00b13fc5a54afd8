"""The files of the user's code that this process runs: an edit of any of them makes other kernels.

What a kernel's function reads is followed, and Python has ways to read that nobody follows: after an edit of a file
nothing is taken from disk that was built before, whatever the edit was.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from nvbackend.builder.kernel.again.constants import PACKAGE
from nvbackend.codegen.cache import sha256

_LIBRARY = os.path.dirname(os.__file__) + os.sep
"""Where Python's own modules are. One elsewhere would count as the user's, and be digested as well."""
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def users_files(started_ns: int) -> str | None:
    """A digest of the files of all modules but installed ones; None where one may not be what runs.

    That is so where a file was changed after `started_ns`, when the process began, or is gone, and where the program
    itself is in no file.
    """
    if getattr(sys.modules.get("__main__"), "__file__", None) is None:
        return None
    digest = sha256()
    try:
        for path in sorted(set(_paths())):
            if os.stat(path).st_mtime_ns > started_ns:
                return None
            with open(path, "rb") as file:
                content = file.read()
            digest.update(os.fsencode(path) + f" {len(content)}\n".encode())
            digest.update(content)
    except (OSError, ValueError):  # ValueError: no file has such a name
        return None
    return digest.hexdigest()


def _paths() -> Iterator[str]:
    """The source files of modules that are neither installed nor of this package."""
    for name, module in list(sys.modules.items()):
        file = _file_of(module)
        if type(file) is not str or name.partition(".")[0] == PACKAGE:
            continue
        if not file.startswith(_LIBRARY) and _INSTALLED.isdisjoint(file.split(os.sep)):
            yield os.path.abspath(file)


def _file_of(module: object) -> object:
    try:
        return getattr(module, "__file__", None)
    except Exception:  # noqa: BLE001  (a module that is imported on use may raise anything)
        return None
