"""Files whose names are no text in UTF-8, or no names of files at all, and modules whose names are no text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.diagnostics.location import Location
from tests.support.process import ROOT

KERNEL = """import nvbackend as nvb
@nvb.kernel("sm_90a", threads=32)
def stored(k, out: nvb.Pointer[nvb.f32]):
    out[k.thread_id()] = 1.0
print(len(stored.compile().ptx) > 0)
"""


@pytest.mark.parametrize("name", ["/a/\ud800.py", "/a/\0.py"])
def test_a_place_in_no_file_has_no_source(name: str) -> None:
    assert Location(name, 1, "f").source == ""


def test_a_kernel_in_a_folder_with_bytes_for_a_name_compiles(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    file = folder + b"/kernel.py"
    with open(file, "w", encoding="utf-8") as written:
        written.write(KERNEL)
    environment = {**os.environ, "PYTHONPATH": "."}
    done = subprocess.run([sys.executable, file], check=False, cwd=ROOT, capture_output=True, env=environment)
    assert (done.stdout, done.returncode) == (b"True\n", 0), done.stderr


PROGRAM = """
def helper(k):
    k.nanosleep(30)

@nvb.kernel("sm_90a", threads=32)
def stored(k, out: nvb.Pointer[nvb.u32]):
    helper(k)
    with k.loop():
        out[0] = 7
        k.break_()

compiled = stored.compile(assemble=False)
again = stored.compile(assemble=False)
nvb.runtime.load(compiled, device="simulator").launch(1, out)

@nvb.kernel("sm_90a", threads=32)
def refused(k, out: nvb.Pointer[nvb.u32]):
    out[1] = "x"
"""


def named(code: CodeType, file: str) -> CodeType:
    """The code, and that of its functions, as of another file."""
    inner = tuple(named(each, file) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=file, co_consts=inner)


@pytest.mark.parametrize("name", ["/a/\ud800.py", "/a/\0.py"])
def test_a_program_of_no_file_is_built_run_and_shown(name: str) -> None:
    """The lines of its with-statements, its loops and its page are asked for, and there are none."""
    scope: dict[str, Any] = {"__name__": "users", "nvb": nvb, "out": np.zeros(4, np.uint32)}
    exec(named(compile(PROGRAM, "users.py", "exec"), name), scope)
    assert scope["out"][0] == 7
    assert "stored" in scope["compiled"].html()


@pytest.mark.parametrize("name", [None, 5, b"users", ["users"], {}], ids=repr)
def test_a_program_whose_globals_have_no_name(name: object) -> None:
    """`exec` gives a module what names it likes: nothing but lines is taken from it."""
    scope: dict[str, Any] = {"__name__": name, "nvb": nvb, "out": np.zeros(4, np.uint32)}
    exec(compile(PROGRAM, "users.py", "exec"), scope)
    assert scope["out"][0] == 7
    assert scope["again"] == scope["compiled"]
    with pytest.raises(nvb.DiagnosticError) as caught:
        scope["refused"].build()
    (found,) = caught.value.diagnostics
    assert found.location is not None
    assert (found.rule_id, found.location.file, found.location.line) == ("value.kind", "users.py", 18)
