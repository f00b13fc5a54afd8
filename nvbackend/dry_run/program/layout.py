"""Where the kernel's shared memory lies: every global variable at an address of its own, with gaps between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from nvbackend.dry_run.values import floats

BASE = 1024
"""Bytes at the start of shared memory that belong to the system."""
GAP = 128
_GLOBAL = re.compile(r'^ptrtoint \(.*@"?([^"\s]+)"? to i\d+\)$')


def lay_out(module: ir.Module, dynamic_bytes: int) -> tuple[dict[str, int], range]:
    """The offset of each variable in shared memory, by its name, and the bytes that they take altogether."""
    places: dict[str, int] = {}
    end = BASE
    dynamic = []
    for variable in module.global_values:
        if not isinstance(variable, ir.GlobalVariable) or variable.type.addrspace != 3:
            continue
        size = _bytes(variable.value_type)
        if not size:
            dynamic.append(variable)
            continue
        places[variable.name] = end = _aligned(end, variable.align or 16)
        end += size + GAP
    end = _aligned(end, 1024)
    places.update({variable.name: end for variable in dynamic})
    return places, range(BASE, end + dynamic_bytes)


def constant(value: Any, places: Mapping[str, int]) -> int | None:
    """The bits of a number, or of the address of a variable; None for what is neither."""
    if isinstance(value, ir.GlobalVariable):
        return places.get(str(value.name))
    if isinstance(value, ir.FormattedConstant):
        found = _GLOBAL.match(value.constant)
        return None if found is None else places.get(found[1])
    if isinstance(value.type, ir.IntType) and isinstance(value.constant, int):
        return value.constant & (1 << int(value.type.width)) - 1
    name = floats.format_of(value.type)
    if name is not None and isinstance(value.constant, (int, float)):
        return floats.bits(value.constant, name)
    return 0 if isinstance(value.type, ir.PointerType) and value.constant is None else None


def _aligned(number: int, align: int) -> int:
    return -(-number // align) * align


def _bytes(kind: ir.Type) -> int:
    if isinstance(kind, ir.ArrayType):
        return int(kind.count) * _bytes(kind.element)
    if isinstance(kind, ir.IntType):
        return -(-int(kind.width) // 8)
    return 16 if isinstance(kind, ir.VectorType) else 8 if str(kind) in ("double", "ptr") else 4
