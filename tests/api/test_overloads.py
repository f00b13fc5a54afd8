"""Calls with several forms: what type checkers read of each form is what Python does where an argument is left out."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any, get_overloads

import nvbackend


def overloaded() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in pkgutil.walk_packages(nvbackend.__path__, "nvbackend."):
        if module.name.endswith("__main__"):
            continue
        members = vars(importlib.import_module(module.name))
        owners = [members, *(vars(each) for each in members.values() if isinstance(each, type))]
        for member in (member for owner in owners for member in list(owner.values())):
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) and function.__module__ == module.name and get_overloads(function):
                yield f"{module.name}.{function.__qualname__}", function


def test_every_form_has_the_defaults_of_the_call() -> None:
    seen, wrong = set(), []
    for name, function in overloaded():
        seen.add(name)
        defaults = {each.name: each.default for each in inspect.signature(function).parameters.values()}
        for form in get_overloads(function):
            for parameter in inspect.signature(form).parameters.values():
                said = parameter.default
                if said is not parameter.empty and said is not ... and said != defaults[parameter.name]:
                    wrong.append((name, parameter.name, said))
    assert wrong == []
    assert len(seen) > 10
