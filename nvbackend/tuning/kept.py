"""Results of measurements on disk, under a digest of everything that they depend on."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from nvbackend.codegen.cache import Cache, cache_key, pack, unpack
from nvbackend.codegen.compiled import CompiledKernel
from nvbackend.codegen.pickled import loaded
from nvbackend.codegen.saved.written import own_version
from nvbackend.diagnostics import Diagnostic, DiagnosticError
from nvbackend.runtime.device import CudaDevice, Device
from nvbackend.runtime.driver import driver_version
from nvbackend.runtime.timing import Timing

_TIMINGS, _FAILED = "timings", "failed"


class Measured(NamedTuple):
    """The timings of the candidates that ran, and why the others did not."""

    timings: dict[str, Timing]
    failed: dict[str, DiagnosticError]

    @property
    def best(self) -> str:
        """The candidate with the least median; of equal ones the first."""
        return min(self.timings, key=lambda name: self.timings[name].median)


def key_of(candidates: Mapping[str, CompiledKernel], device: Device, key: object, **how: int | bool) -> str:
    """The key of the result for compiled candidates on a device; `how` says how they are measured."""
    limits = device.limits
    return cache_key(
        "tune",
        candidates=repr([(name, *_digests(kernel)) for name, kernel in candidates.items()]),
        device=limits.name,
        capability=repr(limits.capability),
        multiprocessors=limits.multiprocessors,
        driver=driver_version() if isinstance(device, CudaDevice) else None,
        nvbackend=own_version(),
        key=repr(key),
        **how,
    )


def _digests(kernel: CompiledKernel) -> tuple[str, str | None]:
    """Of its PTX, and of its cubin if it has one."""
    binary = None if kernel.cubin is None else kernel.cubin.data
    return _digest(kernel.ptx.encode()), None if binary is None else _digest(binary)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def keep(cache: Cache, key: str, measured: Measured) -> None:
    """Put a result into the cache."""
    samples = {name: timing.samples for name, timing in measured.timings.items()}
    failed = {name: DiagnosticError(map(_plain, error.diagnostics)) for name, error in measured.failed.items()}
    cache.put(key, pack({_TIMINGS: json.dumps(samples).encode(), _FAILED: pickle.dumps(failed)}))


def _plain(diagnostic: Diagnostic) -> Diagnostic:
    """With texts for the values in it, which may be errors of the driver."""
    return replace(diagnostic, values={name: str(value) for name, value in diagnostic.values.items()})


def kept(cache: Cache, key: str, candidates: Mapping[str, CompiledKernel]) -> Measured | None:
    """The result in the cache, which times one of these candidates or more, and says why it left the others out.

    None for anything else.
    """
    entry = cache.get(key)
    try:
        return None if entry is None else _read(unpack(entry), set(candidates))
    except Exception:  # noqa: BLE001 (bytes of anything else may raise anything)
        return None


def _read(parts: Mapping[str, bytes], candidates: set[str]) -> Measured | None:
    samples, failed = json.loads(parts[_TIMINGS]), loaded(parts[_FAILED])
    timings = {name: Timing(tuple(map(float, each))) for name, each in samples.items()}
    are_times = all(timing.samples and all(map(math.isfinite, timing.samples)) for timing in timings.values())
    are_errors = all(isinstance(error, DiagnosticError) for error in failed.values())
    is_whole = {*timings, *failed} == candidates and not set(timings) & set(failed)
    return Measured(timings, failed) if timings and are_times and are_errors and is_whole else None
