"""What is computed from a product's elements, while they are in registers: the same for every target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import nvbackend as nvb
from nvbackend.layout import Layout
from samples.tensor_dsl.language import Applied, Expression, Operand, Product, Sum, Tensor

Place = tuple[nvb.Value, nvb.Value]  # a row and a column of the result


@dataclass(frozen=True)
class Epilogue:
    """Computes `result`, of m x n, tile by tile of `product`, and stores it to `given["out"]`."""

    k: nvb.KernelBuilder
    result: Expression
    product: Product
    given: Mapping[str, Any]

    def __call__(self, values: nvb.TileValues, at: Place) -> None:
        """Store what comes of the elements that this thread has of a tile, which begins at a place of the product."""
        if isinstance(self.result, Sum):
            self._add_sums(self.result, values, at)
            return
        results = self._emit(self.result, values, at)
        with self.k.location(self.result.place):
            tile, inside = self._tile(self.given["out"], values, at)
            results.store(tile, where=inside)

    def _add_sums(self, total: Sum, values: nvb.TileValues, at: Place) -> None:
        """Add what this thread has to what others have: the output begins at 0."""
        terms = self._emit(total.inputs[0], values, at)
        with self.k.location(total.place):
            m, n = (self.given[axis] for axis in self.product.axes)
            inside = terms.where(lambda row, column: (at[0] + row < m) & (at[1] + column < n), 0.0)
            axis = self.product.axes.index(total.axes)
            sums = (inside.reduce_columns if axis else inside.reduce_rows)("add", lanes=False)
            for index, value in sums.items():
                with self.k.if_(at[axis] + index < self.given[total.axes]):
                    self.k.atomic.add(self.given["out"] + (at[axis] + index), value)

    def _emit(self, expression: Operand, values: nvb.TileValues, at: Place) -> Any:
        """What the expression is here: a tile of values, one for each row or column, or a number."""
        if not isinstance(expression, Expression) or isinstance(expression, Product):
            return values if isinstance(expression, Product) else expression
        arguments = [self._emit(argument, values, at) for argument in expression.inputs]
        with self.k.location(expression.place):
            if isinstance(expression, Applied):
                return values.map(lambda _, *each: expression.emit(self.k, *each), *arguments)
            assert isinstance(expression, Tensor)
            return self._load(expression, values, at)

    def _load(self, tensor: Tensor, values: nvb.TileValues, at: Place) -> Any:
        """A tensor's values where the tile is, 0 where the result has ended."""
        address = self.given[tensor.name]
        if tensor.axes == self.product.axes:
            tile, inside = self._tile(address, values, at)
            return values.load(tile, where=inside).to(nvb.f32)
        axis = self.product.axes.index(tensor.axes)
        first, end = at[axis], self.given[tensor.axes]
        along = values.columns if axis else values.rows
        return along(lambda index: (address + (first + index)).load(where=first + index < end)[0].to(nvb.f32))

    def _tile(self, address: nvb.Address, values: nvb.TileValues, at: Place) -> tuple[nvb.Tensor, nvb.Inside]:
        """The tile of a matrix at `address`, and what of it is inside of the matrix."""
        m, n = (self.given[axis] for axis in self.product.axes)
        place = tuple(first // extent for first, extent in zip(at, values.shape, strict=True))
        tile = self.k.tensor(address, Layout((m, n), (n, 1))).tile(values.shape, place)
        return tile, self.k.identity_tensor(values.shape, at=at).below(m, n)
