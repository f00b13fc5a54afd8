"""A kernel's inputs, and the result by NumPy: what the program of a sample runs, and its tests, too."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import nvbackend as nvb
from samples.formats import doubles
from samples.program import Device, f16_matrix, largest_error, target_here


@dataclass(frozen=True)
class Problem:
    """`launch(loaded, *inputs, output)` starts the kernel. It is right within `tolerance` of the largest value.

    `choice` is what was chosen for the size, if anything was; `element` is the output's type where NumPy lacks it.
    """

    kernel: nvb.KernelDefinition
    launch: Callable[..., None]
    inputs: Sequence[Any]
    expected: Any
    output: Any
    tolerance: float
    choice: object = None
    element: nvb.ElementType | None = None

    def error(self, compiled: nvb.CompiledKernel, device: Device) -> float:
        """Run what the kernel was compiled to; the largest error, as a part of the largest value."""
        loaded = device.load(compiled)
        output = device.array(self.output.copy())
        self.launch(loaded, *map(device.array, self.inputs), output)
        loaded.synchronize()
        return self.error_of(device.numbers(output))

    def error_of(self, output: Any) -> float:
        """The largest error of an output that a kernel has written."""
        numbers = output.astype("float64") if self.element is None else doubles(output, self.element)
        return largest_error(numbers, self.expected)


def random_product(m: int, n: int, depth: int) -> tuple[Any, Any, Any, Any]:
    """Random A (M x K) and B (N x K) in f16, A @ B^T as NumPy has it in f32, and an f16 output of NaN."""
    import numpy as np

    random = np.random.default_rng(m + n + depth)
    (a, a_values), (b, b_values) = (f16_matrix(random, rows, depth) for rows in (m, n))
    return a, b, a_values @ b_values.T, np.full((m, n), np.nan, np.float16)


def main(
    description: str | None,
    make: Callable[..., Problem],
    *,
    sizes: str,
    on_the_gpu: Sequence[int],
    in_the_simulator: Sequence[int],
    multiples: Sequence[int] = (),
    forms: Sequence[str] = (),
    tune: Callable[..., int] | None = None,
) -> int:
    """The program's exit status: 0 where the numbers are right.

    `make(*size)` gives the problem of a size, which is the numbers that `sizes` names, each a multiple of what
    `multiples` has; where a sample has several `forms`, `make(form, *size)`. With `tune` there is `--tune`: it takes
    the same and what was asked for by name, as `samples.tuning.How` has it, and gives the status.
    """
    arguments = _parser(description)
    if forms:
        arguments.add_argument("form", choices=forms, nargs="?", default=forms[0], help=f"default {forms[0]}")
    gpu, simulator = (" ".join(map(str, one)) for one in (on_the_gpu, in_the_simulator))

    def number(word: str) -> int:
        try:
            return int(word)
        except ValueError:
            expected = f"; forms are: {', '.join(forms)}" if forms else ""
            raise argparse.ArgumentTypeError(f"{word!r} is not a number{expected}") from None

    arguments.add_argument(
        "size", type=number, nargs="*", help=f"{sizes} (default {gpu}; {simulator} in the simulator)"
    )
    arguments.add_argument("--show", choices=["machine", "ir", "ptx", "sass"], help="print this form of the kernel")
    arguments.add_argument("--simulate", action="store_true", help="run in the simulator, also where there is a GPU")
    if tune is not None:
        _add_tuning(arguments)
    words = sys.argv[1:]
    if forms and not set(words) & set(forms) and any(word.isdigit() for word in words):
        words = [forms[0], *words]  # argparse would take the first number for the form
    chosen = arguments.parse_args(words)
    if len(chosen.size) not in (0, len(on_the_gpu)):
        arguments.error(f"{sizes} are {len(on_the_gpu)} numbers, not {len(chosen.size)}")
    names = sizes.replace(" and ", ", ").split(", ")
    for name, extent, unit in zip(names, chosen.size, multiples or [1] * len(chosen.size), strict=False):
        if extent < 1 or extent % unit:
            needed = "number" if unit == 1 else f"multiple of {unit}"
            arguments.error(f"{name} = {extent} is not a positive {needed}")

    form = [chosen.form] if forms else []
    if tune is not None and _is_to_measure(arguments, chosen):
        return _measured(tune, *form, *(chosen.size or on_the_gpu), most=chosen.most, jobs=chosen.jobs)
    kernel = make(*form, *in_the_simulator).kernel
    target, reason = (None, "--simulate asks for it") if chosen.simulate else target_here(kernel)
    size = chosen.size or (on_the_gpu if reason is None else in_the_simulator)
    problem, device = _made(arguments, partial(make, *form, *size)), Device(reason)
    compiled = problem.kernel.compile(target=target)
    print(*(one for one in (problem.choice, compiled.report()) if one is not None), sep="\n")
    if chosen.show:
        print(compiled.sass() if chosen.show == "sass" else getattr(compiled, chosen.show))
    return _verdict(problem, compiled, device, size)


def _made(arguments: argparse.ArgumentParser, make: Callable[[], Problem]) -> Problem:
    """The problem. Ends the program for a size that the sample's kernels have not."""
    try:
        return make()
    except ValueError as error:
        arguments.error(str(error))


def _verdict(problem: Problem, compiled: nvb.CompiledKernel, device: Device, size: Sequence[int]) -> int:
    """Run it and say whether the numbers are right: 0 where they are."""
    error = problem.error(compiled, device)
    right = error < problem.tolerance
    verdict = "equal to" if right else "DIFFERS from"
    print(f"{'x'.join(map(str, size))}{device.told}: {verdict} NumPy, largest error {error:.1e} of the largest value")
    return 0 if right else 1


def positive(word: str) -> int:
    """An argument's value."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is not a positive number")
    return int(word)


def _parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that names the program: a package by how it is called, as its file has no name of its own."""
    folder, _, name = sys.argv[0].rpartition(os.sep)
    called = f"python -m samples.{os.path.basename(folder)}" if name == "__main__.py" else None
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=called, description=description, formatter_class=form)


def _add_tuning(arguments: argparse.ArgumentParser) -> None:
    measuring = arguments.add_argument_group("choosing by measuring")
    measuring.add_argument("--tune", action="store_true", help="measure all candidates, on a GPU; print the best ones")
    measuring.add_argument("--most", type=positive, metavar="N", help="only the N candidates that the model has first")
    measuring.add_argument("--jobs", type=positive, metavar="N", help="compile in so many processes")


def _is_to_measure(arguments: argparse.ArgumentParser, chosen: argparse.Namespace) -> bool:
    """Whether `--tune` is there. Ends the program where what does not go with it is, or what goes with it alone."""
    if chosen.tune and chosen.simulate:
        arguments.error("--tune measures on a GPU, and the simulator has no time to measure: leave one of them out")
    if not chosen.tune and (chosen.most or chosen.jobs):
        arguments.error("--most and --jobs are for --tune, which is not there")
    return bool(chosen.tune)


def _measured(tune: Callable[..., int], *problem: Any, **how: Any) -> int:
    """The status of `tune`, 1 where it cannot measure, with the reason on standard error."""
    if (reason := nvb.runtime.no_gpu_reason()) is not None:
        fix = "run it on a machine with a GPU, or leave --tune out"
        print(f"error: --tune measures on a GPU: {reason}\n  fix: {fix}", file=sys.stderr)
        return 1
    try:
        return tune(*problem, **how)
    except nvb.DiagnosticError as error:
        for one in error.diagnostics:
            print(f"error[{one.rule_id}]: {one.message}\n  fix: {one.fix}", file=sys.stderr)
        return 1
