"""A ring whose tiles are released apart: a ring for each part, made and finished together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nvbackend.builder.tiles import ring_rules
from nvbackend.builder.tiles.ring import Ring
from nvbackend.builder.tiles.stages import TileLayout
from nvbackend.diagnostics import Uncopied, user_facing


@user_facing
class RingParts(Uncopied):
    """The parts of a ring by the names of their tiles, each a `Ring`, made by `k.pipeline(..., apart=...)`.

    `ring.key.fill()` and `ring.value.drain()` take the next stage of that part alone. Each part has barriers and a
    place of its own, so a part may be some stages ahead of another.
    """

    def __init__(self, parts: Sequence[tuple[tuple[str, ...], Ring[Any]]]) -> None:
        self._parts = [ring for _, ring in parts]
        self._by_name = {name: ring for names, ring in parts for name in names}

    def __getattr__(self, name: str) -> Ring[Any]:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        if name not in self._by_name:
            names = list(self._by_name)
            ring_rules.RING_PARTS.fail(call=name, parts=", ".join(names), first=names[0])
        return self._by_name[name]

    def __repr__(self) -> str:
        return f"<ring of parts: {', '.join(map(repr, self._parts))}>"

    def finish(self) -> None:
        """For the producer, at its end: wait until every stage of every part has come back."""
        for part in self._parts:
            part.finish()


def part_ring(
    tiles: Mapping[str, TileLayout],
    apart: Sequence[str | Sequence[str]],
    make: Callable[[Mapping[str, TileLayout]], Ring[Any]],
) -> RingParts:
    """A ring for each part: `apart` names the tiles of each. Raises pipeline.apart."""
    parts = [(group,) if isinstance(group, str) else tuple(group) for group in apart]
    named = [name for part in parts for name in part]
    problems = [
        *(f"there is no {name}" for name in named if name not in tiles),
        *(f"{name} is in no part" for name in tiles if name not in named),
        *(f"{name} is named {named.count(name)} times" for name in tiles if named.count(name) > 1),
        *(f"{name} is a call of a ring" for name in tiles if hasattr(RingParts, name)),
        *("a part has no tile" for part in parts if not part),
        *(["it has no tile"] if not tiles else []),
    ]
    if problems:
        ring_rules.RING_APART.fail(given=apart, tiles=", ".join(tiles) or "nothing", problem=problems[0])
    return RingParts([(part, make({name: tiles[name] for name in part})) for part in parts])
