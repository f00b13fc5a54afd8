"""Tensors in a thread's registers: instructions take them whole, programs element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from nvbackend.builder.core.local import Local
from nvbackend.builder.core.variables import Variable, make_variable, select
from nvbackend.builder.scopes.names import check_name
from nvbackend.builder.scopes.rules import SUB_BYTE
from nvbackend.builder.tiles.coordinates import check_closed, check_inside
from nvbackend.builder.values.carried import Carried
from nvbackend.builder.values.placed import Placed, TilePlaces
from nvbackend.builder.values.values import Operand, Value, as_index, as_value
from nvbackend.diagnostics import Rule, run_callback, user_facing
from nvbackend.intrinsics.row.types import BY_NAME, REGISTER_BITS, ElementType, u32
from nvbackend.isel.target.target import VARIANT
from nvbackend.layout import IntTuple, Layout, cosize, size
from nvbackend.layout.algebra.inttuple import is_run_time, leaves, product
from nvbackend.layout.algebra.swizzle import BYTE_BITS

if TYPE_CHECKING:
    from nvbackend.builder.core.core import Core

_NAME = "tensor"
MOST_REGISTERS = 255
"""How many 32-bit registers a thread has."""
MOST_COORDINATES = MOST_REGISTERS * REGISTER_BITS
"""How many bits a thread has; with a stride of 0, several elements share a register."""

_WHOLE = "name whole registers: slice the modes after the first, and retile for the copy that reads or writes them"
REGISTERS = Rule(
    id="tensor.registers",
    message="{layout} of {element} from element {offset} on is not a whole number of registers: {problem}",
    fix="{advice}",
    why="An instruction takes whole registers, so it would get other elements as well.",
    reference="PTX ISA 9.7.14.5 (fragments)",
)

TOO_MANY = Rule(
    id="tensor.register-count",
    message="{layout} of {element} takes {registers} registers of a thread, which has {most}",
    fix="keep a part of it at a time, or put it into shared memory: k.shared(...)",
    why="What does not fit is kept in local memory, which is as slow as global memory.",
    reference="CUDA C++ Programming Guide, compute capabilities: 32-bit registers per thread",
)
RUN_TIME_INDEX = Rule(
    id="tensor.register-index",
    message="{given!r} is not known while the kernel is being built, and names an element in registers",
    fix="unroll: index with a Python integer; or ask for tensor.read(index) and tensor.write(index, value)",
    why="An instruction names its registers; there is no register whose number is in another one.",
    reference="PTX ISA 5.2 (registers are not addressable)",
)


@user_facing
class RegisterTensor(Placed):
    """Elements in a thread's registers, indexed by `layout`: CuTe's Tensor of an ArrayEngine.

    Made by `k.register_tensor`, cleared. Elements of less than 32 bits are packed into u32, the first in the lowest
    bits. `tensor[i, j]` reads an element and can be set, of a byte or more (memory.sub-byte); with `_` it is a tensor
    of the same registers. Indices are Python integers (tensor.register-index) of the shape (tensor.coordinate).
    """

    def __init__(
        self,
        k: Core,
        element: ElementType,
        layout: Layout,
        cells: Sequence[Variable],
        offset: int = 0,
        places: TilePlaces | None = None,
        *,
        carried: Carried | None = None,
    ) -> None:
        self._k = k
        self._cells = cells
        self.element = element
        self.layout = layout
        self.offset = offset
        self._own_places = places
        self._carried = Carried(_NAME) if carried is None else carried
        """Of all tensors of the same registers."""

    @property
    def shape(self) -> IntTuple:
        """The extents."""
        return self.layout.shape

    @property
    def per_register(self) -> int:
        """Elements in one register."""
        return max(1, REGISTER_BITS // self.element.bits)

    def retile(self, by: Callable[[Layout], Layout]) -> RegisterTensor:
        """The same registers in the order of a copy: `fragment.retile(thr_copy.retile_D)`. Raises copy.fragment."""
        layout = run_callback("RegisterTensor.retile", by, self.layout, gives=(Layout,))
        return RegisterTensor(self._k, self.element, layout, self._cells, self.offset, carried=self._carried)

    def registers(self) -> list[Value]:
        """The registers in order of the coordinates: what an mma is given. Raises tensor.registers."""
        values = [cell.value for cell in self._whole()]
        self._carried.read(self._k.regions, [value.ir for value in values])
        return values

    def set_registers(self, values: Sequence[Operand]) -> None:
        """Give all registers other values, in the same order. Raises tensor.registers."""
        cells = self._whole()
        if len(values) != len(cells):
            self._refuse(f"{len(values)} values for {len(cells)} registers", f"give {len(cells)} values")
        for cell, value in zip(cells, values, strict=True):
            cell.set(value)
        self._carried.set(self._k.regions, [cell.value.ir for cell in cells])

    def set(self, values: Sequence[Operand]) -> None:
        """Give all elements other values, in the order of the coordinates: `acc.set(acc.map(lambda x: 2 * x))`.

        Raises tensor.registers for another number of values, value.type.
        """
        count = size(self.layout)
        if len(values) != count:
            advice = f"give {count} values, one for each element that the thread has"
            self._refuse(f"{len(values)} values for {count} elements", advice)
        for index, value in enumerate(values):
            self[index] = value

    def read(self, index: Operand, *, by: str = "select") -> Value:
        """The element of a run-time `index`, a number of coordinates in CuTe's order, the first mode fastest.

        `by` "select" compares the index with that of each element, and keeps all in registers: the last element comes
        of every other index. "local" copies all to local memory and loads one: less for many elements. Raises
        instruction.variant, value.operation, tensor.coordinate for a number outside.
        """
        way, number = _checked_way(by), as_index(self._k, index)
        if isinstance(number.constant, int):
            return cast("Value", self[number.constant])
        elements = self._elements()
        if way == "local":
            array = Local(self._k).array(self.element, len(elements), name="elements")
            for place, value in enumerate(elements):
                array[place] = value
            return array[number]
        chosen = elements[-1]
        for place, value in enumerate(elements[:-1]):
            chosen = select(self._k, number == place, value, chosen)
        return chosen

    def write(self, index: Operand, value: Operand) -> None:
        """Give the element of a run-time `index`, as in `read`, another value; of an index outside, none.

        It compares the index with that of each element. Raises value.operation, value.type, tensor.coordinate for a
        number outside.
        """
        number, stored = as_index(self._k, index), as_value(self._k, value, self.element)
        if isinstance(number.constant, int):
            self[number.constant] = stored
            return
        for place, old in enumerate(self._elements()):
            self[place] = select(self._k, number == place, stored, old)

    def _places(self) -> TilePlaces | None:
        return self._own_places

    def _elements(self) -> list[Value]:
        return [self[index] for index in range(size(self.layout))]

    def clear(self) -> None:
        """Set all elements to 0. Raises tensor.registers."""
        self._carried.begin(self._k.regions)
        for cell in self._whole():
            cell.set(0)

    def __getitem__(self, coordinate: Any) -> Any:
        self._check(coordinate)
        layout, start = self.layout.slice_and_offset(coordinate)
        if layout.shape != ():
            offset = self.offset + start
            return RegisterTensor(self._k, self.element, layout, self._cells, offset, carried=self._carried)
        register, shift = self._place(start)
        whole = self._cells[register].value
        self._carried.read(self._k.regions, [whole.ir])
        if self.element.bits >= REGISTER_BITS:
            return whole
        bits = (whole >> shift).to(BY_NAME[f"u{self.element.bits}"])
        return bits.bitcast(self.element)

    def __setitem__(self, coordinate: Any, value: Operand) -> None:
        self._check(coordinate)
        check_closed(coordinate, self.shape)
        register, shift = self._place(self.layout(coordinate))
        stored = as_value(self._k, value, self.element)
        if self.element.bits >= REGISTER_BITS:
            self._cells[register].set(stored)
            self._carried.set(self._k.regions, [stored.ir])
            return
        self._carried.begin(self._k.regions)
        bits = stored.bitcast(BY_NAME[f"u{self.element.bits}"]).to(u32) << shift
        mask = (1 << self.element.bits) - 1 << shift
        self._cells[register].set(self._cells[register] & (1 << REGISTER_BITS) - 1 - mask | bits)

    __iter__ = None

    def _check(self, coordinate: Any) -> None:
        """Raises tensor.register-index for a run-time index, tensor.coordinate for one outside."""
        for number in leaves(coordinate):
            if is_run_time(number):
                RUN_TIME_INDEX.fail(given=number)
        check_inside(coordinate, self.shape)

    def _place(self, index: int) -> tuple[int, int]:
        if self.element.bits % BYTE_BITS:
            SUB_BYTE.fail(count=1, element=self.element, bits=self.element.bits)
        register, rest = divmod(self.offset + index, self.per_register)
        return register, rest * self.element.bits

    def _whole(self) -> list[Variable]:
        places = [self.offset + index for index in self.layout.offsets()]
        step = self.per_register
        if len(places) % step:
            self._refuse(f"{len(places)} elements, of which {step} are in one")
        groups = [places[at : at + step] for at in range(0, len(places), step)]
        for group in groups:
            if group != list(range(group[0] // step * step, group[0] // step * step + step)):
                self._refuse(f"elements {group} are not those of one register")
        return [self._cells[group[0] // step] for group in groups]

    def _refuse(self, problem: str, advice: str = _WHOLE) -> None:
        REGISTERS.fail(layout=self.layout, element=self.element, offset=self.offset, problem=problem, advice=advice)

    def __repr__(self) -> str:
        return f"<registers of {self.element}: {self.layout}>"


def _checked_way(by: str) -> str:
    if by not in ("select", "local"):
        VARIANT.fail(instruction="read of a register tensor", reason=f'by={by!r} is not "select" or "local"')
    return by


def make_registers(
    k: Core, element: ElementType, layout: Layout, name: str, places: TilePlaces | None = None
) -> RegisterTensor:
    """A cleared tensor of as many registers as the layout's elements take; `places` has their places in a tile."""
    tensor = RegisterTensor(k, element, layout, ())
    if element.bits < REGISTER_BITS and REGISTER_BITS % element.bits:
        tensor._refuse(f"{element.bits} bits do not fill a register", "keep such elements in a type of 8 bits, as bits")
    count = -(-cosize(layout) // tensor.per_register)
    if any(stride < 0 for stride in leaves(layout.stride)):
        tensor._refuse("a stride is negative", "use positive strides, or give the shape alone")
    words = count * max(1, element.bits // REGISTER_BITS)
    if words > MOST_REGISTERS:
        TOO_MANY.fail(layout=layout, element=element, registers=words, most=MOST_REGISTERS)
    if product(layout.shape) > MOST_COORDINATES:
        tensor._refuse(f"it has {product(layout.shape)} coordinates", "use a smaller shape")
    kind = u32 if element.bits < REGISTER_BITS else element
    check_name(name)
    cells = [make_variable(k, 0, kind, name=name if count == 1 else f"{name}.{index}") for index in range(count)]
    carried = Carried(name)
    carried.begin(k.regions)
    k.sums.append(carried)
    return RegisterTensor(k, element, layout, cells, places=places, carried=carried)
