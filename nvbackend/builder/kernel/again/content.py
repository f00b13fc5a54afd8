"""What a look at a function has found, and what it raises where nothing can be said."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvbackend.builder.kernel.again.code_names import Names


class UnknownRead(Exception):
    """Something is read whose content cannot be compared; says what."""


class Unread:
    """The base of reads outside their owner's content."""


class Visited:
    """Where a look has been, except for constants of ours."""

    __slots__ = ("attributes", "by_name", "followed", "imports", "modules", "objects", "scopes")

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.followed: list[Callable[..., Any]] = []
        """The functions whose annotations and defaults are read."""
        self.modules: list[types.ModuleType] = []
        self.attributes: dict[str, None] = {}
        """The names that are sought in modules."""
        self.by_name = False
        """Whether modules are also read by names made at run time."""
        self.imports: dict[str, None] = {}
        self.scopes: dict[tuple[int, int], tuple[dict[str, Any], Names]] = {}
        """Globals, and the names that are sought in them, by which objects these are."""


class Content:
    """All that a function reads: `parts` are equal where it is. Some objects are in them by their identity alone, which
    means something only while they live: they are `named`, each with its place among the parts.

    The parts from `lasts` on count in this process alone. `kept` are objects that the parts depend on. `program` is the
    ptxas that was found.
    """

    __slots__ = ("kept", "lasts", "named", "parts", "program", "visited")

    def __init__(
        self,
        parts: list[object],
        named: list[tuple[int, object]],
        kept: list[object],
        visited: Visited,
        lasts: int | None = None,
    ) -> None:
        self.parts = tuple(parts)
        self.lasts = len(parts) if lasts is None else lasts
        self.named = named
        self.kept = kept
        self.visited = visited
        self.program: tuple[str, object] | None = None
