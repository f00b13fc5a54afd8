"""Fragments of A are called that, and a fix names in `drains` what a program can: accumulators, by its names."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import Pointer, f16, f32, i32
from tests.support.runtime import broken, rules

FROM_REGISTERS = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32, a_in_registers=True)
FROM_MEMORY = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)


def multiplied(*, fence: bool = True, wait: int = 0, apart: bool = True) -> nvb.KernelDefinition:
    """A in registers, of four steps: with the fence, the wait of a round, and the fragments in a line of their own."""

    @nvb.kernel("sm_90a", threads=128)
    def product(k, y: Pointer(f32), n: i32(minimum=1)):
        mma = k.tiled_mma(FROM_REGISTERS)
        right, registers, acc = (
            k.shared_tile(mma.smem_b(64), name="right"),
            mma.register_tensor_A(64),
            mma.accumulator(),
        )
        with k.range(n) as i:
            for at in range(32):
                registers[((at & 1, at >> 1 & 1, at >> 2 & 1), 0, at >> 3)] = i.to(f16)
            if apart:
                left = mma.make_fragment_A(registers)
                if fence:
                    k.wgmma.fence()
                mma.accumulate(acc, left, right)
            else:
                k.wgmma.fence()
                mma.accumulate(acc, mma.make_fragment_A(registers), right)
            k.wgmma.commit_group()
            k.wgmma.wait_group(wait)
        k.wgmma.wait_group(0, drains=[acc])
        k.store_accumulator(acc, y, stride=64)

    return product


def said(kernel: nvb.KernelDefinition, rule: str) -> nvb.Diagnostic:
    return next(one for one in broken(kernel.build) if one.rule_id == rule)


def test_all_are_called_fragments_of_a() -> None:
    found = said(multiplied(fence=False), "wgmma.missing-fence")
    assert "uses A fragments a.0.0, a.0.1, a.0.2, a.0.3 with no wgmma.fence" in found.message
    assert (found.fix or "").startswith("put k.wgmma.fence() before this line, after every ordinary access to a.0.0")


def test_a_line_that_makes_them_and_multiplies_is_parted() -> None:
    found = said(multiplied(apart=False), "wgmma.missing-fence")
    assert found.fix == (
        "put mma.make_fragment_A(...) in a line of its own before this one, and k.wgmma.fence() between the two"
    )


def test_no_wait_hands_fragments_back() -> None:
    found = said(multiplied(wait=1), "wgmma.write-in-flight")
    assert (found.fix or "").startswith("put k.wgmma.wait_group(0) before this line, or let the wait of line ")


def test_what_these_fixes_make_of_it_is_right() -> None:
    assert rules(multiplied().build) == []


@pytest.mark.parametrize(("several", "drains"), [(False, "[acc, other]"), (True, "[*acc, other]"), (None, "acc")])
def test_accumulators_of_a_tile_have_one_name(several: bool | None, drains: str) -> None:
    """They are named in a list, those of a tile by a star; those of one tile alone without a list."""

    @nvb.kernel("sm_90a", threads=128)
    def products(k, y: Pointer(f32)):
        mma = k.tiled_mma(FROM_MEMORY)
        left, right = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
        acc = mma.accumulators("acc", parts=2) if several is not False else mma.accumulator("acc")
        other = mma.accumulator("other")
        k.wgmma.fence()
        for one in (acc,) if several is None else (acc, other):
            mma.accumulate(one, left, right)
        k.wgmma.commit_group()
        first = acc if several is False else acc[0]
        y[0] = first.values()[0] + (other.values()[0] if several is not None else 0.0)

    fixes = [one.fix or "" for one in broken(products.build) if one.rule_id == "wgmma.read-in-flight"]
    waits = [match for fix in fixes for match in re.findall(r"wait_group\(0, drains=(.*?)\) before", fix)]
    assert waits == [drains]
