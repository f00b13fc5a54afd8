"""The general families, axes crossed: there is a row that the target has exactly where ptxas takes the instruction."""

from __future__ import annotations

import functools
import itertools
import random

import pytest

from nvbackend.intrinsics.row.row import NoSuchRow
from nvbackend.isel.operands.sync import is_available
from nvbackend.isel.target.target import Target, dotted
from tests.support import (
    address_text,
    async_text,
    atomic_text,
    convert_text,
    load_store_text,
    multimem_text,
    spelling_text,
)
from tests.support.async_text import DECLARATIONS, SCOPES, Variant
from tests.support.ptxas import OLD_CHIPS, TAKEN_BEFORE_13, on_a_sample, refusals, witnessed

FAMILIES = {
    **async_text.FAMILIES,
    **address_text.FAMILIES,
    **spelling_text.FAMILIES,
    **load_store_text.FAMILIES,
    "atomics": atomic_text.forms,
    "conversions": convert_text.forms,
    "atomic_orders": atomic_text.orders,
    "multimem": multimem_text.forms,
    "multimem_orders": multimem_text.orders,
    "multimem_copies": multimem_text.copies,
}
SAMPLE = 6
"""Variants of a family on a chip that an ordinary run asks about, those of all families in one file."""
UNDOCUMENTED = {
    **{
        f"fence.proxy.tensormap::generic.acq_rel.{scope};": "the PTX ISA has release and, with an address, acquire"
        for scope in SCOPES
    },
    **multimem_text.UNDOCUMENTED,
    **address_text.UNDOCUMENTED,
    **load_store_text.UNDOCUMENTED,
}
"""What ptxas takes and no row stands for, and why."""


@functools.cache
def _variants(family: str) -> list[Variant]:
    return list(FAMILIES[family]())


def _verdict(variant: Variant, target: Target) -> bool:
    try:
        row = variant.row()
    except NoSuchRow:
        return False
    assert variant.text.startswith(row.ptx)
    return is_available(row, target)


def _disagreements(variants: list[Variant], target: Target) -> list[str]:
    said = refusals([each.text for each in variants], DECLARATIONS, target.name, dotted(target.ptx_version))
    return [
        f"{target}: {variant.text} legal={_verdict(variant, target)}, ptxas: {refusal}"
        for variant, refusal in zip(variants, said, strict=True)
        if _verdict(variant, target) == bool(refusal)
        and variant.text not in UNDOCUMENTED
        and not (target.number in OLD_CHIPS and not refusal and variant.text.startswith(TAKEN_BEFORE_13))
    ]


def test_what_has_no_row_for_its_ptx_version_is_taken_in_a_later_one() -> None:
    """And refused for nothing else in the newest that LLVM prints."""
    newest = Target.parse("sm_100a")
    (now, later) = (
        refusals([*multimem_text.NEWER_PTX], DECLARATIONS, newest.name, version)
        for version in (dotted(newest.ptx_version), "9.1")
    )
    assert all("requires PTX ISA .version 9.1 or later" in one for one in now)
    assert later == [""] * len(later)


@pytest.mark.parametrize("target", on_a_sample(), ids=str)
def test_rows_are_where_ptxas_takes_them_on_a_sample(target: Target) -> None:
    chooser = random.Random(target.name)
    chosen = []
    for name in FAMILIES:
        everything = _variants(name)
        mixed = chooser.sample(everything, len(everything))
        chosen += mixed[: SAMPLE // 3]
        chosen += itertools.islice((each for each in mixed if _verdict(each, target)), SAMPLE)
    assert _disagreements(chosen, target) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", witnessed(), ids=str)
def test_rows_are_where_ptxas_takes_them(target: Target) -> None:
    faults = []
    for name in FAMILIES:
        faults += _disagreements(_variants(name), target)
    assert faults == []
