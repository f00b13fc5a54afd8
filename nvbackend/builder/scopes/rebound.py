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

from nvbackend.builder.scopes.python_exits import SCOPES, Position, following, nodes, position
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.diagnostic import AT_RUN_TIME
from nvbackend.diagnostics.location import source_lines

_MISSING = object()
_BRANCHES = (ast.If, ast.While, ast.Try, ast.TryStar, ast.Match, ast.With, ast.AsyncWith, ast.AsyncFor)
"""Statements whose bodies may be left out, or have threads of their own."""
_TAKERS = {name: ["read"] for name in ("enumerate", "list", "reversed", "sum", "tuple", "zip")} | {"len": []}
"""Functions of Python: how they use the entries of a container."""


class Block(Protocol):
    """What is asked of a with-block of the kernel."""

    open: bool
    exit_block: Any
    rounds: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Assigned:
    """What a block assigns to: the name `base`, `base.attribute`, or `base[index]` (None for an index of run time)."""

    base: str
    text: str
    line: int
    attribute: str | None = None
    is_entry: bool = False
    index: Any = None
    reads_first: bool = False
    """Whether the block reads it before it assigns to it."""
    is_read_after: bool = True
    """Whether it is read after the block; else its last statement in the block sets it, for a next round alone."""


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
            if after is not before and _is_value(before) and _is_taken(after, target):
                text = f"{target.base}[{key!r}]" if target.is_entry else target.text
                return Rebound(target, text, before)
    return None


def _is_taken(after: object, target: Assigned) -> bool:
    """Whether what a target is bound to now is taken for what a run of the block gives."""
    if _is_address(after) or not target.is_read_after:
        return _is_value(after)
    return type(after) in (int, float, bool) or _lives(after)


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
    yield from _carried(node, around)
    for target in _assigned(node.body):
        child: ast.AST = node
        for parent in reversed(around):
            use = _first_use(following(parent, child), target)
            if use == "read":
                first = _first_use(node.body, target)
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


def _carried(node: ast.With, around: Sequence[ast.AST]) -> Iterator[Assigned]:
    """The name that the last statement of a block sets, that the block reads before, and nothing reads after it."""
    *before, last = node.body
    targets = last.targets if isinstance(last, ast.Assign) else [last.target] if isinstance(last, ast.AugAssign) else []
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or any(map(_is_repeated, around)):
        return
    target = Assigned(targets[0].id, targets[0].id, targets[0].lineno, reads_first=True, is_read_after=False)
    scope = next((each for each in reversed(around) if isinstance(each, SCOPES)), None)
    if scope is None or _first_use(before, target) != "read":
        return
    end = node.end_lineno or node.lineno
    later = (each for each in ast.walk(scope) if _is_base(each, target) and getattr(each, "lineno", 0) > end)
    inner = (each for each in ast.walk(scope) if each is not scope and isinstance(each, (*SCOPES, ast.Lambda)))
    if not any(later) and not any(_mentions(each, target) for each in inner):
        yield target


def _is_repeated(node: ast.AST) -> bool:
    """Whether Python may come to what is in it again."""
    return isinstance(node, (ast.For, ast.AsyncFor, ast.While))


def _is_with(node: ast.AST) -> bool:
    """Whether what follows it may have other threads."""
    return isinstance(node, (ast.With, ast.AsyncWith))


def _assigned(statements: Sequence[ast.stmt]) -> Iterator[Assigned]:
    """What statements assign to, those of functions in them left out."""
    for statement in statements:
        if isinstance(statement, SCOPES):
            continue
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from _bounds(target)
        if isinstance(statement, ast.AugAssign):
            yield from _bounds(statement.target)
        for name in ("body", "orelse", "finalbody"):
            yield from _assigned(getattr(statement, name, ()))


def _bounds(target: ast.expr) -> Iterator[Assigned]:
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _bounds(part)
        case ast.Name(id=name):
            yield Assigned(name, name, target.lineno)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            yield Assigned(name, f"{name}.{attribute}", target.lineno, attribute)
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            yield Assigned(name, ast.unparse(target), target.lineno, is_entry=True, index=_constant(index))
        case _:
            pass


def _constant(index: ast.expr) -> Any:
    try:
        return ast.literal_eval(index)
    except ValueError:
        return None


def _first_use(statements: Sequence[ast.stmt], target: Assigned) -> str | None:
    """How the first of the statements that has it uses it: "read", "written", or "" where that is not certain."""
    for statement in statements:
        use = _use(statement, target)
        if use is not None:
            return use
    return None


def _use(statement: ast.stmt, target: Assigned) -> str | None:
    match statement:
        case ast.Assign(targets=written, value=value):
            parts: list[ast.AST] = [value, *written]
        case ast.AugAssign(target=written, value=value):
            if _of_expressions([written], target) == "written":
                return "read"  # and written
            parts = [value, written]
        case ast.For(target=written_by, iter=iterated, body=body):
            if target.is_entry and _is_base(iterated, target):
                return "read"
            use = _of_expressions([iterated, written_by], target)
            return use if use is not None else _first_use(body, target)
        case ast.If(test=head) | ast.While(test=head):
            parts = [head]
        case ast.With(items=items):
            parts = [item.context_expr for item in items]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return "" if _mentions(statement, target) else None
        case _ if isinstance(statement, _BRANCHES):
            parts = []
        case _:
            parts = list(ast.iter_child_nodes(statement))
    use = _of_expressions(parts, target)
    if use is None and isinstance(statement, _BRANCHES) and _mentions(statement, target):
        return ""
    return use


def _is_base(node: ast.AST, target: Assigned) -> bool:
    return isinstance(node, ast.Name) and node.id == target.base


def _mentions(node: ast.AST, target: Assigned) -> bool:
    return any(_is_base(each, target) for each in ast.walk(node))


def _of_expressions(parts: Sequence[ast.AST], target: Assigned) -> str | None:
    for part in parts:
        uses = set(_uses(part, target))
        if uses:
            return next(use for use in ("", "read", "written") if use in uses)
    return None


def _uses(node: ast.AST, target: Assigned) -> Iterator[str]:
    """How an expression uses it, in no order."""
    if isinstance(node, ast.Lambda):
        uses: Sequence[str] | None = [""] if _mentions(node, target) else []
    else:
        uses = (_uses_of_entry if target.is_entry else _uses_of_name)(node, target)
    if uses is not None:
        yield from uses
        return
    for child in ast.iter_child_nodes(node):
        yield from _uses(child, target)


def _uses_of_name(node: ast.AST, target: Assigned) -> Sequence[str] | None:
    """The uses of a name or an attribute by this node; None where its children say."""
    match node:
        case ast.Attribute(value=ast.Name(id=target.base), attr=attribute, ctx=context) if target.attribute is not None:
            return [_how(context)] if target.attribute == attribute else []
        case ast.Name(id=target.base, ctx=context):
            return [_how(context) if target.attribute is None else ""]
    return None


def _uses_of_entry(node: ast.AST, target: Assigned) -> Sequence[str] | None:
    """The same of an entry, which is read by its index, by one of the build, and by what takes all of the container."""
    match node:
        case ast.Subscript(value=ast.Name(id=target.base), slice=index, ctx=context):
            return _uses_by_index(_constant(index), context, target)
        case ast.Starred(value=ast.Name(id=target.base), ctx=ast.Load()):
            return ["read"]
        case ast.Call(func=ast.Name(id=name), args=arguments) if any(_is_base(each, target) for each in arguments):
            return _TAKERS.get(name, [""])
        case ast.Name(id=target.base):
            return [""]
    return None


def _uses_by_index(key: Any, context: ast.expr_context, target: Assigned) -> list[str]:
    if key is None:
        return ["read" if isinstance(context, ast.Load) else ""]
    if key == target.index:
        return [_how(context)]
    return [""] if target.index is None else []


def _how(context: ast.expr_context) -> str:
    return "read" if isinstance(context, ast.Load) else "written"
