"""New instructions of known kinds: every analysis sees them by what their rows say, without an edit of its own.

Each wrong kernel of a protocol is built once more, with an invented row in place of each of its instructions: another
family, opcode and spelling, and no axes but those of an mma. What is left is what the analyses may ask for: operands,
effects, semantics.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from types import FunctionType
from typing import Any

import pytest

import nvbackend.isel.protocols
from nvbackend import Rule
from nvbackend.builder.core import core
from nvbackend.builder.core.core import Core
from nvbackend.intrinsics.row.row import Asm, Row
from nvbackend.intrinsics.row.semantics import NOTHING
from tests.rules.example import Example, Side
from tests.rules.registry import examples


def _rules() -> Iterator[str]:
    """The ids of the rules that the protocols declare."""
    package = nvbackend.isel.protocols
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Rule):
                yield value.id


RULES = frozenset(_rules())
EXAMPLES = [one for one in examples() if one.rule in RULES and one.target is not None]


@cache
def invented(row: Row) -> Row:
    """Another instruction of the same kind; its text is that of `row`, so that LLVM need not know of it."""
    lowering = row.lowering
    if isinstance(lowering, Asm):
        lowering = Asm(lowering.template.replace("{ptx}", row.ptx))
    spelling = f"novel.{abs(hash((row.ptx, len(row.operands)))):x}"
    axes = row.axes if row.semantics.multiplies else {}  # they say what an instruction descriptor means
    return replace(row, family="novel", opcode=spelling, ptx=spelling, axes=axes, lowering=lowering)


def emitting(instead: Callable[[Row], Row]) -> FunctionType:
    """`Core.emit` of another row. It is to be no line of the user's: it claims the file of what it stands for."""
    emit = Core.emit

    def wrapped(self: Core, row: Row, *given: Any, **more: Any) -> Any:
        return emit(self, instead(row), *given, **more)

    code = wrapped.__code__.replace(co_filename=core.__file__)
    return FunctionType(code, vars(core), "emit", None, wrapped.__closure__)


def found(example: Example) -> list[tuple[str, int]]:
    """What is said of the wrong kernel by the protocols: the rules, and where."""
    said = example.diagnostics(Side.BREAKS)
    return [(one.rule_id, one.location.line if one.location else 0) for one in said if one.rule_id in RULES]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.rule)
def test_a_new_instruction_is_seen_by_every_analysis(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    known = found(example)
    assert example.rule in {rule for rule, _ in known}
    monkeypatch.setattr(Core, "emit", emitting(invented))
    assert found(example) == known


def test_what_the_row_says_is_all_that_they_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its semantics an instruction is none of theirs: the kernels are wrong by that alone."""
    mute = emitting(lambda row: replace(invented(row), semantics=NOTHING))
    silent = 0
    for example in EXAMPLES:
        with monkeypatch.context() as patched:
            known = found(example)
            patched.setattr(Core, "emit", mute)
            silent += found(example) != known
    assert silent > len(EXAMPLES) // 2
