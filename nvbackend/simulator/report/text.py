"""A report as a screenful of text."""

from __future__ import annotations

import os
from collections.abc import Iterator

from nvbackend.simulator.events import Site
from nvbackend.simulator.report.classes import CLASSES
from nvbackend.simulator.report.columns import Column, amount, number, table
from nvbackend.simulator.report.facts import Facts

_WORST = 4
"""Instructions that are shown of each kind."""
_SPACES = ("global", "shared", "distributed", "tensor", "local")


def screen(report: Facts) -> str:
    """The whole text."""
    parts = [_heading(report), _classes(report)]
    if report.is_whole:
        parts += [_spaces(report), _engines(report), *_worst(report), _waits(report)]
    return "\n".join(part for part in parts if part)


def _heading(report: Facts) -> str:
    grid, block, cluster = ("x".join(map(str, each)) for each in (report.grid, report.block, report.cluster))
    clusters = f", clusters of {cluster}" if cluster != "1x1x1" else ""
    first = f"{report.kernel}: {grid} CTAs of {block} threads{clusters}"
    facts = [f"{report.shared_bytes:,} bytes of shared memory a CTA"]
    if report.tensor_columns:
        facts.append(f"{report.tensor_columns} columns of tensor memory")
    if report.is_whole:
        facts.append(f"{report.warp_steps:,} steps of the slowest warp")
    if report.seed:
        facts.append(f"seed={report.seed}")
    return f"{first}\n  {', '.join(facts)}"


def _classes(report: Facts) -> str:
    total = sum(report.instructions.values()) or 1
    columns = (Column("instructions", "<"), Column("threads", ">"), Column("", ">"), Column("mostly", "<"))
    found = [(name, report.classes[name]) for name in CLASSES if name in report.classes]
    rows = [
        (name, number(count), f"{100 * count / total:.1f} %", ", ".join(one for one, _ in opcodes.most_common(_WORST)))
        for name, opcodes in sorted(found, key=lambda one: -one[1].total())
        for count in [opcodes.total()]
    ]
    return table(columns, rows)


def _spaces(report: Facts) -> str:
    columns = (Column("bytes", "<"), Column("read", ">"), Column("written", ">"), Column("", "<"))
    total = report.total
    rows = [
        (space, amount(total.read[space]), amount(total.written[space]), _cost(report, space))
        for space in _SPACES
        if total.read[space] or total.written[space]
    ]
    return table(columns, rows) if rows else ""


def _cost(report: Facts, space: str) -> str:
    use = {"shared": report.total.shared, "global": report.total.global_}.get(space)
    if use is None or not use.requests:
        return ""
    what, why = (
        ("passes over the banks", "by conflicts") if space == "shared" else ("sectors", "by scattered addresses")
    )
    extra = f"{use.excess:,} of them {why}" if use.excess else f"none {why}"
    return f"{use.requests:,} requests of warps, {use.taken:,} {what}, {extra}"


def _engines(report: Facts) -> str:
    columns = (
        *(Column("asynchronous (CTA 0)", "<"), Column("operations", ">"), Column("most at once", ">")),
        *(Column("in flight", ">"), Column("while warps issue", ">"), Column("while tensor cores work", ">")),
    )
    rows = []
    multiplies = any(engine.products for engine in report.engines.values())
    for name, engine in sorted(report.engines.items()):
        of, end = engine.in_flight, report.record.end_of(0)
        shares = (_share(of, end), _share(engine.issuing, of), _share(engine.products, of) if multiplies else "")
        rows.append((name, number(engine.operations), number(engine.most), *shares))
    return table(columns, rows) if rows else ""


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else ""


def _worst(report: Facts) -> Iterator[str]:
    """Instructions with the most bank conflicts, and the least coalesced."""
    every = report.by_instruction()
    shared = sorted((one for one in every if one[1].shared.excess), key=lambda one: -one[1].shared.excess)
    apart = sorted((one for one in every if one[1].global_.excess), key=lambda one: -one[1].global_.excess)
    for found, heading, what in ((shared, "bank conflicts", "passes"), (apart, "scattered addresses", "sectors")):
        columns = (Column(heading, "<"), Column("requests", ">"), Column(what, ">"), Column("at best", ">"))
        rows = []
        for site, use in found[:_WORST]:
            access = use.shared if found is shared else use.global_
            rows.append((where(site), number(access.requests), number(access.taken), number(access.least)))
        if rows:
            yield table(columns, rows)


def _waits(report: Facts) -> str:
    """By what for, then the instructions with the longest."""
    columns = (Column("waits", "<"), Column("warps", ">"), Column("steps", ">"), Column("longest", ">"))
    rows = [
        (f"for {name}", number(use.waits), number(use.waited), number(use.longest))
        for name, use in sorted(report.waits.items(), key=lambda one: -one[1].waited)
    ]
    worst = sorted((one for one in report.by_instruction() if one[1].waited), key=lambda one: -one[1].waited)
    rows += [(where(site), number(use.waits), number(use.waited), number(use.longest)) for site, use in worst[:_WORST]]
    return table(columns, rows) if rows else ""


def where(site: Site) -> str:
    """The line of the user's program, or of the PTX, and the opcode."""
    words = site.text.split()
    opcode = next((one for one in words if not one.startswith("@")), "")
    return f"{os.path.basename(site.location.file)}:{site.location.line} {opcode.rstrip(';')}"
