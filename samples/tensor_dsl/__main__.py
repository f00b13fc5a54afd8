"""A program in the language: a layer with a bias, a residual and relu, and the sums of its rows, on three targets.

`python -m samples.tensor_dsl` builds each for sm_80, sm_90a and sm_100a, runs what the GPU can run and the rest in the
simulator, and compares with NumPy.
"""

from __future__ import annotations

from nvbackend import f16, f32
from samples.program import Device, largest_error, target_for
from samples.tensor_dsl.kernel import Kernel
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

    normal = np.random.default_rng(0).standard_normal
    arrays = {"x": normal((200, 136)), "w": normal((168, 136)), "bias": normal(168), "residual": normal((200, 168))}
    arrays = {name: array.astype(np.float32 if name == "bias" else np.float16) for name, array in arrays.items()}
    a, b = (arrays[name].astype(np.float32) for name in "xw")
    expected = (a @ b.T * 0.125 + arrays["bias"]).clip(0) + arrays["residual"]
    wrong = 0
    for target in TARGETS:
        for name, result, right in (("layer", layer, expected), ("totals", totals, expected.sum(1))):
            chip, reason = target_for(target)
            kernel, device = Kernel(name, result, target, chip), Device(reason)
            error = largest_error(kernel(device, **arrays), right)
            wrong += error > 2**-10
            print(f"{name} on {target}{device.told}: largest error {error:.1e} of the largest value")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
