"""Python programs: in a process of their own, for what ends a process or must see a fresh one, or in this one."""

from __future__ import annotations

import contextlib
import gc
import io
import resource
import runpy
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
"""The repository's top level."""


def collect_seldom() -> None:
    """Have the garbage collector leave what there is alone and run seldom: a kernel is small, and dies as a whole."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def limit_memory(size: int) -> None:
    """Let this process take `size` bytes of address space, or what it may already where that is less."""
    _, allowed = resource.getrlimit(resource.RLIMIT_AS)
    most = size if allowed == resource.RLIM_INFINITY else min(size, allowed)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def run_python(code: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run `code` as a program whose import path starts with the repository; whatever it ends with is the caller's."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def python_output(code: str, *arguments: str, timeout: float = 120) -> str:
    """What `code` prints; fails the test, with what it said, where it does not exit with 0."""
    done = run_python(code, *arguments, timeout=timeout)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_here(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a file as a program in this process, which has imported already what programs of their own import for long.

    What it warns of counts as said on stderr, as does an error that it ends with.
    """
    said, told = io.StringIO(), io.StringIO()
    command = [str(program), *arguments]
    with contextlib.ExitStack() as around:
        around.enter_context(mock.patch.object(sys, "argv", command))
        around.enter_context(mock.patch.object(sys, "path", [str(program.parent), *sys.path]))
        around.enter_context(contextlib.redirect_stdout(said))
        around.enter_context(contextlib.redirect_stderr(told))
        found = around.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("default")
        status = _status_of(program)
    told.writelines(warnings.formatwarning(one.message, one.category, one.filename, one.lineno) for one in found)
    return subprocess.CompletedProcess(command, status, said.getvalue(), told.getvalue())


def _status_of(program: Path) -> int:
    try:
        runpy.run_path(str(program), run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(end.code)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # noqa: BLE001 -- whatever ends the program
        traceback.print_exc()
        return 1
    return 0
