"""Pictures of runs, read by an XML parser: bars where the waits and copies are, text that does not overlap."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Report, Simulator
from nvbackend.simulator.report import timeline
from tests.simulator.calls.bodies import FIRST, ptx

SVG = "{http://www.w3.org/2000/svg}"
RING = """@%p0 mbarrier.init.shared.b64 [%r2], 1; @%p0 mbarrier.init.shared.b64 [%r2+8], 32; bar.sync 0;
mov.u32 %r5, 0; mov.u32 %r6, 0; setp.lt.u32 %p2, %r0, 32; @!%p2 bra EAT;
FILL: xor.b32 %r7, %r6, 1;
EMPTY: mbarrier.try_wait.parity.shared.b64 %p1, [%r2+8], %r7; @!%p1 bra EMPTY;
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 256, [%r2];
xor.b32 %r6, %r6, 1; add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, {steps}; @%p3 bra FILL; bra END;
EAT:
FULL: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], %r6; @!%p1 bra FULL;
ld.shared.u32 %r9, [%r1]; mbarrier.arrive.shared.b64 _, [%r2+8];
xor.b32 %r6, %r6, 1; add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, {steps}; @%p3 bra EAT;
END:"""
"""One stage, which warp 0 fills and warp 1 empties."""


@pytest.fixture(scope="module")
def ring() -> Report:
    return run(4)


def run(steps: int, **options: bool) -> Report:
    argument = np.zeros(64, np.uint32)
    module = Simulator().load(ptx(RING.format(steps=steps), [argument]), source="ring.ptx")
    return module.launch("k", block=(64,), args=[argument], **{"report": True, **options})


def texts(picture: str) -> list[tuple[str, float, float, float, str]]:
    """Kind, left, right, baseline and words of every text."""
    found = []
    for one in ElementTree.fromstring(picture).iter(f"{SVG}text"):
        shift = 0.0
        words, x = one.text or "", float(one.get("x", "0"))
        width = 7.3 * len(words) * float(one.get("font-size", "12")) / 12
        left = x - width / 2 if one.get("text-anchor") == "middle" else x
        found.append((one.get("class", ""), left, left + width, float(one.get("y", "0")) + shift, words))
    return found


def bars(picture: str, begin: str) -> list[tuple[float, float]]:
    """Left and right of the bars whose hints begin so."""
    found = []
    for one in ElementTree.fromstring(picture).iter(f"{SVG}rect"):
        hint = one.find(f"{SVG}title")
        if hint is not None and (hint.text or "").startswith(begin):
            left = float(one.get("x", "0"))
            found.append((left, left + float(one.get("width", "0"))))
    return sorted(found)


def test_copies_of_one_stage_do_not_overlap_and_end_waits(ring: Report) -> None:
    picture = ring.timeline().svg
    assert len(repr(ring.timeline())) < 100
    copies, full = bars(picture, "cp.async.bulk"), bars(picture, "waits for mbarrier")
    assert len(copies) == 4
    assert all(before[1] < after[0] for before, after in pairwise(copies))
    ends = [end for _, end in full]
    assert all(min(abs(end - one) for one in ends) < 1 for _, end in copies)
    scale = (copies[0][1] - copies[0][0] + 0.5) / 512
    assert all(abs(right - left + 0.5 - 512 * scale) < 0.2 for left, right in copies)


def test_rows_name_warps_and_engines(ring: Report) -> None:
    found = texts(ring.timeline().svg)
    assert [words for kind, *_, words in found if kind == "row"] == ["warp 0", "warp 1", "cp.async.bulk"]
    assert {words for kind, *_, words in found if kind == "bar"} == {str(FIRST + 3), str(FIRST + 5), str(FIRST + 8)}


def test_texts_do_not_overlap(ring: Report) -> None:
    root = ElementTree.fromstring(ring.timeline().svg)
    inside = root.find(f"{SVG}g")
    assert inside is not None
    rows = {one.text for one in inside.iter(f"{SVG}text")}
    found = texts(ring.timeline().svg)
    for group in (True, False):  # what is in the group is moved down together
        mine = [one for one in found if (one[4] in rows) == group]
        for place, (_, left, right, y, words) in enumerate(mine):
            assert left >= 0 and right <= float(root.get("width", "0")), words
            for _, other_left, other_right, other_y, other in mine[place + 1 :]:
                assert abs(y - other_y) > 9 or left >= other_right or other_left >= right, (words, other)


def test_a_window_shows_what_is_in_it(ring: Report) -> None:
    assert len(bars(ring.timeline(first=0, last=400).svg, "cp.async.bulk")) == 1
    assert "the other" in ring.timeline(first=100, last=400).svg


def test_a_long_run_is_cut_with_a_note() -> None:
    picture = run(300).timeline().svg
    assert len(bars(picture, "cp.async.bulk")) + len(bars(picture, "waits for")) <= timeline.MOST_EVENTS + 8
    assert "timeline(first=..., last=...)" in picture


def test_a_run_without_a_report_has_no_timeline(ring: Report) -> None:
    for found, cta in ((run(1, report=False), 0), (ring, 1)):
        with pytest.raises(DiagnosticError) as raised:
            found.timeline(cta=cta)
        assert raised.value.diagnostics[0].rule_id == "simulator.report"
