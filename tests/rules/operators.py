"""Operators of frameworks."""

from __future__ import annotations

from types import SimpleNamespace

import nvbackend as nvb
from nvbackend import f32
from tests.rules.example import program
from tests.support.stub_torch import stub_torch


@nvb.kernel("sm_90", threads=32)
def twice(k, x: nvb.Pointer(f32, align=4), out: nvb.Pointer(f32, align=4)):
    out[k.thread_id()] = x[k.thread_id()] * 2.0


@program("operator.declared")
def result_that_is_no_parameter():
    with stub_torch():
        nvb.torch.op(twice, "library::twice", grid=1, results={"y": lambda x: x.new_empty(32)})  # breaks
        nvb.torch.op(twice, "library::twice", grid=1, results={"out": lambda x: x.new_empty(32)})  # keeps


@program("operator.mutates")
def tensor_that_is_written_undeclared():
    with stub_torch():
        nvb.torch.op(twice, "library::twice", grid=1)  # breaks
        nvb.torch.op(twice, "library::twice", grid=1, mutates=("out",))  # keeps


@program("operator.capture")
def first_call_in_a_capture():
    with stub_torch(capturing=True):
        doubled = nvb.torch.op(twice, "library::twice", grid=1, mutates=("out",))
        doubled.run(*[SimpleNamespace(device="cuda")] * 2)  # breaks
