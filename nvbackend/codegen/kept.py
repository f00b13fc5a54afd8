"""Compiled kernels as bytes for the cache of this machine, and back, quickly: the machine form when it is asked for.

Files for other machines and versions are those of `nvbackend.codegen.saved`.
"""

from __future__ import annotations

import dataclasses
import pickle

from nvbackend.codegen.cache import pack, unpack
from nvbackend.codegen.compiled import PACKED_MACHINE, CompiledKernel
from nvbackend.codegen.pickled import loaded

_MACHINE, _OTHERS = "machine", "others"


def packed(kernel: CompiledKernel) -> bytes | None:
    """`kernel` as bytes; None where it holds an object that has none, such as one of a class of the user's own."""
    others = {part.name: getattr(kernel, part.name) for part in dataclasses.fields(kernel) if part.name != _MACHINE}
    try:
        parts = {_MACHINE: pickle.dumps(kernel.machine), _OTHERS: pickle.dumps(others)}
        for part in parts.values():
            loaded(part)
    except Exception:  # noqa: BLE001 (what an object that cannot be pickled raises is its own affair)
        return None
    return pack(parts)


def unpacked(entry: bytes) -> CompiledKernel | None:
    """The kernel of `packed`; None for anything else."""
    try:
        parts = unpack(entry)
        others, machine = loaded(parts[_OTHERS]), parts[_MACHINE]
    except Exception:  # noqa: BLE001 (bytes of anything else may raise anything)
        return None
    kernel = object.__new__(CompiledKernel)
    vars(kernel).update(others, **{PACKED_MACHINE: machine})
    return kernel
