"""What a message says of an argument that does not fit: what it must be, what it is, and what to write instead."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Mapping
from typing import Any, cast

from nvbackend.diagnostics.annotations import NUMPY, is_llvmlites
from nvbackend.diagnostics.diagnostic import AT_RUN_TIME, printed, with_article
from nvbackend.diagnostics.spelling import element_name

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
_ONE_INDEX = (
    "compute one index, such as row * pitch + column, or index a tensor by coordinates: k.tensor(address, layout)"
)
_MAP = (
    "declare the parameter as Annotated[nvb.TensorMap, nvb.TensorMap(element, box=(rows, columns))]; consecutive bytes "
    "at an address are copied by k.bulk"
)
_OF_CLASSES = {
    ("TiledWarpMma.gemm", "Address"): "lay a layout over it, and multiply the tiles: "
    "mma.accumulate(acc, k.tensor(a, layout), k.tensor(b, layout))",
    **{
        (f"{mma}.accumulate", kind): "copy it to k.shared_tile(mma.smem_a(columns)), of B smem_b, by k.tma.load for "
        "example, and multiply that"
        for mma in ("TiledWgmma", "TiledTcgen05")
        for kind in ("Address", "Tensor", "TensorMapParameter")
    },
    ("TileValues[...]", "tuple"): "loop over `for (row, column), value in values.items():`; a thread has only some "
    "elements of the tile, and reads others in memory after store(tensor)",
    ("k.store_accumulator", "TileValues"): "store elements by values.store(k.tensor(address, layout))",
    ("k.store_accumulator", "TmemColumns"): "load them first: mma.load(columns).store(k.tensor(address, layout))",
    **{
        (f"k.tma.{call}", "Address"): _MAP
        for call in ("load", "load_box", "store", "store_box", "prefetch", "prefetch_box")
    },
    ("k.tma_epilogue", "Address"): _MAP,
    ("k.select", "Address"): "access each in a branch of its own, `with k.if_(condition):`; of one array choose the "
    "offset: x + k.select(condition, i, j)",
    ("TensorMap", "SwizzleMode"): "give the bytes of a row of the pattern: swizzle=128, 64, 32, or 0 for none",
}
"""By the call and the class of the argument, which is above or unknown here."""
_OF_PARAMETERS = {
    "k.print text": 'write the text first: k.print("{}", value)',
    "cache": "pass nvb.Cache(folder), or nvb.Cache.disabled() to keep nothing",
    **dict.fromkeys(
        ("k.tma.load at", "k.tma.store at", "k.tma.prefetch at"), "give the coordinates of the tile, (row, column)"
    ),
}
"""By the call and the parameter, or the parameter of any call."""
_OF_TILES = ("TileValues", "AxisValues", "AxisVariable")
_COUNTED = ("k.shared", "k.shared_static")
_LAUNCHES = ("LoadedKernel.launch", "LoadedKernel.prepare")
_IN_ORDER = (
    "pass the grid, then the kernel's arguments in the order of its parameters: launch(grid, x, y); constants of the "
    "build are given to compile: kernel.compile(name=value)"
)
_OF_A_CTA = ("block", "threads", "block_size", "blockDim", "num_warps", "shared", "cluster")
_BY_DEFINITION = (
    "leave it out: threads and cluster are those of @nvb.kernel(..., threads=128), and the shared memory is what the "
    "kernel allocates"
)
_TILES = "begin with the numbers of stages and consumers, and name each tile: k.pipeline(3, 1, a=layout, b=layout)"


def misfit(place: str, value: object, wanted: str) -> str:
    """The problem of an argument, at `place` in a call, that is not what an annotation says."""
    return f"{place} must be {shown(wanted)}, not {short(value)} ({_kind(value)}){hint(value, wanted)}"


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
        return "compute it of each element, .map(lambda value: ...)" if type(value).__name__ in _OF_TILES else ""
    if not {"AnyLayout", "Layout"}.isdisjoint(wanted) and isinstance(value, (tuple, list)):
        return "use nvb.layout.Layout(shape, stride)"
    if "Target" in wanted and isinstance(value, str):
        return f"use nvb.Target.parse({value!r})"
    return next((_MADE[kind] for kind in wanted if kind in _MADE), "")


def of_argument(call: str, parameter: str, value: object) -> str:
    """The fix where it is not how the call is written."""
    if advice := _OF_PARAMETERS.get(f"{call} {parameter}", _OF_PARAMETERS.get(parameter, "")):
        return advice
    if call.endswith(" ..."):
        return _of_operand(value)
    if call == "Address[...]":
        several = "store one of them, x[i] = values[0], or all of them, (x + i).store(*values)"
        is_several = isinstance(value, (tuple, list))
        return _ONE_INDEX if parameter != "value" else several if is_several else "store one value"
    extents = _extents(value)
    if call in _COUNTED and parameter == "count":
        return _laid_over(extents, call) if extents else _of_count(value)
    if parameter == "shape" and len(extents) == len("mnk"):
        written = "".join(f"{axis}{size}" for axis, size in zip("mnk", extents, strict=True))
        return f'write the shape as a text: "{written}"'
    return _OF_CLASSES.get((call, type(value).__name__), _of_tile(call) if type(value).__name__ in _OF_TILES else "")


def _of_tile(call: str) -> str:
    """For a call that takes one value."""
    if call == "k.select":
        return "choose for each element: condition.map(k.select, yes, no), where condition is of the tile, too"
    each = f"compute it of each element: x.map({call}), with the other arguments after it: x.map({call}, y)"
    return each if call.startswith("k.math.") else ""


def of_form(call: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The fix for a call with too few or too many arguments, or unknown ones, where it is not how it is written."""
    if call == "nvb.kernel" and "threads" not in kwargs:
        target = args[0] if args and isinstance(args[0], str) else "sm_90a"
        return f'call it as nvb.kernel("{target}", threads=128), with the number of threads of a CTA'
    if call == "k.pipeline":
        return _TILES
    if call == "k.shared_tile" and (len(args) > 1 or not {"stages", "count"}.isdisjoint(kwargs)):
        return "make several tiles by tiles = k.shared_tiles(layout, count), and take one: tiles.at(index)"
    if call in _LAUNCHES and not kwargs.keys().isdisjoint(_OF_A_CTA):
        return _BY_DEFINITION
    if kwargs:
        return _IN_ORDER if call in _LAUNCHES else ""
    return str(getattr(type(args[0]), "__of_a_value__", "")).format(*args[:1]) if args else ""


def _extents(value: object) -> tuple[int, ...]:
    """The integers of a shape; empty for anything else."""
    if not issubclass(type(value), (tuple, list)):  # isinstance asks the object, and its class may raise
        return ()
    entries: list[object] = list(cast("Any", value))
    extents = tuple(each for each in entries if isinstance(each, int))
    return extents if len(extents) == len(entries) else ()


def _of_count(value: object) -> str:
    is_known = type(value).__name__ not in AT_RUN_TIME
    advice = "shared memory is laid out when the kernel is built: give a Python number, or a constant of the build"
    return "" if is_known else f"{advice}, that is enough for every launch"


def _laid_over(shape: tuple[int, ...], call: str) -> str:
    if len(shape) == 1:
        return f"give the number alone: {call}(element, {shape[0]})"
    strides = tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))
    laid = f"k.tensor({call}(element, {math.prod(shape)}), Layout({shape}, {strides}))"
    return f"lay the shape over as many elements: {laid}"


def _of_operand(value: object) -> str:
    """For an operator of a value."""
    if issubclass(type(value), (tuple, list)) and any(
        type(entry).__name__ in AT_RUN_TIME for entry in cast("Any", value)
    ):
        return "take one of its values, results[0]: load(...) gives a list, also of one"
    if type(value).__module__ == NUMPY and type(value).__name__ == "ndarray":
        return "read one of its numbers: values = k.constant.array(numbers, nvb.f32), and values[index]"
    return ""
