"""Metadata of a sparse A that names one element twice, or two in the wrong order: no hardware defines the result."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32
from nvbackend.diagnostics import DiagnosticError
from nvbackend.simulator import Simulator
from tests.simulator.tensor import test_tcgen05
from tests.support.wgmma_kernel import wgmma_kernel

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
LEGAL = np.uint32(0x44444444)


def of_warps(words, *, kind="sp", types="m16n8k16.row.col.f16.f16.f16.f16", sums=2):
    """A sparse mma.sync of each warp, whose threads have these words, and `sums` registers of D."""
    d, c = (", ".join(names[:sums]) for names in (["%r4", "%r5", "%r6", "%r7"], ["%r2"] * 4))
    body = f"""
        .reg .b32 %r<9>; .reg .b64 %rd<3>;
        mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; ld.param.u64 %rd0, [words]; add.u64 %rd0, %rd0, %rd1;
        ld.global.u32 %r1, [%rd0]; mov.u32 %r2, 0;
        mma.{kind}.sync.aligned.{types} {{{d}}}, {{%r2, %r2}}, {{%r2, %r2}}, {{{c}}}, %r1, 0;
        ret;"""
    Simulator().load(f"{HEAD}.entry k(.param .u64 words) {{ {body} }}").launch("k", block=(len(words),), args=[words])


def refused(run):
    with pytest.raises(DiagnosticError) as caught:
        run()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "simulator.metadata"
    return found.message


@pytest.mark.parametrize(
    ("code", "problem"),
    [(0b0000, "both of its indices are 0"), (0b0001, "its indices are 1 and 0, and the lower one comes first")],
)
def test_ordered_metadata(code, problem):
    words = np.full(64, LEGAL)
    of_warps(words, kind="sp::ordered_metadata")
    words[36] = LEGAL & ~np.uint32(15 << 8) | np.uint32(code << 8)  # row 1 of the second warp
    text = refused(lambda: of_warps(words, kind="sp::ordered_metadata"))
    assert "of thread 32 of CTA 0: the metadata of row 1 of A has" in text and problem in text and "chunk 2" in text


def test_the_higher_index_may_come_first_without_an_order():
    of_warps(np.full(32, 0x11111111, np.uint32))
    assert "both of its indices are 1" in refused(lambda: of_warps(np.full(32, 0x55555555, np.uint32)))


def test_an_element_of_32_bits_has_two_halves_in_order_also_without_an_order():
    options = {"types": "m16n8k8.row.col.f32.tf32.tf32.f32", "sums": 4}
    of_warps(np.full(32, 0x4E4E4E4E, np.uint32), **options)
    assert "the halves of no element" in refused(lambda: of_warps(np.full(32, 0x99999999, np.uint32), **options))
    assert "the lower one comes first" in refused(lambda: of_warps(np.full(32, 0x11111111, np.uint32), **options))


def test_threads_that_the_selector_leaves_out_have_none():
    words = np.where(np.arange(32) % 4 == 0, LEGAL, np.uint32(0))
    of_warps(words)
    assert "both of its indices are 0" in refused(lambda: of_warps(np.roll(words, 1)))


def test_wgmma():
    request = nvb.wgmma.mma_async("m64n8k32", f16, f16, f32, sparse=True, a_in_registers=True)
    layout = SmemLayout(Major.K, SwizzleMode.NONE, f16, 8, 64)
    compiled = wgmma_kernel(request, None, layout, start=0.0).compile(assemble=False)
    words, out = np.full(2 * 128, LEGAL), np.zeros(128 * 4, np.uint32)

    def run():
        module, size = Simulator().load(compiled.ptx), compiled.signature.bounds.dynamic_shared_bytes
        a, b = np.zeros(2 * 128 * 4, np.uint32), np.zeros(layout.bytes // 4, np.uint32)
        module.launch(module.kernels[0], block=(128, 1, 1), shared=size, args=[a, b, words, out])

    run()
    words[64:] = 0
    assert "the metadata of row 32 of A" in refused(run)


def test_tensor_memory(monkeypatch):
    right = test_tcgen05.sparse_a

    def wrong(case):
        stored, a, metadata = right(case)
        metadata[3, 1] = 0b1010
        return stored, a, metadata

    monkeypatch.setattr(test_tcgen05, "sparse_a", wrong)
    text = refused(lambda: test_tcgen05.check(test_tcgen05.Case("f16", "f16", "f16", sparse=True)))
    assert "row 3 of A has 0b1010 for chunk 1: both of its indices are 2" in text
