"""The first kernels of a process, built by several threads at once."""

from __future__ import annotations

from tests.support.process import python_output

PROGRAM = """
import time
from concurrent.futures import ThreadPoolExecutor
from llvmlite.ir import values
import nvbackend as nvb
from nvbackend import f32

class Slow(dict):
    def __setitem__(self, key, value):
        time.sleep(1e-3)
        super().__setitem__(key, value)

values._escape_string.__defaults__ = (Slow(),)

@nvb.kernel("sm_80", threads=32)
def kernel(k, out: nvb.Pointer[f32], *, n=1):
    out[k.thread_id()] = float(n)

with ThreadPoolExecutor(4) as threads:
    texts = list(threads.map(lambda n: kernel.build(n=n).ir, range(8)))
assert texts == [kernel.build(n=n).ir for n in range(8)]
print(len(set(texts)))
"""


def test_the_first_kernels_may_be_built_at_once() -> None:
    """llvmlite makes a table when it first prints a text; here that takes a quarter of a second."""
    assert python_output(PROGRAM).strip() == "8"
