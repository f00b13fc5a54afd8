"""The layers as they import one another: a drawing, and the list of their rooms."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from tests.meta.test_rooms import ROOMS
from tests.pages.boxes import Box, Drawing
from tests.support.process import ROOT
from tests.support.source import PACKAGE, imports, sources

BRICKS = {
    "diagnostics": (0, 11, 0, 0),
    "intrinsics": (0, 11, 1, 1),
    "ptx": (0, 3, 2, 2),
    "isel": (4, 6, 2, 3),
    "layout": (7, 11, 2, 3),
    "lint": (0, 1, 3, 6),
    "simulator": (2, 3, 3, 3),
    "runtime": (2, 3, 4, 6),
    "requests": (4, 4, 4, 6),
    "codegen": (6, 7, 4, 5),
    "dry_run": (5, 5, 4, 5),
    "atoms": (8, 11, 4, 4),
    "tiled": (8, 10, 5, 5),
    "tileiras": (11, 11, 5, 5),
    "builder": (5, 9, 6, 6),
    "cli": (10, 11, 6, 6),
    "samples": (2, 5, 7, 7),
    "frameworks": (6, 7, 7, 7),
    "tuning": (8, 9, 7, 7),
}
"""The drawing's wall: first and last column of each layer, first and last row from the ground."""
BESIDE = {
    "builder": frozenset({"lint", "simulator"}),
    "cli": frozenset({"codegen", "lint", "runtime"}),
    "atoms": frozenset({"isel"}),
    "lint": frozenset({"isel"}),
    "runtime": frozenset({"dry_run"}),
    "frameworks": frozenset({"runtime"}),
    "tuning": frozenset({"runtime"}),
}
"""Layers that one imports and that cannot carry it in a wall of rectangles: the drawing names them."""
COLUMN, ROW, JOINT, MARGIN = 140, 74, 4, 8
LAYER, USER = "#e8eef7", "#fdf3e0"


@functools.cache
def layers() -> tuple[str, ...]:
    """The folders of the package, and the samples."""
    inside = sorted(path.parent.name for path in (ROOT / PACKAGE).glob("*/__init__.py"))
    return (*inside, "samples")


@functools.cache
def uses() -> dict[str, frozenset[str]]:
    """The layers that each layer imports; what it imports of the package's own modules counts for it."""
    direct: dict[str, set[str]] = {}
    for source in sources(PACKAGE, "samples"):
        here = _layer(source.module)
        direct.setdefault(here, set()).update(
            _layer(found.module) for found in imports(source) if found.module.partition(".")[0] in (PACKAGE, "samples")
        )
    # A sample imports the package, whose names are imported from these on first use.
    direct["samples"] |= {"builder", "requests", "runtime"}
    return {name: frozenset(_through(name, direct)) - {name} for name in layers()}


def _layer(module: str) -> str:
    parts = module.split(".")
    return "samples" if parts[0] == "samples" else parts[1] if len(parts) > 1 else PACKAGE


def _through(name: str, direct: dict[str, set[str]]) -> Iterator[str]:
    for other in direct[name]:
        if other in layers():
            yield other
        elif other not in (PACKAGE, name):
            yield from _through(other, direct)


def nearest(name: str) -> set[str]:
    """The layers that it imports and that no other layer of these imports."""
    used = uses()[name]
    return set(used - {below for other in used for below in uses()[other]})


def below(name: str) -> set[str]:
    """The layers that carry it in the drawing."""
    first, last, ground, _ = BRICKS[name]
    return {
        other
        for other, (left, right, _, top) in BRICKS.items()
        if top == ground - 1 and left <= last and right >= first
    }


def drawing() -> Drawing:
    """The layers as a wall: each is on those that it imports."""
    rows = 1 + max(top for *_, top in BRICKS.values())
    columns = 1 + max(last for _, last, *_ in BRICKS.values())
    drawn = Drawing(2 * MARGIN + columns * COLUMN, 2 * MARGIN + rows * ROW)
    for name, (first, last, ground, top) in BRICKS.items():
        x, y = MARGIN + first * COLUMN, MARGIN + (rows - 1 - top) * ROW
        width, tall = (last - first + 1) * COLUMN - JOINT, (top - ground + 1) * ROW - JOINT
        rooms = tuple(_rooms(name)) if width > COLUMN else ()  # a brick of one column is too narrow for them
        drawn.shapes.append(Box(x, y, width, tall, _title(name), rooms, USER if name == "samples" else LAYER))
    return drawn


def _title(name: str) -> str:
    return f"{name} (also on {', '.join(sorted(BESIDE[name]))})" if name in BESIDE else name


def _rooms(name: str) -> list[str]:
    """The names of its rooms, in lines of at most four."""
    rooms = ROOMS.get(name, ())
    return [", ".join(rooms[first : first + 4]) for first in range(0, len(rooms), 4)]


def rooms_list() -> str:
    """Every folder of the package with the first paragraph of its docstring, as a nested list."""
    return "".join(
        f"{'  ' * (len(folder.relative_to(ROOT).parts) - 2)}- `{_shown(folder)}/`: {_purpose(folder)}\n"
        for folder in _folders(ROOT / PACKAGE)
    )


def _shown(folder: Path) -> str:
    parts = folder.relative_to(ROOT).parts
    return "/".join(parts) if len(parts) == 2 else parts[-1]


def _folders(folder: Path) -> Iterator[Path]:
    """The rooms in `folder`, lowest first where they have an order, each with the rooms in it."""
    rooms = ROOMS.get(folder.name, ())
    inside = [path.parent for path in folder.glob("*/__init__.py")]
    if folder.name == PACKAGE:
        order = lambda path: (BRICKS[path.name][2], path.name)  # noqa: E731
    else:
        order = lambda path: (rooms.index(path.name) if path.name in rooms else 0, path.name)  # noqa: E731
    for path in sorted(inside, key=order):
        yield path
        yield from _folders(path)


def _purpose(folder: Path) -> str:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    said = " ".join(docstring.partition("\n\n")[0].split())
    return said[:1].lower() + said[1:] if said[1:2].islower() else said
