"""What ran at the same time in one CTA: operations in flight, warps that issue, products of the tensor cores."""

from __future__ import annotations

from nvbackend.simulator.report.record import Record
from nvbackend.simulator.report.spans import Spans, common, length, most_at_once, union, without

_PRODUCTS = ("wgmma", "tcgen05.mma")
"""Engines that multiply."""


def fill(record: Record, cta: int = 0) -> None:
    """Set the steps of each engine, of a CTA of the first cluster."""
    warps = range(cta * record.cta_warps, (cta + 1) * record.cta_warps)
    issuing = union(one for warp in warps for one in _issuing(record, warp))
    spans: dict[str, set[tuple[int, int, int]]] = {}
    for one in record.flights:
        if one.warp in warps:
            # The warps of one wgmma count once: they issue it at one instruction.
            spans.setdefault(one.what, set()).add((id(one.site), one.start, one.end))
    flights = {name: union((start, end) for _, start, end in found) for name, found in spans.items()}
    products = union((one.begin, one.end) for one in record.flights if one.warp in warps and one.what in _PRODUCTS)
    for name, in_flight in flights.items():
        engine = record.engines[name]
        engine.in_flight = length(in_flight)
        engine.issuing = common(in_flight, issuing)
        engine.products = common(in_flight, products)
        engine.most = most_at_once((start, end) for _, start, end in spans[name])


def _issuing(record: Record, warp: int) -> Spans:
    """When a warp did not wait."""
    end = record.ends[warp] if warp < len(record.ends) else 0
    return without([(0, end)], union((one.start, one.end) for one in record.stalls if one.warp == warp))
