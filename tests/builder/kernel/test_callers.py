"""A kernel is the same for all who ask for it: no line of theirs is in its IR, its PTX or its machine form."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.codegen.llvm import compile_ir

ROOT = Path(__file__).parents[3]


@nvb.kernel("sm_90a", threads=64)
def promised(
    k,
    out: nvb.Pointer[f32],
    n: Annotated[i32, nvb.Scalar(i32, multiple_of=16, minimum=16, maximum=4096)],
):
    i = k.thread_id()
    with k.if_(i < n):
        out[i] = 1.0


def here():
    return promised.build()


def further_down():

    def inside():
        return promised.compile(assemble=False, cache=nvb.Cache.disabled())

    return inside()


def _forms(kernel):
    places = [instr.location for block in kernel.machine.blocks.values() for instr in block.instructions]
    callers = [place.callers for place in places if place is not None]
    return kernel.ir, str(kernel.machine), places, callers


def test_two_callers_get_the_same_kernel():
    first, second = here(), promised.build()
    assert "llvm.assume" in first.ir
    assert _forms(first) == _forms(second)
    compiled, again = further_down(), promised.compile(assemble=False, cache=nvb.Cache.disabled())
    assert compiled.ir == again.ir == first.ir
    assert compiled.ptx == again.ptx


def test_what_the_parameters_need_is_of_the_definition():
    finished = here()
    (assume,) = {
        re.search(r"!dbg !(\d+)", line)[1]
        for line in finished.ir.splitlines()
        if '@"llvm.assume"(i1' in line and "call" in line
    }
    (line,) = re.findall(rf"^!{assume} = !DILocation\(.*\bline: (\d+)", finished.ir, re.MULTILINE)
    assert int(line) == inspect.getsourcelines(promised.__wrapped__)[1]


def test_another_process_gets_the_same_kernel():
    program = f"""
import importlib


def ask():
    module = importlib.import_module({__name__!r})
    return module.promised.build()


finished = ask()
from nvbackend.codegen.llvm import compile_ir
print(finished.ir, compile_ir(finished.ir, finished.target).ptx, sep="|")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    finished = here()
    assert done.stdout.rstrip("\n") == f"{finished.ir}|{compile_ir(finished.ir, finished.target).ptx}".rstrip("\n")


def test_a_kernel_that_is_asked_for_inside_another_has_its_own_lines():
    inside = []

    @nvb.kernel("sm_90a", threads=32)
    def outer(k):
        inside.append(promised.build())
        k.nanosleep(20)

    outer.build()
    assert inside[0].ir == here().ir
