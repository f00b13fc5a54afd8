"""What each target has: how many rows of each family are legal there."""

from __future__ import annotations

from collections import Counter

from nvbackend.cli.targets import every_target
from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.isel.select.rows import is_legal

FRONT = """\
# What each chip has

A cell says how many instruction variants of the family the target takes, at the newest PTX version that nvbackend emits
for it; an empty cell means none. Targets with the same numbers share a column. `nvbackend targets` prints the features
of each target, and `nvbackend catalogue --family F --target T` says of each variant why it is not legal.
"""


def page() -> str:
    """The page."""
    targets = every_target()
    legal: dict[str, dict[str, int]] = {}
    for rows in FAMILIES.values():
        for row in rows():
            counts = legal.setdefault(row.family, Counter())
            for target in targets:
                counts[target.name] += is_legal(row, target)
    alike: dict[tuple[int, ...], list[str]] = {}
    for target in targets:
        alike.setdefault(tuple(counts[target.name] for counts in legal.values()), []).append(target.name)
    head = _line("sm", [" ".join(name.removeprefix("sm_") for name in names) for names in alike.values()])
    lines = [
        _line(family, [str(counts[names[0]] or "") for names in alike.values()])
        for family, counts in sorted(legal.items())
    ]
    return "\n".join([FRONT, head, _line("---", ["---:"] * len(alike)), *lines, ""])


def _line(first: str, cells: list[str]) -> str:
    return "| " + " | ".join([first, *cells]) + " |"
