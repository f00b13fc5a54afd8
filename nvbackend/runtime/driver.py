"""The CUDA driver, cuda.core and numba-cuda: imported here, on first use, and nowhere above."""

from __future__ import annotations

import importlib
from typing import Any

from nvbackend.diagnostics import user_facing

"""Why a tensor map is checked before the driver sees it."""


def bindings() -> Any:
    """cuda.bindings.driver."""
    return importlib.import_module("cuda.bindings.driver")


def core() -> Any:
    """cuda.core."""
    return importlib.import_module("cuda.core")


def numba_cuda() -> Any:
    """numba.cuda, of the numba-cuda package."""
    return importlib.import_module("numba.cuda")


def driver_errors() -> tuple[type[Exception], ...]:
    """What cuda.core and cuda.bindings raise where the driver refuses something."""
    try:
        cuda_error: type[Exception] = importlib.import_module("cuda.core._utils.cuda_utils").CUDAError
    except ImportError:
        return (RuntimeError,)
    return (RuntimeError, cuda_error)


class DriverError(RuntimeError):
    """The driver's answer, as `CUDA_ERROR_NAME: text`."""


def call(function: str, *arguments: object) -> Any:
    """What a function of cuda.bindings.driver gives besides its status. Raises DriverError where that is an error."""
    driver = bindings()
    status, *results = getattr(driver, function)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DriverError(error_text(status))
    return results[0] if len(results) == 1 else results


def error_text(status: Any) -> str:
    """A CUresult as `CUDA_ERROR_NAME: text`."""
    _, text = bindings().cuGetErrorString(status)
    return f"{status.name}: {text.decode()}" if text else str(status.name)


def driver_version() -> int:
    """The driver's version, 1000 times the major one and 10 times the minor one of the CUDA that it supports."""
    return int(call("cuDriverGetVersion"))


@user_facing
def no_gpu_reason() -> str | None:
    """Why no kernel can be launched on this machine, in a few words; None where one can. Never raises."""
    try:
        driver = bindings()
    except ImportError as error:
        return f"{error.name or 'cuda.bindings'} is not installed"
    try:
        status = driver.cuInit(0)[0]
        if status != driver.CUresult.CUDA_SUCCESS:
            return f"the CUDA driver does not start ({status.name})"
        if not driver.cuDeviceGetCount()[1]:
            return "there is no GPU"
    except (OSError, RuntimeError):
        # How cuda.bindings says that it finds no libcuda depends on its version.
        return "there is no CUDA driver"
    return _missing_packages()


def _missing_packages() -> str | None:
    for package, load in (("numba-cuda", numba_cuda), ("cuda-core", core)):
        try:
            load()
        except ImportError as error:
            return f"{package} cannot be imported ({error})"
    if not hasattr(core(), "launch"):
        return "cuda-core is too old: it has no cuda.core.launch"
    return None


@user_facing
def gpu_available() -> bool:
    """Whether kernels can be launched on this machine; `no_gpu_reason` says why not."""
    return no_gpu_reason() is None
