"""Rows of floating-point arithmetic whose rounding, flushing or approximation is chosen by name.

PTX ISA 9.7.3 (f32, f64), 9.7.4 (f16, bf16). By asm, so that each is the instruction that was asked for: LLVM knows no
rounding, and it may fuse or expand its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Intrinsic,
    PtxVersion,
    RegisterClass,
    Row,
    chosen,
    operand,
    output,
    spelled,
)
from nvbackend.intrinsics.row.types import ElementType, bf16, f16, f32, f64

ROUNDINGS = ("rn", "rz", "rm", "rp")
"""To nearest even, towards zero, down, up."""
ELEMENTS: dict[str, ElementType] = {element.name: element for element in (f16, bf16, f32, f64)}
REGISTERS = {"f16": RegisterClass.B16, "bf16": RegisterClass.B16, "f32": RegisterClass.F32, "f64": RegisterClass.F64}
GateOf = tuple[Feature, PtxVersion]
"""The feature and the PTX version that an instruction needs."""
_ALWAYS: GateOf = (Feature.NONE, (6, 0))
_HALF: GateOf = (Feature.SM_80, (7, 0))
_BF16_SUM: GateOf = (Feature.SM_90, (7, 8))
_HALF_FUNCTION: GateOf = (Feature.SM_75, (7, 0))
_NAMES = ("a", "b", "c")
_INTRINSICS = {
    "lg2.approx.f32": "llvm.nvvm.lg2.approx.f",
    "rsqrt.approx.f32": "llvm.nvvm.rsqrt.approx.f",
    "rcp.approx.ftz.f32": "llvm.nvvm.rcp.approx.ftz.f",
}
"""Those that LLVM has as they are, which it may fold and move."""
OPERATIONS = {"add": 2, "sub": 2, "mul": 2, "fma": 3}
"""What is rounded as is said, and its operands."""
FUNCTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("rcp", "sqrt"), ("approx", *ROUNDINGS)),
    "rsqrt": ("approx",),
    **dict.fromkeys(("sin", "cos", "lg2", "ex2", "tanh"), ("approx",)),
    "div": ("full", *ROUNDINGS),
}
"""Functions and the forms that they have."""


def _row(
    ptx: str,
    element: str,
    count: int,
    gate: GateOf,
    section: str,
    summary: str,
    axes: dict[str, object],
) -> Row:
    """An instruction of `count` operands of one type."""
    kind, register = ELEMENTS[element], REGISTERS[element]
    names = _NAMES[:count]
    inputs = ", ".join(f"{{{name}}}" for name in names)
    return Row(
        family="floats",
        opcode=ptx.partition(".")[0],
        ptx=ptx,
        operands=(
            output("result", register, element=kind),
            *(operand(name, register, element=kind) for name in names),
        ),
        lowering=Intrinsic(_INTRINSICS[ptx], names) if ptx in _INTRINSICS else Asm(f"{{ptx}} {{result}}, {inputs};"),
        requires=gate[0],
        ptx_version=gate[1],
        section=section,
        summary=summary,
        axes={**axes, "element": element},
    )


@cache
def arithmetic(
    operation: str, element: str, rounding: str = "rn", ftz: bool = False, saturate: bool = False, relu: bool = False
) -> Row:
    """add, sub, mul or fma, rounded as is said. f16 and bf16 round to nearest.

    `ftz` (f32, f16) flushes subnormal operands and results to zero; `saturate` (f32, f16) clamps to 0 to 1; `relu` (fma
    of f16 and bf16) makes negative results 0. Raises NoSuchRow.
    """
    chosen("operation", operation, OPERATIONS)
    chosen("element", element, ELEMENTS)
    is_half = REGISTERS[element] is RegisterClass.B16
    chosen(f"rounding of {element}", rounding, ("rn",) if is_half else ROUNDINGS)
    clamps = (False, True) if element in ("f32", "f16") else (False,)
    chosen(f"ftz of {element}", ftz, clamps)
    chosen(f"saturate of {element}", saturate, clamps)
    chosen("relu", relu, (False, True) if operation == "fma" and is_half and not saturate else (False,))
    parts = ("ftz" if ftz else None, "sat" if saturate else None, "relu" if relu else None)
    gate = _ALWAYS
    if element == "bf16":
        gate = _HALF if operation == "fma" else _BF16_SUM
    elif relu:
        gate = _HALF
    return _row(
        spelled(operation, rounding, *parts, element),
        element,
        OPERATIONS[operation],
        gate,
        f"{'9.7.4' if is_half else '9.7.3'} ({operation})",
        "Computes with one rounding.",
        {"operation": operation, "rounding": rounding, "ftz": ftz, "saturate": saturate, "relu": relu},
    )


@cache
def extreme(operation: str, element: str, ftz: bool = False, nan: bool = False) -> Row:
    """min or max that flushes subnormal numbers (`ftz`: f32, f16), or gives NaN where an operand is it (`nan`).

    Raises NoSuchRow.
    """
    chosen("operation", operation, ("min", "max"))
    chosen("element", element, ("f16", "bf16", "f32"))
    chosen(f"ftz of {element}", ftz, (False,) if element == "bf16" else (False, True))
    chosen("nan", nan, (False, True))
    gate = _HALF if element != "f32" or nan else _ALWAYS
    return _row(
        spelled(operation, "ftz" if ftz else None, "NaN" if nan else None, element),
        element,
        2,
        gate,
        f"{'9.7.3' if element == 'f32' else '9.7.4'} ({operation})",
        "Takes the lesser or the greater of two numbers.",
        {"operation": operation, "ftz": ftz, "nan": nan},
    )


def function_forms(name: str, element: str) -> tuple[tuple[str, bool], ...]:
    """The forms of a function of `element`, each with and without ftz where it has that."""
    if element in ("f16", "bf16"):
        return (("approx", (name, element) == ("ex2", "bf16")),) if name in ("ex2", "tanh") else ()
    if element == "f32":
        flushes = (False,) if name == "tanh" else (False, True)
        return tuple((form, ftz) for form in FUNCTIONS[name] for ftz in flushes)
    approximate = {"rcp": (("approx", True),), "rsqrt": (("approx", False), ("approx", True))}.get(name, ())
    rounded = tuple((form, False) for form in FUNCTIONS[name] if form in ROUNDINGS)
    return (*approximate, *rounded)


@cache
def function(name: str, element: str, form: str, ftz: bool = False) -> Row:
    """A function in one of its forms: approximated, or rounded once. Raises NoSuchRow."""
    chosen("function", name, FUNCTIONS)
    chosen("element", element, ELEMENTS)
    chosen(f"form of {name} of {element}", (form, ftz), function_forms(name, element))
    gate = _ALWAYS
    if element in ("f16", "bf16"):
        gate = _HALF_FUNCTION if element == "f16" else _BF16_SUM
    elif name == "tanh":
        gate = _HALF_FUNCTION
    return _row(
        spelled(name, form, "ftz" if ftz else None, element),
        element,
        2 if name == "div" else 1,
        gate,
        f"{'9.7.4' if element in ('f16', 'bf16') else '9.7.3'} ({name})",
        "Computes a function, approximately or with one rounding.",
        {"function": name, "form": form, "ftz": ftz},
    )


def rows() -> Iterator[Row]:
    """Every row of this module."""
    for operation in OPERATIONS:
        for element in ELEMENTS:
            is_half = element in ("f16", "bf16")
            flags = (False, True) if element in ("f16", "f32") else (False,)
            for rounding in ("rn",) if is_half else ROUNDINGS:
                for ftz in flags:
                    yield from (arithmetic(operation, element, rounding, ftz, sat) for sat in flags)
                    if operation == "fma" and is_half:
                        yield arithmetic(operation, element, rounding, ftz, relu=True)
    for operation in ("min", "max"):
        for element in ("f16", "bf16", "f32"):
            for ftz in (False,) if element == "bf16" else (False, True):
                yield from (extreme(operation, element, ftz, nan) for nan in (False, True))
    for name in FUNCTIONS:
        for element in ELEMENTS:
            yield from (function(name, element, form, ftz) for form, ftz in function_forms(name, element))
