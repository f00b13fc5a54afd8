"""The reference: every public name and call with its whole docstring, a page for each module and noun."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

import nvbackend as nvb
from tests.api.document import arguments, is_made_by_calls, members_of, sentence
from tests.api.public import modules, names, nouns

WIDTH = 96
"""Of a signature, in characters, before its parameters get a line each."""
FRONT = """\
# Reference

`nvb` is `import nvbackend as nvb`, and `k` is an `nvb.KernelBuilder` or the builder that `nvb.attach` returns. Anything
that is not listed here may change without notice.

| page | what it has |
| --- | --- |
"""


def pages(rules: Iterable[str]) -> dict[str, str]:
    """The text of each page by its file; an id of the `rules` in a docstring is a link to the rule."""
    calls = {"k": nvb.KernelBuilder} | {f"k.{noun}": type(made) for noun, made in nouns().items()}
    texts = {name: "\n".join(_of_calls(name, cls)) for name, cls in calls.items()}
    texts |= {name: "\n".join(_of_module(name)) for name, _ in modules()}
    said = {name: sentence(cls) for name, cls in calls.items()} | {name: sentence(module) for name, module in modules()}
    rows = "".join(f"| [{name}]({name}.md) | {said[name]} |\n" for name in texts)
    contents = "\n".join(["```{toctree}", ":hidden:", "", *texts, "```", ""])
    return {"api/index.md": f"{FRONT}{rows}\n{contents}"} | {
        f"api/{name}.md": linked(text, rules) for name, text in texts.items()
    }


def linked(text: str, rules: Iterable[str]) -> str:
    """The text with a link at each id of a rule, but in code."""
    known = "|".join(map(re.escape, sorted(rules, key=len, reverse=True)))
    rule = re.compile(rf"(```.*?```|`[^`\n]*`|^#.*?$)|(?<![\w.])({known})(?![\w-])", re.DOTALL | re.MULTILINE)
    return rule.sub(lambda at: at[1] or f"[{at[2]}](rules.md#{at[2].replace('.', '')})", text)


def _of_calls(name: str, cls: type) -> Iterator[str]:
    """A noun, or the builder itself, with its calls."""
    yield from _described(f"# {name}", cls)
    for member, given in members_of(cls):
        yield from _described(f"## {name}.{member}", given, f"{name}.{member}")


def _of_module(module: str) -> Iterator[str]:
    """A module with its classes and functions; the builder has a page of its own."""
    yield from _described(f"# {module}", dict(modules())[module])
    own = [(name, given) for name, given in names().items() if name.rpartition(".")[0] == module]
    elements = [name for name, given in own if isinstance(given, nvb.ElementType)]
    if elements:
        yield f"Element types: {_listed(elements)}.\n"
    for name, given in own:
        if given is not nvb.KernelBuilder and name not in elements:
            yield from _named(name, given)


def _named(name: str, given: Any) -> Iterator[str]:
    """A name of a module, with the members of a class."""
    if isinstance(given, FunctionType):
        yield from _described(f"## {name}", given, name)
        return
    if not isinstance(given, type):
        yield f"## {name}\n"
        return
    made = not is_made_by_calls(given)
    yield from _described(f"## {name}", given, name if made else None)
    if issubclass(given, enum.Enum):
        yield f"One of {_listed(one.name for one in given)}.\n"
    for member, part in members_of(given):
        yield from _described(f"### {name}.{member}", part, f"{name.rpartition('.')[2]}.{member}")


def _described(heading: str, given: Any, called: str | None = None) -> Iterator[str]:
    """A heading, the arguments of what can be `called`, and the docstring."""
    yield f"{heading}\n"
    if called is not None and not isinstance(given, property):
        taken = arguments(given, of_class=isinstance(given, type))
        yield f"```python\n{wrapped(called + taken)}\n```\n"
    yield f"{inspect.getdoc(given) or ''}\n"


def wrapped(signature: str) -> str:
    """A long signature with a line for each parameter."""
    if len(signature) <= WIDTH:
        return signature
    head, _, rest = signature.partition("(")
    inside, _, returned = rest.rpartition(")")
    parameters, depth = [""], 0
    for character in inside:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parameters.append("")
        else:
            parameters[-1] += character
    lines = "".join(f"    {parameter.strip()},\n" for parameter in parameters)
    return f"{head}(\n{lines}){returned}"


def _listed(found: Iterable[str]) -> str:
    return ", ".join(f"`{one}`" for one in found)
