"""A program in the language: a layer with a bias, a residual and relu, and the sums of its rows, on three targets.

`python -m samples.tensor_dsl` builds each for sm_80, sm_90a and sm_100a, runs what the GPU can run and the rest in the
simulator, and compares with NumPy.
"""

from __future__ import annotations

import sys

from nvbackend import f16, f32
from samples.program import Device, largest_error, target_for
from samples.tensor_dsl.kernel import Kernel, expected
from samples.tensor_dsl.language import Tensor, einsum, relu

# This module is a user's program: diagnostics name its lines.
__nvbackend_plumbing__ = False

x, w = Tensor("mk", f16, "x"), Tensor("nk", f16, "w")
bias, residual = Tensor("n", f32, "bias"), Tensor("mn", f16, "residual")
layer = relu(einsum("mk,nk->mn", x, w) * 0.125 + bias) + residual
totals = layer.sum("n")
TARGETS = "sm_80", "sm_90a", "sm_100a"


def main() -> int:
    """The program's exit status: 0 where all numbers are right."""
    import numpy as np

    random = np.random.default_rng(0)
    extents = {"m": 200, "n": 168, "k": 136}
    arrays = {
        one.name: random.standard_normal([extents[axis] for axis in one.axes]).astype(
            one.element.name.replace("f", "float")
        )
        for one in (x, w, bias, residual)
    }
    wrong = 0
    for target in TARGETS:
        for name, result in {"layer": layer, "totals": totals}.items():
            chip, reason = target_for(target)
            kernel, device = Kernel(name, result, target, chip), Device(reason)
            error = largest_error(kernel(device, **arrays), expected(result, arrays))
            wrong += error > 2**-10
            print(f"{name} on {target}{device.told}: largest error {error:.1e} of the largest value")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
