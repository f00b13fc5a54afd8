"""The diagnostics for what Python cannot do with an object of a kernel that is not a value: `len(ring)`, `stage[0]`."""

from __future__ import annotations

import re
import sys
from types import FrameType, TracebackType

from nvbackend.builder.values.attributes import OF_TILE
from nvbackend.diagnostics import Diagnostic, Location

_ROOM = f"{__name__.split('.builder.', maxsplit=1)[0]}.builder."
_DELETION = "__delitem__"
"""All that Python says of `del x[0]` where elements can be set."""
_NAMES = {
    r"has no len\(\)|not reversible": "length",
    r"not iterable|an iterable, not|not an iterator|non-iterable": "elements to go through",
    r"not subscriptable|item assignment|item deletion": "elements in brackets",
    r"not callable": "call of its own",
    r"not supported between": "order",
    r"context manager": "with-block of its own",
    r"format": "number to format",
}
"""What an object does not have, by what Python says."""
_A_NUMBER = "use as a Python number, list or text"
_INSTEAD = {
    ("TmemColumns", "length"): "use .width, the number of its columns",
    ("SharedTiles", "length"): "use .count, the number of its tiles",
    ("SharedTiles", "elements to go through"): "use `for i in range(tiles.count):`, and tiles.at(i)",
    ("TensorLoad", "length"): "use len(load.values), after k.tcgen05.wait_ld()",
    **dict.fromkeys(
        (("Ring", "elements to go through"), ("Ring", "elements in brackets")),
        "take its stages one after another: `with ring.fill() as stage:` and `with ring.drain() as stage:`",
    ),
    **dict.fromkeys(
        (("DynamicTiles", "elements to go through"), ("DynamicTiles", "with-block of its own")),
        "use `with tiles.draw() as tile:` in the producer, and `with tiles.take() as tile:` in the consumers",
    ),
    **dict.fromkeys(
        (("Stage", "elements to go through"), ("Stage", "elements in brackets")),
        "take a tile by its name, which k.pipeline has got: stage.a",
    ),
    **dict.fromkeys(
        ((kind, "call of its own") for kind in ("TiledWarpMma", "TiledWgmma", "TiledTcgen05")),
        "multiply by mma.accumulate(acc, a, b)",
    ),
    **dict.fromkeys(
        (("TensorMapParameter", "elements in brackets"), ("TensorMapParameter", "elements to go through")),
        "copy a box of it to shared memory: k.tma.load(tile, map, (row, column), barrier)",
    ),
}
"""By the class of the object and what it does not have."""
_MOST = 12
"""So many attributes are listed."""


def unsupported(error: TypeError | AttributeError, place: Location) -> Diagnostic | None:
    """tile.attribute for what Python says of an object of a kernel; None where it says it of another one."""
    said = str(error)
    if isinstance(error, AttributeError):
        advice = "registers and memory stay where they are: store another number there"
        named = OF_TILE.diagnose(at=place, owner="an object of a kernel", name="elements to delete", advice=advice)
        return named if said == _DELETION else None
    kind = _class_in(said, error.__traceback__)
    if kind is None:
        return None
    name = next((name for pattern, name in _NAMES.items() if re.search(pattern, said)), _A_NUMBER)
    return OF_TILE.diagnose(at=place, owner=_called(kind), name=name, advice=_advice(kind, name))


def _called(kind: type) -> str:
    noun = getattr(kind, "__noun__", None)
    return f"k.{noun}" if isinstance(noun, str) else f"nvb.{kind.__name__}"


def _advice(kind: type, name: str) -> str:
    known = [each for each in dir(kind) if not each.startswith("_")]
    listed = ", ".join(known[:_MOST]) + (f" and {len(known) - _MOST} more (docs/api.md)" if len(known) > _MOST else "")
    return _INSTEAD.get((kind.__name__, name), f"use one of its attributes: {listed}")


def _class_in(said: str, trace: TracebackType | None) -> type | None:
    """The class of this package that a text of Python's names, if the frame that raised knows no other one so."""
    words = re.findall(r"\w+", said)
    kind = next((classes[word] for classes in [_classes()] for word in words if word in classes), None)
    if kind is None or trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return kind if _is_alone(kind, trace.tb_frame) else None


def _classes() -> dict[str, type]:
    """The public classes of the builder, by their names."""
    return {
        name: member
        for module_name, module in list(sys.modules.items())
        if module_name.startswith(_ROOM)
        for name, member in vars(module).items()
        if isinstance(member, type) and member.__module__ == module_name and not name.startswith("_")
    }


def _is_alone(kind: type, frame: FrameType) -> bool:
    """Whether what the frame names has no other class that is called like `kind`."""
    seen = [*frame.f_globals.values(), *frame.f_locals.values()]
    classes = [each for value in seen for each in (value, type(value)) if issubclass(type(each), type)]
    return all(each is kind for each in classes if each.__name__ == kind.__name__)
