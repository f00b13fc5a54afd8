"""The rules that the modules of a package declare, by their ids: all modules are imported to see them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from nvbackend.diagnostics.diagnostic import Rule

PACKAGE = __name__.partition(".")[0]
"""The package all of whose rules are declared by nvbackend itself."""
_RUNS = (f"{PACKAGE}.dry_run", f"{PACKAGE}.simulator")
"""Where kernels are run."""


@cache
def declared(*packages: str) -> Mapping[str, Rule]:
    """The rules of some packages, by their ids.

    Dry runs and the simulator declare ids of the verifier again, with the words of what they see: the verifier's are
    what a build says first.
    """
    by_id: dict[str, Rule] = {}
    for package in packages:
        for module in sorted(_modules(package), key=_is_of_runs):
            for rule in _rules(module):
                by_id.setdefault(rule.id, rule)
    return by_id


def _is_of_runs(module: Any) -> bool:
    return str(module.__name__).startswith(_RUNS)


def _modules(package: str) -> Iterator[Any]:
    import pkgutil

    root = importlib.import_module(package)
    yield root
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        if not module.name.endswith(("__main__", "pytest_plugin")):
            yield importlib.import_module(module.name)


def _rules(module: Any) -> Iterator[Rule]:
    for value in vars(module).values():
        if isinstance(value, Rule):
            yield value
        elif isinstance(getattr(value, "rule", None), Rule):
            yield value.rule
        elif isinstance(value, (tuple, list)):
            yield from (each for each in value if isinstance(each, Rule))
        elif isinstance(value, dict):
            yield from (each for each in value.values() if isinstance(each, Rule))
