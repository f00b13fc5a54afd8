"""A program as a kernel, which takes the tensors in their order, then the output and the extents of the axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import nvbackend as nvb
from nvbackend import f32, i32
from samples.program import Device
from samples.tensor_dsl.epilogue import Epilogue
from samples.tensor_dsl.language import Applied, Expression, MistakeError, Operand, Product, Sum, Tensor
from samples.tensor_dsl.products import TILE, WAYS, Cta


class Kernel:
    """The kernel that computes `result`, in f32, in the way of `target`; for a later chip, `on` names it."""

    def __init__(self, name: str, result: Expression, target: str, on: str | None = None) -> None:
        products = [part for part in result.parts() if isinstance(part, Product)]
        if len(set(products)) != 1:
            raise MistakeError(result.place, f"{name} has {len(set(products))} products, and a kernel has one")
        for part in result.parts():
            if isinstance(part, Sum) and part is not result:
                raise MistakeError(part.place, "a sum is the last that a kernel computes: make two of this one")
        if target not in WAYS:
            raise MistakeError(result.place, f"{name} is for {target}, and there are {', '.join(WAYS)}")
        self.result, self.product, self.tensors = result, products[0], dict[str, Tensor]()
        taken = {"out", *self.product.axes, self.product.depth}
        for part in result.parts():
            if isinstance(part, Tensor) and (
                part.name in taken or self.tensors.setdefault(part.name, part) is not part
            ):
                raise MistakeError(part.place, f"{part.name} is the name of something else in {name}")
        self.compiled = self._build(name, target, on or target)

    def _build(self, name: str, target: str, chip: str) -> nvb.CompiledKernel:
        way, (a, b) = WAYS[target], (self.product.a, self.product.b)
        types: dict[str, Any] = {
            one.name: way.parameter(one.element) if one in (a, b) else nvb.Pointer(one.element)
            for one in self.tensors.values()
        }
        types |= {"out": nvb.Pointer(f32)} | dict.fromkeys(self.product.axes, i32) | {self.product.depth: i32}
        parameters = [nvb.Parameter(*parameter) for parameter in types.items()]
        k = nvb.KernelBuilder(name, chip, threads=way.threads, parameters=parameters)
        given: dict[str, Any] = dict(zip(types, k.arguments, strict=True))
        m, n, depth = (given[axis] for axis in self.product.axes + self.product.depth)
        with k.location(*self.product.place):
            cta = Cta(k, a.element, k.block_id("y"), k.block_id("x"), m, n, depth * 8)
            way.multiply(cta, given[a.name], given[b.name], Epilogue(k, self.result, self.product, given))
        return k.compile()

    def __call__(self, device: Device, **arrays: Any) -> Any:
        """The result for NumPy's arrays, by the names of the tensors. The summed axis is a multiple of 8."""
        import numpy as np

        sizes: dict[str, int] = {}
        for name, tensor in self.tensors.items():
            if name not in arrays or arrays[name].ndim != len(tensor.axes):
                raise MistakeError(tensor.place, f"{name} has the axes {tensor.axes}, and no array of them is given")
            for axis, size in zip(tensor.axes, arrays[name].shape, strict=True):
                if sizes.setdefault(axis, size) != size:
                    raise MistakeError(tensor.place, f"{name} has {size} of axis {axis}, others have {sizes[axis]}")
        if sizes[self.product.depth] % 8:
            raise MistakeError(
                self.product.place, f"{self.product.depth} is {sizes[self.product.depth]}, not 8, 16, ..."
            )
        out = device.array(np.zeros([sizes[axis] for axis in self.result.axes], np.float32))
        m, n, depth = (sizes[axis] for axis in self.product.axes + self.product.depth)
        loaded, given = device.load(self.compiled), [device.array(arrays[name]) for name in self.tensors]
        loaded.launch((-(-n // TILE[1]), -(-m // TILE[0])), *given, out, m, n, depth // 8)
        loaded.synchronize()
        return device.numbers(out)


def expected(result: Operand, arrays: Mapping[str, Any], axes: str = "") -> Any:
    """What NumPy computes, in f32, with an axis of extent 1 for each of `axes` that it lacks."""
    import numpy as np

    if not isinstance(result, Expression):
        return result
    if isinstance(result, Product):
        values = expected(result.a, arrays) @ expected(result.b, arrays).T
    elif isinstance(result, Sum):
        values = expected(result.of, arrays).sum(result.of.axes.index(result.axis))
    elif isinstance(result, Applied):
        values = result.numpy(*(expected(one, arrays, result.axes) for one in result.inputs))
    else:
        assert isinstance(result, Tensor)
        values = arrays[result.name].astype(np.float32)
    kept = dict(zip(result.axes, values.shape, strict=True))
    return values.reshape([kept.get(axis, 1) for axis in axes or result.axes])
