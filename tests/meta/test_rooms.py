"""Who imports whom within a layer: its rooms stand in an order, and each says what it is for."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator

from tests.support.process import ROOT
from tests.support.source import PACKAGE, Source, imports, sources

ROOMS = {
    "intrinsics": ("row", "arithmetic", "fragments", "mma", "words", "copy", "sync", "maps"),
    "isel": ("target", "machine", "operands", "select", "flow", "protocols", "verify"),
    "layout": ("drawing", "algebra", "banks", "descriptors", "pictures"),
    "simulator": (
        *("formats", "scalar", "tensor", "copies", "memory", "machine", "sync", "calls", "checks", "program"),
        "report",
    ),
    "lint": ("lifted", "numbers", "rounds"),
    "builder": (
        "thread_tables",
        "scopes",
        "lower",
        "values",
        "value_tracking",
        "core",
        "ops",
        "tiles",
        "kernel",
        "functions",
        "attached",
    ),
}
"""The rooms of each layer, lowest first. What the layer's own folder holds is above them all, but for the ground."""
GROUND = frozenset({"nvbackend.simulator.events", "nvbackend.simulator.rules"})
"""Modules of a layer's own folder that are below its rooms: the events that all rooms of the simulator report, and the
rules of its errors. Observers outside of the layer import them as well, so they are not in a room."""
MOST_FILES = 16
"""Of Python, with the folder's `__init__`."""
ALL = sources(PACKAGE)
FOLDERS = sorted({source.path.parent for source in ALL})


def room_of(module: str) -> tuple[str, ...]:
    """The layer, the room and the rooms in it: the packages that a module is in."""
    package = module if module in PACKAGES else module.rpartition(".")[0]
    return tuple(package.split(".")[1:])


PACKAGES = frozenset(source.module for source in ALL if source.path.name == "__init__.py")


def floor(room: tuple[str, ...]) -> int:
    """How high a room is in its layer."""
    layer, *rest = room
    return ROOMS[layer].index(rest[0]) if rest else len(ROOMS[layer])


def between_rooms() -> Iterator[tuple[Source, str, tuple[str, ...], tuple[str, ...]]]:
    """Every import from one room of a layer to another one of it; what a package offers of its own rooms is none."""
    for source in ALL:
        for found in imports(source):
            ours = found.module.startswith(f"{PACKAGE}.") and found.module not in GROUND
            if ours and source.module not in PACKAGES:
                here, there = room_of(source.module), room_of(found.module)
                if here and there and here != there and here[0] == there[0] and here[0] in ROOMS:
                    yield source, found.module, here, there


def test_the_rooms_are_those_that_there_are() -> None:
    base = ROOT / PACKAGE
    found = {
        layer: {path.name for path in (base / layer).iterdir() if (path / "__init__.py").is_file()} for layer in ROOMS
    }
    assert found == {layer: set(rooms) for layer, rooms in ROOMS.items()}


def test_no_room_imports_a_higher_one() -> None:
    crossings = list(between_rooms())
    assert len(crossings) > 500
    assert [f"{one.module}: {name}" for one, name, here, there in crossings if floor(there) > floor(here)] == []


def test_the_ground_is_built_on_no_room() -> None:
    ground = [source for source in ALL if source.module in GROUND]
    assert {source.module for source in ground} == GROUND
    for source in ground:
        layer = source.module.rpartition(".")[0]
        ours = {found.module for found in imports(source) if found.module.startswith(f"{layer}.")}
        assert ours <= GROUND, source.module


def test_rooms_within_a_room_have_an_order() -> None:
    graph: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for _, _, here, there in between_rooms():
        graph.setdefault(here, set()).add(there)
    order = tuple(graphlib.TopologicalSorter(graph).static_order())
    assert order.index(("isel", "protocols", "shared")) < order.index(("isel", "protocols", "proxy"))


def test_nothing_is_built_on_one_compilers_documents() -> None:
    users = {
        source.module
        for source in ALL
        for found in imports(source)
        if found.module.startswith(f"{PACKAGE}.tileiras") and not source.module.startswith(f"{PACKAGE}.tileiras")
    }
    # The command line prints what a word of such a document says; nothing is built on the command line.
    assert users == {PACKAGE, f"{PACKAGE}.cli.words"}


def _names_of_others(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            for alias in node.names:
                # CuTe's underscore, a whole mode, is a name of its own.
                if alias.name.startswith("_") and alias.name != "_":
                    yield f"{node.module}.{alias.name}"


def test_no_private_name_is_imported() -> None:
    assert {source.module: names for source in ALL if (names := list(_names_of_others(source)))} == {}


def test_folders_are_small() -> None:
    sizes = {str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) for folder in FOLDERS}
    assert {folder: size for folder, size in sizes.items() if size > MOST_FILES} == {}


def test_folders_say_what_they_are_for() -> None:
    """The docstring of `__init__.py` begins with a sentence."""
    silent = []
    for folder in FOLDERS:
        text = (folder / "__init__.py").read_text(encoding="utf-8")
        first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
        silent += [] if first.endswith(".") else [str(folder.relative_to(ROOT))]
    assert silent == []
