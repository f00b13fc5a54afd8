"""A tile that TMA writes with one swizzle and wgmma reads with another one."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f16
from nvbackend.simulator import Simulator
from tests.simulator.calls import bodies

LOAD = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
SPANS = {0: 0, 128: 1, 64: 2, 32: 3}
"""The number of each swizzle in a descriptor of wgmma."""
D = ", ".join(f"%f{number}" for number in range(4))
BODY = f"""@%p0 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {{bytes}};
@%p0 {LOAD} [%r1], [%rd0, {{{{0, 0}}}}], [%r2];
W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra W;
{{between}}
cvt.u64.u32 %rd1, %r1; shr.u64 %rd1, %rd1, 4; or.b64 %rd1, %rd1, {{descriptor}};
mov.u32 %r10, 0; setp.ne.u32 %p2, %r0, %r0;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{{{D}}}}}, {{{{%r10, %r10, %r10, %r10}}}}, %rd1, %p2, 1, 1, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"""


def faults(of_map: int, of_descriptor: int, between: str = "") -> tuple[nvb.Diagnostic, ...]:
    columns = (of_map or 16) // 2
    tensor_map = nvb.TensorMap(f16, box=(columns, 64), swizzle=of_map).bind(np.ones((64, columns), np.float16))
    span = max(of_descriptor, 16)
    descriptor = SPANS[of_descriptor] << 62 | (8 * span >> 4) << 32 | (128 >> 4) << 16
    body = BODY.format(bytes=64 * columns * 2, descriptor=descriptor, between=between)
    try:
        Simulator().load(bodies.ptx(body, [tensor_map])).launch("k", block=(128,), args=[tensor_map])
    except DiagnosticError as error:
        return error.diagnostics
    return ()


def rules(of_map: int, of_descriptor: int, between: str = "") -> list[str]:
    return [one.rule_id for one in faults(of_map, of_descriptor, between)]


@pytest.mark.parametrize("of_descriptor", SPANS)
def test_map_and_descriptor(of_descriptor):
    assert rules(128, of_descriptor) == ["descriptor.swizzle"] * (of_descriptor != 128)
    if of_descriptor == 0:
        assert rules(0, of_descriptor) == []


@pytest.mark.parametrize(
    ("of_map", "of_descriptor", "written", "read"),
    [(128, 32, "a swizzle of 128 bytes", "a swizzle of 32 bytes"), (128, 0, "a swizzle of 128 bytes", "no swizzle")],
)
def test_both_swizzles_are_in_the_message(of_map, of_descriptor, written, read):
    (fault,) = faults(of_map, of_descriptor)
    places = [fault.message.index(text) for text in (read, written)]
    assert len(set(places)) == 2


@pytest.mark.parametrize("words", [4, 8])
def test_what_threads_write_over_it_has_no_swizzle_that_is_known(words):
    value = f"{{{', '.join(['%r0'] * words)}}}"
    stores = "".join(f"st.shared.v{words}.u32 [%r3+{at}], {value}; " for at in range(0, 64, 4 * words))
    again = f"mad.lo.u32 %r3, %r0, 64, %r1; {stores} fence.proxy.async.shared::cta; bar.sync 0;"
    assert rules(128, 64) == ["descriptor.swizzle"]
    assert rules(128, 64, again) == []
