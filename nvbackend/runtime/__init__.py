"""Loading and launching: numba-cuda's context, cuda.core's launch, arrays of any library, checks before each launch.

    loaded = load(compiled)
    loaded.launch(grid, a, b, 4096, stream=stream)
    loaded.synchronize(stream)

Importing it loads neither CUDA nor numba. On a machine without a GPU `no_gpu_reason()` says why, and everything that
needs one raises launch.no-gpu.
"""

from nvbackend.runtime.arguments.arrays import DeviceArray, read_array
from nvbackend.runtime.driver import DriverError, gpu_available, no_gpu_reason
from nvbackend.runtime.launch import PreparedLaunch, synchronize
from nvbackend.runtime.module import Compiled, LoadedKernel, LoadedModule, load
from nvbackend.runtime.timing import Timing, time_launches

__all__ = [
    "Compiled",
    "DeviceArray",
    "DriverError",
    "LoadedKernel",
    "LoadedModule",
    "PreparedLaunch",
    "Timing",
    "gpu_available",
    "load",
    "no_gpu_reason",
    "read_array",
    "synchronize",
    "time_launches",
]
