"""`nvbackend catalogue`: list all rows and where they are legal; with `--all-rules` or `--rules`, list the rules.

The family of a rule is the first word of its id.
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NoReturn

from nvbackend.cli import rules
from nvbackend.cli.own_rows import (
    add_option,
    add_rules_option,
    listed_rules,
    own_rows,
    own_rules,
    rule_data,
    rules_by_id,
)
from nvbackend.cli.schema import ROWS_SCHEMA, RULES_SCHEMA
from nvbackend.cli.targets import every_target, in_short, row_data, target_data, verdict
from nvbackend.cli.text import columns, count
from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.mma.emulation import emulation
from nvbackend.intrinsics.row.row import Intrinsic, Row
from nvbackend.isel.select.rows import is_legal
from nvbackend.isel.target.target import Target, dotted

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser("catalogue", help="list the instructions", description=__doc__)
    parser.add_argument("--family", metavar="F", help="only this family, such as wgmma")
    parser.add_argument("--target", metavar="T", help="only this target, such as sm_90a; by default all of them")
    parser.add_argument("--json", action="store_true", help="print a JSON list with an object for each row and target")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of what --json prints")
    add_option(parser)
    add_rules_option(parser)
    parser.add_argument("--all-rules", action="store_true", help="list all rules, including those of --rules")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """The command's output. Raises cli.family, cli.usage and target.unknown."""
    if arguments.schema:
        return iter([json.dumps(RULES_SCHEMA if arguments.all_rules else ROWS_SCHEMA, indent=1), "\n"])
    if arguments.rules or arguments.all_rules:
        if arguments.target is not None:
            rules.USAGE.fail(problem="--target does not choose among rules", usage="leave out --target")
        known = rules_of(arguments.family, rules_by_id(own_rules(arguments.rules)))
        every = [json.dumps(rule_data(rule)) for rule in known.values()]
        return iter(["[\n", ",\n".join(every), "\n]\n"]) if arguments.json else listed_rules(known)
    targets = [Target.parse(arguments.target)] if arguments.target is not None else every_target()
    rows = rows_of(arguments.family, list(own_rows(arguments.rows)))
    if arguments.json:
        return _json(rows, targets)
    return _text_of_one(rows, targets[0]) if arguments.target is not None else _text(rows, targets)


def rules_of(family: str | None, every: Mapping[str, Rule]) -> Mapping[str, Rule]:
    """The rules whose ids begin with a family and a dot; every rule for None."""
    if family is None:
        return every
    names = sorted({rule.partition(".")[0] for rule in every})
    if family not in names:
        _unknown_family(family, names, "rules")
    return {name: rule for name, rule in every.items() if name.startswith(f"{family}.")}


def rows_of(family: str | None, others: Sequence[Row] = ()) -> Iterator[Row]:
    """The rows of a family, by the name its rows carry or by that of its module; every row, and `others`, for None."""
    alike = [row for row in others if family in (None, row.family)]
    if family is None:
        return chain((row for maker in FAMILIES.values() for row in maker()), alike)
    if alike and family not in FAMILIES:
        return iter(alike)
    if family in FAMILIES:
        return chain(FAMILIES[family](), alike)
    matching = [row for maker in FAMILIES.values() for row in maker() if row.family == family]
    if not matching:
        names = sorted({*FAMILIES, *(row.family for maker in FAMILIES.values() for row in maker())})
        _unknown_family(family, names, "instructions")
    return iter(matching)


def _unknown_family(family: str, names: Sequence[str], kind: str) -> NoReturn:
    nearest = difflib.get_close_matches(family, names, n=1)
    hint = f"; the nearest is {nearest[0]}" if nearest else ""
    rules.UNKNOWN_FAMILY.fail(given=family, kind=kind, known=", ".join(names), nearest=hint)


def _json(rows: Iterator[Row], targets: Sequence[Target]) -> Iterator[str]:
    """A list, written object by object: the row itself is encoded once for all targets."""
    before = "[\n"
    for row in rows:
        constant = json.dumps(row_data(row))[:-1]
        for target in targets:
            yield f"{before}{constant}, {json.dumps(target_data(row, target))[1:]}"
            before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def _text(rows: Iterator[Row], targets: Sequence[Target]) -> Iterator[str]:
    cells = [("PTX", "FAMILY", "LOWERING", "SINCE PTX", "TARGETS")]
    for row in rows:
        legal = [target for target in targets if is_legal(row, target)]
        cells.append((row.ptx, row.family, _lowering(row), dotted(row.ptx_version), in_short(legal, targets)))
    yield from columns(cells)
    yield f"\n{count(len(cells) - 1, 'row')}\n"


def _text_of_one(rows: Iterator[Row], target: Target) -> Iterator[str]:
    cells = [("PTX", "FAMILY", "LOWERING", "SINCE PTX", target.name)]
    legal = 0
    for row in rows:
        faults = verdict(row, target)
        legal += not faults
        cells.append((row.ptx, row.family, _lowering(row), dotted(row.ptx_version), _answer(row, target, faults)))
    yield from columns(cells)
    yield f"\n{count(len(cells) - 1, 'row')}, {legal} legal on {target} (PTX {dotted(target.ptx_version)})\n"


def _answer(row: Row, target: Target, faults: Sequence[object]) -> str:
    if faults:
        return f"no: {getattr(faults[0], 'rule_id', '')}"
    return "emulated" if emulation(row, target.number) is not None else "yes"


def _lowering(row: Row) -> str:
    return "intrinsic" if isinstance(row.lowering, Intrinsic) else "asm"
