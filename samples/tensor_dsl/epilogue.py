"""What is computed of a product's elements, while they are in registers: the same for every target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import nvbackend as nvb
from nvbackend import f32
from nvbackend.layout import Layout
from samples.tensor_dsl.language import Applied, Expression, Operand, Product, Sum, Tensor

Emitted = nvb.TileValues | nvb.AxisValues | float


@dataclass(frozen=True)
class Tile:
    """Part of the result, a matrix of m x n: its shape, and the row and column where it begins."""

    shape: tuple[int, int]
    row: nvb.Value
    column: nvb.Value
    m: nvb.Value
    n: nvb.Value


@dataclass(frozen=True)
class Epilogue:
    """Computes `result` of a tile of `product`, and stores it to `given["out"]`."""

    k: nvb.KernelBuilder
    result: Expression
    product: Product
    given: Mapping[str, Any]

    def __call__(self, values: nvb.TileValues, tile: Tile) -> None:
        """Store what comes of the elements that this thread has of the product."""
        if isinstance(self.result, Sum):
            self._add_sums(self.result, values, tile)
            return
        results = self._emit(self.result, values, tile)
        with self._of(self.result):
            out = self.k.tensor(self.given["out"], Layout((tile.m, tile.n), (tile.n, 1)))
            place = (tile.row // tile.shape[0], tile.column // tile.shape[1])
            inside = self.k.identity_tensor(tile.shape, at=(tile.row, tile.column)).below(tile.m, tile.n)
            results.to(out.element).store(out.tile(tile.shape, place), where=inside)

    def _add_sums(self, total: Sum, values: nvb.TileValues, tile: Tile) -> None:
        """Add what this thread has to what others have: the output begins at 0."""
        terms = self._emit(total.of, values, tile)
        with self._of(total):
            inside = terms.where(lambda row, column: (tile.row + row < tile.m) & (tile.column + column < tile.n), 0.0)
            of_rows = total.axis == self.product.axes[1]
            sums = (inside.reduce_rows if of_rows else inside.reduce_columns)("add", lanes=False)
            first, end = (tile.row, tile.m) if of_rows else (tile.column, tile.n)
            for index, value in sums.items():
                with self.k.if_(first + index < end):
                    self.k.atomic.add(self.given["out"] + (first + index), value)

    def _emit(self, expression: Operand, values: nvb.TileValues, tile: Tile) -> Any:
        """What the expression is here: a tile of values, one for each row or column, or a number."""
        if not isinstance(expression, Expression) or isinstance(expression, Product):
            return values if isinstance(expression, Product) else expression
        inputs = expression.inputs if isinstance(expression, Applied) else ()
        arguments = [self._emit(argument, values, tile) for argument in inputs]
        with self._of(expression):
            if isinstance(expression, Applied):
                return values.map(lambda _, *each: expression.emit(self.k, *each), *arguments)
            assert isinstance(expression, Tensor)
            return self._load(expression, values, tile)

    def _load(self, tensor: Tensor, values: nvb.TileValues, tile: Tile) -> Emitted:
        """A tensor's values where the tile is, 0 where the matrix has ended."""

        def element(index: nvb.Value, inside: nvb.Value) -> nvb.Value:
            loaded: nvb.Value = (self.given[tensor.name] + index).load(where=inside)[0]
            return loaded.to(f32)

        if tensor.axes == self.product.axes[0]:
            return values.rows(lambda row: element(tile.row + row, tile.row + row < tile.m))
        if tensor.axes == self.product.axes[1]:
            return values.columns(lambda column: element(tile.column + column, tile.column + column < tile.n))
        places = [(tile.row + row, tile.column + column) for (row, column), _ in values.items()]
        each = [element(row * tile.n + column, (row < tile.m) & (column < tile.n)) for row, column in places]
        return nvb.TileValues(values.held, each)

    def _of(self, expression: Expression) -> Any:
        """What is emitted in this block comes from the line of the expression."""
        return self.k.location(*expression.place)
