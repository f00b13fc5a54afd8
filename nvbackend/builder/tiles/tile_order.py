"""The order in which the tiles of a grid are computed."""

from __future__ import annotations

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.types import s32, u32

GROUP = Rule(
    id="pipeline.group",
    message="tiles cannot be walked {given} rows at a time",
    fix="use a positive integer; 1 walks row by row",
    why="The tile's place would be a quotient by zero, which is not an error on the GPU: any tile may come out.",
    reference="PTX ISA 9.7.1 (div, rem: division by zero)",
)


def grouped_tile(k: FunctionBuilder, tile: Operand, rows: Operand, columns: Operand, group: int) -> tuple[Value, Value]:
    """Row and column of tile number `tile` of a grid, walked `group` rows at a time. Raises pipeline.group."""
    if type(group) is not int or group < 1:
        GROUP.fail(given=repr(group))
    index, height, width = (as_value(k.core, number, s32).to(u32) for number in (tile, rows, columns))
    in_group = width * group
    first = _quotient(k, index, in_group) * group
    height = k.math.min(height - first, group)
    inside = _rest(k, index, in_group)
    return (first + _rest(k, inside, height)).to(s32), _quotient(k, inside, height).to(s32)


# A grid with a tile has rows and columns: these need no result for a divisor of 0, which would cost instructions.


def _quotient(k: FunctionBuilder, a: Value, b: Value) -> Value:
    return k.core.wrap(k.core.llvm.udiv(a.ir, b.ir), u32)


def _rest(k: FunctionBuilder, a: Value, b: Value) -> Value:
    return k.core.wrap(k.core.llvm.urem(a.ir, b.ir), u32)
