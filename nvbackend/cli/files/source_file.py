"""Kernels in files of the user's: FILE.py:kernel."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import os
import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from traceback import StackSummary, TracebackException
from typing import TYPE_CHECKING, Any, NoReturn

from nvbackend.cli import rules
from nvbackend.cli.words import nearest
from nvbackend.diagnostics import Diagnostic, DiagnosticError
from nvbackend.diagnostics.location import error_location

if TYPE_CHECKING:
    from collections.abc import Iterator

    import nvbackend as nvb

_PACKAGE = os.path.join(os.path.abspath(__file__).rpartition(f"{os.sep}cli{os.sep}")[0], "")


class ProgramError(DiagnosticError):
    """Diagnostics of the user's own program, whose places are lines of it."""


class ProgramFailed(ProgramError):
    """Any other exception that the user's own program raised."""


@contextmanager
def users_program(path: Path, kernel: str = "") -> Iterator[None]:
    """What runs inside is the user's program: its diagnostics, its exceptions, and its prints, which go to stderr.

    An exception that comes from this package's code is a mistake of this package and is left as it is.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except DiagnosticError as error:
        raise ProgramError(map(_placed, error.diagnostics)) from None
    except (Exception, SystemExit, GeneratorExit) as error:
        if kernel and error_location(error) is None:
            raise
        who = f"{path}: kernel {kernel}" if kernel else str(path)
        problem = f"{who} ends with {_summary(error)}{_line_of(error, path)}\n{_users_traceback(error)}"
        failed = rules.BUILD.diagnose(problem=problem, fix="correct the file, then build again")
        raise ProgramFailed([dataclasses.replace(failed, location=None)]) from None


def _placed(diagnostic: Diagnostic) -> Diagnostic:
    """A mistake of the command line itself has no place: its line would be that of the program nvbackend."""
    at, program = diagnostic.location, getattr(sys.modules["__main__"], "__file__", "<string>")
    is_ours = at is not None and os.path.realpath(at.file) == os.path.realpath(program)
    return dataclasses.replace(diagnostic, location=None) if is_ours else diagnostic


def definition_at(spec: str) -> nvb.KernelDefinition:
    """The kernel that `spec` names: FILE.py:kernel, or FILE.py where it has one kernel. Raises cli.build."""
    import nvbackend as nvb

    file, colon, name = _parts(spec)
    if not file.endswith(".py"):
        fail(f"{spec!r} does not name a Python file and a kernel", "write FILE.py:kernel")
    module = _run(Path(file))
    # type(), since isinstance() asks an object for its class, and any object of the file may refuse to answer
    every: dict[str, Any] = vars(module)
    kernels: dict[str, nvb.KernelDefinition] = {
        key: each for key, each in every.items() if issubclass(type(each), nvb.KernelDefinition)
    }
    if not kernels:
        fail(f"{file} has no kernel", "define one at its top level: @nvb.kernel(...)")
    if not colon:
        if len(kernels) > 1:
            fail(f"{file} has {len(kernels)} kernels", f"name one of them: {file}:{{{','.join(kernels)}}}")
        return next(iter(kernels.values()))
    if name not in kernels:
        what = "a kernel" if name in vars(module) else "a name"
        fail(f"{name!r} is not {what} in {file}", nearest(name, kernels))
    return kernels[name]


def file_of(spec: str) -> Path:
    """The file of `spec`."""
    return Path(_parts(spec)[0])


def _parts(spec: str) -> tuple[str, str, str]:
    return spec.rpartition(":") if ":" in spec else (spec, "", "")


def fail(problem: str, fix: str) -> NoReturn:
    """Raise cli.build."""
    rules.BUILD.fail(problem=problem, fix=fix)


def _run(path: Path) -> Any:
    """The module of a file, run once under its own name, with its folder and the current one on the search path.

    A file with relative imports runs as a module of its package.
    """
    name, above = _in_package(path) if _imports_relatively(path) else (path.stem, [])
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        fail(f"{path} is not a file", "name a Python file that is there")
    module = importlib.util.module_from_spec(spec)
    before, known = list(sys.path), None
    sys.path[:0] = [str(path.resolve().parent), *above, os.getcwd()]
    try:
        with users_program(path):
            if above:
                importlib.import_module(name.rpartition(".")[0])  # which may import the file, too
            known = sys.modules.get(name)
            sys.modules[name] = module
            spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
        if known is not None:
            sys.modules[name] = known
    return module


def _imports_relatively(path: Path) -> bool:
    """Whether `from .x import y` is in the file; what is wrong with its text is said when it runs."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))


def _in_package(path: Path) -> tuple[str, list[str]]:
    """The name of a file's module in the packages around it, and the folder from which they are imported, if any."""
    names, folder = [path.stem], path.resolve().parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names), [str(folder)] * (len(names) > 1)


def _line_of(error: BaseException, path: Path) -> str:
    """Where in the file an error came up."""
    if isinstance(error, SyntaxError):
        return ""  # it says so itself
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" (line {lines[-1]})" if lines else ""


def _summary(error: BaseException) -> str:
    """The exception's type and the first line of its text."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 (a __str__ of the user's raises what it likes)
        text = "its str() raises"
    lines = text.splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _users_traceback(error: BaseException) -> str:
    """The traceback as Python prints it, cut to the user's own lines, also in what the exception was raised from."""
    shown = TracebackException.from_exception(error)
    _cut(shown)
    return "".join(shown.format()).rstrip("\n")


def _cut(shown: TracebackException) -> None:
    frames = [each for each in shown.stack if not _is_passed_by(each.filename)]
    shown.stack = StackSummary.from_list(frames)
    for other in (shown.__cause__, shown.__context__, *(getattr(shown, "exceptions", None) or ())):
        if other is not None:
            _cut(other)


def _is_passed_by(file: str) -> bool:
    return file.startswith("<frozen ") or os.path.abspath(file).startswith(_PACKAGE)
