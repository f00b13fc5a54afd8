"""Copies between global memory and registers, of every element by every width: what arrives, and what is recorded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import bf16, f16, f32, i64, u8, u16, u32, u64
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.layout import Layout
from nvbackend.rules import Finding, Flow, Rule
from nvbackend.tiled import make_tiled_copy, universal_copy

LANES, COPIES = 32, 2
WORDS = {8: u8, 16: u16, 32: u32, 64: u64}
ELEMENTS = (u8, bf16, f32, i64)
WIDTHS = [(element, bits) for element in ELEMENTS for bits in (8, 16, 32, 64, 128) if bits >= element.bits]


def copied(element: ElementType, bits: int, target: str = "sm_80", **more: object) -> nvb.KernelDefinition:
    """Each thread copies a row to registers, writes them one by one, and copies them backwards to memory."""
    values = bits // element.bits
    count = COPIES * values
    copy = make_tiled_copy(universal_copy(element, bits), Layout((LANES, 1), (1, LANES)), Layout((1, values)))
    layout = Layout((LANES, count), (count, 1))
    array = nvb.Pointer(WORDS[element.bits], align=32)

    def copies(k, x, single, backwards):  # type: ignore[no-untyped-def]
        mine = copy.get_slice(k.thread_id())
        source, result = (k.tensor(each.cast(element), layout) for each in (x, backwards))
        part = source.partition(mine.partition_S)
        first, second = (k.register_tensor(element, part.shape) for _ in range(2))
        k.copy(copy, part, first)
        for index in range(count):
            second[index] = first[count - 1 - index]
            single.cast(element)[k.thread_id() * count + index] = first[index]
        k.copy(copy, second, result.partition(mine.partition_D))

    copies.__annotations__ = dict.fromkeys(("x", "single", "backwards"), array)
    return nvb.kernel(target, threads=LANES, **more)(copies)  # type: ignore[arg-type]


@pytest.mark.parametrize(("element", "bits"), WIDTHS, ids=str)
def test_every_element_arrives_in_its_place(element: ElementType, bits: int) -> None:
    count = COPIES * bits // element.bits
    x = np.random.default_rng(bits).integers(0, 256, (LANES, count * element.bits // 8), np.uint8)
    x = x.view(f"u{element.bits // 8}")
    single, backwards = np.zeros_like(x), np.zeros_like(x)
    compiled = copied(element, bits).compile(assemble=False)
    nvb.runtime.load(compiled, device="simulator").launch(1, x, single, backwards)
    assert np.array_equal(single, x)
    assert np.array_equal(backwards, x[:, ::-1])


@pytest.mark.parametrize(
    ("element", "bits", "target"),
    [*((element, bits, "sm_80") for element, bits in WIDTHS), (f16, 256, "sm_100a"), (u32, 256, "sm_100a")],
    ids=str,
)
def test_rules_of_ones_own_see_each_access(element: ElementType, bits: int, target: str) -> None:
    seen: list[tuple[str, int]] = []

    def note(flow: Flow) -> Iterator[Finding]:
        seen.extend(
            ("write" if use.writes else "read", use.extent)
            for site in flow.sites
            for use in site.instr.semantics.memory
            if isinstance(use.extent, int)
        )
        return iter(())

    rule = Rule("house.note", message="none", fix="none", reference="none", analysis=note)
    copied(element, bits, target, rules=(rule,)).build()
    count = COPIES * bits // element.bits
    element_by_element = [("write", element.bits // 8)] * count
    whole = [(what, bits // 8) for what in ("read", "write") for _ in range(COPIES)]
    assert sorted(seen) == sorted([*element_by_element, *whole])
