"""Names and entries of containers that a with-block binds to another run-time value, and that are read after it.

Python runs an assignment of the block once, while the kernel is built: `best = x` in a `k.if_` holds for the threads
that skip the block, too. What the block itself made is refused where it is used (value.scope). What existed before it
can be used: so the source says whether the name or the entry is read after the block, and the frame what it was and
what it is. Where the source leaves that open nothing is said.

So does a pointer that moves at the end of a loop's body: `x += 32` is not seen by the next round, nor by anything else.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, Protocol

from nvbackend.builder.scopes.carried import carried
from nvbackend.builder.scopes.name_uses import Assigned, assigned, first_use
from nvbackend.builder.scopes.python_exits import SCOPES, Position, following, nodes, position
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.diagnostic import AT_RUN_TIME
from nvbackend.diagnostics.location import source_lines

_MISSING = object()
_NUMBERS = ("int", "float", "bool")


class Block(Protocol):
    """What is asked of a with-block of the kernel."""

    open: bool
    exit_block: Any
    rounds: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Holding:
    """What some target held as the block began: by the keys of the container, or under the key None."""

    target: Assigned
    container: Any
    entries: Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class Rebound:
    """A target that another value was bound to, how it is spelled, and what it was."""

    target: Assigned
    text: str
    before: Any


def holdings(frame: FrameType) -> list[Holding]:
    """What the targets of the with-block that `frame` enters hold, of those that are read after it."""
    targets = _targets(frame.f_code, frame.f_lasti)
    if not targets:
        return []
    names = frame.f_locals
    return [held for target in targets if (held := _held(target, names.get(target.base, _MISSING))) is not None]


def rebound(frame: FrameType, held: Sequence[Holding], region: Block) -> Rebound | None:
    """The first that is bound to another run-time value than before the block, which has ended; to a number too."""
    is_loop = region.exit_block is not None
    for held_before in held:
        target = held_before.target
        if not target.is_read_after and not (is_loop and _has_a_next_round(region)):
            continue
        if is_loop and not target.reads_first and _has_a_round(region):
            continue  # the last round is what counts, and there is one
        now = _held(target, frame.f_locals.get(target.base, _MISSING))
        if now is None or now.container is not held_before.container:
            continue
        for key, before in held_before.entries.items():
            after = now.entries.get(key, _MISSING)
            if after is not before and _is_other(before, after, target):
                text = f"{target.base}[{key!r}]" if target.is_entry else target.text
                return Rebound(target, text, before)
    return None


def advice_for(bound: Rebound) -> str:
    """What to write in place of the assignment."""
    kind, text = type(bound.before).__name__, bound.text
    if bound.target.alternates and kind not in (*_NUMBERS, *AT_RUN_TIME):
        return (
            f"put what is taken in turns into one allocation, and step into it in each round: {text} + index % 2 * size"
        )
    if kind == "Address":
        return f"keep the offset in a variable: at = k.var(0) before the block, at += ... inside, and ({text} + at)"
    made = "" if kind == "Variable" else f"make it a variable before the block, {text} = k.var(...), and "
    return f"{made}set it inside: {text}.set(...)"


def _is_other(before: object, after: object, target: Assigned) -> bool:
    """Whether what a target is bound to now is taken for what a run of the block gives, in place of what it was."""
    if target.is_read_after:
        taken = _is_value(after) if _is_address(after) else type(after).__name__ in _NUMBERS or _lives(after)
        return taken and _is_value(before)
    if target.attribute is not None or target.is_entry:  # what is not of the block may be read by another name
        return _is_value(before) and _is_value(after) and not _is_address(after) and not _lives(after)
    return target.alternates or (_is_value(before) and _is_value(after))


def _has_a_next_round(region: Block) -> bool:
    """Whether some round may follow another."""
    numbers = [number for value in region.rounds if isinstance(number := getattr(value, "constant", None), int)]
    return len(numbers) < len(("first", "end", "step")) or len(range(*numbers)) > 1


def _has_a_round(region: Block) -> bool:
    if not region.rounds:
        return True  # k.loop
    first, end, _ = (getattr(value, "constant", None) for value in region.rounds)
    return isinstance(first, int) and isinstance(end, int) and first < end


def _held(target: Assigned, base: Any) -> Holding | None:
    if base is _MISSING:
        return None
    if target.attribute is not None:
        kept = getattr(base, "__dict__", {})
        return Holding(target, base, {None: kept[target.attribute]}) if target.attribute in kept else None
    if not target.is_entry:
        return Holding(target, None, {None: base})
    if type(base) not in (list, dict):
        return None
    entries = dict(enumerate(base)) if type(base) is list else dict(base)
    if target.index is not None:
        key = target.index
        entries = {key: base[key]} if key in entries or (type(key) is int and key + len(base) in entries) else {}
    return Holding(target, base, entries)


def _is_value(thing: object) -> bool:
    return _is_address(thing) or (type(thing).__name__ in AT_RUN_TIME and _region_of(thing) is not None)


def _is_address(thing: object) -> bool:
    return type(thing).__name__ == "Address"


def _lives(thing: object) -> bool:
    """Whether it is a run-time value that may still be used."""
    region = _region_of(thing) if type(thing).__name__ in AT_RUN_TIME else None
    return region is not None and region.open


def _region_of(thing: Any) -> Block | None:
    storage = getattr(thing, "_storage", None)
    region: Block | None = getattr(thing, "_region", None) if storage is None else storage.region
    return region


@functools.lru_cache(maxsize=1024)
def _targets(code: CodeType, step: int) -> tuple[Assigned, ...]:
    """The targets of the with-block that begins at this step of the code, of those that are read after it."""
    place = next(itertools.islice(code.co_positions(), step // 2, None))
    return _by_place("".join(source_lines(code.co_filename))).get(place, ())


@functools.lru_cache(maxsize=16)
def _by_place(text: str) -> dict[Position, tuple[Assigned, ...]]:
    """The same for each with-statement of a file with this text, and for each of its items."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    by_place: dict[Position, tuple[Assigned, ...]] = {}
    for node, around in nodes(tree, ()):
        if isinstance(node, ast.With) and (targets := tuple(_read_after(node, around))):
            by_place[position(node)] = targets
            by_place.update((position(item.context_expr), targets) for item in node.items)
    return by_place


def _read_after(node: ast.With, around: Sequence[ast.AST]) -> Iterator[Assigned]:
    yield from carried(node, around)
    for target in assigned(node.body):
        child: ast.AST = node
        for parent in reversed(around):
            use = first_use(following(parent, child), target)
            if use == "read":
                first = first_use(node.body, target)
                yield Assigned(
                    target.base,
                    target.text,
                    target.line,
                    target.attribute,
                    target.is_entry,
                    target.index,
                    reads_first=first == "read",
                )
            if use is not None or isinstance(parent, SCOPES) or _is_with(parent):
                break
            child = parent


def _is_with(node: ast.AST) -> bool:
    """Whether what follows it may have other threads."""
    return isinstance(node, (ast.With, ast.AsyncWith))
