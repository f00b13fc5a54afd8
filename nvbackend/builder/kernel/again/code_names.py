"""The names that the code of a function uses, by its instructions."""

from __future__ import annotations

import dis
import functools
import itertools
import keyword
import sys
import types
from collections.abc import Iterator

from nvbackend.builder.kernel.again.pure_names import BY_NAME, NOT_FOLLOWED, code_of
from nvbackend.diagnostics.classes.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a code object uses, including those of the functions inside it."""

    globals: tuple[str, ...]
    attributes: dict[str, None]
    imports: tuple[str, ...]
    by_name: bool
    unknown: str
    """What it reads that cannot be followed, empty where nothing is."""


_GLOBAL_OPS = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
_ATTRIBUTE_OPS = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "IMPORT_FROM", "LOAD_SUPER_ATTR")
_KINDS = {
    **dict.fromkeys(_GLOBAL_OPS, "global"),
    **dict.fromkeys(_ATTRIBUTE_OPS, "attribute"),
    "IMPORT_NAME": "import",
}


_MATCH_CLASS = dis.opmap["MATCH_CLASS"]
_SHIFTS = {
    **dict.fromkeys((dis.opmap[name] for name in dis.opmap if dis.opmap[name] in dis.hasname), 0),
    dis.opmap["LOAD_GLOBAL"]: 1,
    dis.opmap["LOAD_ATTR"]: int(sys.version_info >= (3, 12)),
    **({dis.opmap["LOAD_SUPER_ATTR"]: 2} if "LOAD_SUPER_ATTR" in dis.opmap else {}),
}
"""The operations with a name, and how far its place among the names is moved: the bits below say something else."""
_IS_NAMED = bytes(operation in _SHIFTS for operation in range(256))
_LAST_KNOWN = (3, 13)
"""The last Python with which `_SHIFTS` was tried; of a newer one the module dis says the names, and takes longer."""


@functools.lru_cache(maxsize=1024)
def names_of(code: types.CodeType) -> Names:
    """The names of `code`, by its instructions."""
    names: dict[str, dict[str, None]] = {"global": {}, "attribute": {}, "import": {}}
    relative = by_name = False
    todo = [code]
    named = named_instructions if sys.version_info[:2] <= _LAST_KNOWN else named_by_dis
    while todo:
        current = todo.pop()
        todo += [constant for constant in current.co_consts if isinstance(constant, types.CodeType)]
        for operation, name in named(current):
            kind = _KINDS.get(operation)
            if kind is not None:
                names[kind][name] = None
            if kind == "import":
                relative = relative or _imports_by_place(current)
        by_name |= _MATCH_CLASS in current.co_code[::2]
    return _judged(names["global"], names["attribute"], names["import"], by_name=by_name, relative=relative)


@functools.lru_cache(maxsize=1024)
def names_of_text(annotation: str) -> Names | None:
    """The names of an annotation that is text, None where it cannot be compiled.

    Most are names with dots between them, which need no compiler.
    """
    first, *others = annotation.split(".")
    if annotation.isascii() and all(map(_is_name, (first, *others))):
        return _judged({first: None}, dict.fromkeys(others), {}, by_name=False, relative=False)
    try:
        return names_of(code_of(annotation))
    except (SyntaxError, ValueError):
        return None


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text) and text != "__debug__"


def _judged(
    variables: dict[str, None], attributes: dict[str, None], imports: dict[str, None], *, by_name: bool, relative: bool
) -> Names:
    by_name |= not BY_NAME.isdisjoint(attributes)
    hidden = NOT_FOLLOWED.intersection(attributes)
    unknown = "a relative import" if relative else f"the attribute {min(hidden)}" if hidden else ""
    return Names(tuple(variables), attributes, tuple(imports), by_name, unknown)


def named_instructions(code: types.CodeType) -> Iterator[tuple[str, str]]:
    """The operations of `code` that have a name, with it, in their order."""
    text, names = code.co_code, code.co_names
    operations, arguments = text[::2], text[1::2]
    for place in itertools.compress(itertools.count(), operations.translate(_IS_NAMED)):
        operation, argument, before = operations[place], arguments[place], place - 1
        while before >= 0 and operations[before] == dis.EXTENDED_ARG:
            argument |= arguments[before] << 8 * (place - before)
            before -= 1
        yield dis.opname[operation], names[argument >> _SHIFTS[operation]]


def named_by_dis(code: types.CodeType) -> Iterator[tuple[str, str]]:
    """The same, slowly, by the module that knows each Python's instructions."""
    for instruction in dis.get_instructions(code):
        if dis.opmap[instruction.opname] in _SHIFTS:
            yield instruction.opname, instruction.argval


def _imports_by_place(code: types.CodeType) -> bool:
    """Whether an import of `code` begins at its own package: the level and the names come before it."""
    before: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME" and (len(before) < 2 or before[-2].argval != 0):
            return True
        before = [*before[-1:], instruction]
    return False
