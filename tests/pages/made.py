"""Every file, or part of one, that is made of the code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.pages import checks, guide, layers, simulator
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
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "architecture.md": ("rooms", layers.rooms_list),
    "checks.md": ("mistakes", checks.mistakes),
}
"""The part of a page that is made, between two comments with its name."""


def made() -> dict[Path, str]:
    """The text of each file."""
    pictures = {DOCS / "pictures" / name: draw() for name, draw in PICTURES.items()}
    return {**pictures, **{DOCS / page: _page(DOCS / page, *part) for page, part in PARTS.items()}}


def _page(page: Path, name: str, make: Callable[[], str]) -> str:
    """The page with this part made again."""
    part = rf"(?<=<!-- {name}, by `python -m tests\.pages` -->\n\n).*?(?=\n<!-- end of {name} -->)"
    text, found = re.subn(part, lambda _: make(), page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert found == 1, page
    return text
