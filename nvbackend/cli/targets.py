"""`nvbackend targets`: list the subtargets, their features, and the PTX versions that they take."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nvbackend.cli.text import columns
from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.intrinsics.mma.emulation import emulation
from nvbackend.intrinsics.row.row import Intrinsic, Row, RowOperand
from nvbackend.isel.select.rows import faults
from nvbackend.isel.target.target import Target, dotted, highest_ptx_version, lowest_ptx_version, target_names

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_NOWHERE = Location("", 0, "")
"""The place of a verdict: no program asked for it, and looking for a line would take longer than the answer."""
PROBES = (
    *("has_tmem", "has_wgmma", "has_arch_conditional", "has_family_conditional"),
    *("has_scale_input_accumulator", "has_wide_im2col", "has_two_cta_tma", "has_cluster_multicast"),
)
"""The probes of Target that the seed on machine validation names."""


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser("targets", help="list the subtargets", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print a JSON list with an object for each target")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """The command's output."""
    listed = [_data(target) for target in every_target()]
    if arguments.json:
        yield json.dumps(listed, indent=1) + "\n"
        return
    titles = ("TARGET", "PTX", *(probe.removeprefix("has_") for probe in PROBES), "FEATURES")
    cells = [titles]
    for data in listed:
        probes = ("yes" if data["probes"][probe] else "-" for probe in PROBES)
        cells.append((data["name"], "-".join(data["ptx_versions"]), *probes, " ".join(data["features"])))
    yield from columns(cells)


def _data(target: Target) -> dict[str, Any]:
    versions = lowest_ptx_version(target.number, target.suffix), highest_ptx_version(target.number)
    return {
        "name": target.name,
        "number": target.number,
        "suffix": target.suffix,
        "ptx_versions": [dotted(version) for version in versions],
        "features": [str(feature.name) for feature in target.features],
        "probes": {probe: getattr(target, probe) for probe in PROBES},
    }


def every_target() -> list[Target]:
    """Each target at the newest PTX version that it takes, oldest chip first."""
    return [Target.parse(name) for name in target_names()]


def verdict(row: Row, target: Target) -> Sequence[Diagnostic]:
    """Why `row` is illegal on `target`; empty where it is legal."""
    return tuple(faults(row, target, {}, _NOWHERE))


def row_data(row: Row) -> dict[str, Any]:
    """What a row is, whatever the target, in types that JSON has."""
    return {
        "ptx": row.ptx,
        "family": row.family,
        "opcode": row.opcode,
        "lowering": "intrinsic" if isinstance(row.lowering, Intrinsic) else "asm",
        "intrinsic": row.lowering.name if isinstance(row.lowering, Intrinsic) else None,
        "constraints": row.constraints,
        "operands": [operand_data(operand) for operand in row.operands],
        "ptx_version": dotted(row.ptx_version),
        "requires": [str(feature.name) for feature in row.requires],
        "section": row.section,
        "summary": row.summary,
    }


def operand_data(operand: RowOperand) -> dict[str, Any]:
    """What an operand is; `values` are the legal immediates, null for registers."""
    return {
        "name": operand.name,
        "role": operand.role.value,
        "register": operand.register.name,
        "count": operand.count,
        "tied": operand.tied,
        "values": list(operand.values) if operand.values is not None else None,
        "meaning": operand.meaning,
    }


def target_data(row: Row, target: Target) -> dict[str, Any]:
    """A row on a target: legal or not, why not, and what ptxas makes of it where the chip lacks it."""
    faults = verdict(row, target)
    emulated = emulation(row, target.number) if not faults else None
    return {
        "target": target.name,
        "legal": not faults,
        "rule": faults[0].rule_id if faults else None,
        "message": faults[0].message if faults else None,
        "fix": faults[0].fix if faults else None,
        "emulated": dataclasses.asdict(emulated) if emulated is not None else None,
    }


def in_short(legal: Iterable[Target], every: Sequence[Target]) -> str:
    """The names of targets: all from one chip on as `sm_80+`, suffixes of one chip together, as `sm_100a/f`."""
    names = {target.name for target in legal}
    if not names:
        return "none"
    first = next(place for place, target in enumerate(every) if target.name in names)
    if names == {later.name for later in every[first:]} and not every[first].suffix:
        return f"{every[first].name}+"
    chips: dict[int, list[str]] = {}
    for target in every:
        if target.name in names:
            chips.setdefault(target.number, []).append(target.suffix)
    return " ".join(f"sm_{number}{'/'.join(suffixes)}" for number, suffixes in chips.items())
