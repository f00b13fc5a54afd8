"""Conversions whose rounding or saturation is named, and those from and to floats of 8 bits and less.

Each rounds once: what f32 does not hold goes through an f32 whose last bit is sticky, and from there by one cvt.
"""

from __future__ import annotations

from typing import NoReturn

from llvmlite import ir

from nvbackend.builder.lower import conversions
from nvbackend.builder.lower.conversions import known_number, llvm_type, width, wrapped_constant
from nvbackend.builder.lower.lowering import declare, lower
from nvbackend.builder.scopes import rules
from nvbackend.intrinsics.arithmetic import conversions as rows
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.row.row import NoSuchRow, Row
from nvbackend.intrinsics.row.types import (
    ElementType,
    b1,
    bf16,
    e2m1,
    e2m3,
    e3m2,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    pred,
    tf32,
    ue4m3,
    ue8m0,
)
from nvbackend.isel.select.rows import check_row
from nvbackend.isel.target.target import Target

_HALF_BITS = ir.IntType(16)
_BITS = {element: element.bits for element in (e4m3, e5m2, e2m3, e3m2, e2m1, ue8m0, ue4m3)}
"""Floats and scales of 8 bits and less: a value is its code, in the lowest bits of 8."""
_DIRECTED = ("rn", "rz", "rm", "rp")


def converted(
    builder: ir.IRBuilder,
    target: Target,
    value: ir.Value,
    source: ElementType,
    element: ElementType,
    rounding: str | None = None,
    saturate: bool = False,
) -> ir.Value:
    """`value` of `source` as an `element`: see `Value.to`. Raises value.operation and target.feature."""
    if source.is_pair or element.is_pair:
        advice = f'k.packed.unpack("{source}", pair) gives its numbers, and .bitcast its bits'
        if not source.is_pair:
            advice = "k.packed.pack takes two numbers of one type, and k.convert.pack rounds two of f32"
        rules.UNSUPPORTED_OPERATION.fail(operation=f"conversion to {element}", element=source, advice=advice)
    if element is pred or b1 in (source, element):
        return conversions.converted(builder, target, value, source, element)
    if source in _BITS:
        value, source = _decoded(builder, target, value, source)
        if source is element and not saturate:
            return value
    if element in _BITS:
        _check(source, element, rounding, ("rz", "rp") if element is ue8m0 else ("rn",))
        single = _to_single(builder, target, value, source)
        return _encoded(builder, target, single, element, rounding, saturate)
    if rounding is None and not saturate:
        return conversions.converted(builder, target, value, source, element)
    if not element.is_float:
        return _to_integer(builder, target, value, source, element, rounding)
    return _to_float(builder, target, value, source, element, rounding, saturate)


def _check(source: ElementType, element: ElementType, rounding: str | None, legal: tuple[str, ...]) -> None:
    if rounding is not None and rounding not in legal:
        _refuse(source, element, f"rounded by {rounding!r}", f"use {' or '.join(map(repr, legal))}")


def _refuse(source: ElementType, element: ElementType, problem: str, advice: str) -> NoReturn:
    rules.UNSUPPORTED_OPERATION.fail(operation=f"conversion to {element} {problem}", element=source, advice=advice)


def _emitted(builder: ir.IRBuilder, target: Target, row: Row, **operands: ir.Value) -> ir.Value:
    check_row(row, target, {})
    ((value,),) = lower(builder, row, operands).values()
    return value


# -- integers ---------------------------------------------------------------------------------------------------------


def _to_integer(
    builder: ir.IRBuilder,
    target: Target,
    value: ir.Value,
    source: ElementType,
    element: ElementType,
    rounding: str | None,
) -> ir.Value:
    """By the rounding, or saturated: floats are both."""
    if source.is_float:
        _check(source, element, rounding, _DIRECTED)
        return conversions.float_to_integer(builder, value, source, element, rounding or "rz")
    if rounding is not None:
        _refuse(source, element, f"rounded by {rounding!r}", "leave rounding= out: integers are exact")
    return conversions.converted(builder, target, _clamped(builder, value, source, element), source, element)


def _clamped(builder: ir.IRBuilder, value: ir.Value, source: ElementType, element: ElementType) -> ir.Value:
    """An integer stopped at the ends of another type, still in its own register."""
    low, high = max(source.integers[0], element.integers[0]), min(source.integers[-1], element.integers[-1])
    number = known_number(value, source)
    if isinstance(number, int):
        return wrapped_constant(min(max(number, low), high), source)
    letter, bits = "s" if source.is_signed else "u", width(source)
    for name, bound, end in ((f"{letter}max", low, source.integers[0]), (f"{letter}min", high, source.integers[-1])):
        if bound != end:
            extreme = declare(builder.module, f"llvm.{name}.i{bits}", value.type, [value.type, value.type])
            value = builder.call(extreme, [value, ir.Constant(value.type, bound)])
    return value


# -- floats -----------------------------------------------------------------------------------------------------------


def _to_float(
    builder: ir.IRBuilder,
    target: Target,
    value: ir.Value,
    source: ElementType,
    element: ElementType,
    rounding: str | None,
    saturate: bool,
) -> ir.Value:
    _check(source, element, rounding, ("rna", "rn", "rz") if element is tf32 else _DIRECTED)
    if element in (f32, f64):
        if saturate:
            _refuse(
                source, element, "saturated", "leave saturate= out: only f16, bf16, tf32 and narrower types have it"
            )
        return _to_wide(builder, target, value, source, element, rounding or "rn")
    single = _to_single(builder, target, value, source)
    mode = rounding or ("rna" if element is tf32 else "rn")
    try:
        row = rows.single(element.name, mode, saturate)
    except NoSuchRow:
        _refuse(source, element, f"rounded by {mode!r} and saturated", "use 'rn' or 'rz', or leave saturate= out")
    return builder.bitcast(_emitted(builder, target, row, source=single), llvm_type(element))


def _to_wide(
    builder: ir.IRBuilder, target: Target, value: ir.Value, source: ElementType, element: ElementType, mode: str
) -> ir.Value:
    """To f32 or f64, by LLVM's intrinsics where it may round."""
    if source.is_float:
        if (source, element) != (f64, f32):
            return conversions.converted(builder, target, value, source, element)  # exact
        name = f"llvm.nvvm.d2f.{mode}"
    else:
        if source.bits < element.bits:  # exact
            return conversions.converted(builder, target, value, source, element)
        letters = ("" if source.is_signed else "u") + ("ll" if source.bits == f64.bits else "i")
        name = f"llvm.nvvm.{letters}2{'f' if element is f32 else 'd'}.{mode}"
    return builder.call(declare(builder.module, name, llvm_type(element), [value.type]), [value])


def _to_single(builder: ir.IRBuilder, target: Target, value: ir.Value, source: ElementType) -> ir.Value:
    """An f32 that rounds to narrower types as the exact number does."""
    if source is f64:
        return conversions.odd_from_double(builder, value)
    if source.is_integer and source.bits >= f32.bits:
        return conversions.odd_from_integer(builder, value, source)
    return value if source is f32 else conversions.converted(builder, target, value, source, f32)


# -- 8 bits and less --------------------------------------------------------------------------------------------------


def _decoded(
    builder: ir.IRBuilder, target: Target, value: ir.Value, source: ElementType
) -> tuple[ir.Value, ElementType]:
    """A code as the f16 or bf16 that it is."""
    name, middle = ("ue8m0x2", bf16) if source is ue8m0 else (_pair_of(source), f16)
    word = builder.zext(value, _HALF_BITS)
    both = _emitted(builder, target, rows.pair(f"{middle}x2", name), source=word)
    return builder.bitcast(builder.trunc(both, _HALF_BITS), llvm_type(middle)), middle


def _encoded(
    builder: ir.IRBuilder, target: Target, single: ir.Value, element: ElementType, rounding: str | None, saturate: bool
) -> ir.Value:
    if element is ue8m0:
        row = rows.pack("ue8m0x2", rounding or "rz", saturate)
    elif element in (e4m3, e5m2, ue4m3):
        row = matrix_move.pack(_pair_of(element), element is ue4m3)
    else:
        row = rows.pack(_pair_of(element), "rn", True)
    both = _emitted(builder, target, row, high=ir.Constant(single.type, 0.0), low=single)
    return builder.trunc(both, llvm_type(element))  # codes of less than a byte have zeros above them (PTX ISA, cvt)


def _pair_of(element: ElementType) -> str:
    return f"{e4m3 if element is ue4m3 else element}x2"
