"""`nvbackend decode FORMAT WORD`: show the fields of a descriptor or another packed word."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nvbackend.cli.text import columns
from nvbackend.cli.words import add_format, chosen, joined, shown
from nvbackend.intrinsics.words.bitfield import Field, bit_ranges

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_ATTRIBUTES = {"d_format": "d", "a_format": "a", "b_format": "b", "scale_format": "scale", "collector_a": ""}
"""Fields whose value an attribute of another name has, or none: ashift shares a bit with `collector_a`."""


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "decode", help="show the fields of a descriptor or another packed word", description=__doc__
    )
    add_format(parser)
    parser.add_argument(
        "word", nargs="+", help="the word, such as 0x4000004000010000; a tensor map also as 16 or 32 words from memory"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object with the fields")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """The command's output. Raises cli.word, and descriptor.* where the word has no meaning."""
    form, kind = chosen(arguments)
    packed = form.word(kind)
    word = joined(arguments.word, packed.bits)
    decoded = form.decode(word, kind)
    if arguments.json:
        yield json.dumps({"format": arguments.format, "word": hex(word), "fields": _data(decoded)}, indent=1) + "\n"
        return
    yield f"{packed.name}, {packed.bits} bits ({packed.reference})\n\n"
    titles = ("BITS", "FIELD", "CODE", "VALUE", "MEANING")
    rows = [_cells(field, word, decoded) for field in packed.fields]
    if other := getattr(decoded, "other", 0):
        rows.append((bit_ranges(other), "other", "", "", "bits that no field has"))
    yield from columns([titles, *filter(None, rows)])
    yield from (f"\n{fault.rule.id}: {fault.message}\n" for fault in form.faults(decoded))
    fields = " ".join(f"{name}={value}" for name, value in _data(decoded).items() if name != "kind")
    of_kind = f" --kind {kind}" if kind else ""
    yield f"\nnvbackend encode {arguments.format}{of_kind} {fields}\n"


def _data(decoded: Any) -> dict[str, Any]:
    """The fields of a decoded word that are not their default, or have none, as JSON has them."""
    data = {}
    for field in dataclasses.fields(decoded):
        value = getattr(decoded, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            data[field.name] = shown(field.name, value)
    return data


def _cells(field: Field, word: int, decoded: Any) -> tuple[str, ...]:
    """The row of a field; none where it is that of a dimension that `decoded` does not have."""
    bits = f"{field.low}-{field.high}" if field.width > 1 else str(field.low)
    name, _, place = field.name.partition("[")
    value: Any = getattr(decoded, _ATTRIBUTES.get(name, name), field.extract(word))
    if place:
        dimension = int(place.partition("]")[0])
        if dimension >= getattr(decoded, "rank", 0) - (name == "global_stride"):
            return ()
        value = "" if place.endswith("high") else value[dimension] if dimension < len(value) else 1
    printed = hex(value) if "address" in name else shown(name, value)
    return bits, field.name, str(field.code(word)), str(printed), field.meaning
