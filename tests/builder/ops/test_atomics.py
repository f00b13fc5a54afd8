"""k.atomic from the builder: what the calls emit, and what they refuse. Numbers: tests/gpu/test_atomic_numbers.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import bf16, f16, f32, f64, i32, s64, u8, u16, u32, u64
from nvbackend.signature import Parameter, Pointer, Scalar


class Using:
    """A kernel with pointers to words and floats, and shared memory."""

    def __init__(self, target: str = "sm_90a", cluster: int = 1) -> None:
        parameters = [Parameter(f"p{kind}", Pointer(kind, 16)) for kind in (u32, f32, f16)]
        number = Parameter("n", Scalar(u32))
        self.k: Any = KernelBuilder("use", target, threads=32, cluster=cluster, parameters=[*parameters, number])
        self.words, self.floats, self.halves, self.n = self.k.arguments
        self.shared = self.k.shared(u32, 64, align=16)

    def ptx(self) -> list[str]:
        """The atomics of the PTX."""
        text = self.k.finish(check=False).compile(assemble=False).ptx
        return [re.sub(r"\s+", " ", line.strip()) for line in text.splitlines() if re.match(r"\s*(atom|red)\.", line)]


def spelled(call: Callable[[Using], object], **options: Any) -> str:
    u = Using(**options)
    call(u)
    (line,) = u.ptx()
    return line.partition(" ")[0]


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda u: u.k.atomic.add(u.words, 1), "atom.relaxed.gpu.global.add.u32"),
        (lambda u: u.k.atomic.add(u.words.cast(s64), 1, scope="sys"), "atom.relaxed.sys.global.add.u64"),
        (lambda u: u.k.atomic.max(u.words.cast(i32), 1, order="acquire"), "atom.acquire.gpu.global.max.s32"),
        (lambda u: u.k.atomic.reduce(u.shared, "xor", u.n), "red.relaxed.gpu.shared.xor.b32"),
        (lambda u: u.k.atomic.reduce(u.halves, "max", [1.0] * 8), "red.relaxed.gpu.global.max.noftz.v8.f16"),
        (lambda u: u.k.atomic.add(u.words, u.n, element="bf16x2"), "atom.relaxed.gpu.global.add.noftz.bf16x2"),
        (lambda u: u.k.atomic.add(u.words, [u.n] * 4, element="f16x2"), "atom.relaxed.gpu.global.add.noftz.v4.f16x2"),
        (lambda u: u.k.atomic.exchange(u.floats, 1.0), "atom.relaxed.gpu.global.exch.b32"),
        (lambda u: u.k.atomic.cas(u.words.cast(u16), 1, 2, scope="cta"), "atom.relaxed.cta.global.cas.b16"),
        (lambda u: u.k.atomic.cas(u.words.cast(u64), [1, 2], [3, 4]), "mov.b128"),
    ],
)
def test_a_call_is_the_instruction_that_it_names(call: Callable[[Using], object], wanted: str) -> None:
    if wanted == "mov.b128":
        u = Using()
        call(u)
        assert "atom.relaxed.gpu.global.cas.b128" in u.k.finish(check=False).compile(assemble=False).ptx
        return
    assert spelled(call) == wanted


def test_a_peer_is_reached_through_its_window() -> None:
    def call(u: Using) -> None:
        u.k.cluster.sync()
        u.k.atomic.add(u.k.cluster.map_shared_rank(u.shared, 1), 1, scope="cluster")
        u.k.cluster.sync()

    assert spelled(call, cluster=2) == "atom.relaxed.cluster.shared::cluster.add.u32"


REFUSED = [
    ("memory.atomic", "sm_90a", lambda u: u.k.atomic.max(u.floats, 1.0)),
    ("memory.atomic", "sm_90a", lambda u: u.k.atomic.add(u.words.cast(u8), 1)),
    ("memory.atomic", "sm_90a", lambda u: u.k.atomic.inc(u.words.cast(i32), 1)),
    ("memory.atomic", "sm_90a", lambda u: u.k.atomic.or_(u.floats, 1.0)),
    ("memory.atomic", "sm_90a", lambda u: u.k.atomic.exchange(u.halves, 1.0)),
    ("memory.atomic", "sm_90a", lambda u: u.k.atomic.reduce(u.words, "sub", 1)),
    ("memory.atomic", "sm_90a", lambda u: u.words.atomic("nand", 1)),
    ("memory.atomic", "sm_90a", lambda u: u.k.atomic.add(u.words, u.n, element="e4m3x4")),
    ("instruction.variant", "sm_90a", lambda u: u.k.atomic.reduce(u.words, "exch", 1)),
    ("instruction.variant", "sm_90a", lambda u: u.k.atomic.add(u.words, 1, order="seq_cst")),
    ("instruction.variant", "sm_90a", lambda u: u.k.atomic.add(u.words, 1, scope="warp")),
    ("instruction.variant", "sm_90a", lambda u: u.k.atomic.reduce(u.words, "add", 1, order="acquire")),
    ("instruction.variant", "sm_90a", lambda u: u.k.atomic.add(u.words, [1, 2])),
    ("instruction.variant", "sm_90a", lambda u: u.k.atomic.add(u.floats, [1.0] * 3)),
    ("memory.atomic", "sm_90a", lambda u: u.k.atomic.max(u.floats, [1.0] * 2)),
    ("instruction.variant", "sm_90a", lambda u: u.k.atomic.max(u.halves, 1.0)),
    ("instruction.variant", "sm_90a", lambda u: u.k.atomic.add(u.shared.cast(f32), [1.0, 2.0])),
    ("instruction.variant", "sm_90a", lambda u: u.k.atomic.add(u.halves, u.n, element="f16x2")),
    ("instruction.variant", "sm_90a", lambda u: u.k.atomic.cas(u.words.cast(u64), [1, 2], 3)),
    ("memory.alignment", "sm_90a", lambda u: u.k.atomic.add(u.floats + 1, [1.0, 2.0])),
    ("memory.alignment", "sm_90a", lambda u: u.k.atomic.exchange(u.words.cast(u64) + 1, [1, 2])),
    ("value.type", "sm_90a", lambda u: u.k.atomic.add(u.floats, u.n)),
    ("value.constant", "sm_90a", lambda u: u.k.atomic.add(u.words, -1)),
    ("target.feature", "sm_80", lambda u: u.k.atomic.add(u.words, 1, scope="cluster")),
    ("target.feature", "sm_80", lambda u: u.k.atomic.add(u.floats, [1.0, 2.0])),
    ("target.feature", "sm_80", lambda u: u.k.atomic.add(u.halves.cast(bf16), 1.0)),
    ("target.feature", "sm_80", lambda u: u.k.atomic.cas(u.words.cast(u64), [1, 2], [3, 4])),
    ("call.unknown", "sm_90a", lambda u: u.k.atomic.sub(u.words, 1)),
]


@pytest.mark.parametrize(("rule", "target", "call"), REFUSED)
def test_what_no_instruction_does_is_refused(rule: str, target: str, call: Callable[[Using], object]) -> None:
    u = Using(target)
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(u)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == rule
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__


@pytest.mark.parametrize("kind", [f32, f64, u32, s64], ids=str)
def test_the_old_value_has_the_type_of_the_address(kind: Any) -> None:
    u = Using()
    assert u.k.atomic.add(u.words.cast(kind), 1).type is kind
    assert [one.type for one in u.k.atomic.add(u.floats, [1.0, 2.0])] == [f32, f32]
    assert u.k.atomic.cas(u.halves, 0.0, 1.0).type is f16
