"""The types that the sample's program knows, and random matrices of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import nvbackend as nvb
from nvbackend import Major, e4m3, f16, f32, s8, s32, tf32
from samples.gemm.choice import Choice
from samples.gemm.deep import Deep
from samples.gemm.skinny import Skinny
from samples.gemm.unaligned import Unaligned
from samples.gemm.wide import Wide
from samples.problem import Problem
from samples.program import Matrix, e4m3_matrix, f16_matrix


def s8_matrix(random: Any, rows: int, columns: int) -> Matrix:
    """All integers of 8 bits."""
    made = random.integers(-128, 128, (rows, columns)).astype("int8")
    return made, made.astype("float64")


def tf32_matrix(random: Any, rows: int, columns: int) -> Matrix:
    """Multiples of a quarter, which tf32 has too."""
    made = random.integers(-8, 9, (rows, columns)).astype("float32") / 4
    return made, made


class Form(NamedTuple):
    """The types of operands and result, random operands, the result's type in NumPy, the matrices of a batch.

    A is stored M x K and B N x K, with `majors` MN as K x M and K x N.
    """

    operand: nvb.ElementType = f16
    result: nvb.ElementType = f16
    matrix: Callable[[Any, int, int], Matrix] = f16_matrix
    storage: str = "float16"
    batches: int | None = None
    scale: float = 1.0
    tolerance: float = 2**-10
    majors: tuple[Major, Major] = (Major.K, Major.K)


FORMS = {
    "f16": Form(),
    "f16_nn": Form(majors=(Major.K, Major.MN)),
    "f16_tn": Form(majors=(Major.MN, Major.MN)),
    "f16_tt": Form(majors=(Major.MN, Major.K)),
    "batch": Form(batches=3),
    # Tensor cores add products of fp8 with fewer bits than f32 has: 0.0026 is off over 2,064 of them (H200).
    "e4m3": Form(e4m3, f16, e4m3_matrix, scale=0.5, tolerance=2**-8),
    "s8": Form(s8, s32, s8_matrix, "int32", tolerance=2**-30),
    "tf32": Form(tf32, f32, tf32_matrix, "float32", tolerance=2**-20),
}


def launch_of(
    choice: Choice, m: int, n: int, depth: int, multiprocessors: int, form: Form
) -> tuple[int, tuple[float, ...]]:
    """The grid and the last arguments."""
    if isinstance(choice, Wide):
        return choice.launch_of(m, n, depth, multiprocessors, batches=form.batches or 1, scale=form.scale)
    if isinstance(choice, (Deep, Unaligned, Skinny)):
        return choice.launch_of(m, n, depth, multiprocessors, scale=form.scale)
    return choice.launch_of(m, n, depth, multiprocessors)


def operands_of(form: Form, m: int, n: int, depth: int) -> tuple[list[Any], Any]:
    """Random A and B as they are stored, and their product."""
    import numpy as np

    random, batches = np.random.default_rng(m + n + depth), form.batches or 1
    (a, a_values), (b, b_values) = (form.matrix(random, batches * rows, depth) for rows in (m, n))
    product = a_values.reshape(batches, m, depth) @ b_values.reshape(batches, n, depth).transpose(0, 2, 1)
    front = (batches,) if form.batches else ()
    both = zip((a.reshape(*front, m, depth), b.reshape(*front, n, depth)), form.majors, strict=True)
    stored = [x if major is Major.K else np.ascontiguousarray(np.swapaxes(x, -2, -1)) for x, major in both]
    return stored, product.reshape(*front, m, n)


def problem_for(choice: Choice, m: int, n: int, depth: int, form: Form = FORMS["f16"]) -> Problem:
    """Random matrices for one of the kernels. Raises ValueError for one of operands that are stored otherwise."""
    import numpy as np

    majors = (choice.a_major, choice.b_major) if isinstance(choice, (Wide, Deep)) else (Major.K, Major.K)
    if majors != form.majors:
        own, others = (" and ".join(map(str, both)) for both in (majors, form.majors))
        raise ValueError(f"A and B are {own} for this kernel, those of the form are {others}")
    inputs, product = operands_of(form, m, n, depth)
    output = np.full(product.shape, 77, form.storage)

    def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, c: Any) -> None:
        grid, last = launch_of(choice, m, n, depth, loaded.device.limits.multiprocessors, form)
        loaded.launch(grid, a, b, c, *last)

    return Problem(choice.kernel, launch, inputs, form.scale * product, output, form.tolerance)
