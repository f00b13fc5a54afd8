"""Rings with tiles of several kinds, released apart, or with as many bytes as come: on a GPU and in the simulator."""

from __future__ import annotations

import pytest

from nvbackend import runtime
from tests.dry_run.kernels.rings_of_parts import blocks_with_scales, keys_and_values_apart, pieces_of_any_length
from tests.dry_run.registry import Out, scenes
from tests.support.devices import ON_DEVICES, target_on

pytestmark = ON_DEVICES
KERNELS = [
    (keys_and_values_apart, None), (keys_and_values_apart, "overlapped"),
    (blocks_with_scales, None), (blocks_with_scales, "apart"), (pieces_of_any_length, None),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "variant"), KERNELS, ids=lambda one: getattr(one, "name", one))
def test_the_numbers_are_numpys(kernel, variant, device):
    from numba import cuda

    (scene,) = (one for one in scenes() if one.kernel is kernel)
    loaded = runtime.load(kernel.build(target=target_on(device, "sm_90a"), constants={"mistake": variant}).compile())
    for launch in scene.launches():
        given = [one.fresh() if isinstance(one, Out) else one for one in launch.arguments]
        on_device = [cuda.to_device(one) if hasattr(one, "shape") else one for one in given]
        loaded.launch(launch.grid, *on_device)
        loaded.synchronize()
        for argument, memory in zip(launch.arguments, on_device, strict=True):
            assert not isinstance(argument, Out) or argument.is_right(memory.copy_to_host())
