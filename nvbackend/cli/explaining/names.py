"""The full names of what a short one may mean: `ring.fill` of a program is nvb.Ring.fill, and `tma.load` k.tma.load."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from nvbackend.cli.explaining.calls import example_builder, members


def full_names(text: str) -> list[str]:
    """The public names with the last word of `text`.

    If words of a program come before it, such as `mma.` or `acc.`, only the names of what is called like the last of
    them: otherwise the text is more likely a wrong spelling of PTX.
    """
    *before, last = text.strip().partition("(")[0].split(".")
    owners = {name: name.split(".")[-2].lower() for name in _every_name() if name.rpartition(".")[2] == last}
    if not before:
        return list(owners)
    owner = before[-1].lower()
    same = [name for name, own in owners.items() if own == owner]
    return same or [name for name, own in owners.items() if owner and owner in own]


def _every_name() -> Iterator[str]:
    import nvbackend as nvb

    k = example_builder()
    builders = type(k).__mro__[:-1]
    for name in (each for each in dir(k) if not each.startswith("_")):
        yield f"k.{name}"
        noun = getattr(k, name)
        if hasattr(noun, "__noun__"):
            yield from (f"k.{name}.{call}" for call in members(type(noun)))
    for module_name, module in _modules(nvb, "nvb"):
        for part in module.__all__:
            public, name = getattr(module, part), f"{module_name}.{part}"
            if not isinstance(public, ModuleType):
                yield name
            if isinstance(public, type) and not issubclass(public, builders):
                yield from (f"{name}.{member}" for member in members(public))


def _modules(module: ModuleType, name: str) -> Iterator[tuple[str, ModuleType]]:
    yield name, module
    for part in module.__all__:
        if isinstance(inner := getattr(module, part), ModuleType):
            yield from _modules(inner, f"{name}.{part}")
