"""The selector of tensor copies: its verdict against ptxas's, its row against the spelling, its rules one by one."""

from __future__ import annotations

import itertools
import random

import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.copy import tensormap, tma_bulk, tma_tensor
from nvbackend.isel.select.rows import faults, general_faults
from nvbackend.isel.select.tma.request import DIRECTIONS, TmaRequest, request_of
from nvbackend.isel.select.tma.select import GATES, row_of, select_tma
from nvbackend.isel.target.target import Target, dotted, lowest_ptx_version, target_names, why_not
from tests.support.ptxas import on_a_sample, refusals, witnessed
from tests.support.tma_text import DECLARATIONS, UNDOCUMENTED, instruction, neighbourhood

SAMPLE = 10
"""Requests a chip in an ordinary run."""
NEWEST = tuple(map(Target.parse, target_names()))
TARGETS = (*NEWEST, *(Target.parse(each.name, lowest_ptx_version(each.number, each.suffix)) for each in NEWEST))
"""Every target at its newest and its oldest PTX version."""
TARGETS_A_ROW = 12
"""Hundreds of rows ask about each target."""


def disagreements(requests: list[TmaRequest], target: Target) -> list[str]:
    """Requests on which the selector and ptxas are of two minds."""
    said = refusals([instruction(each) for each in requests], DECLARATIONS, target.name, dotted(target.ptx_version))
    faults = []
    for request, refusal in zip(requests, said, strict=True):
        legal = not why_not(GATES, request, target)
        if legal == bool(refusal) and (legal or (request.direction, request.mode) not in UNDOCUMENTED):
            faults.append(f"{target}: {instruction(request)} legal={legal}, ptxas: {refusal}")
    return faults


@pytest.mark.parametrize("target", on_a_sample(), ids=str)
def test_the_verdict_is_that_of_ptxas_on_a_sample(target: Target) -> None:
    requests = list(neighbourhood())
    chooser = random.Random(target.name)
    chosen = chooser.sample(requests, SAMPLE)
    if target.number >= Target.parse("sm_90").number:  # an older chip takes none of them
        mixed = chooser.sample(requests, len(requests))
        chosen += itertools.islice((one for one in mixed if not why_not(GATES, one, target)), SAMPLE)
    assert disagreements(chosen, target) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", witnessed(), ids=str)
def test_the_verdict_is_that_of_ptxas_on_every_request(target: Target) -> None:
    assert disagreements(list(neighbourhood()), target) == []


def test_a_selected_row_is_spelled_as_the_request_says() -> None:
    count = 0
    for target in (Target.parse("sm_90a"), Target.parse("sm_100a"), Target.parse("sm_120a")):
        for request in neighbourhood():
            if not why_not(GATES, request, target):
                count += 1
                assert instruction(request).startswith(select_tma(request, target).ptx + " [")
    assert count > 400


BROKEN: list[tuple[str, TmaRequest, str, str]] = [
    ("tma.target", TmaRequest(2), "sm_89", "sm_89 has no TMA"),
    ("tma.direction", TmaRequest(2, "copy"), "sm_90a", "no direction 'copy'"),
    ("tma.mode", TmaRequest(2, "store", "im2col"), "sm_90a", "a tensor store has no mode 'im2col'"),
    ("tma.mode", TmaRequest(2, "reduce", "tile::scatter4", operation="add"), "sm_100a", "has no mode"),
    ("tma.rank", TmaRequest(6), "sm_90a", "TMA rank must be in the range 1..5"),
    (
        "tma.im2col-rank",
        TmaRequest(2, mode="im2col"),
        "sm_90a",
        "im2col tensor copies require at least three dimensions",
    ),
    ("tma.rows-rank", TmaRequest(3, mode="tile::gather4"), "sm_100a", "not of 3"),
    ("tma.destination", TmaRequest(2, destination="global"), "sm_90a", "not of 'global'"),
    ("tma.multicast-form", TmaRequest(2, destination="cta", multicast=True), "sm_90a", "multicast belongs to a load"),
    ("tma.multicast-form", TmaRequest(2, "store", multicast=True), "sm_90a", "not to a store"),
    ("tma.cta-group", TmaRequest(2, cta_group=4), "sm_100a", "no cta_group 4"),
    ("tma.reduction", TmaRequest(2, "reduce", operation="mul"), "sm_90a", "no operation 'mul'"),
    ("tma.reduction", TmaRequest(2, "load", operation="add"), "sm_90a", "no operation 'add'"),
    (
        "tma.wide-im2col-target",
        TmaRequest(3, mode="im2col::w"),
        "sm_90a",
        "wide im2col tensor copies are not supported on this architecture",
    ),
    ("tma.rows-target", TmaRequest(2, mode="tile::gather4"), "sm_120a", "sm_120a has no tile::gather4"),
    (
        "tma.two-cta-target",
        TmaRequest(2, cta_group=2),
        "sm_90a",
        "two-CTA TMA tensor copies are not supported on this architecture",
    ),
]


@pytest.mark.parametrize(("rule_id", "request_", "target", "text"), BROKEN, ids=[case[0] for case in BROKEN])
def test_a_broken_rule_is_named_alone_at_the_callers_line(
    rule_id: str, request_: TmaRequest, target: str, text: str
) -> None:
    with pytest.raises(DiagnosticError) as raised:
        select_tma(request_, Target.parse(target))
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.rule_id == rule_id
    assert text in diagnostic.message
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__


def test_a_ptx_version_that_is_too_old_is_named() -> None:
    with pytest.raises(DiagnosticError, match=r"tma\.ptx-version.*needs PTX 8\.6") as raised:
        select_tma(TmaRequest(2, destination="cta"), Target.parse("sm_90a", (8, 0)))
    assert [each.rule_id for each in raised.value.diagnostics] == ["tma.ptx-version"]


def test_everything_wrong_is_told_at_once() -> None:
    request = TmaRequest(2, mode="im2col::w", destination="cta", multicast=True, cta_group=2)
    assert [each.rule_id for each in why_not(GATES, request, Target.parse("sm_90a"))] == [
        "tma.im2col-rank",
        "tma.multicast-form",
        "tma.wide-im2col-target",
        "tma.two-cta-target",
    ]


def test_a_target_without_tma_is_told_of_multicast_as_well() -> None:
    """Every chip that has TMA has multicast."""
    found = why_not(GATES, TmaRequest(2, multicast=True), Target.parse("sm_89"))
    assert [one.rule_id for one in found] == ["tma.target", "tma.multicast-target"]
    assert found[1].message == "cluster multicast TMA requires a compatible SM target"


def test_every_rule_of_the_module_is_broken_here() -> None:
    named = {case[0] for case in BROKEN} | {"tma.ptx-version", "tma.multicast-target"}
    assert {gate.rule.id for gate in GATES} == named


def test_the_verifier_asks_what_the_selector_asks() -> None:
    """Every row that copies a box: its request leads back to it, and the rules say what its features and version do."""
    for row in tma_tensor.rows():
        request = request_of(row)
        assert request is not None
        assert row_of(request) == row
        for target in random.Random(row.ptx).sample(TARGETS, TARGETS_A_ROW):
            told = list(faults(row, target, {}))
            assert [each.rule_id for each in told] == [each.rule_id for each in why_not(GATES, request, target)]
            assert bool(told) == bool(list(general_faults(row, target, {}))), f"{row.ptx} on {target}"


def test_a_row_that_copies_no_box_answers_no_request() -> None:
    for row in (*tma_bulk.rows(), *tensormap.rows()):
        assert request_of(row) is None
        assert [each.rule_id for each in faults(row, Target.parse("sm_80"), {})][:1] == ["target.feature"]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_mode_that_is_cut_off_or_misspelt_is_asked_for(direction: str) -> None:
    """All that a mode begins with names the first that begins so; one wrong letter, some mode as near."""
    modes = [str(mode) for mode in DIRECTIONS[direction]]
    for mode in modes:
        for given in [mode[:size] for size in range(1, len(mode))] + [mode + "x", "x" + mode[1:]]:
            if given in modes:
                continue
            (said,) = why_not([GATES_BY_RULE["tma.mode"]], TmaRequest(2, direction, given), Target.parse("sm_100a"))
            starting = [other for other in modes if other.startswith(given)]
            near = starting[:1] or [other for other in modes if _differs_by_a_letter(given, other)]
            assert near, given
            assert said.values["meant"] in [f"; did you mean {other}?" for other in near]
    (said,) = why_not([GATES_BY_RULE["tma.mode"]], TmaRequest(2, direction, "zzzzzz"), Target.parse("sm_100a"))
    assert said.values["meant"] == ""


def _differs_by_a_letter(given: str, other: str) -> bool:
    without = {given[:at] + given[at + 1 :] for at in range(len(given))}
    return other in without or bool(without & {other[:at] + other[at + 1 :] for at in range(len(other))})


GATES_BY_RULE = {gate.rule.id: gate for gate in GATES}
