"""Whether there is a GPU, asked of the driver alone."""

from __future__ import annotations

import ctypes
import functools

_CAPABILITY_MAJOR = 75
_CAPABILITY_MINOR = 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR in the CUDA driver API."""


@functools.cache
def first_gpu() -> tuple[tuple[int, int] | None, str]:
    """The compute capability of device 0, or None and the reason why there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "no CUDA driver on this machine"
    if error := driver.cuInit(0):
        return None, f"the CUDA driver does not start (cuInit gives {error})"
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    if count.value == 0:
        return None, "no GPU on this machine"
    value = ctypes.c_int()
    capability = []
    for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR):
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0)
        capability.append(value.value)
    return (capability[0], capability[1]), ""


def why_not(capability: tuple[int, int]) -> str:
    """Why a test that needs at least `capability` cannot run here; empty where it can."""
    found, reason = first_gpu()
    if found is None:
        return reason
    if found < capability:
        return f"needs compute capability {capability[0]}.{capability[1]}, the GPU has {found[0]}.{found[1]}"
    return ""
