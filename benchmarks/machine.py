"""What a measurement is of: the GPU, the versions, and the clocks while it ran."""

from __future__ import annotations

import statistics
import subprocess
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

import nvbackend as nvb

EVERY = 1.0
"""Seconds from a sample of the clocks to the next one."""
BUSY = 90
"""Per cent of the time before a sample in which some kernel ran: the clocks of a GPU that waits say nothing."""


def machine() -> str:
    """The GPU, its driver, and the versions of what is measured, in a line."""
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    driver = asked(properties, "driver_version") or ["unknown"]
    ptxas = ".".join(map(str, nvb.codegen.find_ptxas().version[:2]))
    versions = f"PyTorch {torch.__version__} for CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
    return f"{properties.name}, driver {driver[0]}, {versions}, nvbackend {nvb.__version__}, ptxas {ptxas}"


def asked(properties: Any, fields: str) -> list[str] | None:
    """What nvidia-smi says of a GPU; None where it is not installed, or says nothing."""
    command = ["nvidia-smi", f"--query-gpu=uuid,{fields}", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    lines = said.strip().splitlines()
    own = lines if len(lines) == 1 else [line for line in lines if str(properties.uuid) in line]
    return [field.strip() for field in own[0].split(",")[1:]] if own else None


def heat(seconds: float = 8.0) -> None:
    """Multiply until the GPU is as warm as in a long run: a cool one has higher clocks at the same power."""
    import torch

    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(50):
            torch.matmul(a, b)
        torch.cuda.synchronize()


class Sample(NamedTuple):
    """MHz of the multiprocessors, watts, degrees, and the share of the time in which a kernel ran, in per cent."""

    clock: float
    power: float
    temperature: float
    busy: float


def sample_of(fields: Sequence[str] | None) -> Sample | None:
    """What nvidia-smi said, as numbers; None where one of them is not there."""
    try:
        return Sample(*map(float, fields or ()))
    except (TypeError, ValueError):
        return None


def clocks_of(samples: Sequence[Sample]) -> str:
    """The clocks while the GPU was busy, in a line."""
    busy = [sample for sample in samples if sample.busy >= BUSY]
    if not busy:
        return f"clocks: unknown, as none of {len(samples)} samples is of a busy GPU"
    clock, power, temperature = (
        f"{statistics.median(numbers):.0f} ({min(numbers):.0f} to {max(numbers):.0f})"
        for numbers in list(zip(*busy, strict=True))[:3]
    )
    return f"clocks while busy: {clock} MHz, {power} W, {temperature} degrees; medians of {len(busy)} samples"


class Clocks:
    """Samples of the clocks, taken while its block runs."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._gpu: Any = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._take, daemon=True)

    def __enter__(self) -> Clocks:
        import torch

        self._gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _take(self) -> None:
        while not self._ended.wait(EVERY):
            sample = sample_of(asked(self._gpu, "clocks.sm,power.draw,temperature.gpu,utilization.gpu"))
            if sample is None:
                return
            self.samples.append(sample)
