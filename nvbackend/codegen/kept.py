"""Compiled kernels as bytes for the cache of this machine, and back, quickly: a form is unpacked when it is asked for.

Files for other machines and versions are those of `nvbackend.codegen.saved`.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping

from nvbackend.codegen.compiled import PACKED_FORMS, CompiledKernel
from nvbackend.codegen.pickled import loaded, short

_FORMS = ("machine", "ir", "optimized_ir", "ptx", "cubin")
_SHORT = ("machine", "ir", "optimized_ir", "ptx")
"""The forms that become much shorter, and that a launch does not ask for."""
_OTHERS = "others"


def packed(kernel: CompiledKernel) -> dict[str, bytes] | None:
    """`kernel` as parts of an entry; None where it holds what has no bytes, such as a class of the user's own."""
    fields = {part.name: getattr(kernel, part.name) for part in dataclasses.fields(kernel)}
    parts = {form: fields.pop(form) for form in _FORMS} | {_OTHERS: fields}
    try:
        entry = {name: pickle.dumps(part) for name, part in parts.items()}
        entry |= {name: short(entry[name]) for name in _SHORT}
        for part in entry.values():
            loaded(part)
    except Exception:  # noqa: BLE001 (what an object that cannot be pickled raises is its own affair)
        return None
    return entry


def unpacked(parts: Mapping[str, bytes]) -> CompiledKernel | None:
    """The kernel of `packed`; None for anything else."""
    try:
        others, forms = loaded(parts[_OTHERS]), {form: parts[form] for form in _FORMS}
    except Exception:  # noqa: BLE001 (bytes of anything else may raise anything)
        return None
    kernel = object.__new__(CompiledKernel)
    vars(kernel).update(others, **{PACKED_FORMS: forms})
    return kernel
