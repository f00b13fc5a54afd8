"""A tensor map over a NumPy array, as the simulator reads it: the same checks and the same plan as for the driver."""

from __future__ import annotations

from typing import Any

from nvbackend.diagnostics import raise_all
from nvbackend.intrinsics.copy.tensormap import ELEMENT_TYPE_OF
from nvbackend.runtime.arrays import DeviceArray, accepted_dtypes, shown_dtypes
from nvbackend.runtime.im2col import element_strides
from nvbackend.runtime.rules import DTYPE
from nvbackend.runtime.tensor_map import TensorMapPlan, check_array, check_tensor_map, plan
from nvbackend.signature import TensorMap

_NAME = "of the simulator"
_MODES = {None: "im2col", "w": "im2col::w", "w128": "im2col::w::128"}


def simulated_bytes(parameter: TensorMap, array: Any, address: int) -> bytes:
    """The 128 bytes of the map of `array`, a NumPy array whose first element is at `address` there.

    Raises launch.dtype and tensor-map.*.
    """
    described = DeviceArray(
        address, tuple(array.shape), tuple(array.strides), array.dtype.name, array.dtype.itemsize, owner=array
    )
    problems = list(check_tensor_map(_NAME, parameter))
    accepted = accepted_dtypes(parameter.element)
    if described.dtype not in accepted:
        problems.append(
            DTYPE.diagnose(
                name=_NAME,
                given=described.dtype,
                element=parameter.element,
                accepted=shown_dtypes(accepted),
            )
        )
    raise_all([*problems, *check_array(_NAME, parameter, described)])
    return _bytes(parameter, plan(parameter, described))


def _bytes(parameter: TensorMap, planned: TensorMapPlan) -> bytes:
    """The plan has the outermost dimension first, what TMA reads the innermost."""
    from nvbackend.simulator.copies import tensor_map as simulated

    walk = planned.im2col
    options: dict[str, Any] = {}
    if walk is not None:
        options = {
            "element_strides": element_strides(walk)[::-1],
            "mode": _MODES[walk.wide],
            "lower": walk.lower[::-1],
            "upper": walk.upper[::-1],
        }
    return simulated.TensorMap(
        address=planned.pointer,
        element=ELEMENT_TYPE_OF[parameter.element.name],
        extents=planned.shape[::-1],
        strides=planned.strides[-2::-1],
        box=planned.box[::-1],
        swizzle=planned.swizzle,
        **options,
    ).encode()
