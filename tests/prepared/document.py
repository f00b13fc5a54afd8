"""The module of prepared methods, from the texts that all dataclasses of the package ask for."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from unittest import mock

import nvbackend
from nvbackend.diagnostics.classes import dataclass, texts
from nvbackend.diagnostics.classes.late_method import LateMethod

HEAD = '''\
"""Methods of the package's dataclasses, so that Python keeps them compiled: `texts` says of which texts.

Made by `python -m tests.prepared`.
"""

'''


def document() -> str:
    """The whole module."""
    return HEAD + "".join(f"def {texts.prepared_name(text)}{text}" for text in sorted(asked_for()))


def asked_for() -> set[str]:
    """The texts of all `__init__` and `__hash__` of the dataclasses that a module of the package has."""
    asked = set[str]()
    code = texts.method_code

    def noted(text: str) -> CodeType:
        asked.add(text)
        return code(text)

    with mock.patch.object(texts, "method_code", noted):
        for cls in set(_dataclasses()):
            for name in ("__init__", "__hash__"):
                if _is_from_text(vars(cls).get(name)):
                    vars(dataclass)["_MAKERS"][name](cls, {})
    return asked


def _is_from_text(method: object) -> bool:
    """Whether a method has a text: late before its first use, a function with code from elsewhere after it."""
    if isinstance(method, FunctionType):
        return inspect.unwrap(method).__code__.co_filename == texts.NO_FILE
    return isinstance(method, LateMethod)


def _dataclasses() -> Iterator[type]:
    for module in _modules():
        for thing in vars(module).values():
            if isinstance(thing, type) and "__dataclass_fields__" in vars(thing) and _is_ours(thing):
                yield thing


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == nvbackend.__name__


def _modules() -> Iterator[ModuleType]:
    for each in pkgutil.walk_packages(nvbackend.__path__, f"{nvbackend.__name__}."):
        if not each.name.endswith("__main__"):
            yield importlib.import_module(each.name)
