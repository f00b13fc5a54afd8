"""Rows that are not nvbackend's own: of installed packages, and of modules that the command line names."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from itertools import chain
from typing import Any, NoReturn

from nvbackend.cli.rules import OWN_ROWS
from nvbackend.intrinsics.row.row import Row

GROUP = "nvbackend.rows"
"""The entry points of packages that have rows: functions that give them."""
_FUNCTION = "rows"


def add_option(parser: argparse.ArgumentParser) -> None:
    """`--rows` of a command."""
    text = "rows of your own: what rows() of this module, or another function, gives; may be repeated"
    parser.add_argument("--rows", metavar="MODULE[:FUNCTION]", action="append", default=[], help=text)


def own_rows(named: Sequence[str]) -> Iterator[Row]:
    """The rows of the modules that are named, and of installed packages. Raises cli.own-rows."""
    installed = ((each.value, each.load) for each in entry_points(group=GROUP))
    for source, load in chain(installed, ((text, _loader(text)) for text in named)):
        yield from _rows(source, load)


def _loader(text: str) -> Callable[[], Any]:
    module, _, function = text.partition(":")
    return lambda: getattr(importlib.import_module(module), function or _FUNCTION)


def _rows(source: str, load: Callable[[], Any]) -> Iterator[Row]:
    try:
        rows = list(load()())
    except Exception as error:  # noqa: BLE001 (the code of others raises whatever it likes)
        _refuse(source, f"{type(error).__name__}: {error}")
    for row in rows:
        if not isinstance(row, Row):
            _refuse(source, f"it gives {row!r}, which is not a Row")
        yield row


def _refuse(source: str, problem: str) -> NoReturn:
    OWN_ROWS.fail(source=source, problem=problem)
