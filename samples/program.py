"""What the program of every sample does: build, print what was built, multiply, compare with NumPy.

It multiplies on the GPU; without a GPU that can run the kernel, or with `--simulate`, it multiplies in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import nvbackend as nvb

if TYPE_CHECKING:
    import argparse

Matrix = tuple[Any, Any]
"""A random matrix as the kernel reads it, an array or a tuple of them, and its elements in float32."""

ON_THE_GPU, IN_THE_SIMULATOR = (4096, 4096, 4096), (512, 512, 256)
"""M, N and K where nothing else is asked for."""
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
    """The program's exit status: 0 where the numbers are right.

    `launch(loaded, a, b, c)` starts the kernel on the device's arrays; M, N and K must be multiples of `tile`. `matrix`
    makes A and B (K columns each), `result` is NumPy's name of C's type.
    """
    chosen = _arguments(description, tile)
    target, reason = (None, "--simulate asks for it") if chosen.simulate else target_here(kernel)
    options = {} if reason is None else {"seed": chosen.seed, "checks": not chosen.no_checks}
    if reason is not None and (chosen.report or chosen.timeline):
        options["report"] = True
    compiled = kernel.compile(target=target)
    print(compiled.report())
    if chosen.show:
        print(compiled.sass() if chosen.show == "sass" else getattr(compiled, chosen.show))
    size = chosen.size or (ON_THE_GPU if reason is None else IN_THE_SIMULATOR)
    device = Device(reason, options)
    status = _multiply(compiled, launch, size, matrix, result, device)
    if options.get("report") and device.loaded is not None:
        _show(device.loaded.report, chosen.timeline)
    return status


def compare(kernel: nvb.KernelDefinition, grid: int | tuple[int, ...], *arguments: Any, expected: Any) -> None:
    """Build and verify the kernel, launch it on its GPU or in the simulator, and compare its output with `expected`.

    `arguments` are numbers, NumPy arrays, and `...` for the output. Raises AssertionError where the numbers differ.
    """
    import numpy as np

    target, reason = target_here(kernel)
    compiled = kernel.compile(target=target)
    device = Device(reason)
    output = device.array(np.zeros_like(expected, order="C"))
    loaded = device.load(compiled)
    given = (output if one is ... else device.array(one) if isinstance(one, np.ndarray) else one for one in arguments)
    loaded.launch(grid, *given)
    loaded.synchronize()
    error = largest_error(device.numbers(output), expected)
    assert error < TOLERANCE, f"{compiled.name} DIFFERS from NumPy, by {error:.1e} of the largest value"
    print(f"{compiled.name}{device.told}: equal to NumPy")


class Device:
    """The GPU, or the simulator where there is a reason for it, with the simulator's options."""

    def __init__(self, reason: str | None, options: Mapping[str, Any] | None = None) -> None:
        self._simulates = reason is not None
        self._options = options or {}
        self.loaded: nvb.runtime.LoadedKernel | None = None
        self.told = f", in the simulator ({reason})" if reason is not None else ""

    def load(self, compiled: nvb.CompiledKernel) -> nvb.runtime.LoadedKernel:
        """The kernel, ready to launch."""
        self.loaded = nvb.runtime.load(compiled, device="simulator" if self._simulates else "gpu", **self._options)
        return self.loaded

    def array(self, given: Any) -> Any:
        """NumPy's array as the kernel takes it; of a tuple, each."""
        if isinstance(given, tuple):
            return tuple(map(self.array, given))
        if self._simulates:
            return given
        from numba import cuda

        return cuda.to_device(given)

    def numbers(self, array: Any) -> Any:
        """NumPy's array of one that the kernel has written."""
        return array if self._simulates else array.copy_to_host()


def _show(report: Any, timeline: str | None) -> None:
    """What a launch in the simulator did, and its picture."""
    print(report)
    if timeline is not None:
        report.timeline().save(timeline)
        print(timeline)


def largest_error(result: Any, expected: Any) -> float:
    """The largest difference, as a part of the largest value; of integers, which are equal or wrong, 0 or infinity."""
    import numpy as np

    if np.result_type(result, expected).kind in "iu":  # where differences would wrap around
        return 0.0 if np.array_equal(result, expected) else np.inf
    return float(np.abs(result - expected).max() / np.abs(expected).max())


def _arguments(description: str | None, tile: Sequence[int]) -> argparse.Namespace:
    """`size` (M, N and K, or none), `show` (the form to print), `simulate`, and what is asked of the simulator."""
    import argparse

    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = f"{ON_THE_GPU[0]} each, {' '.join(map(str, IN_THE_SIMULATOR))} in the simulator"
    arguments.add_argument("size", type=int, nargs="*", help=f"M N K (default {sizes})")
    arguments.add_argument("--show", choices=["machine", "ir", "ptx", "sass"], help="print this form of the kernel")
    arguments.add_argument("--simulate", action="store_true", help="run in the simulator, also where there is a GPU")
    simulator = arguments.add_argument_group("in the simulator")
    simulator.add_argument("--seed", type=int, default=0, help="another legal order of threads and operations")
    simulator.add_argument("--no-checks", action="store_true", help="do not look for races and other silent mistakes")
    simulator.add_argument("--report", action="store_true", help="print bytes, bank conflicts and waits")
    simulator.add_argument("--timeline", metavar="FILE.svg", help="draw who waits for whom")
    chosen = arguments.parse_args()
    if not chosen.size:
        return chosen
    if len(chosen.size) != len(tile):
        arguments.error(f"M N K are {len(tile)} numbers, not {len(chosen.size)}")
    for name, extent, unit in zip("MNK", chosen.size, tile, strict=True):
        if extent < 1 or extent % unit:
            arguments.error(f"{name} = {extent} is not a multiple of {unit}, which the kernel needs")
    return chosen


def target_here(kernel: nvb.KernelDefinition) -> tuple[str | None, str | None]:
    """What to compile for, None for the kernel's own target; and why it cannot run on this machine, if so."""
    return target_for(str(kernel.target))


def target_for(target: str) -> tuple[str | None, str | None]:
    """As `target_here`, for a kernel of this target."""
    reason = nvb.runtime.no_gpu_reason()
    if reason is not None:
        return None, reason
    from numba import cuda

    major, minor = cuda.get_current_device().compute_capability
    own, here = nvb.Target.parse(target), 10 * major + minor
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
    device: Device,
) -> int:
    """Multiply random matrices and compare with NumPy, which accumulates in float32 like the kernel."""
    import numpy as np

    m, n, k = size
    random = np.random.default_rng(0)
    (a, a_values), (b, b_values) = (matrix(random, rows, k) for rows in (m, n))
    c = device.array(np.zeros((m, n), result))
    try:
        loaded = device.load(compiled)
    except nvb.DiagnosticError as raised:
        if any(one.rule_id != "simulator.unknown" for one in raised.diagnostics):
            raise
        print(f"not launched{device.told}: {raised.diagnostics[0].message}")
        return 0
    launch(loaded, device.array(a), device.array(b), c)
    loaded.synchronize()

    expected = a_values @ b_values.T
    error = largest_error(device.numbers(c), expected)
    right = error < TOLERANCE
    verdict = "equal to" if right else "DIFFERS from"
    print(f"{m}x{n}x{k}{device.told}: {verdict} NumPy, largest error {error:.1e} of the largest value")
    return 0 if right else 1
