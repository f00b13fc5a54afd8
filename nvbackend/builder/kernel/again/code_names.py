"""The names that the code of a function uses, by its instructions."""

from __future__ import annotations

import dis
import functools
import types
from dataclasses import dataclass

from nvbackend.builder.kernel.again.pure_names import BY_NAME, NOT_FOLLOWED


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


@functools.lru_cache(maxsize=1024)
def names_of(code: types.CodeType) -> Names:
    """The names of `code`, by its instructions."""
    names: dict[str, dict[str, None]] = {"global": {}, "attribute": {}, "import": {}}
    relative = by_name = False
    todo = [code]
    while todo:
        current = todo.pop()
        todo += [constant for constant in current.co_consts if isinstance(constant, types.CodeType)]
        before: list[dis.Instruction] = []
        for instruction in dis.get_instructions(current):
            if instruction.opname in _GLOBAL_OPS:
                names["global"][instruction.argval] = None
            elif instruction.opname in _ATTRIBUTE_OPS:
                names["attribute"][instruction.argval] = None
            elif instruction.opname == "IMPORT_NAME":
                # The level and the names come before it.
                relative |= len(before) < 2 or before[-2].argval != 0
                names["import"][instruction.argval] = None
            by_name |= instruction.opname == "MATCH_CLASS"
            before = [*before[-1:], instruction]
    by_name |= not BY_NAME.isdisjoint(names["attribute"])
    hidden = NOT_FOLLOWED.intersection(names["attribute"])
    unknown = "a relative import" if relative else f"the attribute {min(hidden)}" if hidden else ""
    return Names(tuple(names["global"]), names["attribute"], tuple(names["import"]), by_name, unknown)
