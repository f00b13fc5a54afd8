"""Kernels in files of the user's: FILE.py:kernel."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from nvbackend.cli import rules
from nvbackend.cli.words import nearest
from nvbackend.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import nvbackend as nvb


class ProgramError(DiagnosticError):
    """Diagnostics of the user's own program, whose places are lines of it."""


@contextmanager
def users_program() -> Iterator[None]:
    """Diagnostics inside are of the user's program."""
    try:
        yield
    except DiagnosticError as error:
        raise ProgramError(map(_placed, error.diagnostics)) from None


def _placed(diagnostic: Diagnostic) -> Diagnostic:
    """A mistake of the command line itself has no place: its line would be that of the program nvbackend."""
    at, program = diagnostic.location, getattr(sys.modules["__main__"], "__file__", None)
    is_ours = at is not None and program is not None and os.path.realpath(at.file) == os.path.realpath(program)
    return dataclasses.replace(diagnostic, location=None) if is_ours else diagnostic


def definition_at(spec: str) -> nvb.KernelDefinition:
    """The kernel that `spec` names: FILE.py:kernel, or FILE.py where it has one kernel. Raises cli.build."""
    import nvbackend as nvb

    file, colon, name = spec.rpartition(":") if ":" in spec else (spec, "", "")
    if not file.endswith(".py"):
        fail(f"{spec!r} does not name a Python file and a kernel", "write FILE.py:kernel")
    module = _run(Path(file))
    kernels = {key: each for key, each in vars(module).items() if isinstance(each, nvb.KernelDefinition)}
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


def fail(problem: str, fix: str) -> NoReturn:
    """Raise cli.build."""
    rules.BUILD.fail(problem=problem, fix=fix)


def _run(path: Path) -> Any:
    """The module of a file, run once under its own name, with its folder and the current one on the search path."""
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        fail(f"{path} is not a file", "name a Python file that is there")
    module = importlib.util.module_from_spec(spec)
    before, known = list(sys.path), sys.modules.get(name)
    sys.path[:0] = [str(path.resolve().parent), os.getcwd()]
    sys.modules[name] = module
    try:
        with users_program():
            spec.loader.exec_module(module)
    except DiagnosticError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 (a user's file raises what it likes)
        fail(
            f"{path} ends with {type(error).__name__}: {error}{_line_of(error, path)}",
            "mend the file, then build again",
        )
    finally:
        sys.path[:] = before
        if known is not None:
            sys.modules[name] = known
    return module


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
