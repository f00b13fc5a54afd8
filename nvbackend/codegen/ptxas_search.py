"""The ptxas that a search finds, without a search each time."""

from __future__ import annotations

import os
import sys

from nvbackend.codegen import toolchain


class PtxasSearch:
    """The ptxas that is found, sought again where the places in which it is sought have changed."""

    __slots__ = ("_found", "_places", "_roots")

    def __init__(self) -> None:
        self._places: object = None
        self._roots: tuple[str, ...] = ()
        self._found: toolchain.Tool | None = None

    def found(self) -> toolchain.Tool | None:
        """The program, or None. Raises toolchain.broken."""
        if self._places is None or self._places != self._state():
            path = toolchain.locate("ptxas")
            self._found = None if path is None else toolchain.Tool.at(path)
            # Of nvidia/cu13/bin, nvidia: a wheel for another release makes a folder there.
            self._roots = tuple({str(directory.parents[1]) for directory in toolchain.wheel_directories()})
            self._places = self._state()
        return self._found

    def _state(self) -> object:
        """What says whether something was installed: the search paths, and when their folders changed."""
        on_path = os.environ.get("PATH", "")
        places = (*sys.path, *on_path.split(os.pathsep), *map(str, toolchain.STANDARD_DIRECTORIES), *self._roots)
        program = () if self._found is None else _changed(self._found.path)
        return on_path, tuple(sys.path), program, [_changed(place)[:1] for place in places]


def _changed(path: str | os.PathLike[str]) -> tuple[int, ...]:
    try:
        stat = os.stat(path or ".")
    except (OSError, ValueError):
        return ()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
