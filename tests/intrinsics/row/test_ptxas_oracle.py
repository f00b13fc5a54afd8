"""The witness that asks ptxas about many instructions in one file, against the one that asks about each alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from nvbackend.isel.target.target import dotted
from tests.intrinsics.copy.test_async_neighbourhood import FAMILIES
from tests.isel.select import test_mma_select as mma
from tests.isel.select import test_wgmma_select as wgmma
from tests.isel.select import test_wmma_select as wmma
from tests.support import async_text, mma_text, ptxas, tcgen05_ptx, tma_text, wgmma_text, wmma_text
from tests.support.ptxas import refusals, refusals_alone, witnessed

Texts = Callable[[], list[str]]
SOURCES: dict[str, tuple[str, Texts]] = {
    "tcgen05.mma": (tcgen05_ptx.DECLARATIONS, lambda: [one.text for one in tcgen05_ptx.mma_neighbourhood()]),
    "tcgen05": (tcgen05_ptx.DECLARATIONS, lambda: [one.text for one in tcgen05_ptx.memory_neighbourhood()]),
    "tma": (tma_text.DECLARATIONS, lambda: [tma_text.instruction(one) for one in tma_text.neighbourhood()]),
    "async": (async_text.DECLARATIONS, lambda: [one.text for family in FAMILIES.values() for one in family()]),
    "mma": (
        mma_text.DECLARATIONS,
        lambda: [mma_text.instruction(one) for around in mma.NEIGHBOURHOODS for one in around()],
    ),
    "wmma": (wmma_text.DECLARATIONS, lambda: [wmma.text(one) for around in wmma.NEIGHBOURHOODS for one in around()]),
    "wgmma": (
        wgmma_text.DECLARATIONS,
        lambda: [
            wgmma_text.instruction(one)
            for around in (wgmma.every_n, wgmma.every_type_and_k, wgmma.every_modifier, wgmma.other_m_and_flags)
            for one in around()
        ],
    ),
}
"""Registers and instructions of every neighbourhood."""
TARGETS = {target.name: target for target in witnessed()}
RICHEST = ("sm_70", "sm_75", "sm_90a", "sm_100a", "sm_120a")


def differences(source: str, name: str, count: int) -> list[str]:
    """Instructions of a seeded sample of which the two say something else, if only in words."""
    declarations, texts = SOURCES[source]
    everything = texts()
    chosen = random.Random(f"{source} {name}").sample(everything, min(count, len(everything)))
    target = TARGETS[name]
    together, alone = (
        ask(chosen, declarations, target.name, dotted(target.ptx_version)) for ask in (refusals, refusals_alone)
    )
    return [
        f"{text}\n  together: {one}\n  alone: {other}"
        for text, one, other in zip(chosen, together, alone, strict=True)
        if one != other
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("source", SOURCES)
def test_both_say_the_same_of_a_sample(source: str) -> None:
    assert differences(source, random.Random(source).choice(RICHEST), 40) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", RICHEST)
@pytest.mark.parametrize("source", SOURCES)
def test_both_say_the_same_of_thousands(source: str, name: str) -> None:
    assert differences(source, name, 2000) == []


REGISTERS = ".reg .b32 %r<8>; .reg .f64 %d<4>; .reg .b64 %p; .reg .b32 %s; .shared .align 16 .b64 cell[2];"
TAKEN = (
    "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%p], %s;",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [cell], 32;",
    "mov.b32 %r0, %r1;",
)
REFUSED = {
    "a syntax error hides what follows": "mov.b32 %r0 %r1;",
    "an expansion fails, without a line of the file": (
        "wmma.load.b.sync.aligned.col.m32n8k16.f64 {%d0, %d1, %d2, %d3}, [%p], %s;"
    ),
    "an unknown modifier": "tcgen05.alloc.cta_group::4.sync.aligned.shared::cta.b32 [cell], 32;",
    "an unknown name": "mov.b32 %r0, %unknown;",
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("position", range(len(TAKEN) + 1))
def test_what_ptxas_takes_is_taken_beside_what_it_refuses(refused: str, position: int) -> None:
    """The expansions of wmma.load and tcgen05.alloc are complained of easily behind an error of another one."""
    given = [*TAKEN[:position], refused, *TAKEN[position:]]
    said = refusals(given, REGISTERS, "sm_100a", "9.0")
    assert [bool(text) for text in said] == [text is refused for text in given]


def test_a_complaint_that_is_not_repeated_alone_makes_all_of_its_kind_be_asked_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ptxas that complains of every line behind the first wrong one, as if they were its consequences."""

    def assemble(text: str, target_name: str) -> tuple[bool, str]:
        lines = text.splitlines()
        first = next((number for number, line in enumerate(lines, 1) if "wrong" in line), None)
        if first is None:
            return True, ""
        return False, "\n".join(
            f"ptxas file.ptx, line {number}; error   : it is '{number}'" for number in range(first, len(lines) + 1)
        )

    monkeypatch.setattr(ptxas, "assemble", assemble)
    given = [*["wrong;"] * 3, *["fine;"] * 5, "wrong;", "fine;"]

    def kinds(texts: Sequence[str]) -> list[bool]:
        return [bool(text) for text in texts]

    assert kinds(refusals(given, "", "sm_90a", "9.0")) == [one == "wrong;" for one in given]
    assert kinds(refusals_alone(given, "", "sm_90a", "9.0")) == [one == "wrong;" for one in given]
