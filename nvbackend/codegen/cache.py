"""Compiled output kept on disk by the content it was made from.

A key is a digest of everything that the output depends on, so an entry never goes stale; entries only get lost.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import stat
import struct
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass

if TYPE_CHECKING:
    import hashlib

    sha256 = hashlib.sha256
else:  # hashlib loads OpenSSL, which takes 2 ms: Python's own `random` does without it, too
    try:
        sha256 = importlib.import_module("_sha256" if sys.version_info < (3, 12) else "_sha2").sha256
    except ImportError:
        from hashlib import sha256

FORMAT = 11
"""The version of what is written into entries, and of how it is made from the inputs; part of every key."""

DEFAULT_LIMIT = 512 << 20
"""Bytes that a cache may hold before its oldest entries are removed."""

VARIABLE = "NVBACKEND_CACHE"
"""The environment's word on where the user's cache is."""

_OFF = ("off", "0", "no", "none", "false", "disabled")
"""In upper or lower case; a folder of such a name is `./no`."""
_SUFFIX = ".bin"
_TEMPORARY = ".tmp-"
_ABANDONED_SECONDS = 3600.0
_DIGEST_BYTES = sha256().digest_size
_TRIM_ONE_IN = 64
_SIZE = 8
"""Bytes of a number in the header of a payload."""


def cache_key(stage: str, **inputs: str | int | bool | None) -> str:
    """The key of the output of `stage` for `inputs`; every input that can change the output must be named."""
    # The digest of a text takes a tenth of the time of its repr, and is of a type that no input has.
    short = {name: _digest(value).digest() if isinstance(value, str) else value for name, value in inputs.items()}
    return _digest(repr((FORMAT, stage, sorted(short.items())))).hexdigest()


def default_directory() -> Path | None:
    """Where NVBACKEND_CACHE says (`off`: None), else `nvbackend` in the user's cache directory; None without a home.

    Source: XDG Base Directory Specification.
    """
    chosen = os.environ.get(VARIABLE, "")
    if chosen:
        return None if chosen.lower() in _OFF else Path(os.path.abspath(os.path.expanduser(chosen)))
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "nvbackend"
    try:
        return Path.home() / ".cache" / "nvbackend"
    except RuntimeError:
        return None


@user_facing
@dataclass(frozen=True, slots=True)
class Cache:
    """Entries by key in one flat directory, which any number of processes may share.

    An entry appears whole or not at all (it is written aside and renamed), carries a checksum over its key and what it
    holds, and is dropped when the checksum is wrong. A directory that cannot be read or written makes every look-up a
    miss and never fails a build. `directory` None switches the cache off. `limit` is in bytes.
    """

    directory: Path | None
    limit: int = DEFAULT_LIMIT

    def __init__(self, directory: Path | None, limit: int = DEFAULT_LIMIT) -> None:
        # Written out: each process that finds a kernel makes one, and would compile that of a dataclass for it.
        if type(limit) is not int:
            raise TypeError(limit)  # the boundary names the argument
        object.__setattr__(self, "directory", None if directory is None else Path(directory))
        object.__setattr__(self, "limit", limit)

    @classmethod
    def default(cls) -> Cache:
        """The user's cache."""
        return cls(default_directory())

    @classmethod
    def disabled(cls) -> Cache:
        """A cache that keeps nothing."""
        return cls(None)

    def get(self, key: str) -> bytes | None:
        """What was put under `key`, or None; a use makes the entry young again."""
        path = self._path(key)
        if path is None:
            return None
        try:
            checksum, payload = _read_entry(path)
        except OSError:
            return None
        if _checksum(key, payload) == checksum:
            _touch(path)
            return payload
        _remove(path)
        return None

    def put(self, key: str, payload: bytes) -> None:
        """Keep `payload` under `key` if possible."""
        path = self._path(key)
        if path is None:
            return
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_aside(path, _checksum(key, payload) + payload)
            # Looking at every entry costs more than writing one, so not every put does it.
            if int(path.stem[:8], 16) % _TRIM_ONE_IN == 0:
                self.trim()

    def trim(self) -> None:
        """Remove the oldest entries until the rest is within the limit, and the leftovers of killed processes."""
        entries: list[tuple[float, int, str]] = []
        for path, status in self._files():
            if os.path.basename(path).startswith(_TEMPORARY):
                if time.time() - status.st_mtime > _ABANDONED_SECONDS:
                    _remove(path)
            elif path.endswith(_SUFFIX):
                entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit:
                break
            _remove(path)
            total -= size

    def clear(self) -> None:
        """Remove every entry."""
        for path, _ in self._files():
            if path.endswith(_SUFFIX):
                _remove(path)

    def _path(self, key: str) -> Path | None:
        """Where the entry of any text is: under its digest, for a text need not be a file's name."""
        return None if self.directory is None else self.directory / (_digest(key).hexdigest() + _SUFFIX)

    def _files(self) -> list[tuple[str, os.stat_result]]:
        if self.directory is None:
            return []
        files: list[tuple[str, os.stat_result]] = []
        with contextlib.suppress(OSError), os.scandir(self.directory) as scan:
            for item in scan:
                with contextlib.suppress(OSError):
                    files.append((item.path, item.stat()))
        return files


def pack(parts: Mapping[str, bytes]) -> bytes:
    """Named parts as one payload: how many, the sizes of names and parts, then these; the inverse of `unpack`."""
    pieces = [*(name.encode() for name in parts), *parts.values()]
    return b"".join((struct.pack(f"<{1 + len(pieces)}Q", len(parts), *map(len, pieces)), *pieces))


def unpack(payload: bytes) -> dict[str, bytes]:
    """The parts that `pack` put into `payload`. Raises ValueError for anything else."""
    count = int.from_bytes(payload[:_SIZE], "little")
    header = _SIZE * (1 + 2 * count)
    if len(payload) < header:
        raise ValueError("the header does not give the sizes of names and parts")
    sizes = struct.unpack_from(f"<{2 * count}Q", payload, _SIZE) if count else ()
    if header + sum(sizes) != len(payload):
        raise ValueError("the parts do not have the sizes that the header gives")
    ends = list(itertools.accumulate(sizes, initial=header))
    pieces = [payload[start:end] for start, end in itertools.pairwise(ends)]
    return {name.decode(): part for name, part in zip(pieces[:count], pieces[count:], strict=True)}


def _checksum(key: str, payload: bytes) -> bytes:
    """Of the key as well: an entry under the name of another does not count."""
    digest = _digest(key)
    digest.update(payload)
    return digest.digest()


def _digest(key: str) -> hashlib._Hash:
    return sha256(key.encode(errors="surrogatepass"))


def _read_entry(path: Path) -> tuple[bytes, bytes]:
    """Checksum and payload of an ordinary file; a pipe might never give any, and a device never ends."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("not an ordinary file")
        return file.read(_DIGEST_BYTES), file.read()


def _write_aside(path: Path, entry: bytes) -> None:
    import tempfile

    handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(entry)
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def _touch(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.utime(path)


def _remove(path: str | Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
