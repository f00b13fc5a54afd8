"""Compiled kernels as bytes for the cache of this machine, and back, quickly: the machine form when it is asked for.

Files for other machines and versions are those of `nvbackend.codegen.saved`.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping

from nvbackend.codegen.compiled import PACKED_MACHINE, CompiledKernel
from nvbackend.codegen.pickled import loaded

_MACHINE, _OTHERS = "machine", "others"


def packed(kernel: CompiledKernel) -> dict[str, bytes] | None:
    """`kernel` as parts of an entry; None where it holds what has no bytes, such as a class of the user's own."""
    others = {part.name: getattr(kernel, part.name) for part in dataclasses.fields(kernel) if part.name != _MACHINE}
    try:
        parts = {_MACHINE: pickle.dumps(kernel.machine), _OTHERS: pickle.dumps(others)}
        for part in parts.values():
            loaded(part)
    except Exception:  # noqa: BLE001 (what an object that cannot be pickled raises is its own affair)
        return None
    return parts


def unpacked(parts: Mapping[str, bytes]) -> CompiledKernel | None:
    """The kernel of `packed`; None for anything else."""
    try:
        others, machine = loaded(parts[_OTHERS]), parts[_MACHINE]
    except Exception:  # noqa: BLE001 (bytes of anything else may raise anything)
        return None
    kernel = object.__new__(CompiledKernel)
    vars(kernel).update(others, **{PACKED_MACHINE: machine})
    return kernel
