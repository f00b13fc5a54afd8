"""Every public name, from the package: what `__all__` says, of nvbackend and of the modules that it offers."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import nvbackend as nvb
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.noun import nouns as nouns_of


def modules(module: ModuleType = nvb, name: str = "nvb") -> Iterator[tuple[str, ModuleType]]:
    """`module` and the public modules in it, by their names."""
    yield name, module
    for part in sorted(module.__all__):
        if isinstance(inner := getattr(module, part), ModuleType):
            yield from modules(inner, f"{name}.{part}")


def names() -> dict[str, Any]:
    """Every public object but the modules, by its name: nvb.Target, nvb.layout.Layout, nvb.wgmma.select."""
    return {
        f"{name}.{part}": given
        for name, module in modules()
        for part in sorted(module.__all__, key=str.lower)
        if not isinstance(given := getattr(module, part), ModuleType)
    }


def nouns() -> dict[str, Noun]:
    """The nouns of a kernel builder: what `k.tma` and the others are."""
    k = nvb.KernelBuilder("kernel", "sm_100a", threads=128)
    return dict(sorted(nouns_of(k).items()))
