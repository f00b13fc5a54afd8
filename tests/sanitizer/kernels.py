"""Kernels of the problems: compiled side by side before they are run, and kept in a folder."""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import pickle
import time
import warnings
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

import nvbackend as nvb
from samples.problem import Problem
from samples.program import target_here
from tests.sanitizer.problems import problems


def _file(folder: Path, name: str) -> Path:
    return folder / f"{sha256(name.encode()).hexdigest()[:24]}.kernel"


def keep(folder: Path, name: str, kernel: nvb.CompiledKernel) -> None:
    """Keep the kernel that was compiled for a problem."""
    _file(folder, name).write_bytes(pickle.dumps(kernel))


def kernel_of(folder: Path, name: str) -> nvb.CompiledKernel:
    """The kernel that was compiled for a problem."""
    kernel: nvb.CompiledKernel = pickle.loads(_file(folder, name).read_bytes())
    return kernel


@functools.cache
def _every() -> dict[str, Callable[[], Problem]]:
    """All problems, once in a process that compiles several."""
    return problems(1)


def compile_one(folder: Path, name: str, *, simulate: bool) -> str:
    """Compile the kernel of a problem; why not, if it cannot be.

    What the checks of a build find is no matter here: other tests run them, and they take as long as the rest.
    """
    warnings.simplefilter("ignore", nvb.DiagnosticWarning)
    try:
        kernel = _every()[name]().kernel
        target = None if simulate else target_here(kernel)[0]
        keep(folder, name, kernel.compile(target=target, check=False, assemble=False if simulate else None))
    except Exception as raised:  # noqa: BLE001 (whatever it is, it is this problem's)
        return f"not compiled: {type(raised).__name__}: {raised}"
    return ""


def compile_all(
    folder: Path, names: Iterable[str], *, jobs: int, until: float, simulate: bool
) -> tuple[list[str], dict[str, str]]:
    """The names whose kernels were compiled until then, in their order, and why others were not."""
    context = multiprocessing.get_context("spawn")  # the processes of a fork could not start CUDA
    with concurrent.futures.ProcessPoolExecutor(jobs, context) as executor:
        started = {name: executor.submit(compile_one, folder, name, simulate=simulate) for name in names}
        concurrent.futures.wait(started.values(), max(0, until - time.time()) if until < float("inf") else None)
        executor.shutdown(wait=True, cancel_futures=True)
    ended = {name: future.result() for name, future in started.items() if not future.cancelled()}
    return [name for name, why in ended.items() if not why], {name: why for name, why in ended.items() if why}
