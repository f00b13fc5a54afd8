"""Finding ptxas, without a search each time, and the disassemblers, and running them."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from nvbackend.diagnostics import DiagnosticError, Rule, user_facing
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.classes.late_pattern import late_pattern

if TYPE_CHECKING:
    import subprocess

ToolVersion = tuple[int, int, int]

PTXAS_MISSING = Rule(
    id="ptxas.missing",
    message="no ptxas: looked in {places}",
    fix="pip install nvbackend[ptxas], or compile with assemble=False to stop at PTX",
    why="ptxas makes the cubin and gives warnings; a driver takes PTX only up to its own PTX version.",
    reference="CUDA compiler driver (ptxas)",
)
DISASSEMBLER_MISSING = Rule(
    id="sass.missing",
    message="no {tool}: looked in {places}",
    fix="pip install nvbackend[sass]",
    why="A cubin is shown as SASS by nvdisasm or cuobjdump, which come apart from ptxas.",
    reference="CUDA Binary Utilities (nvdisasm, cuobjdump)",
)
TOOL_BROKEN = Rule(
    id="toolchain.broken",
    message="{path} does not run: {reason}",
    fix="install it again, or pass a Tool of another place",
    why="A file of the right name is not always a program for this machine.",
    reference="CUDA compiler driver (ptxas); CUDA Binary Utilities",
)

NO_DIRECTORY = Rule(
    id="toolchain.directory",
    message="no place for the files that {tool} reads and writes: {reason}",
    fix="set TMPDIR to a directory that can be written to and has room",
    why="ptxas and the disassemblers take files, not pipes.",
    reference="Python Library Reference, tempfile.gettempdir",
)

STANDARD_DIRECTORIES = (Path("/usr/local/cuda/bin"), Path("/opt/cuda/bin"))
"""Where a CUDA toolkit lives when it is not on PATH."""

DISASSEMBLERS = ("nvdisasm", "cuobjdump")
"""The programs that print SASS, the quicker one first."""

_PATIENCE_SECONDS = 60
"""How long a program may take to state its version."""
_VERSION = late_pattern(r"release \d+\.\d+, V(\d+)\.(\d+)\.(\d+)")


@user_facing
@dataclass(frozen=True, slots=True)
class Tool:
    """A program of the CUDA toolkit: where it is, its release (13, 5, 37), and all it says about its own version."""

    path: Path
    version: ToolVersion
    identity: str = ""

    __repr__ = short_repr

    def __post_init__(self) -> None:
        # It runs in a directory of its own, and a bare name would be sought on PATH.
        object.__setattr__(self, "path", Path(os.path.abspath(self.path)))

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Tool:
        """The program at `path`. Raises toolchain.broken where it does not run or states no CUDA release."""
        place = Path(os.path.abspath(path))
        try:
            stat = place.stat()
        except OSError as error:
            TOOL_BROKEN.fail(path=place, reason=error.strerror)
        except ValueError as error:  # a zero byte
            TOOL_BROKEN.fail(path=place, reason=error)
        identity = _ask_version(str(place), stat.st_mtime_ns, stat.st_size)
        match = _VERSION.search(identity)
        if match is None:
            said = identity.strip().partition("\n")[0]
            TOOL_BROKEN.fail(path=place, reason="it states no CUDA release" + (f": {said}" if said else ""))
        major, minor, patch = (int(part) for part in match.groups())
        return cls(place, (major, minor, patch), identity)

    @contextlib.contextmanager
    def directory(self, name: str, content: bytes) -> Iterator[Path]:
        """A directory for one run, with the file `name` in it; removed afterwards. Raises toolchain.directory."""
        import tempfile

        try:
            folder = tempfile.TemporaryDirectory(prefix="nvbackend-", ignore_cleanup_errors=True)
        except OSError as error:
            NO_DIRECTORY.fail(tool=self.path.name, reason=error.strerror)
        with folder as place:
            try:
                (Path(place) / name).write_bytes(content)
            except OSError as error:
                NO_DIRECTORY.fail(tool=self.path.name, reason=f"{error.strerror} in {place}")
            yield Path(place)

    @property
    def release(self) -> str:
        """The CUDA release as people write it: 13.5."""
        return f"{self.version[0]}.{self.version[1]}"

    def run(self, arguments: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
        """Run it in `directory`, whatever its exit status. Raises toolchain.broken where it cannot be started."""
        import subprocess

        with self.started([*map(os.fspath, arguments)], directory) as process:
            stdout, stderr = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    @contextlib.contextmanager
    def started(self, arguments: Sequence[str], directory: Path) -> Iterator[subprocess.Popen[str]]:
        """The program as it runs in `directory`; it is ended if the block is left by an exception.

        Raises toolchain.broken where it cannot be started.
        """
        import subprocess

        try:
            process = subprocess.Popen(
                [str(self.path), *arguments],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as error:
            TOOL_BROKEN.fail(path=self.path, reason=error.strerror)
        except ValueError as error:  # a zero byte
            TOOL_BROKEN.fail(path=self.path, reason=error)
        with process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise


@functools.lru_cache(maxsize=32)
def _ask_version(path: str, _mtime_ns: int, _size: int) -> str:
    """What the program says for --version; empty where it fails. The file's date and size name one installation."""
    import subprocess

    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_PATIENCE_SECONDS,
        )
    except OSError as error:
        return str(error.strerror)
    except subprocess.TimeoutExpired:
        return f"no answer to --version within {_PATIENCE_SECONDS} s"
    return done.stdout.strip()


@user_facing
def find_ptxas(explicit: str | os.PathLike[str] | None = None) -> Tool:
    """ptxas at `explicit`, else from an installed wheel, else on PATH, else from a toolkit in its standard directory.

    Raises ptxas.missing, or toolchain.broken.
    """
    path = locate("ptxas", explicit)
    if path is None:
        PTXAS_MISSING.fail(places=_places())
    return Tool.at(path)


def ask_early() -> None:
    """Have ptxas asked for its version by another thread, if this process has asked no program yet.

    The answer takes a process, and a turn of Python's threads for each of its parts: long, where one of them is busy.
    """
    if not _ask_version.cache_info().currsize:
        with contextlib.suppress(RuntimeError):  # no more threads
            Thread(target=_ask_ptxas, name="nvbackend ptxas", daemon=True).start()


def _ask_ptxas() -> None:
    with contextlib.suppress(Exception):  # it comes again where ptxas is needed
        find_ptxas()


@user_facing
def find_disassembler(explicit: str | os.PathLike[str] | None = None) -> Tool:
    """nvdisasm, else cuobjdump, found like ptxas. Raises sass.missing, or toolchain.broken."""
    for name in DISASSEMBLERS:
        path = locate(name, explicit)
        if path is not None:
            return Tool.at(path)
    raise DiagnosticError([DISASSEMBLER_MISSING.diagnose(tool=" or ".join(DISASSEMBLERS), places=_places())])


def locate(
    name: str, explicit: str | os.PathLike[str] | None = None, wheels: Iterable[Path] | None = None
) -> Path | None:
    """The path of the program `name`, or None. `wheels` are the wheels' directories where they are known."""
    if explicit is not None:
        return Path(explicit)
    for directory in wheel_directories() if wheels is None else wheels:
        if _is_program(directory / name):
            return directory / name
    import shutil

    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    return next((folder / name for folder in STANDARD_DIRECTORIES if _is_program(folder / name)), None)


def wheel_directories() -> Iterator[Path]:
    """The `bin` directories of the wheels: nvidia/cu<major>/bin, newest first, then CUDA 12's nvidia/cuda_*/bin."""
    for folders in wheel_folders("cuda_"):
        yield from (folder / "bin" for folder in folders if (folder / "bin").is_dir())


def wheel_folders(*of_cuda_12: str) -> Iterator[list[Path]]:
    """The folders of wheels, for each place of packages: nvidia/cu<major>, newest first, then those of CUDA 12, one for
    each wheel, by the beginnings of their names."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        names = sorted(os.listdir(root)) if os.path.isdir(root) else []
        releases = {name: int(name[2:]) for name in names if name.startswith("cu") and name[2:].isdecimal()}
        newest_first = sorted(releases, key=releases.__getitem__, reverse=True)
        yield [Path(root, name) for name in (*newest_first, *(name for name in names if name.startswith(of_cuda_12)))]


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _places() -> str:
    return ", ".join(["the installed NVIDIA wheels", "PATH", *map(str, STANDARD_DIRECTORIES)])


def is_script(path: str) -> bool:
    """Whether a program is a script, which starts another one that its own file says nothing about."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


class PtxasSearch:
    """The ptxas that is found, sought again where the places in which it is sought have changed."""

    __slots__ = ("_found", "_paths", "_places", "_state")

    def __init__(self) -> None:
        self._paths: object = None
        self._places: tuple[str, ...] = ()
        self._state: tuple[object, ...] = ()
        self._found: Path | None = None

    def program(self) -> tuple[str, object]:
        """Where the program is, and what says whether another one is there now; an empty path where nothing is found.

        Of a script that is nothing: what it starts is another program.
        """
        paths = os.environ.get("PATH", ""), *sys.path
        if paths != self._paths or self._state != self._seen():
            wheels = list(wheel_directories())
            self._found = locate("ptxas", wheels=wheels)
            self._paths, self._places = paths, self._sought(wheels)
            self._state = self._seen()
        return "" if self._found is None else str(self._found), self._state[0]

    def _sought(self, wheels: list[Path]) -> tuple[str, ...]:
        """The folders in which a program would be found in place of this one."""
        # Of nvidia/cu13/bin, nvidia: a wheel for another release makes a folder there.
        places = [*sys.path, *(str(directory.parents[1]) for directory in wheels)]
        if self._found is None or self._found.parent not in wheels:
            places += [*os.environ.get("PATH", "").split(os.pathsep), *map(str, STANDARD_DIRECTORIES)]
        return tuple(dict.fromkeys(places))

    def _seen(self) -> tuple[object, ...]:
        """What says whether something was installed: the program, and when the folders changed."""
        program = () if self._found is None else _changed(self._found)
        return program, [_changed(place)[:1] for place in self._places]


def _changed(path: str | os.PathLike[str]) -> tuple[int, ...]:
    try:
        stat = os.stat(path or ".")
    except (OSError, ValueError):
        return ()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
