"""Arrays of numbers that are known when the kernel is built: constant memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.lower.conversions import llvm_constant, llvm_type
from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.names import name_or
from nvbackend.builder.values.values import Operand, Value, as_index
from nvbackend.diagnostics import Rule, printed, user_facing, with_article
from nvbackend.diagnostics.boundary import plain_number
from nvbackend.intrinsics.row.types import ElementType, s32, u32

CONSTANT_SPACE = 4
MOST_BYTES = 64 * 1024
"""Constant memory of a module (PTX ISA 5.1.3)."""
SIZE = Rule(
    id="constant.size",
    message="{name}: constant memory of {bytes} bytes, {total} with what the kernel has already; there are 1 to {most}",
    fix="give at least one number, and keep larger tables in global memory: a parameter nvb.Pointer(..., const=True)",
    why="ptxas refuses it, and does not name the line.",
    reference="PTX ISA 5.1.3 (constant state space)",
)
DATA = Rule(
    id="constant.data",
    message="{name}: {problem}",
    fix="{advice}",
    why="Constant memory is written when the kernel is built, and holds numbers of one type.",
    reference="PTX ISA 5.1.3 (constant state space), 5.4.4 (initializers)",
)
INDEX = Rule(
    id="constant.index",
    message="index {index} of {name}{who}: it has {extent} element(s) along dimension {axis}",
    fix="index from 0 to {last}{more}",
    why="The load would read another table, or fault.",
    reference="PTX ISA 5.1.3 (constant state space)",
)
READ_ONLY = Rule(
    id="constant.write",
    message="an element of {name}, an array in constant memory, is set",
    fix="keep what changes in k.local.array, k.shared or global memory",
    why="Constant memory is read through a cache that no store of a kernel changes.",
    reference="PTX ISA 5.1.3 (constant state space)",
)


@user_facing
class ConstantArray:
    """Numbers in constant memory: `array[i]` or `array[i, j]` reads an element, by run-time indices too.

    Threads of a warp that read one address are served at once; others one after another.
    """

    def __init__(self, k: Core, storage: ir.GlobalVariable, element: ElementType, shape: tuple[int, ...], name: str):
        self._k = k
        self._storage = storage
        self._name = name
        self.element = element
        self.shape = shape

    def __getitem__(self, index: Operand | tuple[Operand, ...]) -> Value:
        """Raises constant.index, value.operation, and value.kernel for an index of another kernel."""
        self._k.check_live()
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != len(self.shape):
            problem = f"it has {len(self.shape)} dimension(s), and is read by {len(indices)} index(es)"
            DATA.fail(name=self._name, problem=problem, advice=f"give {len(self.shape)}, for the shape {self.shape}")
        place: Any = 0
        for axis, (each, extent) in enumerate(zip(indices, self.shape, strict=True)):
            place = place * extent + self._checked(each, axis)
        number = as_index(self._k, place)
        zero = ir.Constant(ir.IntType(32), 0)
        pointer = self._k.llvm.gep(self._storage, [zero, number.ir], inbounds=True)
        loaded = self._k.llvm.load(pointer, align=self.element.bits // 8)
        return self._k.wrap(loaded, self.element)

    def __setitem__(self, index: Operand | tuple[Operand, ...], value: Operand) -> NoReturn:
        """Raises constant.write."""
        READ_ONLY.fail(name=self._name)

    def __len__(self) -> int:
        return self.shape[0]

    __iter__ = None
    __contains__ = None

    def _checked(self, index: Operand, axis: int) -> Operand:
        """An index of 32 bits and more, or a number; constant.index where it is outside for certain."""
        plain = plain_number(index)
        value = as_index(self._k, plain)
        known = value.constant
        if isinstance(known, int):
            self._check(known, axis, "")
            return known
        for thread, number in self._k.execution.numbers_here(value.ir).items():
            self._check(number, axis, f", in thread {thread}")
        for number in self._k.execution.counted(value.ir) or ():
            self._check(number, axis, ", in a round of the loop")
        return value if value.type.bits >= s32.bits else value.to(s32 if value.type.is_signed else u32)

    def _check(self, index: int, axis: int, who: str) -> None:
        extent = self.shape[axis]
        if not 0 <= index < extent and not self._k.execution.is_unreached():
            more = ", or leave out the threads and rounds that are past the end: with k.if_(index < n)" if who else ""
            INDEX.fail(index=index, name=self._name, extent=extent, axis=axis, who=who, last=extent - 1, more=more)

    def __repr__(self) -> str:
        extents = " x ".join(map(str, self.shape))
        return f"<constant array {self._name}: {extents} x {self.element}>"


@user_facing
class Constant(Noun):
    """Constant memory (PTX ISA 5.1.3)."""

    __noun__ = "constant"
    __usual__ = "array"

    def array(self, values: Any, element: ElementType, *, name: str | None = None) -> ConstantArray:
        """The numbers of a list, of nested lists or of an array, which threads read by run-time indices.

        They are part of the cubin: 64 KB in all. Equal arrays of one type are one. Raises constant.size,
        constant.data, value.constant for a number that the type does not have, and memory.element for types of less
        than a byte.
        """
        own = name_or(name, "array", "table")
        self._k.check_live()
        if element.bits % 8:
            rules.PART_OF_A_BYTE.fail(element=element, bits=element.bits)
        shape, numbers = _flat(own, values)
        constants = [llvm_constant(number, element) for number in numbers]
        storage = self._placed(own, ir.Constant(ir.ArrayType(llvm_type(element), len(constants)), constants), element)
        return ConstantArray(self._k, storage, element, shape, own)

    def _placed(self, name: str, data: ir.Constant, element: ElementType) -> ir.GlobalVariable:
        """The variable that holds `data`."""
        module = self._k.llvm.module
        others = [each for each in module.global_values if getattr(each.type, "addrspace", 0) == CONSTANT_SPACE]
        for other in others:
            if other.initializer.type == data.type and other.initializer.constant == data.constant:
                return other
        size = element.bytes_for(len(data.constant))
        total = size
        for other in others:
            total += int(other.value_type.count) * other.align
        if not 0 < size <= total <= MOST_BYTES:
            SIZE.fail(name=name, bytes=size, total=total, most=MOST_BYTES)
        variable = ir.GlobalVariable(
            module, data.type, module.get_unique_name(f"{self._k.name}__{name}"), CONSTANT_SPACE
        )
        variable.linkage, variable.align, variable.global_constant = "internal", element.bits // 8, True
        variable.initializer = data
        return variable


def _flat(name: str, values: Any) -> tuple[tuple[int, ...], list[float]]:
    """The shape and the numbers, in the order of rows (constant.data)."""
    if fields := getattr(getattr(values, "dtype", None), "names", None):
        problem = f"it is an array of records, with the fields {', '.join(map(str, fields))}"
        DATA.fail(name=name, problem=problem, advice=f"give an array for each field: values[{fields[0]!r}]")
    values = values.tolist() if hasattr(values, "tolist") else values
    shape, level = [], values
    while isinstance(level, Sequence) and not isinstance(level, (str, bytes)):
        shape.append(len(level))
        level = level[0] if level else None
    numbers = [plain_number(number) for number in _leaves(values)]
    for number in numbers:
        if not isinstance(number, (bool, int, float)):
            problem = f"{printed(number)} is not a number that is known when the kernel is built"
            advice = "give Python's numbers or an array of NumPy's; k.local.array holds values of a thread"
            DATA.fail(name=name, problem=problem, advice=advice)
    if not shape or len(numbers) != math.prod(shape) or not _is_even(values, shape):
        problem = f"{with_article(type(values).__name__)} of {len(numbers)} number(s) has no shape"
        DATA.fail(name=name, problem=problem, advice="give a list of numbers, or lists of equal lengths")
    return tuple(shape), numbers


def _leaves(values: Any) -> Iterator[Any]:
    if isinstance(values, (list, tuple)):
        yield from itertools.chain.from_iterable(map(_leaves, values))
    else:
        yield values


def _is_even(values: Any, shape: Sequence[int]) -> bool:
    """Whether nested lists have these lengths on each level."""
    if not shape:
        return not isinstance(values, (list, tuple))
    return (
        isinstance(values, (list, tuple))
        and len(values) == shape[0]
        and all(_is_even(each, shape[1:]) for each in values)
    )
