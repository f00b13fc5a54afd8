"""Device functions that tests compile for others to link, and the program of CUDA C++ that calls all of them."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import bf16, f16, f16x2, f32, f64, i32, pred, s8, s16, s64, u8, u16, u64


@nvb.function
def scaled(k, x: f32, n: i32) -> f32:
    return x * n.to(f32)


@nvb.function
def sum_of_row(k, row: nvb.Pointer(f32, align=4), count: i32) -> tuple[f32, i32]:
    total, positive = k.var(0.0), k.var(0)
    with k.range(count) as i:
        value = row[i]
        total += value
        positive += (value > 0.0).to(i32)
    return total, positive


@nvb.function
def of_every_type(
    k, a: pred, b: u8, c: s8, d: u16, e: s16, f: f16, g: bf16, h: u64, i: s64, j: f64, p: f16x2
) -> tuple[pred, u8, s8, u16, s16, f16, bf16, u64, s64, f64, f16x2]:
    return ~a, b, c, d, e, f, g, h, i, j, p


@nvb.function
def first_two(k, p: nvb.Pointer(f32, space="shared", align=4)) -> f32:
    return p[0] + p[1]


@nvb.function
def negated(k, a: pred) -> pred:
    return ~a


@nvb.function
def least(k, a: s8, b: s8) -> s8:
    return k.math.min(a.to(i32), b.to(i32)).to(s8)


@nvb.function
def stored(k, out: nvb.Pointer(i32, align=4), x: i32):
    out[k.thread_id()] = scaled(k, x.to(f32), 2).to(i32)


FUNCTIONS = (scaled, sum_of_row, of_every_type, first_two, negated, least, stored)

CALLER = """
extern "C" __global__ void caller(float *out, const float *in, int n) {
    __shared__ float tile[32];
    int t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    struct sum_of_row_results sums = sum_of_row((float *)in, n);
    struct of_every_type_results all = of_every_type(true, 1, -2, 3, -4, 5, 6, 7, -8, 9.0, 10);
    int integers = all.result0 + all.result1 + all.result2 + all.result3 + all.result4 + all.result5 + all.result6;
    stored((int *)out + 32, t);
    out[t] = scaled(sums.result0, sums.result1) + first_two(tile) + negated(false) + least(t, -3)
        + integers + all.result7 + all.result8 + (float)all.result9 + all.result10;
}
"""


def expected(numbers, n):
    """What `caller` writes to its first 32 elements, in plain Python."""
    head = numbers[:n]
    total, positive = float(head.sum()), int((head > 0).sum())
    integers = (1 - 2 + 3 - 4 + 5 + 6) + 7 - 8 + 9 + 10
    return total * positive + float(numbers[0] + numbers[1]) + 1 - 3 + integers
