"""Every file, or part of one, that is made of the code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.pages import guide, layers, simulator
from tests.pages.boxes import Drawing
from tests.support.process import ROOT

DOCS = ROOT / "docs"
DRAWINGS: dict[str, Callable[[], Drawing]] = {
    "layers.svg": layers.drawing,
    "groups.svg": guide.groups,
    "ring.svg": guide.ring,
    "cluster.svg": guide.cluster,
}
"""Those of docs/pictures that are made of boxes and arrows."""
PICTURES: dict[str, Callable[[], str]] = {
    **{name: lambda draw=draw: draw().svg() for name, draw in DRAWINGS.items()},  # type: ignore[misc]
    "mma-a.svg": guide.mma_a,
    "swizzle.svg": guide.swizzle,
    "timeline.svg": simulator.timeline,
}
"""All files of docs/pictures."""
ROOMS = re.compile(r"(?<=<!-- rooms, by `python -m tests.pages` -->\n\n).*?(?=\n<!-- end of rooms -->)", re.DOTALL)


def made() -> dict[Path, str]:
    """The text of each file."""
    page = DOCS / "architecture.md"
    pictures = {DOCS / "pictures" / name: draw() for name, draw in PICTURES.items()}
    text, found = ROOMS.subn(lambda _: layers.rooms_list(), page.read_text(encoding="utf-8"))
    assert found == 1
    return {**pictures, page: text}
