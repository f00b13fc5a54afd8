"""The selector of mma.sync against ptxas, asked in PTX that is written without the rows; and the texts of its rules."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.mma import mma as rows
from nvbackend.intrinsics.mma.form import AXES, MmaInstruction
from nvbackend.intrinsics.row.types import (
    b1,
    bf16,
    e2m1,
    e2m3,
    e3m2,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    pred,
    s4,
    s8,
    s32,
    tf32,
    u4,
    u8,
    ue4m3,
    ue8m0,
)
from nvbackend.isel.select.mma.request import MmaRequest, request_of
from nvbackend.isel.select.mma.select import AXIS_RULES, GATES, select_mma
from nvbackend.isel.target.target import Target, dotted, lowest_ptx_version, target_names, why_not
from nvbackend.requests.mma import sync as mma
from tests.support.mma_text import DECLARATIONS, UNDOCUMENTED, instruction, is_undocumented
from tests.support.ptxas import refusals, witnessed
from tests.support.rows import PTX_VERSIONS

RICHEST = ("sm_120a", "sm_100a", "sm_90a")
"""Every mma there is can be found on one of these."""
TARGETS = witnessed()
PLAIN = mma("m16n8k16", f16, f16, f32)

TYPES = (f16, bf16, tf32, f32, f64, e4m3, e5m2, e2m1, s8, u8, s4, u4, b1)
SMALL_FLOATS = (e4m3, e5m2, e2m3, e3m2, e2m1)
SHAPES = [
    *((8, 8, k) for k in (4, 8, 16, 32, 64, 128, 256)),
    *((16, 8, k) for k in (4, 8, 16, 32, 64, 128, 256, 512)),
    *((16, 16, 16), (8, 16, 16), (32, 8, 16)),
]
ACCUMULATORS = [(f16, f16), (f32, f32), (f16, f32), (f32, f16), (bf16, bf16), (f64, f64), (s32, s32)]
SPARSITIES = (None, "sp", "sp::ordered_metadata")
KINDS = ("f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4", "i8", "f16")


MIXES = [(e4m3, e5m2), (e5m2, e2m1), (s8, u8), (u4, s4), (s8, s4), (f16, bf16), (f16, s8), (tf32, f32), (b1, u8)]


def every_type_and_shape() -> Iterator[MmaRequest]:
    """Each type with itself and some mixes in every shape, and every pair of types in some shapes."""
    pairs = [*((one, one) for one in TYPES), *MIXES]
    crossed = [(m, n, k) for m, n, k in SHAPES if (m, n) == (16, 8) and k in (16, 32)]
    crosses = [*itertools.product(pairs, SHAPES), *itertools.product(itertools.product(TYPES, TYPES), crossed)]
    for ((a, b), shape), (d, c), sparsity in itertools.product(dict.fromkeys(crosses), ACCUMULATORS, SPARSITIES):
        for operation in ("xor", "and", None) if a is b1 else (None,):
            yield MmaRequest(MmaInstruction(shape, d, a, b, c, sparsity=sparsity, operation=operation))


def every_kind_and_scale() -> Iterator[MmaRequest]:
    pairs = [*((one, one) for one in SMALL_FLOATS), *MIXES[:3], (e2m3, e3m2), (s8, s8), (f16, f16)]
    scales = [(None, None), *itertools.product((None, 1, 2, 4), (ue8m0, ue4m3))]
    shapes = [(16, 8, k) for k in (16, 32, 64, 128)]
    for (a, b), kind, (vector, scale), shape, sparsity, d in itertools.product(
        pairs, KINDS, scales, shapes, SPARSITIES, (f16, f32)
    ):
        yield MmaRequest(MmaInstruction(shape, d, a, b, d, sparsity=sparsity, kind=kind, scale=scale, scale_vec=vector))


def every_modifier() -> Iterator[MmaRequest]:
    """Layouts, saturation and operations on each legal instruction, most of which have none of them."""
    for one, a_layout, b_layout, satfinite, operation in itertools.product(
        (row for row in legal() if not row.satfinite and row.operation is None),
        ("row", "col"),
        ("row", "col"),
        (False, True),
        (None, "xor"),
    ):
        yield MmaRequest(replace(one, a_layout=a_layout, b_layout=b_layout, satfinite=satfinite, operation=operation))


def every_immediate() -> Iterator[MmaRequest]:
    for one in legal():
        if one.sparsity:
            yield from (MmaRequest(one, selector=selector) for selector in range(5))
        if one.scale:
            names = ("byte_id_a", "thread_id_a", "byte_id_b", "thread_id_b")
            yield from (MmaRequest(one, **{name: value}) for name in names for value in range(5))


def legal() -> Iterator[MmaInstruction]:
    return (request_of(row).instruction for row in rows.rows())


NEIGHBOURHOODS = (every_type_and_shape, every_kind_and_scale, every_modifier, every_immediate)


def disagreements(requests: Sequence[MmaRequest], target: Target) -> list[str]:
    """Requests that exactly one of selector and ptxas takes, less those on the list of what is not documented."""
    said = refusals(
        [instruction(request) for request in requests], DECLARATIONS, target.name, dotted(target.ptx_version)
    )
    faults = []
    for request, message in zip(requests, said, strict=True):
        broken = [found.rule_id for found in why_not(GATES, request, target)]
        if bool(broken) != bool(message) and not (not message and is_undocumented(request, target)):
            faults.append(f"{target}: {instruction(request)}\n  {message or 'ptxas takes it'}\n  selector: {broken}")
    return faults


def sampled(requests: Sequence[MmaRequest], count: int, target: Target) -> list[MmaRequest]:
    """A seeded sample, half of it legal as far as there is so much."""
    chooser = random.Random(len(requests))
    drawn = chooser.sample(requests, min(len(requests), 60 * count))
    taken: list[MmaRequest] = []
    refused: list[MmaRequest] = []
    for request in drawn:
        if len(taken) >= count // 2 and len(refused) >= count:
            break
        (refused if why_not(GATES, request, target) else taken).append(request)
    taken = taken[: count // 2]
    return taken + refused[: count - len(taken)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target_name", RICHEST)
@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_verdicts_are_those_of_ptxas(neighbourhood, target_name: str) -> None:
    target = Target.parse(target_name)
    requests = sampled(list(neighbourhood()), 24, target)
    assert disagreements(requests, target) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_every_verdict_is_that_of_ptxas(neighbourhood, target: Target) -> None:
    assert disagreements(list(neighbourhood()), target) == []


def every_legal_kind() -> list[MmaRequest]:
    """Of each form of the tables, one instruction for every shape and accumulator."""
    found = {}
    for one in legal():
        key = (one.shape, one.d, one.c, one.sparsity, one.kind, one.scale, one.scale_vec, one.operation, one.a.kind)
        found.setdefault((key, one.a.bits), one)
    return [MmaRequest(one) for one in found.values()]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_legal_instruction_has_the_verdict_of_ptxas_everywhere(target: Target) -> None:
    chooser = random.Random(target.name)
    assert disagreements(chooser.sample(every_legal_kind(), 8), target) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_legal_instruction_has_the_verdict_of_ptxas_everywhere(target: Target) -> None:
    assert disagreements([MmaRequest(one) for one in legal()], target) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_120a", "sm_120f"])
def test_every_ptx_version_gate_is_that_of_ptxas(name: str) -> None:
    target = Target.parse(name)
    lowest = lowest_ptx_version(target.number, target.suffix)
    for version in PTX_VERSIONS:
        if version >= lowest:
            assert disagreements(every_legal_kind(), Target.parse(name, version)) == []


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (mma("m8n8k4", bf16, bf16, f32), "sm_90a"),
        (mma("m16n8k32", e4m3, e5m2, f32, kind="f8f6f4"), "sm_100a"),
        (mma("m16n8k16", e4m3, e5m2, f32, kind="f8f6f4"), "sm_120a"),
        (mma("m16n8k32", e4m3, e5m2, f32, kind="mxf4"), "sm_120a"),
        (mma("m16n8k32", s4, u4, s32, popc="xor"), "sm_90a"),
        (mma("m16n8k64", e4m3, e5m2, f16, ordered_metadata=True), "sm_120a"),
        (mma("m16n8k32", f16, f16, f32, sparse=True, selector=3), "sm_90a"),
    ],
)
def test_what_nothing_documents_is_left_out_though_ptxas_takes_it(given: MmaRequest, target: str) -> None:
    assert refusals([instruction(given)], DECLARATIONS, target, "9.0") == [""]
    assert why_not(GATES, given, Target.parse(target))
    assert sum(stands(given, Target.parse(target)) for stands in UNDOCUMENTED.values()) == 1


MESSAGES = [
    (mma("m16n8k16", f16, bf16, f32), "mma.types", "mma does not multiply f16 x bf16", "from one of these: f16, bf16"),
    (mma("m16n8k16", pred, pred, f32), "mma.types", "mma does not multiply pred x pred", "one of these: f16, bf16, "),
    (mma("m16n8k16", pred, pred, f32), "mma.types", "mma does not multiply pred x pred", ", s8/u8, "),
    (mma("m16n8k8", f32, f32, f32), "mma.types", "mma does not multiply f32 x f32", "use A and B of tf32"),
    (mma("m16n8k32", e2m1, e2m1, f32), "mma.kind", "given: no kind", 'kind="f8f6f4" or kind="mxf8f6f4"'),
    (mma("m16n8k128", b1, b1, s32), "mma.operation", "and has no operation", "use .xor.popc or .and.popc"),
    (mma("m16n8k4", f16, f16, f32), "mma.extent", "no shape m16n8k4", "use m16n8k8 or m8n8k4 or m16n8k16"),
    (mma("m16n8k16", bf16, bf16, f16), "mma.accumulators", "D of type f16", "use D and C of type f32"),
    (
        mma("m16n8k16", f16, f16, f16, c=f32),
        "mma.accumulators",
        "D of type f16 and C of type f32",
        "D and C of type f16",
    ),
    (mma("m16n8k16", f16, f16, f32, a_layout="col"), "mma.layouts", "not as col and col", "ldmatrix with .trans"),
    *(
        (mma("m16n8k32", e4m3, e4m3, f32, kind="mxf8f6f4", **given), "mma.scale", f"given: {said}", "use ue8m0 factors")
        for given, said in (
            ({}, "no scale factors"),
            ({"scale_vec": 2}, "scale_vec::2X without a type of factor"),
            ({"scale": ue8m0, "scale_vec": 4}, "ue8m0 factors and scale_vec::4X"),
        )
    ),
    (mma("m16n8k16", f16, f16, f32, satfinite=True), "mma.satfinite", "has no .satfinite", "leave satfinite out"),
    (mma("m16n8k16", f64, f64, f64, sparse=True), "mma.sparsity", "a dense A; given: mma.sp", "use a dense A"),
    (
        mma("m16n8k64", e2m1, e2m1, f32, kind="mxf4nvf4", scale=ue8m0, scale_vec=4),
        "mma.scale",
        "ue8m0 factors and scale_vec::4X",
        "use ue8m0 factors and scale_vec::2X or ue4m3 factors and scale_vec::4X",
    ),
    (mma("m16n8k32", s8, s8, s32, sparse=True, selector=2), "mma.immediate", "selector", "use 0 or 1"),
    (mma("m16n8k16", f16, f16, f32, selector=1), "mma.immediate", "is 0, not 1", "use 0"),
    (
        mma("m16n8k64", e2m1, e2m1, f32, kind="mxf4", scale=ue8m0, scale_vec=2, scale_a_at=(1, 0)),
        "mma.immediate",
        "the byte-id-a of",
        "use 0 or 2",
    ),
]


@pytest.mark.parametrize(("given", "rule", "message", "fix"), MESSAGES)
def test_a_mistake_is_told_with_what_is_legal(given: MmaRequest, rule: str, message: str, fix: str) -> None:
    found = [one for one in why_not(GATES, given, Target.parse("sm_120a")) if one.rule_id == rule]
    assert len(found) == 1
    assert message in found[0].message
    assert fix in found[0].fix


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ("sm_120", "compile for one of sm_120a, sm_120f, sm_121a, sm_121f"),
        ("sm_90a", "compile for one of sm_120a, sm_120f, sm_121a, sm_121f"),
    ],
)
def test_a_target_that_lacks_it_is_told_which_have_it(target: str, advice: str) -> None:
    given = mma("m16n8k32", e4m3, e2m1, f32, kind="f8f6f4")
    with pytest.raises(DiagnosticError) as caught:
        select_mma(given, Target.parse(target))
    (found,) = caught.value.diagnostics
    assert found.rule_id == "mma.target"
    assert advice in found.fix


def test_a_floor_is_told_as_one() -> None:
    (found,) = why_not(GATES, mma("m16n8k32", e4m3, e5m2, f32), Target.parse("sm_88"))
    assert found.fix.startswith("compile for sm_89 or later")


def test_an_old_ptx_version_is_told() -> None:
    (found,) = why_not(GATES, mma("m16n8k32", e4m3, e5m2, f16), Target.parse("sm_90a", (8, 6)))
    assert (found.rule_id, found.values["needed"], found.values["given"]) == ("mma.ptx-version", "8.7", "8.6")


def test_all_mistakes_are_told_together() -> None:
    given = mma("m16n8k10", f16, f16, s32, sparse=True, satfinite=True, a_layout="col")
    ids = [found.rule_id for found in why_not(GATES, given, Target.parse("sm_75"))]
    assert ids == ["mma.extent", "mma.accumulators", "mma.layouts", "mma.satfinite", "mma.target"]


def test_a_wrong_shape_blames_the_target_where_no_shape_would_do() -> None:
    """And the version of PTX where it is too old for each shape that the target has."""
    by_the_rest: dict[MmaInstruction, list[MmaInstruction]] = {}
    for one in legal():
        by_the_rest.setdefault(replace(one, shape=(1, 1, 1)), []).append(one)
    seen = set()
    for name, version in [("sm_70", None), ("sm_75", (6, 5)), ("sm_80", (7, 0)), ("sm_89", (8, 4)), ("sm_120a", None)]:
        target = Target.parse(name, version)

        def blamed(instruction: MmaInstruction, target: Target = target) -> str:
            told = [found.rule_id for found in why_not(GATES, MmaRequest(instruction), target)]
            return next((rule for rule in ("mma.target", "mma.ptx-version") if rule in told), "")

        for wrong, right in by_the_rest.items():
            alone = {blamed(one) for one in right}
            expected = next(blame for blame in ("", "mma.ptx-version", "mma.target") if blame in alone)
            assert blamed(wrong) == expected, (target, wrong)
            seen.add((expected, len(alone)))
    assert seen >= {("", 1), ("", 2), ("mma.ptx-version", 1), ("mma.target", 1)}


def test_every_axis_has_a_rule() -> None:
    assert list(AXIS_RULES) == list(AXES)


def test_what_is_selected_is_what_was_asked_for() -> None:
    for one in legal():
        needs = "sm_120a" if one.kind else "sm_90a"
        assert request_of(select_mma(MmaRequest(one), Target.parse(needs))).instruction == one


def at_random(chooser: random.Random, known: Sequence[MmaInstruction]) -> MmaRequest:
    """A legal instruction of which up to three axes and an immediate are drawn again."""
    values: dict[str, Sequence[object]] = {
        "shape": SHAPES,
        **dict.fromkeys("dabc", (*TYPES, e2m3, e3m2, s32, ue8m0)),
        "a_layout": ("row", "col"),
        "sparsity": SPARSITIES,
        "kind": (None, *KINDS),
        "scale": (None, ue8m0, ue4m3, f32),
        "scale_vec": (None, 1, 2, 3, 4),
        "satfinite": (False, True),
        "operation": (None, "xor", "or"),
    }
    axes = chooser.sample(list(values), chooser.randrange(4))
    one = replace(chooser.choice(known), **{axis: chooser.choice(values[axis]) for axis in axes})
    return MmaRequest(one, selector=chooser.choice((0, 0, 0, 1, 4)))


def told(request: MmaRequest, target: Target) -> list[str]:
    """The rules that the selector says are broken; none where it gives a row."""
    try:
        row = select_mma(request, target)
    except DiagnosticError as error:
        return [found.rule_id for found in error.diagnostics]
    assert target.has(row.requires)
    return []


@pytest.mark.parametrize("count", [3000, pytest.param(100_000, marks=pytest.mark.exhaustive)])
def test_random_requests_end_in_a_row_or_a_diagnostic(count: int) -> None:
    chooser = random.Random(2026)
    known, targets = list(legal()), [Target.parse(name) for name in target_names()]
    ends = [told(at_random(chooser, known), chooser.choice(targets)) for _ in range(count)]
    assert {rule.partition(".")[0] for rules in ends for rule in rules} == {"mma"}
    assert count // 20 < ends.count([]) < count // 2
