"""The timeline of a CTA as SVG, in pixels: its warps with their waits, operations in flight, and what ended which wait.

Time goes from left to right, on the clock of `clock`: what ends a wait is right above or below the end of the wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import field
from html import escape
from pathlib import Path

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.report.clock import COPY_STEPS, PRODUCT_STEPS
from nvbackend.simulator.report.facts import Facts
from nvbackend.simulator.report.record import Record, Span
from nvbackend.simulator.rules import NOT_KEPT, REPORT

MOST_EVENTS = 240
"""Waits and operations of a picture that does not say where it ends."""
MOST_LANES = 24
"""Operations of an engine that are drawn side by side."""
_FONT, _LETTER, _LINE = 12, 7.3, 18
_WIDTH, _RIGHT = 1280, 16
_ROW, _BAR, _THIN = 26.0, 16.0, 11.0
_ISSUING, _WAITING, _INK = "#dcebd5", {"mbarrier": "#e2857c", "barrier": "#e3b27a", "cluster": "#cf9bc9"}, "#333"
_BY_ENGINE = "#e9a49d"
"""A wait for a group of an engine."""
_ENGINES = (
    *(("wgmma", "#5b9a68"), ("tcgen05.mma", "#5b9a68"), ("TMA load", "#5a8fc8"), ("TMA", "#8a79c2")),
    *(("cp.async.bulk", "#4fa3b3"), ("cp.async", "#6f9fd0"), ("tcgen05", "#97a94f")),
)
_OTHER = "#8f8f8f"

_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path d="M0 0L8 4L0 8z" fill="{_INK}"/></marker></defs>'
)
"""The head of an arrow."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """A picture: an SVG document, which a notebook shows."""

    svg: str

    def __repr__(self) -> str:
        return f"<timeline of {len(self.svg)} characters of SVG: save(path) writes it>"

    def save(self, path: str | Path) -> None:
        """Write the document to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass(slots=True)
class _Row:
    """A line of the picture: some warps, or operations of an engine that do not touch."""

    label: str
    top: float
    height: float
    warps: Sequence[int] = ()
    spans: list[Span] = field(default_factory=list)

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


@dataclass(frozen=True, slots=True)
class _Scale:
    """From steps to pixels."""

    first: int
    last: int
    left: float

    def x(self, step: int) -> float:
        """Where a step is, at an edge of the picture if it is outside."""
        inside = min(max(step, self.first), self.last)
        return self.left + (inside - self.first) * _WIDTH / max(self.last - self.first, 1)

    def shows(self, span: Span) -> bool:
        """Whether some of it is in the picture."""
        return span.end > self.first and span.start < self.last


def draw(report: Facts, first: int, last: int | None, cta: int) -> Timeline:
    """The picture of a CTA of the first cluster. Raises simulator.report."""
    record = report.record
    ctas = len(record.ends) // record.cta_warps
    if not report.is_whole or not 0 <= cta < ctas:
        problem = f"the first cluster has CTAs 0 to {ctas - 1}, not {cta}" if report.is_whole else NOT_KEPT
        more = ", and name a CTA of the first cluster"
        REPORT.fail(what="timeline", kernel=report.kernel, problem=problem, more=more)
    warps = range(cta * record.cta_warps, (cta + 1) * record.cta_warps)
    waits = [one for one in record.stalls if one.warp in warps]
    flights = _once(one for one in record.flights if one.warp in warps)
    whole = max(record.end_of(cta), max((one.end for one in flights), default=0), first + 1)
    end = _end(first, whole, waits, flights, record) if last is None else max(last, first + 1)
    rows = _warps(record, warps, cta)
    left = _LETTER * max([len(one.label) for one in rows] + [len(one.what) for one in flights]) + 20
    scale = _Scale(first, end, left)
    shown = [one for one in flights if scale.shows(one)]
    rows += _engines(shown, rows[-1].top + rows[-1].height + 8 if rows else 0)
    return Timeline(_document(report, cta, rows, scale, whole))


def _once(spans: Iterable[Span]) -> list[Span]:
    """What the warps of a warpgroup issued together is one operation."""
    return list({(id(one.site), one.start, one.end): one for one in spans}.values())


def _end(first: int, whole: int, waits: list[Span], flights: list[Span], record: Record) -> int:
    """The step until which the picture has about as many events as it can show."""
    # The warps of a warpgroup mostly wait together, and are one row then.
    ends = sorted(one.end for one in (*_once(waits), *flights) if one.end > first)
    if len(ends) <= MOST_EVENTS and not record.dropped:
        return whole
    return ends[min(MOST_EVENTS, len(ends)) - 1]


def _warps(record: Record, warps: Iterable[int], cta: int) -> list[_Row]:
    """A row for the warps that wait at the same steps."""
    alike: dict[tuple[object, ...], list[int]] = {}
    waits: dict[int, list[Span]] = {warp: [] for warp in warps}
    for one in record.stalls:
        if one.warp in waits:
            waits[one.warp].append(one)
    for warp, found in waits.items():
        key = tuple((id(one.site), one.start, one.end) for one in found)
        alike.setdefault((record.ends[warp], key), []).append(warp)
    rows = []
    for place, members in enumerate(alike.values()):
        names = _ranges([warp - cta * record.cta_warps for warp in members])
        row = _Row(f"warp{'s' * (len(members) > 1)} {names}", place * _ROW, _ROW, members, waits[members[0]])
        rows.append(row)
    return rows


def _ranges(numbers: list[int]) -> str:
    """1-3, 5 of 1, 2, 3, 5."""
    found: list[list[int]] = []
    for one in numbers:
        if found and found[-1][1] == one - 1:
            found[-1][1] = one
        else:
            found.append([one, one])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in found)


def _engines(flights: list[Span], top: float) -> list[_Row]:
    """For each engine as many rows as it has operations in flight at once."""
    rows: list[_Row] = []
    for name in sorted({one.what for one in flights}, key=lambda what: (not what.startswith("TMA load"), what)):
        lanes: list[_Row] = []
        for one in sorted((one for one in flights if one.what == name), key=lambda one: (one.start, one.end)):
            lane = next((lane for lane in lanes if lane.spans[-1].end <= one.start), None)
            if lane is None and len(lanes) == MOST_LANES:
                lanes[-1].label = "  and more"
                continue
            if lane is None:
                lane = _Row("" if lanes else name, top, _THIN + 2)
                lanes.append(lane)
                top += lane.height
            lane.spans.append(one)
        rows += lanes
        top += 8
    return rows


def _document(report: Facts, cta: int, rows: list[_Row], scale: _Scale, whole: int) -> str:
    record = report.record
    headings = [f"{report.kernel}, CTA {cta}: steps {scale.first:,} to {scale.last:,} of {whole:,}"]
    files = sorted({os.path.basename(one.site.location.file) for row in rows for one in row.spans})
    lines = f"numbers are lines of {', '.join(files)}; " if files else ""
    headings.append(
        f"{lines}a step is an instruction of a warp, a copy takes {COPY_STEPS}, a product {PRODUCT_STEPS}; "
        "faint: after those before it"
    )
    if scale.last < whole or scale.first:
        headings.append(f"the other {whole - (scale.last - scale.first):,} steps: timeline(first=..., last=...)")
    if record.dropped:
        headings.append(f"{record.dropped:,} later waits and operations have not been kept")
    top = _LINE * (len(headings) + 2) + 12
    bottom = top + (rows[-1].top + rows[-1].height if rows else 0)
    keys, end = _legend(rows, scale.left, bottom + _LINE)
    size = f"{scale.left + _WIDTH + _RIGHT:.0f}", f"{end + 10:.0f}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}"',
        f'  viewBox="0 0 {size[0]} {size[1]}" font-family="monospace" font-size="{_FONT}" fill="{_INK}">',
        _HEAD,
        f'<rect width="{size[0]}" height="{size[1]}" fill="white"/>',
        *(_text(line, 8, _LINE * (place + 1), "title" if not place else "note") for place, line in enumerate(headings)),
        *_axis(scale, top, bottom),
        f'<g transform="translate(0 {top})">',
        *(_text(row.label, 8, row.middle + 4, "row") for row in rows if row.label),
        *(part for row in rows for part in _bars(record, row, scale)),
        *_arrows(record, rows, scale, cta),
        "</g>",
        *keys,
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _axis(scale: _Scale, top: float, bottom: float) -> Iterable[str]:
    """Lines at round numbers of steps."""
    step = 1
    while (scale.last - scale.first) / step > 12:
        step = step * 2 if str(step)[0] in "15" else step * 5 // 2
    for at in range(-(-scale.first // step) * step, scale.last + 1, step):
        x = scale.x(at)
        yield f'<path d="M{x:.1f} {top - 4}V{bottom:.1f}" stroke="#e4e4e4"/>'
        yield f'<text class="step" x="{x:.1f}" y="{top - 8}" text-anchor="middle">{at:,}</text>'


def _bars(record: Record, row: _Row, scale: _Scale) -> Iterable[str]:
    height = _BAR if row.warps else _THIN
    y = row.middle - height / 2
    if row.warps:
        ended = record.ends[row.warps[0]]
        if ended > scale.first:
            yield _bar(scale.x(0), scale.x(ended), y, height, _ISSUING, "issuing")
    for one in row.spans:
        if not scale.shows(one):
            continue
        begin, end = scale.x(one.begin), scale.x(one.end)
        fill, hint = _colour(one, is_wait=bool(row.warps)), _hint(record, one, bool(row.warps))
        if one.begin > one.start:
            yield _bar(scale.x(one.start), begin, y + height / 4, height / 2, fill, hint, opacity=0.35)
        yield _bar(begin, end, y, height, fill, hint)
        line = str(one.site.location.line)
        if end - begin > _LETTER * len(line) + 4:
            yield (
                f'<text class="bar" x="{(begin + end) / 2:.1f}" y="{row.middle + 4:.1f}" text-anchor="middle" '
                f'font-size="{_FONT if row.warps else 10}" fill="{_INK if row.warps else "white"}">{line}</text>'
            )


def _bar(start: float, end: float, y: float, height: float, fill: str, hint: str, opacity: float = 1) -> str:
    width = max(end - start - 0.5, 0.7)
    faint = f' fill-opacity="{opacity}"' if opacity < 1 else ""
    return (
        f'<rect x="{start:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:g}" fill="{fill}"{faint}>'
        f"<title>{escape(hint, quote=False)}</title></rect>"
    )


def _colour(span: Span, *, is_wait: bool) -> str:
    if is_wait:
        return _WAITING.get(span.what, _BY_ENGINE)
    return next((fill for name, fill in _ENGINES if span.what.startswith(name)), _OTHER)


def _hint(record: Record, span: Span, is_wait: bool) -> str:
    """What a viewer shows where the mouse points."""
    place = f"{_place(span)}: {span.site.location.source or span.site.text}"
    times = f"steps {span.start:,} to {span.end:,} ({span.end - span.start:,})"
    warp = f"warp {span.warp % record.cta_warps} of CTA {span.warp // record.cta_warps}"
    if not is_wait:
        return f"{span.what} of {warp}, {times}\n{place}\n{span.site}"
    by = f"warp {span.by % record.cta_warps} of CTA {span.by // record.cta_warps}"
    cause = f"{span.cause.what} of {by}, {_place(span.cause)}" if span.cause is not None else by
    return (
        f"waits for {span.what}{f' {span.place}' if span.place else ''}, {times}, until {cause}\n{place}\n{span.site}"
    )


def _place(span: Span) -> str:
    """File and line, without the folder: pictures are shown to others."""
    location = span.site.location
    return f"{os.path.basename(location.file)}:{location.line}"


def _arrows(record: Record, rows: list[_Row], scale: _Scale, cta: int) -> Iterable[str]:
    """From what ended a wait to the end of the wait; of another CTA from above the warps."""
    of_warp = {warp: row for row in rows for warp in row.warps}
    of_flight = {(id(one.site), one.start, one.end): row for row in rows if not row.warps for one in row.spans}
    seen: set[tuple[int, int, int]] = set()
    for row in (row for row in rows if row.warps):
        for one in row.spans:
            x = scale.x(one.end)
            if not scale.first < one.end <= scale.last or one.end - one.start < 2:
                continue
            cause = one.cause
            source = of_warp.get(one.by)
            if cause is not None and cause.warp // record.cta_warps == cta:
                source = of_flight.get((id(cause.site), cause.start, cause.end))
            elif cause is not None:
                source = None
            key = (round(x), round(row.middle), round(source.middle) if source is not None else -1)
            if source is row or key in seen:
                continue
            seen.add(key)
            yield _arrow(x, source, row)


def _arrow(x: float, source: _Row | None, row: _Row) -> str:
    if source is None:
        return (
            f'<path d="M{x + 9:.1f} {row.middle - 13:.1f}L{x + 1:.1f} {row.middle - 5:.1f}" stroke="#a33" '
            'stroke-dasharray="2 1.5" fill="none" marker-end="url(#head)"/>'
        )
    half = _BAR / 2 if row.warps else _THIN / 2
    start = source.middle + (_THIN / 2 if not source.warps else _BAR / 2) * (1 if row.middle > source.middle else -1)
    end = row.middle - half if row.middle > source.middle else row.middle + half
    return f'<path d="M{x:.1f} {start:.1f}V{end:.1f}" stroke="{_INK}" stroke-opacity="0.55" marker-end="url(#head)"/>'


def _legend(rows: list[_Row], left: float, top: float) -> tuple[list[str], float]:
    waits = {one.what for row in rows if row.warps for one in row.spans}
    entries = [(_ISSUING, "issuing")]
    entries += [(fill, f"waits for {name}") for name, fill in _WAITING.items() if name in waits]
    entries += [(_BY_ENGINE, "waits for a group")] if waits - set(_WAITING) else []
    parts, x = [], left
    for fill, words in entries:
        parts.append(f'<rect x="{x:.1f}" y="{top - 10:.1f}" width="14" height="12" fill="{fill}"/>')
        parts.append(_text(words, x + 20, top, "key"))
        x += 20 + _LETTER * (len(words) + 3)
    parts.append(_text("arrow: what ended the wait; dashed: another CTA of the cluster", x, top, "key"))
    return parts, top


def _text(words: str, x: float, y: float, kind: str) -> str:
    weight = ' font-weight="bold"' if kind == "title" else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{weight}>{escape(words, quote=False)}</text>'
