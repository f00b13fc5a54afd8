"""`nvbackend targets`: the subtargets, what they have, and the PTX versions they take."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nvbackend.cli.text import columns
from nvbackend.cli.verdicts import every_target
from nvbackend.isel.target.target import Target, dotted, highest_ptx_version, lowest_ptx_version

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

PROBES = (
    *("has_tmem", "has_wgmma", "has_arch_conditional", "has_family_conditional"),
    *("has_scale_input_accumulator", "has_wide_im2col", "has_two_cta_tma", "has_cluster_multicast"),
)
"""The probes of Target that the seed on machine validation names."""


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser("targets", help="list the subtargets", description=__doc__)
    parser.add_argument("--json", action="store_true", help="a JSON list with an object for each target")
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
