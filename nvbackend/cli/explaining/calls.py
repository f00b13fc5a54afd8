"""Explains a call of nvbackend itself by its name: k.tma.load, a noun such as k.tma, nvb.tune, or a class."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from nvbackend.cli import rules
from nvbackend.diagnostics import DiagnosticError
from nvbackend.diagnostics.arguments import as_written

_CHIP, _THREADS = "sm_100a", 128
"""Of the example builder."""
_OWNERS = ("k", "nvb")


def example_builder() -> Any:
    """A builder whose calls are looked at and not made."""
    import nvbackend as nvb

    return nvb.KernelBuilder("explained", _CHIP, threads=_THREADS)


def call_named(text: str) -> str | None:
    """The dotted name where the text is one of a builder's `k` or of `nvb`, with or without its arguments."""
    name = text.strip().partition("(")[0]
    owner, dot, rest = name.partition(".")
    return name if owner in _OWNERS and dot and all(map(str.isidentifier, rest.split("."))) else None


def call_data(name: str) -> dict[str, Any]:
    """Its name, how it is called, and what it says of itself; of a noun or class also its calls.

    Raises cli.spelling, and call.unknown for a call that no builder has.
    """
    subject = _found(name)
    is_noun = hasattr(subject, "__noun__")
    own = type(subject) if is_noun else subject
    calls = members(own) if isinstance(own, type) else []
    return {
        "name": name,
        "form": "" if is_noun else _form(subject),
        "doc": inspect.getdoc(own) or "",
        "calls": {f"{name}.{each}": _first_line(getattr(own, each)) for each in calls},
    }


def members(owner: type) -> list[str]:
    """The public calls and properties of a class that the package has written."""
    return [name for name in dir(owner) if not name.startswith("_") and _is_ours(getattr(owner, name))]


def _is_ours(member: Any) -> bool:
    function = member.fget if isinstance(member, property) else member
    is_python = inspect.isfunction(function) or inspect.ismethod(function)
    return is_python and function.__module__.startswith("nvbackend")


def explained_call(name: str) -> Iterator[str]:
    """The same for people."""
    data = call_data(name)
    yield f"{data['name']}{data['form']}\n\n{data['doc']}\n"
    if data["calls"]:
        width = max(map(len, data["calls"]))
        yield "\n"
        yield from (f"  {call:<{width}}  {line}\n" for call, line in data["calls"].items())


def first_line_of(name: str) -> str:
    """The first line of what a call or name says of itself."""
    return _first_line(_found(name))


def _found(name: str) -> Any:
    import nvbackend as nvb

    owner, *parts = name.split(".")
    subject: Any = example_builder() if owner == "k" else nvb
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
