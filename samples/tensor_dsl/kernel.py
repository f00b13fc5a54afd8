"""A program as a kernel, whose parameters are the tensors in order, then the output and the extents of the axes."""

from __future__ import annotations

from typing import Any

import nvbackend as nvb
from samples.program import Device
from samples.tensor_dsl.epilogue import Epilogue
from samples.tensor_dsl.language import MISTAKE, Expression, Product, Sum, Tensor
from samples.tensor_dsl.products import TILE, TILE_K, WAYS, Cta


class Kernel:
    """The kernel that computes `result`, in f32, in the way of `target`; for a later chip, `on` names it."""

    def __init__(self, name: str, result: Expression, target: str, on: str | None = None) -> None:
        products = {part for part in result.parts() if isinstance(part, Product)}
        if len(products) != 1:
            MISTAKE.fail(at=result.place, problem=f"{name} has {len(products)} products", fix="give each kernel one")
        if target not in WAYS:
            MISTAKE.fail(at=result.place, problem=f"{name} is for {target}", fix=f"use one of {', '.join(WAYS)}")
        self.result, (self.product,), self.tensors = result, products, dict[str, Tensor]()
        taken = {"out", *self.product.axes, self.product.depth}
        for part in result.parts():
            if isinstance(part, Sum) and part is not result:
                MISTAKE.fail(at=part.place, problem="a sum inside of an expression", fix="make a kernel of the sum")
            if isinstance(part, Tensor) and (part.name in taken or self.tensors.setdefault(part.name, part) != part):
                MISTAKE.fail(at=part.place, problem=f"{part.name} is taken in {name}", fix="rename the tensor")
        self.compiled = self._build(name, target, on or target)

    def _build(self, name: str, target: str, chip: str) -> nvb.CompiledKernel:
        product, (threads, parameter, multiply) = self.product, WAYS[target]
        types: dict[str, Any] = {
            one.name: parameter(one.element) if one in product.inputs else nvb.Pointer(one.element)
            for one in self.tensors.values()
        }
        types |= {"out": nvb.Pointer(nvb.f32)} | dict.fromkeys(product.axes, nvb.i32)
        types[product.depth] = nvb.Scalar(nvb.i32, multiple_of=8)  # rows of 16 bytes, as copies want them
        parameters = [nvb.Parameter(*parameter) for parameter in types.items()]
        k = nvb.KernelBuilder(name, chip, threads=threads, parameters=parameters)
        given: dict[str, Any] = dict(zip(types, k.arguments, strict=True))
        m, n, depth = (given[axis] for axis in product.axes + product.depth)
        with k.location(product.place):
            at = k.block_id("y") * TILE[0], k.block_id("x") * TILE[1]
            cta = Cta(k, product.a.element, at, m, n, depth, (depth + TILE_K - 1) // TILE_K)
            multiply(cta, given[product.a.name], given[product.b.name], Epilogue(k, self.result, product, given))
        return k.compile()

    def __call__(self, device: Device, **arrays: Any) -> Any:
        """The result for NumPy's arrays, by the names of the tensors."""
        import numpy as np

        named = self.tensors.items()
        shapes = {name: np.shape(arrays.get(name, 0)) for name in self.tensors}
        sizes = {axis: size for name, one in named for axis, size in zip(one.axes, shapes[name], strict=False)}
        for name, one in named:
            if shapes[name] != (fitting := tuple(sizes.get(axis, axis) for axis in one.axes)):
                MISTAKE.fail(at=one.place, problem=f"{name} has the shape {shapes[name]}", fix=f"give it {fitting}")
        out = device.array(np.zeros([sizes[axis] for axis in self.result.axes], np.float32))
        loaded, given = device.load(self.compiled), [device.array(arrays[name]) for name in self.tensors]
        m, n, depth = (sizes[axis] for axis in self.product.axes + self.product.depth)
        loaded.launch((-(-n // TILE[1]), -(-m // TILE[0])), *given, out, m, n, depth)
        loaded.synchronize()
        return device.numbers(out)
