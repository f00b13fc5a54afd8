"""What a CTA has before its code runs: an address for each shared variable, and the numbers of its threads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nvbackend.lint.lifted.lift import Lifted
from nvbackend.lint.numbers import integers
from nvbackend.ptx.syntax import Variable

if TYPE_CHECKING:
    from nvbackend.lint.numbers.integers import Array, Number

_FIRST = 1 << 10
"""Where the first shared variable is, and what all of them are aligned to."""
_DYNAMIC = "extern .shared"
"""What all arrays `.extern .shared` are: they begin at one address."""
MOST_THREADS, WARP = 1024, 32


def symbol(declared: Variable) -> str:
    """What an address is known by: the variable that it is of."""
    return _DYNAMIC if declared.linkage == "extern" else f"{declared.name}:{declared.position.line}"


def addresses(lifted: Lifted) -> Mapping[str, Number]:
    """An address for each shared variable that the function names."""
    declared = [each for each in lifted.names.of.values() if isinstance(each, Variable) and each.space == "shared"]
    places: dict[str, Number] = {}
    at = _FIRST
    for each in sorted(declared, key=lambda each: each.linkage == "extern"):
        if symbol(each) not in places:
            places[symbol(each)] = at
            at += 0 if each.linkage == "extern" else _room(each)
    return places


def place_in_shared(lifted: Lifted, address: int) -> str:
    """What a sentence calls an address of shared memory: its variable, and the bytes from there."""
    starts = [(at, base) for base, at in addresses(lifted).items() if isinstance(at, int) and at <= address]
    at, base = max(starts, default=(0, ""))
    return named(lifted, base, address - at)


def named(lifted: Lifted, base: str, offset: int | None) -> str:
    """What a sentence calls so many bytes from a symbol; the symbol alone where the bytes are not known."""
    variables = (each for each in lifted.names.of.values() if isinstance(each, Variable) and symbol(each) == base)
    name = next((each.name for each in variables), "")
    if offset is None:
        return f"some place in {name}"
    return (f"{name}+{offset}" if offset else name) if name else str(offset)


def _room(declared: Variable) -> int:
    """Bytes for a variable, as many as keep the next one aligned for anything."""
    bits = re.search(r"\d+", declared.type)
    size = (int(bits[0]) // 8 if bits else 8) * declared.vector
    for extent in declared.shape:
        size *= extent or 1
    return (size // _FIRST + 1) * _FIRST


def extents_of(lifted: Lifted) -> tuple[int, int, int]:
    """The threads of a CTA, at most."""
    extents = lifted.syntax.directive("reqntid") or lifted.syntax.directive("maxntid") or ()
    numbers = [extent for extent in extents if isinstance(extent, int)] or [MOST_THREADS]
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


def threads_of(lifted: Lifted, extents: tuple[int, int, int]) -> Mapping[str, Number]:
    """The special registers that number the threads of a CTA, where it has one extent of threads."""
    import numpy as np

    x, y, z = extents
    if not 0 < x * y * z <= MOST_THREADS:
        return {}
    is_fixed = bool(lifted.syntax.directive("reqntid"))
    index: Array = np.arange(x * y * z, dtype=np.uint64)
    of_thread: dict[str, Number] = {"%tid.x": integers.narrowed(index)} if y * z == 1 else {}
    if is_fixed:
        of_thread |= {"%tid.x": integers.narrowed(index % x), "%ntid.x": x, "%ntid.y": y, "%ntid.z": z}
        of_thread |= {"%tid.y": integers.narrowed(index // x % y), "%tid.z": integers.narrowed(index // (x * y))}
    if y * z == 1:
        of_thread |= {"%tid.y": 0, "%tid.z": 0, "%laneid": integers.narrowed(index % WARP)}
    return of_thread
