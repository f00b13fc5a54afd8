"""Device functions."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32, f64, i32
from tests.rules.example import kernel, program


@kernel("function.declaration")
def parameter_of_no_type(k, out: nvb.Pointer[f32]):
    kind = float  # breaks
    kind = f32  # keeps

    @nvb.function
    def doubled(k, x: kind) -> f32:
        return x * 2.0

    out[0] = doubled(k, out[1])


@kernel("function.call")
def call_without_the_builder(k, out: nvb.Pointer[f32]):
    @nvb.function
    def doubled(k, x: f32) -> f32:
        return x * 2.0

    out[0] = doubled(out[1])  # breaks
    out[0] = doubled(k, out[1])  # keeps


@kernel("function.argument")
def argument_of_another_type(k, out: nvb.Pointer[f32], n: i32):
    @nvb.function
    def doubled(k, x: f32) -> f32:
        return x * 2.0

    out[0] = doubled(k, n)  # breaks
    out[0] = doubled(k, n.to(f32))  # keeps


@kernel("function.result")
def result_of_another_type(k, out: nvb.Pointer[f32], n: i32):
    @nvb.function
    def larger(k, x: i32) -> f32:
        return x + 1  # breaks
        return x.to(f32) + 1.0  # keeps

    out[0] = larger(k, n)


@kernel("function.recursion")
def function_that_calls_itself(k, out: nvb.Pointer[i32], n: i32):
    @nvb.function
    def factorial(k, n: i32) -> i32:
        return n * factorial(k, n - 1)  # breaks
        product = k.var(1)  # keeps
        with k.range(n) as i:  # keeps
            product *= i + 1  # keeps
        return product  # keeps

    out[0] = factorial(k, n)


@kernel("function.instruction")
def shared_memory_of_a_called_function(k, out: nvb.Pointer[f32]):
    tile = k.shared(f32, 128)

    @nvb.function(inline=False)
    def turned(k, tile: nvb.Pointer(f32, space="shared"), x: f32) -> f32:
        tile = k.shared(f32, 128)  # breaks
        tile[k.thread_id()] = x
        k.barrier.sync()
        return tile[127 - k.thread_id()]

    out[k.thread_id()] = turned(k, tile, 1.0)


@kernel("function.differs")
def body_that_counts_its_calls(k, out: nvb.Pointer[i32]):
    numbers = []

    @nvb.function(inline=False)  # breaks
    @nvb.function(inline=True)  # keeps
    def numbered(k, p: nvb.Pointer[i32]):
        numbers.append(len(numbers))
        p[0] = len(numbers)

    numbered(k, out)


@kernel("function.escape")
def register_of_a_called_function(k, out: nvb.Pointer[f32]):
    seen = []

    @nvb.function(inline=False)
    def keeps(k, x: f32) -> f32:
        seen.append((x * 2.0).ir)
        return x + 1.0

    y = keeps(k, out[0])
    out[1] = k.value(seen[0], f32)  # breaks
    out[1] = y  # keeps


@program("function.threads")
def function_of_the_callers_shape():
    @nvb.function
    def numbered(k) -> i32:
        return k.thread_id("linear")

    numbered.compile("sm_90a")  # breaks
    numbered.compile("sm_90a", threads=(32, 8))  # keeps


@program("function.numba")
def type_that_numba_lacks():
    @nvb.function
    def doubled(k, x: f16) -> f16:
        return x + x

    compiled = doubled.compile("sm_90")
    compiled.numba()  # breaks
    compiled.c_header()  # keeps


FOREIGN = """
.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 result) doubled(.param .b32 x) {
    .reg .f32 %f;
    ld.param.f32 %f, [x];
    add.f32 %f, %f, %f;
    st.param.f32 [result], %f;
    ret;
}
.visible .func (.param .b32 result) first(.param .b64 row) {
    .reg .b64 %d;
    .reg .f32 %f;
    ld.param.b64 %d, [row];
    ld.f32 %f, [%d];
    st.param.f32 [result], %f;
    ret;
}
"""


@program("function.foreign")
def parameter_of_another_width():
    kind = f64  # breaks
    kind = f32  # keeps
    nvb.extern_function("doubled", {"x": kind}, f32, ptx=FOREIGN)


@program("function.foreign-effects")
def load_that_is_called_pure():
    row = {"row": nvb.Pointer(f32)}
    nvb.extern_function("first", row, f32, ptx=FOREIGN)  # breaks
    nvb.extern_function("first", row, f32, ptx=FOREIGN, effects=("reads row",))  # keeps
