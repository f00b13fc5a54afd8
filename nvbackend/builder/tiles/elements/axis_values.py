"""One value for each row, or each column, of which a thread has elements: a bias, a maximum, a sum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, overload

from nvbackend.builder.core.variables import Variable, make_variable
from nvbackend.builder.ops.combine import Operation, combining
from nvbackend.builder.tiles.elements.across_warps import AXES, over_threads
from nvbackend.builder.tiles.elements.rules import OTHER
from nvbackend.builder.values.attributes import KnownAttributes, missing_attribute, refuse_assignment
from nvbackend.builder.values.truth import refuse_truth
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import run_callback, user_facing

if TYPE_CHECKING:
    from nvbackend.builder.tiles.elements.held import Held


class _Arithmetic(KnownAttributes, ABC):
    """Operators that go value by value."""

    __array_ufunc__ = None
    """NumPy leaves `np.float32(2) * values` to these."""

    @abstractmethod
    def _now(self) -> AxisValues:
        """The values that they go by."""

    def __bool__(self) -> bool:  # noqa: PLE0304 (it never returns)
        refuse_truth()

    def _with(self, function: Callable[..., Operand], other: AxisValues | AxisVariable | Operand) -> AxisValues:
        if isinstance(other, Sequence):  # the elements of the tile know which of them belong to each value
            return NotImplemented
        return self._now().map(function, other)

    def __add__(self, other: AxisValues | AxisVariable | Operand) -> AxisValues:
        return self._with(lambda a, b: a + b, other)

    def __radd__(self, other: Operand) -> AxisValues:
        return self._with(lambda a, b: b + a, other)

    def __sub__(self, other: AxisValues | AxisVariable | Operand) -> AxisValues:
        return self._with(lambda a, b: a - b, other)

    def __rsub__(self, other: Operand) -> AxisValues:
        return self._with(lambda a, b: b - a, other)

    def __mul__(self, other: AxisValues | AxisVariable | Operand) -> AxisValues:
        return self._with(lambda a, b: a * b, other)

    def __rmul__(self, other: Operand) -> AxisValues:
        return self._with(lambda a, b: b * a, other)

    def __truediv__(self, other: AxisValues | AxisVariable | Operand) -> AxisValues:
        return self._with(lambda a, b: a / b, other)

    def __rtruediv__(self, other: Operand) -> AxisValues:
        return self._with(lambda a, b: b / a, other)

    def __neg__(self) -> AxisValues:
        return self._now().map(lambda value: -value)


@user_facing
class AxisValues(_Arithmetic):
    """A value for each row (axis 0) or column (axis 1) of a tile of which the thread has elements.

    Made by `rows` and `columns` of an accumulator or of its elements, and by `reduce_rows`. Arithmetic goes value by
    value, with numbers, values, and others of the same rows; with the elements of the tile each meets the value of its
    row. `k.var` of it is a variable for loops.
    """

    def __init__(self, held: Held, axis: int, values: Sequence[Value]) -> None:
        self._held = held
        self.axis = axis
        self._values = tuple(values)

    def _now(self) -> AxisValues:
        return self

    @property
    def values(self) -> tuple[Value, ...]:
        """The values, in the order of the rows or columns."""
        return self._values

    def __len__(self) -> int:
        return len(self._values)

    def items(self) -> Iterator[tuple[Value, Value]]:
        """(row or column, value) of each. A row is in the hands of several lanes: see `owned`."""
        return iter(list(zip(self._held.indices(self.axis), self._values, strict=True)))

    def owned(self) -> Value:
        """Whether this thread is the first of those that have its rows (columns): one of them writes the results."""
        return self._held.is_first(self.axis)

    @overload
    def map(self, function: Callable[[Value], Operand]) -> AxisValues: ...
    @overload
    def map(
        self, function: Callable[[Value, Value], Operand], other: AxisValues | AxisVariable | Operand, /
    ) -> AxisValues: ...
    @overload
    def map(
        self,
        function: Callable[[Value, Value, Value], Operand],
        a: AxisValues | AxisVariable | Operand,
        b: AxisValues | AxisVariable | Operand,
        /,
    ) -> AxisValues: ...
    @overload
    def map(self, function: Callable[..., Operand], *others: AxisValues | AxisVariable | Operand) -> AxisValues: ...
    def map(self, function: Callable[..., Operand], *others: AxisValues | AxisVariable | Operand) -> AxisValues:
        """`function` of each value, and of those of `others` for the same row or column. Raises elements.other."""
        k = self._held.core
        aligned = [self._aligned(other) for other in others]
        calls = ((value, *(each[at] for each in aligned)) for at, value in enumerate(self._values))
        made = [as_value(k, run_callback("AxisValues.map", function, *arguments)) for arguments in calls]
        return AxisValues(self._held, self.axis, made)

    def reduce_lanes(self, operation: Operation, *, nan: bool = False, barrier: Operand | None = None) -> AxisValues:
        """Each value combined over the threads that have elements of its row: of what `reduce_rows(lanes=False)` gives.

        `operation`, `nan` and `barrier` are those of `reduce_rows`, and the same threads execute it together. Raises
        elements.lanes, cta.threads, cta.group, reduce.operation, value.operation.
        """
        combine = combining(self._held.core, "reduce_lanes", operation, self._values[:1], nan=nan)
        made = over_threads(self._held, self.axis, combine, self._values, "reduce_lanes", barrier)
        return AxisValues(self._held, self.axis, made)

    def _aligned(self, other: AxisValues | AxisVariable | Operand) -> Sequence[Any]:
        if isinstance(other, AxisVariable):
            other = other.value
        if not isinstance(other, AxisValues):
            return [other] * len(self)
        if other.axis != self.axis:
            problem = "one has a value for each row, and the other for each column"
            instead = "combine both with the elements: elements + rows - columns, or "
            instead += "elements.map(lambda element, row, column: row - column, rows, columns)"
            OTHER.fail(left=self, right=other, problem=problem, instead=instead)
        if not self._held.goes_with(other._held, self.axis):
            problem = f"one has values of other {AXES[self.axis]}s"
            instead = "make both from accumulators of one tiled MMA and one tile"
            OTHER.fail(left=self, right=other, problem=problem, instead=instead)
        return other._values

    def variable(self, name: str) -> AxisVariable:
        """A variable that holds these values: what `k.var` makes of them."""
        cells = [make_variable(self._held.core, value, name=f"{name}.{at}") for at, value in enumerate(self._values)]
        return AxisVariable(self._held, self.axis, cells)

    if not TYPE_CHECKING:  # it would make a type checker accept every name

        def __getattr__(self, name: str) -> Any:
            """Raises value.attribute."""
            raise missing_attribute(self, name, f"a value for each {AXES[self.axis]}", "values")

    def __repr__(self) -> str:
        return f"<a value for each of {len(self)} {AXES[self.axis]}s of {self._held}>"


@user_facing
class AxisVariable(_Arithmetic):
    """A mutable value for each row or column of which a thread has elements, made by `k.var` of `AxisValues`.

    In arithmetic it is its current values, as any variable is.
    """

    def __init__(self, held: Held, axis: int, cells: Sequence[Variable]) -> None:
        self._held = held
        self.axis = axis
        self._cells = tuple(cells)

    @property
    def value(self) -> AxisValues:
        """The current values; later changes do not affect them."""
        return AxisValues(self._held, self.axis, [cell.value for cell in self._cells])

    @value.setter
    def value(self, values: object) -> NoReturn:  # noqa: ARG002
        """Raises value.attribute: `set` sets it."""
        refuse_assignment()

    def _now(self) -> AxisValues:
        return self.value

    def map(self, function: Callable[..., Operand], *others: AxisValues | AxisVariable | Operand) -> AxisValues:
        """`function` of each current value, and of those of `others`, as `AxisValues.map`. Raises elements.other."""
        return self.value.map(function, *others)

    def set(self, values: AxisValues | AxisVariable | Operand) -> None:
        """Set all of them. Raises elements.other for values of another axis or tile, value.type."""
        for cell, value in zip(self._cells, self.value._aligned(values), strict=True):
            cell.set(value)

    def __iadd__(self, other: AxisValues | AxisVariable | Operand) -> AxisVariable:  # type: ignore[override]
        return self._changed(self.value + other)

    def __isub__(self, other: AxisValues | AxisVariable | Operand) -> AxisVariable:  # type: ignore[override]
        return self._changed(self.value - other)

    def __imul__(self, other: AxisValues | AxisVariable | Operand) -> AxisVariable:  # type: ignore[override]
        return self._changed(self.value * other)

    def __itruediv__(self, other: AxisValues | AxisVariable | Operand) -> AxisVariable:  # type: ignore[override]
        return self._changed(self.value / other)

    def _changed(self, values: AxisValues) -> AxisVariable:
        self.set(values)
        return self

    def __repr__(self) -> str:
        return f"<a variable for each of {len(self._cells)} {AXES[self.axis]}s of {self._held}>"
