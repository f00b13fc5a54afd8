"""`nvbackend explain`: say what an instruction does and needs, how the analyses see it, and which thread holds what.

All forms of one spelling are shown on one page, and so are all spellings of an opcode. CuTe's name of an MMA atom names
its instruction, and FILE.ptx:LINE the instruction of that line, with its operands. For a rule's id, or the first line
of a diagnostic, show the rule; for a call or class of nvbackend, such as k.tma.load, nvb.Ring or ring.fill, its
arguments and what it does.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nvbackend.atoms import atom
from nvbackend.cli import rules
from nvbackend.cli.explaining.calls import call_data, call_named, explained_call, first_line_of
from nvbackend.cli.explaining.data import as_json, line_data, rows_data
from nvbackend.cli.explaining.line import explained_line, line_named
from nvbackend.cli.explaining.names import full_names
from nvbackend.cli.explaining.opcode import explained_opcode
from nvbackend.cli.explaining.variants import explained
from nvbackend.cli.own_rows import (
    add_option,
    add_rules_option,
    explained_rule,
    own_rows,
    own_rules,
    rule_data,
    rules_by_id,
)
from nvbackend.diagnostics import DiagnosticError, Rule
from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.catalogue import rows as every_row
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.target.target import Target
from nvbackend.ptx.vocabulary import unknown_word

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


NEAREST = 5
"""Spellings suggested for an unknown one."""
_COMPARED = 60
_LIKE_AN_INSTRUCTION = 0.75
"""How much of the first word of a text must agree with an instruction's, to take it for that."""
_LIKE_A_RULE = 0.85
"""How much of a text must agree with a rule's id, to take it for one with a mistake."""
_SHORT, _MOST_RULES = 3, 12
"""A text of so few letters is in too many ids; so many ids at most are named."""
_ORDINARY = "abs add and bra cvt cvta div fma ld mad max min mov mul neg not or rem selp setp shl shr st sub xor"
"""Instructions that LLVM prints for ordinary code: only some forms of them have rows."""
_BETWEEN_WORDS = r"[-_. ]"
OF_ATOM = re.compile(r"\s*(?:cute::)?SM\d+")
"""The first characters of an MMA atom's name."""
_OF_DIAGNOSTIC = re.compile(r"(?:error|warning)\[([^\]]*)\]")


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser("explain", help="explain one instruction or rule", description=__doc__)
    parser.add_argument(
        "spelling",
        help="the PTX spelling with all qualifiers; operands may follow; or FILE.ptx:LINE, an MMA atom's name, "
        "a rule's id, or a call",
    )
    parser.add_argument("--target", metavar="T", help="also say whether this target has it, such as sm_90a")
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object: rows, a rule, instructions, a call, or calls"
    )
    add_option(parser)
    add_rules_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """The command's output. Raises cli.spelling, with the nearest ones, and target.unknown."""
    target = Target.parse(arguments.target) if arguments.target is not None else None
    place = line_named(arguments.spelling)
    if place is not None:
        if arguments.json:
            yield as_json({"instructions": line_data(*place, target, own_rows(arguments.rows))})
        else:
            yield from explained_line(*place, target, own_rows(arguments.rows))
        return
    if (call := call_named(arguments.spelling)) is not None:
        yield from _of_calls([call], as_object=arguments.json)
        return
    others = own_rows(arguments.rows)
    try:
        rows = rows_spelled(_without_atom(arguments.spelling), others)
    except DiagnosticError:
        opcode = spelling_in(arguments.spelling)
        begun = [row for row in (*others, *every_row()) if row.ptx.startswith(f"{opcode}.")]
        names = [] if begun or opcode in FAMILIES else full_names(arguments.spelling)
        every_rule = rules_by_id(own_rules(arguments.rules))
        rule = _rule_called(arguments.spelling, every_rule, is_exact=bool(begun or names))
        if rule is None and begun:
            begun.sort(key=lambda row: row.opcode != opcode)  # cp.async before cp.async.bulk
            in_full = as_json({"rows": rows_data(begun, target)}) if arguments.json else ""
            yield from [in_full] if in_full else explained_opcode(begun, target)
            return
        if rule is None and names:
            yield from _of_calls(names, as_object=arguments.json)
            return
        if rule is None:
            raise
        yield from [as_json({"rule": rule_data(rule)})] if arguments.json else explained_rule(rule)
        return
    yield from [as_json({"rows": rows_data(rows, target)})] if arguments.json else explained(rows, target)


def _without_atom(text: str) -> str:
    """The spelling of an MMA atom's instruction, where CuTe's name of an atom is asked for. Raises atom.name."""
    return atom(text).row.ptx if OF_ATOM.match(text) else text


def _of_calls(names: Sequence[str], *, as_object: bool) -> Iterator[str]:
    """A call; or of several that a short name may mean each name and what it does."""
    if len(names) == 1:
        yield from [as_json({"call": call_data(names[0])})] if as_object else explained_call(names[0])
        return
    said = {name: first_line_of(name) for name in names}
    width = max(map(len, said))
    lines = (f"{name:<{width}}  {line}\n" for name, line in said.items())
    yield from [as_json({"calls": said})] if as_object else lines


def _rule_called(text: str, every: Mapping[str, Rule], *, is_exact: bool) -> Rule | None:
    """The rule of an id, or of a diagnostic's first line; None for what is not like one. Raises cli.spelling.

    Where `is_exact`, a text that is only like an id is not taken for one.
    """
    printed = _OF_DIAGNOSTIC.match(text.strip())
    name = printed[1] if printed else text.strip()
    by_lower = {each.id.lower(): each for each in every.values()}
    rule = every.get(name) or by_lower.get(name.lower())
    if rule is not None or (is_exact and not printed):
        return rule
    near = [] if printed else _with_letters(name.lower(), by_lower)
    near = near or difflib.get_close_matches(name.lower(), by_lower, n=NEAREST, cutoff=0.0 if printed else _LIKE_A_RULE)
    if near:
        ids = ", ".join(by_lower[each].id for each in near)
        rules.UNKNOWN_SPELLING.fail(given=name, kind="the id of a rule", nearest="one of " * (len(near) > 1) + ids)
    return None


def _with_letters(text: str, ids: Iterable[str]) -> list[str]:
    """The ids with the letters of a text in a row, whatever is between its words. None, if it would be many."""
    wanted = re.sub(_BETWEEN_WORDS, "", text)
    having = [each for each in ids if wanted in re.sub(_BETWEEN_WORDS, "", each)]
    return having if len(wanted) > _SHORT and len(having) <= _MOST_RULES else []


def rows_spelled(text: str, others: Iterable[Row] = (), kind: str = "the spelling of an instruction") -> list[Row]:
    """The forms of the instruction in a line of PTX, first those of `others`. Raises cli.spelling with the nearest.

    `kind` says what the text may be.
    """
    wanted = spelling_in(text)
    every = [*others, *every_row()]
    rows = [row for row in every if row.ptx == wanted]
    if not rows:
        near = (
            _of_opcode(wanted) or ", ".join(nearest(wanted, sorted({row.ptx for row in every}))) or _of_family(wanted)
        )
        rules.UNKNOWN_SPELLING.fail(given=wanted, kind=kind, nearest=f"one of {near}{_if_ordinary(wanted)}")
    return rows


def _if_ordinary(wanted: str) -> str:
    """How to explain ordinary code, which has no row; empty for what is not ordinary code, or not PTX."""
    parts = tuple(wanted.split("."))
    if len(parts) < 2 or parts[0] not in _ORDINARY.split() or unknown_word(parts) is not None:
        return ""
    return (
        f"; LLVM prints {wanted} for ordinary code and it has no row: nvbackend explain FILE.ptx:LINE explains its line"
    )


def _of_opcode(opcode: str) -> str:
    """The spellings that begin with an opcode without its qualifiers: all, or some and how to list them; else empty."""
    spellings = _with_opcode(opcode, every_row())
    if len(spellings) <= NEAREST:
        return ", ".join(spellings)
    families = " | ".join(name for name, maker in FAMILIES.items() if _with_opcode(opcode, maker()))
    said = f"the {len(spellings)} that begin so, such as {', '.join(spellings[:2])}"
    return f"{said}; nvbackend catalogue --family {families} lists them"


def _with_opcode(opcode: str, every: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row.ptx for row in every if row.ptx.startswith(f"{opcode}.")))


def spelling_in(text: str) -> str:
    """The instruction in a line of PTX: without its guard, its operands and the semicolon."""
    words = [word for word in text.replace(";", " ").split() if not word.startswith("@")]
    return words[0] if words else ""


def nearest(wanted: str, spellings: Sequence[str]) -> list[str]:
    """The spellings that are most like `wanted`: those with the most words in common, then by their letters.

    The first word, which is the instruction, counts as three, also where it is only like one. None where no spelling
    has a word of it, as of __syncthreads.
    """
    asked, heads = _words(wanted.lower()), {spelling.partition(".")[0] for spelling in spellings}
    head = difflib.get_close_matches(wanted.lower().partition(".")[0], sorted(heads), n=1, cutoff=_LIKE_AN_INSTRUCTION)
    begin = tuple(f"{each}." for each in head)
    common = {spelling: len(asked & _words(spelling)) + 2 * spelling.startswith(begin) for spelling in spellings}
    likely = sorted(filter(common.get, spellings), key=lambda spelling: (-common[spelling], len(spelling)))[:_COMPARED]
    by_letters = difflib.get_close_matches(wanted, likely, n=_COMPARED, cutoff=0.0)
    return sorted(by_letters, key=lambda spelling: -common[spelling])[:NEAREST]


def _words(spelling: str) -> set[str]:
    return set(re.split(r"[._:%]+", spelling)) - {""}


def _of_family(name: str) -> str:
    """How to list instructions, those of a family where it is one that is asked for."""
    return f"those that nvbackend catalogue{f' --family {name}' if name in FAMILIES else ''} lists"
