"""Explains a call of nvbackend itself by its name: k.tma.load, a noun such as k.tma, nvb.tune."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from nvbackend.cli import rules
from nvbackend.diagnostics import DiagnosticError
from nvbackend.diagnostics.arguments import as_written

_CHIP, _THREADS = "sm_100a", 128
"""Of a builder whose calls are looked at and not made."""
_OWNERS = ("k", "nvb")


def call_named(text: str) -> str | None:
    """The dotted name where the text is one of a builder's `k` or of `nvb`, with or without its arguments."""
    name = text.strip().partition("(")[0]
    owner, dot, rest = name.partition(".")
    return name if owner in _OWNERS and dot and all(map(str.isidentifier, rest.split("."))) else None


def call_data(name: str) -> dict[str, Any]:
    """Its name, how it is called, and what it says of itself; of a noun also its calls. Raises cli.spelling, and
    call.unknown for a call that no builder has."""
    subject = _found(name)
    calls = [each for each in dir(type(subject)) if not each.startswith("_")] if hasattr(subject, "__noun__") else []
    return {
        "name": name,
        "form": "" if calls else _form(subject),
        "doc": inspect.getdoc(type(subject) if calls else subject) or "",
        "calls": {f"{name}.{each}": _first_line(getattr(subject, each)) for each in calls},
    }


def explained_call(name: str) -> Iterator[str]:
    """The same for people."""
    data = call_data(name)
    yield f"{data['name']}{data['form']}\n\n{data['doc']}\n"
    if data["calls"]:
        width = max(map(len, data["calls"]))
        yield "\n"
        yield from (f"  {call:<{width}}  {line}\n" for call, line in data["calls"].items())


def _found(name: str) -> Any:
    import nvbackend as nvb

    owner, *parts = name.split(".")
    subject: Any = nvb.KernelBuilder("explained", _CHIP, threads=_THREADS) if owner == "k" else nvb
    for part in parts:
        try:
            subject = getattr(subject, part)
        except AttributeError as error:
            if isinstance(error, DiagnosticError):
                raise
            meant = str(error).partition("; ")[2]
            near = f"docs/api.md, which lists the calls and the names{f': {meant}' if meant else ''}"
            rules.UNKNOWN_SPELLING.fail(given=name, kind="the name of a call", nearest=near)
    return subject


def _form(subject: Any) -> str:
    """The parameters as they are written in a call."""
    try:
        signature = inspect.signature(subject)
    except (TypeError, ValueError):
        return ""
    return str(as_written(signature))


def _first_line(call: Any) -> str:
    return (inspect.getdoc(call) or "").partition("\n")[0]
