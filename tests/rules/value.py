"""Values, their types and where they may be used."""

from __future__ import annotations

from copy import deepcopy

from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32, i32, u8
from tests.rules.example import kernel, program


@kernel("value.constant")
def constant_cut_to_its_type(k, out: nvb.Pointer[u8]):
    out[0] = 256  # breaks
    out[0] = 255  # keeps


@program("value.kernel")
def value_of_another_kernel():
    parameters = [nvb.Parameter("out", nvb.Pointer(i32))]
    first, second = (nvb.KernelBuilder(name, "sm_90a", threads=32, parameters=parameters) for name in ("one", "two"))
    (out,) = second.arguments
    out[0] = first.thread_id()  # breaks
    out[0] = second.thread_id()  # keeps


@kernel("value.kind")
def text_as_a_value(k, out: nvb.Pointer[i32]):
    out[0] = "1"  # breaks
    out[0] = 1  # keeps


@kernel("call.copy")
def variable_copied(k, out: nvb.Pointer[i32]):
    total = k.var(0)
    before = deepcopy(total)  # breaks
    before = k.var(total)  # keeps
    total += 1
    out[0] = before.value


@kernel("value.attribute")
def atomic_on_an_element(k, out: nvb.Pointer[i32]):
    out[0].atomic("add", 1)  # breaks
    out.atomic("add", 1)  # keeps


@program("value.llvm-type")
def llvm_value_of_another_type():
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(32)]), "own")
    k = nvb.attach(ir.IRBuilder(function.append_basic_block()), "sm_90a", threads=32)
    k.value(function.args[0], f32)  # breaks
    k.value(function.args[0], i32)  # keeps


@kernel("value.operation")
def remainder_of_floats(k, x: nvb.Pointer[f32]):
    x[0] = x[0] % 2.0  # breaks
    x[0] = x[0] - 2.0 * k.math.floor(x[0] / 2.0)  # keeps


@kernel("call.no-effect")
def accurate_and_flushed(k, x: nvb.Pointer[f32]):
    x[0] = k.math.exp(x[0], ftz=True)  # breaks
    x[0] = k.math.exp(x[0], approx=True, ftz=True)  # keeps


@kernel("value.scope")
def value_behind_its_block(k, out: nvb.Pointer[i32], count: i32):
    last = k.var(0)
    with k.range(count) as i:
        last.set(i)
    out[0] = i  # breaks
    out[0] = last  # keeps


@kernel("value.rebound")
def greater_of_two(k, x: nvb.Pointer[f32]):
    best, other = k.var(x[0]), x[1]
    with k.if_(other > best):
        best.set(other)  # keeps
        best = other  # breaks
    x[2] = best


@kernel("value.truth")
def python_if_on_a_value(k, out: nvb.Pointer[i32], count: i32):
    if count > 0:  # breaks
        out[0] = 1  # breaks
    with k.if_(count > 0):  # keeps
        out[0] = 1  # keeps


@kernel("value.type")
def sum_of_two_types(k, x: nvb.Pointer[f32], count: i32):
    x[0] = x[0] + count  # breaks
    x[0] = x[0] + count.to(f32)  # keeps


@kernel("value.name")
def name_with_a_line_break(k, out: nvb.Pointer[i32]):
    count = k.var(0, name="two\nlines")  # breaks
    count = k.var(0, name="one line")  # keeps
    out[0] = count


@kernel("value.number")
def loop_of_the_host_over_a_value(k, out: nvb.Pointer[i32], n: i32):
    for i in range(n):  # breaks
        out[i] = i  # breaks
    with k.range(n) as i:  # keeps
        out[i] = i  # keeps
