"""What a message says of an argument that does not fit: what it must be, what it is, and what was probably meant."""

from __future__ import annotations

import re
import reprlib

from nvbackend.diagnostics.annotations import NUMPY, is_llvmlites
from nvbackend.diagnostics.diagnostic import AT_RUN_TIME, printed, with_article
from nvbackend.diagnostics.spelling import element_name

_ONE_INDEX = (
    "compute one index, such as row * pitch + column, or index a tensor by coordinates: k.tensor(address, layout)"
)
_WORDS = {
    r"\bOperand\b": "a value or a number",
    r"\bExtents\b": "one to three integers",
    r"\bOther\b": "TileValues, AxisValues, a value or a number",
}
"""What the aliases of this package say."""
_MADE = {
    "SwizzleMode": "use nvb.SwizzleMode.B128, B64, B32 or NONE",
    "Major": "use nvb.Major.K or MN",
    "Inside": "k.identity_tensor(shape).below(rows, columns) makes one",
    "Tensor": "k.tensor(address, layout) makes one",
    "Feature": "use one such as nvb.rows.Feature.WGMMA",
}
"""How an object of a class is made that people do not know by its name."""


def misfit(place: str, value: object, wanted: str) -> str:
    """The problem of an argument, at `place` in a call, that is not what an annotation says."""
    return f"{place} must be {shown(wanted)}, not {short(value)} ({_kind(value)}){hint(value, wanted)}"


def other_fix(call: str, parameter: str, value: object) -> str:
    """The fix where it is not how the call is written."""
    if call == "k.print" and parameter == "text":
        return 'write the text first: k.print("{}", value)'
    if call != "Address[...]":
        return "pass nvb.Cache(folder), or nvb.Cache.disabled() to keep nothing" if parameter == "cache" else ""
    several = "the call gives several results: store one of them, x[i] = results[0]"
    return _ONE_INDEX if parameter != "value" else several if isinstance(value, tuple) else "store one value"


def shown(annotation: str) -> str:
    """An annotation with words for the aliases of this package."""
    for alias, words in _WORDS.items():
        annotation = re.sub(alias, words, annotation)
    return annotation


def short(value: object) -> str:
    """An object in a few characters."""
    try:
        text = reprlib.repr(value)
    except ValueError:
        return printed(value)
    return str(getattr(value, "name", "a text of several lines")) if "\n" in text else text  # a module of llvmlite


def _kind(value: object) -> str:
    is_numpys = type(value).__module__ == NUMPY and "bool" in type(value).__name__
    return with_article(f"{'llvmlite ' if is_llvmlites(value) else 'NumPy ' * is_numpys}{type(value).__name__}")


def hint(value: object, wanted: str) -> str:
    """What was probably meant, with what goes before it in the message; nothing where no guess is good."""
    if is_llvmlites(value) and hasattr(value, "type") and wanted != "ir.IRBuilder":
        return ": not the register, .ir; an attached builder takes one by k.value(...)"
    if wanted == "int" and type(value).__name__ in AT_RUN_TIME:
        return ", which is known only when the kernel runs"
    meant = _meant(value, wanted.split(" | "))
    return f": {meant}" if meant else ""


def _meant(value: object, wanted: list[str]) -> str:
    if "Address" in wanted:
        is_value = type(value).__name__ in AT_RUN_TIME
        return "address[index] is what is in memory there; its address is address + index" if is_value else ""
    if "ElementType" in wanted:
        named = value if isinstance(value, str) else getattr(value, "__name__", "")
        return f"use {name}" if (name := element_name(named)) else ""
    if any("Operand" in kind for kind in wanted):
        is_of_tile = type(value).__name__ in ("TileValues", "AxisValues")
        return "compute it of each element, .map(lambda value: ...)" if is_of_tile else ""
    if not {"AnyLayout", "Layout"}.isdisjoint(wanted) and isinstance(value, (tuple, list)):
        return "use nvb.layout.Layout(shape, stride)"
    if "Target" in wanted and isinstance(value, str):
        return f"use nvb.Target.parse({value!r})"
    return next((_MADE[kind] for kind in wanted if kind in _MADE), "")
