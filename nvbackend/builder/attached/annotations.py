"""The bounds of a kernel as metadata of its module, for an LLVM or libNVVM that does not know the attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llvmlite import ir

from nvbackend.signature import LaunchBounds, Signature, TensorMap

_AXES = "xyz"
_NODE = re.compile(r"^!(\d+) = ", re.MULTILINE)
_NAMED = re.compile(r"^!nvvm\.annotations = !\{([^}]*)\}$", re.MULTILINE)


def annotated(text: str, function: ir.Function, signature: Signature, *, clustered: bool = False) -> str:
    """The module's text with a kernel's bounds and tensor maps among its `nvvm.annotations` (NVVM IR, 12)."""
    free = max((int(number) for number in _NODE.findall(text)), default=-1) + 1
    kernel = f"ptr {function.get_reference()}"
    numbers = _numbers(signature.bounds, clustered)
    notes = [f'{kernel}, !"{name}", i32 {number}' for name, number in numbers]
    maps = [place for place, parameter in enumerate(signature.parameters, 1) if isinstance(parameter.type, TensorMap)]
    nodes = [f"!{free + place} = !{{ {note} }}" for place, note in enumerate(notes)]
    named = [f"!{free + place}" for place in range(len(notes))]
    if maps:
        last = free + len(notes)
        nodes.append(f"!{last} = !{{ {', '.join(f'i32 {place}' for place in maps)} }}")
        nodes.append(f'!{last + 1} = !{{ {kernel}, !"grid_constant", !{last} }}')
        named.append(f"!{last + 1}")
    known = _NAMED.search(text)
    earlier = [] if known is None else [part.strip() for part in known[1].split(",") if part.strip()]
    line = f"!nvvm.annotations = !{{ {', '.join([*earlier, *named])} }}"
    whole = _NAMED.sub(lambda _: line, text) if known else f"{text}\n{line}\n"
    return "\n".join([whole.rstrip("\n"), *nodes, ""])


def _numbers(bounds: LaunchBounds, clustered: bool) -> Iterator[tuple[str, int]]:
    """As function attributes say them: along x alone the bound, of several axes what is required."""
    yield "kernel", 1
    if bounds.shape == (bounds.threads, 1, 1):
        yield "maxntidx", bounds.threads
    else:
        yield from ((f"reqntid{axis}", extent) for axis, extent in zip(_AXES, bounds.shape, strict=True))
    if bounds.cluster > 1 or clustered:
        yield from ((f"cluster_dim_{axis}", extent) for axis, extent in zip(_AXES, bounds.cluster_shape, strict=True))
