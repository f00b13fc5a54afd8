"""docs/api.md, from the package."""

from __future__ import annotations

import ast
import enum
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from types import FunctionType
from typing import Any

import nvbackend as nvb
from tests.api.public import modules, names, nouns
from tests.support.members import member_of

TITLE = """\
# What is public

<!-- Made by `python -m tests.api`; edit the docstrings. -->

This page lists every public name with its arguments and the first sentence of its docstring; `help()` shows the whole
docstring. Anything that is not listed here may change without notice. `nvb` is `import nvbackend as nvb`, and
`k` is an `nvb.KernelBuilder` or the builder that `nvb.attach` returns. For help on its calls, make one:
`k = nvb.KernelBuilder("k", "sm_90a", threads=32); help(k.tma.load)`.
"""
INSIDE = re.compile(r"\b(Core|Emitter|FunctionBuilder|Registers|Roles|Storage|Device|Launches|ir\.\w+)\b")
"""What a constructor takes that only calls of `k`, or of a loaded kernel, can give."""


MADE = re.compile(r"[Mm]ade by (`|nvbackend)")
"""What the docstring of a class says whose objects are not a user's to make."""


def document() -> str:
    """The text of docs/api.md."""
    public = names()
    elements = [name for name, given in public.items() if isinstance(given, nvb.ElementType)]
    lines = [TITLE]
    for name, module in modules():
        own = {f"{name}.{part}": public.get(f"{name}.{part}") for part in sorted(module.__all__, key=str.lower)}
        lines += [f"## {name}", "", *([sentence(module), ""] if name != "nvb" else [])]
        for full, given in own.items():
            if given is not None and full not in elements:
                lines += entry(full, given)
        if name == "nvb":
            lines += [f"- Element types: {', '.join(f'`{one}`' for one in elements)}."]
        lines.append("")
        if name == "nvb":
            for noun, calls in nouns().items():
                lines += [f"## k.{noun}", "", sentence(type(calls)), "", *members(type(calls), f"k.{noun}", ""), ""]
    return "\n".join(lines).rstrip() + "\n"


def entry(name: str, given: Any) -> Iterator[str]:
    """A name of a module, with the public members of a class."""
    if isinstance(given, FunctionType):
        yield f"- `{name}{arguments(given)}`: {sentence(given)}"
    elif not isinstance(given, type):
        text = _after_assignment(name.rpartition(".")[2], given)
        yield f"- `{name}`" + (f": {text}" if text else "")
    else:
        made = "" if is_made_by_calls(given) else arguments(given.__init__, of_class=True)
        yield f"- `{name}{made}`: {sentence(given)}"
        if issubclass(given, enum.Enum):
            yield f"  One of {', '.join(f'`{one.name}`' for one in given)}."
        yield from members(given, "k" if given is nvb.KernelBuilder else "", "  ")


def _after_assignment(name: str, given: object) -> str:
    """The text below the assignment of a name at the top of a module: what an alias or a constant has for docstring."""
    for module in [one for key, one in sorted(sys.modules.items()) if key.startswith("nvbackend.")]:
        if vars(module).get(name) is not given:
            continue
        for one, below in pairwise(ast.parse(inspect.getsource(module)).body):
            targets = one.targets if isinstance(one, ast.Assign) else [getattr(one, "target", None)]
            is_named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
            if is_named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                return " ".join(str(below.value.value).split("\n\n")[0].split())
    return ""


def is_made_by_calls(cls: type) -> bool:
    """Whether a user gets the class from calls alone."""
    if (
        MADE.search((cls.__doc__ or "").partition("\n\n")[0])
        or issubclass(cls, enum.Enum | BaseException)
        or getattr(cls, "_is_protocol", False)
        or cls.__init__ is object.__init__
    ):
        return True
    return bool(INSIDE.search(str(inspect.signature(cls.__init__))))


def members(cls: type, owner: str, indent: str) -> Iterator[str]:
    """The public methods and properties that nvbackend gives a class."""
    for name, member in members_of(cls):
        shown = f"{owner}.{name}" if owner else f".{name}"
        taken = "" if isinstance(member, property) else arguments(member)
        yield f"{indent}- `{shown}{taken}`: {sentence(member)}"


def members_of(cls: type) -> Iterator[tuple[str, Any]]:
    """The name of each of them with what has its docstring: a property, or the method."""
    for name in sorted(dir(cls)):
        member = member_of(cls, name)
        is_of_k = cls is nvb.AttachedBuilder and hasattr(nvb.KernelBuilder, name)
        if name.startswith("_") or is_of_k or not is_ours(cls, name):
            continue
        if isinstance(member, property | cached_property):
            yield name, member if isinstance(member, property) else property(member.func)
        elif isinstance(member, FunctionType | classmethod | staticmethod):
            yield name, getattr(cls, name)


def is_ours(cls: type, name: str) -> bool:
    """Whether the member is defined by a class of nvbackend that is not an enumeration's own."""
    owner = next(base for base in cls.__mro__ if name in vars(base))
    return owner.__module__.startswith("nvbackend")


def arguments(function: Any, *, of_class: bool = False) -> str:
    """The parameters as they are written, without `self`, and what is returned."""
    signature = inspect.signature(function)
    parameters = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    text = re.sub(r": '([^']*)'", r": \1", text)
    text = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text).replace("<factory>", "...")
    returned = signature.return_annotation
    return text if of_class or returned in (inspect.Signature.empty, "None") else f"{text} -> {returned}"


def sentence(given: Any) -> str:
    """The first sentence of a docstring, with the lines put together."""
    text = " ".join((inspect.getdoc(given) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.])\s+(?=[A-Z`])", text, maxsplit=1)[0].replace("<", "\\<").replace("](", "]\\(")
