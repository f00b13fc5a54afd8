"""The rows that stop a kernel without a cluster: exactly those that an H200 stopped at."""

from __future__ import annotations

import itertools

import pytest

from nvbackend.intrinsics.catalogue import rows
from nvbackend.intrinsics.copy.async_store import CLUSTER_COPY, stops_without_cluster
from nvbackend.intrinsics.row.row import Asm, Intrinsic

_DONE = "mbarrier::complete_tx::bytes"
_REDUCED = {
    "add": ("u32", "s32", "u64"),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32",),
    "or": ("b32",),
    "xor": ("b32",),
}
"""Of shared memory: red.async has s64 as well (PTX ISA 9.7.13), cp.reduce.async.bulk as much as this (9.7.9.25.4.2)."""
_WORDS, _WIDE = ("b32", "u32", "s32", "f32"), ("b64", "u64", "s64", "f64")
_SPACES = ("", ".shared::cluster")
"""Without one an address is generic."""
_STORED = {
    *(f"{vector}{kind}" for kind in _WORDS for vector in ("", "v2.", "v4.")),
    *(f"{vector}{kind}" for kind in _WIDE for vector in ("", "v2.")),
}
STORES = {f"st.async{weak}{space}.{_DONE}.{each}" for weak in ("", ".weak") for space in _SPACES for each in _STORED}
REDUCTIONS = {
    *(f"{name}.{kind}" for name, kinds in _REDUCED.items() for kind in kinds),
    "add.s64",
}
STOP = {
    *STORES,
    *(f"red.async.relaxed.cluster{space}.{_DONE}.{each}" for space in _SPACES for each in REDUCTIONS),
    f"cp.async.bulk.shared::cluster.shared::cta.{_DONE}",
    *(
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.{_DONE}.{name}.{kind}"
        for name, kinds in _REDUCED.items()
        for kind in kinds
    ),
}


def test_those_rows_and_no_others_say_it() -> None:
    assert {row.ptx for row in rows() if row.semantics.in_cluster} == STOP


def test_a_texts_instructions_are_known_by_their_spelling() -> None:
    wrong = [row.ptx for row in rows() if stops_without_cluster(row.ptx.split(".")) is not row.semantics.in_cluster]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32", True),
        ("st.async.mbarrier::complete_tx::bytes.b32", True),
        ("st.async.release.sys.b32", False),
        ("st.async.mmio.release.sys.global.b32", False),
        ("red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.u32", True),
        ("red.async.release.gpu.global.add.u32", False),
        ("st.shared::cluster.b32", False),
        ("red.shared::cluster.add.u32", False),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster", False),
        ("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes", False),
        ("cp.async.bulk.global.shared::cta.bulk_group", False),
        ("cp.async.ca.shared.global", False),
        ("mapa.shared::cluster.u32", False),
    ],
)
def test_other_spellings(text: str, stops: bool) -> None:
    assert stops_without_cluster(text.split(".")) is stops


def test_the_rows_are_assembly_so_no_intrinsic_hides_one() -> None:
    lowered = itertools.groupby(sorted(type(row.lowering).__name__ for row in rows() if row.semantics.in_cluster))
    assert [name for name, _ in lowered] == [Asm.__name__]
    assert not [row for row in rows() if isinstance(row.lowering, Intrinsic) and row.lowering.name == CLUSTER_COPY]
