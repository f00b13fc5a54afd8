"""What conversions between element types emit."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder import rules
from nvbackend.builder.llvm_types import llvm_type
from nvbackend.builder.numbers import is_packed, known_number, width, wrapped_constant
from nvbackend.intrinsics.types import ElementType, Kind, pred


def converted(builder: ir.IRBuilder, value: ir.Value, source: ElementType, element: ElementType) -> ir.Value:
    """`value` of `source` as the same number of `element`, floats to integers towards zero (value.operation)."""
    if (Kind.BITS in (source.kind, element.kind) and source is not pred) or is_packed(source) or is_packed(element):
        rules.UNSUPPORTED_OPERATION.fail(
            operation=f"conversion to {element}", element=source, advice="use bitcast(), or a conversion instruction"
        )
    number = known_number(value)
    if isinstance(number, int) and not element.is_float:
        return wrapped_constant(int(number), element)
    method = _conversion(source, element)
    return value if method is None else getattr(builder, method)(value, llvm_type(element))


def bitcast(builder: ir.IRBuilder, value: ir.Value, source: ElementType, element: ElementType) -> ir.Value:
    """The bits of `value`, of `source`, as an `element`, which must be as wide (value.operation)."""
    if llvm_type(element) == llvm_type(source):
        return value
    if width(element) != width(source):
        rules.UNSUPPORTED_OPERATION.fail(
            operation=f"bitcast to {element} ({width(element)} bits)",
            element=f"{source} ({width(source)} bits)",
            advice="cast to a type of the same width, or convert with .to()",
        )
    return builder.bitcast(value, llvm_type(element))


def _conversion(source: ElementType, element: ElementType) -> str | None:
    """The LLVM operation between two types, None where the bits stay as they are."""
    if source.is_float and element.is_float:
        wider = width(element) - width(source)
        return None if wider == 0 else "fpext" if wider > 0 else "fptrunc"
    if source.is_float:
        return "fptosi" if element.is_signed else "fptoui"
    if element.is_float:
        return "sitofp" if source.is_signed else "uitofp"
    wider = width(element) - width(source)
    if wider == 0:
        return None
    return "trunc" if wider < 0 else "sext" if source.is_signed else "zext"
