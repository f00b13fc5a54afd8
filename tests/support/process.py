"""Python in a process of its own, for what ends a process or must see a fresh one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository's top level."""


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
