"""LLVM's library is loaded by a thread of its own while the first kernel is built, and what fails there comes again."""

from __future__ import annotations

import pytest

from tests.support.process import python_output

LOADED = """
import sys, threading
from nvbackend.codegen.stages.early import load_early

def is_loaded():
    return "libllvmlite" in open("/proc/self/maps").read()

print(is_loaded())
load_early()
[thread.join() for thread in threading.enumerate() if thread.name == "nvbackend library"]
print(is_loaded(), "llvmlite.binding" in sys.modules)
import llvmlite.binding
count = threading.active_count()
load_early()
print(threading.active_count() - count)
"""

COMPILED = """
import sys, threading
import llvmlite.utils
import nvbackend as nvb

what, = sys.argv[1:]
begun, start, name_of_library = [], threading.Thread.start, llvmlite.utils.get_library_name

def starting(thread):
    if what == "no threads":
        raise RuntimeError("can't start new thread")
    begun.append(thread.name)
    if what == "no library" and thread.name == "nvbackend library":
        llvmlite.utils.get_library_name = lambda: "none.so"
        start(thread)
        thread.join()
        llvmlite.utils.get_library_name = name_of_library
    else:
        start(thread)

threading.Thread.start = starting

@nvb.kernel("sm_80", threads=128)
def kernel(k, out: nvb.Pointer[nvb.i32], *, number: int = 1) -> None:
    begun.append("kernel")
    out[k.thread_id()] = number

for number in 1, 2:
    kernel.compile(cache=nvb.Cache.disabled(), assemble=False, number=number)
print(*begun, sep=", ")
"""


def test_the_library_is_loaded_once_and_nothing_else() -> None:
    assert python_output(LOADED).split() == ["False", "True", "False", "0"]


@pytest.mark.parametrize("what", ["", "no library"])
def test_it_begins_before_the_first_kernel_of_a_process(what: str) -> None:
    """What fails there comes again where the library is needed."""
    first, *others = python_output(COMPILED, what).strip().split(", ")
    assert first == "nvbackend library"
    assert others == ["kernel", "nvbackend compile"] * 2


def test_without_more_threads_it_is_loaded_where_it_is_needed() -> None:
    assert python_output(COMPILED, "no threads") == "kernel, kernel\n"
