"""Files whose names are no text in UTF-8, or no names of files at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
