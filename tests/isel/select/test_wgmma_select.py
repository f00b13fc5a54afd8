"""The selector of wgmma against ptxas, which is asked in PTX written without the rows; and the texts of its rules."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import (
    ElementType,
    b1,
    bf16,
    e2m1,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    s4,
    s8,
    s32,
    tf32,
    u4,
    u8,
)
from nvbackend.isel.select.wgmma.request import WgmmaRequest, request_of
from nvbackend.isel.select.wgmma.select import GATES, select_wgmma
from nvbackend.isel.target.target import Target, dotted, why_not
from tests.support.ptxas import on_a_sample, refusals, witnessed
from tests.support.wgmma_text import DECLARATIONS, instruction

HOPPER = Target.parse("sm_90a")
PLAIN = WgmmaRequest(n=64, k=16, d=f32, a=f16, b=f16)

LEGAL_TYPES: tuple[tuple[ElementType, ElementType, ElementType, int], ...] = (
    *((d, f16, f16, 16) for d in (f16, f32)),
    (f32, bf16, bf16, 16),
    (f32, tf32, tf32, 8),
    *((d, a, b, 32) for d in (f16, f32) for a in (e4m3, e5m2) for b in (e4m3, e5m2)),
    *((s32, a, b, 32) for a in (s8, u8) for b in (s8, u8)),
    (s32, b1, b1, 256),
)
"""D, A, B and K of the dense instructions, typed from PTX ISA 9.7.15.2."""
FLAGS = (False, True)
ALL_N = range(4, 269, 4)
ALL_K = (4, 8, 16, 32, 64, 128, 256, 512)
MULTIPLICANDS = (f16, bf16, tf32, f32, f64, e4m3, e5m2, s8, u8, s4, u4, b1)
ACCUMULATORS = (f16, bf16, f32, f64, s32)


def legal_kinds() -> Iterator[WgmmaRequest]:
    for (d, a, b, k), sparse, in_registers in itertools.product(LEGAL_TYPES, FLAGS, FLAGS):
        yield WgmmaRequest(n=8, k=k * (2 if sparse else 1), d=d, a=a, b=b, sparse=sparse, a_in_registers=in_registers)


@functools.cache
def every_n() -> list[WgmmaRequest]:
    return [replace(kind, n=n) for kind in legal_kinds() for n in ALL_N]


@functools.cache
def every_type_and_k() -> list[WgmmaRequest]:
    axes = itertools.product(ACCUMULATORS, MULTIPLICANDS, MULTIPLICANDS, ALL_K, FLAGS, FLAGS)
    return [
        WgmmaRequest(n=16, k=k, d=d, a=a, b=b, sparse=sparse, a_in_registers=in_registers)
        for d, a, b, k, sparse, in_registers in axes
    ]


@functools.cache
def every_modifier() -> list[WgmmaRequest]:
    axes = itertools.product(FLAGS, (0, 1), (0, 1), FLAGS, FLAGS, (0, 1, 2), ("and", "xor"))
    return [
        replace(
            kind,
            satfinite=satfinite,
            trans_a=trans_a,
            trans_b=trans_b,
            negate_a=negate_a,
            negate_b=negate_b,
            selector=selector,
            popc=popc,
        )
        for (satfinite, trans_a, trans_b, negate_a, negate_b, selector, popc) in axes
        for kind in legal_kinds()
        # Without these, the text would not say what the request asks for.
        if (kind.sparse or selector == 0) and (kind.a is b1 or popc == "and")
    ]


def other_m_and_flags() -> list[WgmmaRequest]:
    flags = [replace(PLAIN, trans_a=2), replace(PLAIN, trans_b=2), replace(PLAIN, trans_b=-1)]
    return [replace(PLAIN, m=m) for m in (16, 32, 64, 128, 192, 256)] + flags


def disagreements(requests: Sequence[WgmmaRequest], target: Target = HOPPER) -> list[str]:
    """Requests that exactly one of selector and ptxas takes."""
    said = refusals(
        [instruction(request) for request in requests], DECLARATIONS, target.name, dotted(target.ptx_version)
    )
    faults = []
    for request, message in zip(requests, said, strict=True):
        broken = [found.rule_id for found in why_not(GATES, request, target)]
        if bool(broken) != bool(message):
            faults.append(
                f"{instruction(request)}\n  ptxas: {message or 'takes it'}\n  selector: {broken or 'takes it'}"
            )
    return faults


def sampled(requests: Sequence[WgmmaRequest], legal: int, illegal: int) -> list[WgmmaRequest]:
    """A seeded sample, with so many that the selector takes and so many that it refuses."""
    taken: list[WgmmaRequest] = []
    refused: list[WgmmaRequest] = []
    for request in random.Random(len(requests)).sample(requests, len(requests)):
        if len(taken) >= legal and len(refused) >= illegal:
            break
        (refused if why_not(GATES, request, HOPPER) else taken).append(request)
    assert len(taken) >= legal and len(refused) >= illegal
    return taken[:legal] + refused[:illegal]


@pytest.mark.parametrize(
    ("neighbourhood", "legal", "illegal"),
    [(every_n, 120, 40), (every_type_and_k, 30, 70), (every_modifier, 60, 50), (other_m_and_flags, 1, 8)],
)
def test_verdicts_are_those_of_ptxas(neighbourhood, legal: int, illegal: int) -> None:
    assert disagreements(sampled(neighbourhood(), legal, illegal)) == []


@functools.cache
def some_of_each() -> list[WgmmaRequest]:
    neighbourhoods = (every_n, every_type_and_k, every_modifier, other_m_and_flags)
    return [one for around in neighbourhoods for one in sampled(around(), 1, 2)]


@pytest.mark.parametrize("target", on_a_sample(), ids=str)
def test_a_sample_of_verdicts_is_that_of_ptxas_on_every_target(target: Target) -> None:
    assert disagreements(some_of_each(), target) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", witnessed(), ids=str)
@pytest.mark.parametrize("neighbourhood", [every_n, every_type_and_k, every_modifier])
def test_every_verdict_is_that_of_ptxas(neighbourhood, target: Target) -> None:
    requests = neighbourhood()
    assert any(not why_not(GATES, request, HOPPER) for request in requests)
    assert disagreements(requests, target) == []


def test_every_legal_kind_is_taken_by_both() -> None:
    kinds = [kind for kind in legal_kinds() if not (kind.sparse and kind.a is b1)]
    assert disagreements(kinds) == []
    assert [select_wgmma(kind, HOPPER).axes["shape"] for kind in kinds] == [(64, 8, kind.k) for kind in kinds]


@pytest.mark.parametrize("version", [(8, 0), (8, 1), (8, 2), (8, 3), (8, 4)])
def test_ptx_version_gates_are_those_of_ptxas(version: tuple[int, int]) -> None:
    assert disagreements(list(legal_kinds()), Target.parse("sm_90a", version)) == []


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("sm_80", "mma.sync"),
        ("sm_89", "mma.sync"),
        ("sm_90", "compile for sm_90a"),
        ("sm_100", "compiled for sm_100a"),
        ("sm_100a", "tcgen05.mma"),
        ("sm_103f", "tcgen05.mma"),
        ("sm_110a", "tcgen05.mma"),
        ("sm_120a", "mma.sync, with a block scale"),
        ("sm_121", "compiled for sm_121a"),
    ],
)
def test_other_targets_are_refused_by_ptxas_and_by_name(name: str, advice: str) -> None:
    target = Target.parse(name)
    assert disagreements([PLAIN], target) == []
    (found,) = broken(PLAIN, name)
    assert found.rule_id == "wgmma.target"
    assert f"{name} has no wgmma" in found.message
    assert advice in found.fix


def test_sm_70_is_sent_to_wmma() -> None:
    (found,) = broken(PLAIN, "sm_70")
    assert found.fix == "use wmma"


def broken(request: WgmmaRequest, target: str = "sm_90a"):
    with pytest.raises(DiagnosticError) as caught:
        select_wgmma(request, Target.parse(target))
    return caught.value.diagnostics


ONE_RULE = [
    ("wgmma.n-step", replace(PLAIN, n=20), "WGMMA N must be a multiple of 8, not 20", "n=16 or 24"),
    ("wgmma.n-range", replace(PLAIN, n=264), "WGMMA N is 8 to 256, not 264", "n=256"),
    ("wgmma.n-range", replace(PLAIN, n=0), "WGMMA N is 8 to 256, not 0", "n=8"),
    ("wgmma.n-integer", WgmmaRequest(40, 32, s32, s8, u8), "has no N of 40", "n=32 or 48"),
    ("wgmma.n-integer", WgmmaRequest(248, 256, s32, b1, b1), "has no N of 248", "n=240 or 256"),
    ("wgmma.n-step", WgmmaRequest(36, 32, s32, s8, u8), "not 36", "n=32 or 48"),
    ("wgmma.k", replace(PLAIN, k=8), "K must be 16 for dense f16 x f16, not 8", "k=16"),
    ("wgmma.k", replace(PLAIN, sparse=True), "K must be 32 for sparse f16 x f16, not 16", "k=32"),
    ("wgmma.m", replace(PLAIN, m=128), "M is 64, not 128", "m=64"),
    ("wgmma.types", WgmmaRequest(8, 32, f32, s8, s8), "expects A/B of type s8/u8 and D of type i32", "D of type s32"),
    ("wgmma.types", WgmmaRequest(8, 256, f32, b1, b1), "expects A/B of type u1 and D of type i32", "D of type s32"),
    ("wgmma.types", WgmmaRequest(8, 32, f32, e4m3, f16), "expects A/B of the e5m2/e4m3 type", "A/B of type e4m3/e5m2"),
    ("wgmma.types", WgmmaRequest(8, 16, f16, bf16, bf16), "bf16 x bf16 -> f16", "D of type f32"),
    ("wgmma.types", WgmmaRequest(8, 8, f32, f32, f32), "not f32 x f32", "tf32"),
    ("wgmma.types", WgmmaRequest(8, 8, f64, f64, f64), "not f64 x f64", "mma.sync m16n8k16 f64"),
    ("wgmma.types", WgmmaRequest(8, 64, f32, e2m1, e2m1), "not e2m1 x e2m1", "one of these types"),
    ("wgmma.four-bit", WgmmaRequest(8, 64, s32, s4, u4), "no s4/u4", "widen them to s8/u8 (k=32"),
    ("wgmma.popc", WgmmaRequest(8, 256, s32, b1, b1, popc="xor"), "no .xor.popc", ".and.popc"),
    ("wgmma.sparse", WgmmaRequest(8, 512, s32, b1, b1, sparse=True), "no sparse form", "f16, bf16, tf32"),
    ("wgmma.selector", replace(PLAIN, selector=1), "selector of dense wgmma f16 x f16 is 0, not 1", "selector 0"),
    (
        "wgmma.selector",
        WgmmaRequest(8, 64, f32, e4m3, e4m3, sparse=True, selector=1),
        "selector of sparse wgmma e4m3 x e4m3 is 0, not 1",
        "selector 0",
    ),
    ("wgmma.satfinite", replace(PLAIN, satfinite=True), "f16 x f16 -> f32 has no .satfinite", "s8/u8"),
    ("wgmma.negate", WgmmaRequest(8, 32, s32, u8, u8, negate_b=True), "u8 x u8 cannot negate", "where it is read"),
    ("wgmma.transpose", WgmmaRequest(8, 32, f32, e5m2, e5m2, trans_b=1), "K-major only, not MN-major", "K-major"),
    (
        "wgmma.transpose",
        replace(PLAIN, a_in_registers=True, trans_a=1),
        "cannot transpose an A in registers",
        "trans_a 0",
    ),
    ("wgmma.transpose", replace(PLAIN, trans_a=2), "0 (K-major) or 1 (MN-major)", "use 0 or 1"),
    ("wgmma.transpose", replace(PLAIN, a_in_registers=True, trans_b=2), "0 (K-major) or 1 (MN-major)", "use 0 or 1"),
]


@pytest.mark.parametrize(
    ("rule", "request_", "message", "fix"), ONE_RULE, ids=[f"{c[0]}-{i}" for i, c in enumerate(ONE_RULE)]
)
def test_one_broken_rule(rule: str, request_: WgmmaRequest, message: str, fix: str) -> None:
    (found,) = broken(request_)
    assert found.rule_id == rule
    assert message in found.message
    assert fix in found.fix
    assert found.location is not None
    assert found.location.file == __file__


@pytest.mark.parametrize(
    ("request_", "version", "message"),
    [
        (replace(PLAIN, k=32, sparse=True), (8, 1), "sparse wgmma f16 x f16 needs PTX 8.2 or later"),
        (WgmmaRequest(8, 32, s32, s8, u8), (8, 3), "wgmma s8 x u8 needs PTX 8.4 or later"),
    ],
)
def test_ptx_version(request_: WgmmaRequest, version: tuple[int, int], message: str) -> None:
    (found,) = why_not(GATES, request_, Target.parse("sm_90a", version))
    assert found.rule_id == "wgmma.ptx-version"
    assert message in found.message
    assert why_not(GATES, request_, Target.parse("sm_90a", (version[0], version[1] + 1))) == []


@pytest.mark.parametrize(
    ("request_", "name", "version", "rule"),
    [
        (WgmmaRequest(8, 32, s32, s8, u8), "sm_90", (8, 3), "wgmma.target"),
        (WgmmaRequest(8, 32, f16, f16, f16, sparse=True), "sm_90", (8, 1), "wgmma.target"),
        (WgmmaRequest(8, 32, f32, f16, bf16, sparse=True), "sm_90a", (8, 1), "wgmma.types"),
        (WgmmaRequest(8, 64, f32, f64, f64, sparse=True), "sm_90a", (8, 1), "wgmma.types"),
    ],
)
def test_a_newer_ptx_is_asked_for_only_where_it_would_do(
    request_: WgmmaRequest, name: str, version: tuple[int, int], rule: str
) -> None:
    assert [found.rule_id for found in why_not(GATES, request_, Target.parse(name, version))] == [rule]


def test_every_rule_has_a_request_that_breaks_it() -> None:
    shown = {rule for rule, *_ in ONE_RULE} | {"wgmma.target", "wgmma.ptx-version"}
    assert {gate.rule.id for gate in GATES} == shown


def test_all_broken_rules_come_together() -> None:
    found = broken(replace(PLAIN, n=20, k=8, m=32, satfinite=True, trans_b=5), "sm_90")
    assert [one.rule_id for one in found] == [
        "wgmma.target",
        "wgmma.m",
        "wgmma.n-step",
        "wgmma.k",
        "wgmma.satfinite",
        "wgmma.transpose",
    ]


@pytest.mark.parametrize("n", ["64", 64.0, True, None])
def test_an_n_that_is_no_integer_makes_no_request(n: object) -> None:
    with pytest.raises(DiagnosticError, match=r"call\.argument.*WgmmaRequest: n must be int, not "):
        replace(PLAIN, n=n)


def test_the_request_of_a_row_selects_it_again() -> None:
    for kind in legal_kinds():
        if not why_not(GATES, kind, HOPPER):
            assert request_of(select_wgmma(kind, HOPPER)) == kind
    asked = WgmmaRequest(256, 32, f16, f16, f16, sparse=True, selector=1, trans_a=1, negate_b=True)
    row: Row = select_wgmma(asked, HOPPER)
    immediates = {"selector": 1, "scale_a": 1, "scale_b": -1, "trans_a": 1, "trans_b": 0}
    assert {operand.name for operand in row.immediates} == set(immediates)
    assert request_of(row, immediates) == asked
