"""What the program of every sample does: build, print what was built, multiply on the GPU, compare with NumPy."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import nvbackend as nvb

Matrix = tuple[Any, Any]
"""A random matrix as the kernel reads it, an array or a tuple of them, and its elements in float32."""

TOLERANCE = 2**-10
"""Half a unit in the last place of f16, and the order of a float32 sum."""


def f16_matrix(random: Any, rows: int, columns: int) -> Matrix:
    """Normally distributed numbers from a NumPy generator, in f16."""
    import numpy as np

    made = random.standard_normal((rows, columns), np.float32).astype(np.float16)
    return made, made.astype(np.float32)


def e4m3_matrix(random: Any, rows: int, columns: int) -> Matrix:
    """Numbers from 1/16 to 15/8 of either sign, as bytes of e4m3: the sign, 4 bits of exponent, 3 of fraction."""
    import numpy as np

    codes = (
        random.integers(0x18, 0x40, (rows, columns), np.uint8) | random.integers(0, 2, (rows, columns), np.uint8) << 7
    )
    magnitude = np.ldexp(np.float32(1) + (codes & 7).astype(np.float32) / 8, (codes >> 3 & 15).astype(np.int32) - 7)
    return codes, np.where(codes >> 7, -magnitude, magnitude)


def main(
    description: str | None,
    kernel: nvb.KernelDefinition,
    launch: Callable[..., None],
    *,
    tile: Sequence[int] = (1, 1, 1),
    matrix: Callable[[Any, int, int], Matrix] = f16_matrix,
    result: str = "float16",
) -> int:
    """The program's exit status: 0 where the numbers are right or the machine has no GPU.

    `launch(loaded, a, b, c)` starts the kernel on the GPU's arrays; M, N and K must be multiples of `tile`. `matrix`
    makes A and B (K columns each), `result` is NumPy's name of C's type.
    """
    size, show = _arguments(description, tile)
    target, reason = _target(kernel)
    compiled = kernel.compile(target=target)
    print(compiled.report())
    if show:
        print(compiled.sass() if show == "sass" else getattr(compiled, show))
    if reason is not None:
        print(f"not launched: {reason}")
        return 0
    return _multiply(compiled, launch, size, matrix, result)


def compare(kernel: nvb.KernelDefinition, grid: int | tuple[int, ...], *arguments: Any, expected: Any) -> None:
    """Build, verify and assemble the kernel; on its GPU, launch it and compare its output with `expected`.

    `arguments` are numbers, NumPy arrays, and `...` for the output. Raises AssertionError where the numbers differ.
    """
    target, reason = _target(kernel)
    compiled = kernel.compile(target=target)
    if reason is not None:
        print(f"{compiled.name}: assembled, and not launched: {reason}")
        return
    import numpy as np
    from numba import cuda

    output = cuda.to_device(np.zeros_like(expected, order="C"))
    loaded = nvb.runtime.load(compiled)
    given = (output if one is ... else _on_gpu(one) if isinstance(one, np.ndarray) else one for one in arguments)
    loaded.launch(grid, *given)
    loaded.synchronize()
    error = _error(output.copy_to_host(), expected)
    assert error < TOLERANCE, f"{compiled.name} DIFFERS from NumPy, by {error:.1e} of the largest value"
    print(f"{compiled.name}: equal to NumPy")


def _error(result: Any, expected: Any) -> float:
    """The largest difference, as a part of the largest value."""
    import numpy as np

    return float(np.abs(result - expected).max() / np.abs(expected).max())


def _arguments(description: str | None, tile: Sequence[int]) -> tuple[tuple[int, ...], str | None]:
    """M, N and K, and the form to print."""
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("size", type=int, nargs="*", default=(4096, 4096, 4096), help="M N K (default 4096 each)")
    arguments.add_argument("--show", choices=["machine", "ir", "ptx", "sass"], help="print this form of the kernel")
    chosen = arguments.parse_args()
    if len(chosen.size) != len(tile):
        arguments.error(f"M N K are {len(tile)} numbers, not {len(chosen.size)}")
    for name, extent, unit in zip("MNK", chosen.size, tile, strict=True):
        if extent < 1 or extent % unit:
            arguments.error(f"{name} = {extent} is not a multiple of {unit}, which the kernel needs")
    return tuple(chosen.size), chosen.show


def _target(kernel: nvb.KernelDefinition) -> tuple[str | None, str | None]:
    """What to compile for, None for the kernel's own target; and why it cannot run on this machine, if so."""
    reason = nvb.runtime.no_gpu_reason()
    if reason is not None:
        return None, reason
    from numba import cuda

    major, minor = cuda.get_current_device().compute_capability
    own, here = nvb.Target.parse(str(kernel.target)), 10 * major + minor
    if own.number == here:
        return None, None
    if own.number < here and str(own) == f"sm_{own.number}":
        return f"sm_{here}", None
    return None, f"the GPU is sm_{here}, the kernel is for {own}"


def _multiply(
    compiled: nvb.CompiledKernel,
    launch: Callable[..., None],
    size: Sequence[int],
    matrix: Callable[[Any, int, int], Matrix],
    result: str,
) -> int:
    """Multiply random matrices on the GPU and compare with NumPy, which accumulates in float32 like the kernel."""
    import numpy as np
    from numba import cuda

    m, n, k = size
    random = np.random.default_rng(0)
    (a, a_values), (b, b_values) = (matrix(random, rows, k) for rows in (m, n))
    c = cuda.device_array((m, n), result)
    loaded = nvb.runtime.load(compiled)
    launch(loaded, *(_on_gpu(one) for one in (a, b)), c)
    loaded.synchronize()

    expected = a_values @ b_values.T
    error = _error(c.copy_to_host(), expected)
    right = error < TOLERANCE
    verdict = "equal to" if right else "DIFFERS from"
    print(f"{m}x{n}x{k}: {verdict} NumPy, largest error {error:.1e} of the largest value")
    return 0 if right else 1


def _on_gpu(matrix: Any) -> Any:
    from numba import cuda

    return tuple(map(cuda.to_device, matrix)) if isinstance(matrix, tuple) else cuda.to_device(matrix)
