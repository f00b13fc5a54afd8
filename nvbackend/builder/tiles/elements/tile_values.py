"""The elements of a tile that a thread has in registers: values with coordinates, in the order of the registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, overload

from nvbackend.builder.core.memory import Address
from nvbackend.builder.ops.combine import Operation, combining
from nvbackend.builder.tiles.axpby import Axpby
from nvbackend.builder.tiles.coordinates import Inside
from nvbackend.builder.tiles.elements.across_warps import AXES, over_threads
from nvbackend.builder.tiles.elements.axis_values import AxisValues, AxisVariable
from nvbackend.builder.tiles.elements.held import Held
from nvbackend.builder.tiles.elements.packing import packed
from nvbackend.builder.tiles.elements.rules import ELEMENT, OTHER
from nvbackend.builder.tiles.fragment_copies import load_fitting, store_fitting
from nvbackend.builder.tiles.register_tensor import make_registers
from nvbackend.builder.tiles.tensor import Tensor
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.entries import Entries
from nvbackend.builder.values.truth import refuse_truth
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import run_callback, user_facing
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.layout import Layout


@user_facing
class TileValues(KnownAttributes, Entries[Value]):
    """The elements that a thread has of a tile, made by `elements()` of an accumulator, and what is computed from them.

    They stay as they are: each call gives new ones, which `acc.set` writes back, `store` writes to memory, and
    `make_fragment_A` of a tiled MMA multiplies with. As a sequence they come in the order of the registers. Arithmetic
    and `<`, `<=`, `>`, `>=` go element by element, with numbers, values, other elements of the same tile, and with what
    `rows`, `columns` and `reduce_rows` give: a value for each row or column.
    """

    __array_ufunc__ = None
    """NumPy leaves `np.float32(2) * elements` to these."""

    def __init__(self, held: Held, values: Sequence[Value]) -> None:
        self._held = held
        self._entries = tuple(values)

    @property
    def held(self) -> Held:
        """Which elements they are."""
        return self._held

    @property
    def element(self) -> ElementType:
        """The element type."""
        return self._entries[0].type

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the whole tile."""
        return self._held.ownership.shape

    @overload
    def __getitem__(self, index: int) -> Value: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Value]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return super().__getitem__(index)

    def __bool__(self) -> bool:  # noqa: PLE0304 (it never returns)
        refuse_truth()

    # -- coordinates ------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[tuple[tuple[Value, Value], Value]]:
        """((row, column), value) of each of the thread's elements; rows and columns are s32 values."""
        return iter(list(zip(self._held.coordinates(), self._entries, strict=True)))

    def rows(self, value: Operand | Callable[[Value], Operand]) -> AxisValues:
        """A value for each row of which the thread has elements: a number, a value, or a function of the row."""
        return axis_values(self._held, 0, value)

    def columns(self, value: Operand | Callable[[Value], Operand]) -> AxisValues:
        """A value for each column, such as a bias: `acc.elements().columns(lambda column: bias[column])`."""
        return axis_values(self._held, 1, value)

    # -- element by element -----------------------------------------------------------------------------------------

    @overload
    def map(self, function: Callable[[Value], Operand]) -> TileValues: ...
    @overload
    def map(self, function: Callable[[Value, Value], Operand], other: Other, /) -> TileValues: ...
    @overload
    def map(self, function: Callable[[Value, Value, Value], Operand], a: Other, b: Other, /) -> TileValues: ...
    @overload
    def map(self, function: Callable[..., Operand], *others: Other) -> TileValues: ...
    def map(self, function: Callable[..., Operand], *others: Other) -> TileValues:
        """`function` of each element, and of what `others` have for it: at its place, for its row, or for its column.

        All results have one type (elements.type). Raises elements.other for values of another tile.
        """
        aligned = [self._aligned(other) for other in others]
        calls = ((value, *(each[at] for each in aligned)) for at, value in enumerate(self._entries))
        return self._made([run_callback("TileValues.map", function, *arguments) for arguments in calls])

    def where(self, keep: Callable[[Value, Value], Operand], otherwise: Operand) -> TileValues:
        """The elements for which the predicate `keep(row, column)` holds, and `otherwise` in place of the others.

        It masks: `scores.where(lambda row, column: column <= row, -math.inf)`.
        """
        select, other = self._held.k.select, as_value(self._held.core, otherwise, self.element)
        keeps = (run_callback("TileValues.where", keep, *place) for place, _ in self.items())
        return self._made([select(kept, value, other) for kept, value in zip(keeps, self._entries, strict=True)])

    def to(self, element: ElementType, *, rounding: str | None = None, saturate: bool = False) -> TileValues:
        """Each converted to `element`, as `Value.to` does it."""
        return self._made([value.to(element, rounding=rounding, saturate=saturate) for value in self._entries])

    def _made(self, values: Sequence[Operand]) -> TileValues:
        made = [as_value(self._held.core, value) for value in values]
        types = list(dict.fromkeys(str(value.type) for value in made))
        if len(types) > 1:
            ELEMENT.fail(count=len(made), given=" and ".join(types))
        return TileValues(self._held, made)

    def _aligned(self, other: Other) -> Sequence[Any]:
        """What `other` has for each element."""
        if isinstance(other, AxisVariable):
            other = other.value
        if not isinstance(other, (TileValues, AxisValues)):
            return [other] * len(self)
        axis = other.axis if isinstance(other, AxisValues) else None
        if not (self._held.is_like(other._held) if axis is None else self._held.goes_with(other._held, axis)):
            problem = "a thread has other elements of each"
            instead = "take values of one tiled MMA and one tile, or go through shared memory"
            OTHER.fail(left=self, right=other, problem=problem, instead=instead)
        if isinstance(other, TileValues):
            return other._entries
        numbers = {at: number for number, at in enumerate(self._held.ownership.along(other.axis))}
        return [other.values[numbers[place[other.axis]]] for place in self._held.ownership.values]

    def __add__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: a + b, other)

    def __radd__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: b + a, other)

    def __sub__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: a - b, other)

    def __rsub__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: b - a, other)

    def __mul__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: a * b, other)

    def __rmul__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: b * a, other)

    def __truediv__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: a / b, other)

    def __rtruediv__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: b / a, other)

    def __neg__(self) -> TileValues:
        return self.map(lambda value: -value)

    def __lt__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: a < b, other)

    def __le__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: a <= b, other)

    def __gt__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: a > b, other)

    def __ge__(self, other: Other) -> TileValues:
        return self.map(lambda a, b: a >= b, other)

    # -- rows -------------------------------------------------------------------------------------------------------

    def reduce_rows(
        self, operation: Operation, *, nan: bool = False, lanes: bool = True, barrier: Operand | None = None
    ) -> AxisValues:
        """Each row combined to one value, which all lanes that hold the row get: a maximum, a sum.

        `operation` is add, mul, min, max, and, or, xor, or a function of two values; with `nan`, min and max give NaN
        where there is one. All 32 lanes execute it together: first each its own elements, then `k.warp.shuffle` among
        the lanes of a row, which the layout says. With `lanes=False` each thread keeps what its own elements give, as
        for a sum that a loop goes on with: `reduce_lanes` of that combines the lanes at its end.

        Where a row is in several warps, these go on through shared memory, part after part along the row, so the
        result is the same each time: all threads of the tile execute it together, at two barriers. If they are a part
        of the CTA, they have `barrier`, a number of their own as in `k.cta.reduce`. Raises cta.threads, cta.group,
        elements.lanes for atoms along K, reduce.operation, value.operation.
        """
        return self._reduced(0, operation, nan=nan, lanes=lanes, barrier=barrier)

    def reduce_columns(
        self, operation: Operation, *, nan: bool = False, lanes: bool = True, barrier: Operand | None = None
    ) -> AxisValues:
        """Each column combined to one value, like `reduce_rows` for rows."""
        return self._reduced(1, operation, nan=nan, lanes=lanes, barrier=barrier)

    def _reduced(
        self, axis: int, operation: Operation, *, nan: bool, lanes: bool, barrier: Operand | None
    ) -> AxisValues:
        ownership, k, call = self._held.ownership, self._held.k, f"reduce_{AXES[axis]}s"
        combine = combining(k.core, call, operation, self._entries[:1], nan=nan)

        def of_thread(at: int) -> Value:
            places = zip(ownership.values, self._entries, strict=True)
            first, *others = [value for place, value in places if place[axis] == at]
            for other in others:
                (first,) = combine((first,), (other,))
            return first

        own = map(of_thread, ownership.along(axis))
        made = over_threads(self._held, axis, combine, own, call, barrier) if lanes else list(own)
        return AxisValues(self._held, axis, made)

    # -- memory -----------------------------------------------------------------------------------------------------

    def load(self, source: Tensor, *, where: Inside | None = None) -> TileValues:
        """The elements of `source`, a tensor of the tile's shape, at these coordinates: a residual, a mask.

        It is in global or shared memory; the loads are as wide as its layout allows. What is outside of `where`, as
        `store` takes it, is 0. Raises tiled-mma.tile, and what `k.copy` raises.
        """
        return TileValues(self._held, tuple(self._loaded(source, where, "loaded")))

    def store(
        self,
        target: Tensor,
        *,
        where: Inside | None = None,
        alpha: Operand = 1,
        beta: Operand = 0,
        c: Tensor | None = None,
    ) -> None:
        """Write alpha times the elements, plus beta times C, to `target`, a tensor of the tile's shape.

        `target` is in global or shared memory, of any element type to which `to` converts; the stores are as wide as
        its layout allows. `where` is of the tile's coordinates, `k.identity_tensor(shape, at=...).below(m, n)`: what is
        outside stays as it is in global memory. C is what `target` holds, or the tensor `c`; it is not read where
        `beta` is the number 0. Raises epilogue.axpby-types, tiled-mma.tile, and what `k.copy` raises.
        """
        k, shape = self._held.k, Layout(self._held.parts)
        made = make_registers(k.core, target.element, shape, "stored")
        values = self._scaled(target, alpha, beta, target if c is None else c, where)
        made.set_registers(packed(k.core, values, target.element))
        store_fitting(k, made, target, self._held.cut, where)

    def _scaled(
        self, target: Tensor, alpha: Operand, beta: Operand, c: Tensor, where: Inside | None
    ) -> Sequence[Value]:
        k, element = self._held.k, target.element
        if isinstance(alpha, (int, float)) and isinstance(beta, (int, float)) and (alpha, beta) == (1, 0):
            return self._entries
        form = Axpby(k, alpha, beta, self.element, element, c.element)
        if not form.reads_c:
            return [form.of(value, None) for value in self._entries]
        return [form.of(value, old) for value, old in zip(self._entries, self._loaded(c, where, "c"), strict=True)]

    def _loaded(self, source: Tensor, where: Inside | None, name: str) -> Iterator[Value]:
        k = self._held.k
        registers = make_registers(k.core, source.element, Layout(self._held.parts), name)
        load_fitting(k, source, registers, self._held.cut, where)
        return (registers[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self)} elements of {self.element}, a thread's of a tile of {self._held}>"


Other: TypeAlias = "TileValues | AxisValues | AxisVariable | Operand"
"""What goes together with the elements of a tile."""


def axis_values(held: Held, axis: int, value: Operand | Callable[[Value], Operand]) -> AxisValues:
    """One value for each row (axis 0) or column (1) of which the thread has elements."""
    if callable(value):
        call = f"TileValues.{AXES[axis]}s"
        made = [as_value(held.core, run_callback(call, value, index)) for index in held.indices(axis)]
        return AxisValues(held, axis, made)
    if isinstance(value, Address):
        name = AXES[axis]
        advice = f"read the number of each {name}: {name}s(lambda {name}: address[{name}])"
        ARGUMENT.fail(call=f"TileValues.{name}s", problem="value is an address", advice=advice)
    return AxisValues(held, axis, [as_value(held.core, value)] * len(held.ownership.along(axis)))
