"""compute-sanitizer names the Python line of a store out of bounds: a witness of the line tables in the cubin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import ROOT
from tests.support.sanitizer import sanitizer

PROGRAM = """import numpy as np
import nvbackend as nvb
from nvbackend import f32
from numba import cuda


def planted(k, out):
    out[k.thread_id() + (1 << 28)] = 1.0


@nvb.kernel("{target}", threads=32)
def stores(k, out: nvb.Pointer[f32]):
    out[k.thread_id()] = 2.0
    planted(k, out)


out = cuda.to_device(np.zeros(32, np.float32))
try:
    nvb.runtime.load(stores.compile(cache=nvb.Cache.disabled())).launch(1, out)
    cuda.synchronize()
except Exception as error:
    print("ended by", type(error).__name__)
"""


@pytest.mark.gpu((9, 0))
def test_a_store_out_of_bounds_is_named_by_its_python_line(tmp_path: Path) -> None:
    program = sanitizer()
    if program is None:
        pytest.skip("compute-sanitizer is not installed")
    source = tmp_path / "planted.py"
    source.write_text(PROGRAM.format(target="sm_90a"))
    command = [str(program), "--tool", "memcheck", "--require-cuda-init=no", sys.executable, str(source)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    said = done.stdout + done.stderr
    assert "Invalid __global__ write of size 4 bytes" in said, said[-3000:]
    store = 1 + PROGRAM[: PROGRAM.index("out[k.thread_id() + (1 << 28)]")].count("\n")
    assert f"planted.py:{store}" in said, said[-3000:]
