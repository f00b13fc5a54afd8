"""multimem on one GPU: its loads, stores and reductions are those of ordinary memory."""

from __future__ import annotations

import numpy as np

from tests.simulator.calls.bodies import run


def test_one_gpu_is_all_of_them():
    body = """mul.wide.u32 %rd9, %r0, 16; add.u64 %rd8, %rd9, %rd0;
multimem.ld_reduce.relaxed.sys.global.add.v4.f16x2 {%r3, %r4, %r5, %r6}, [%rd8];
add.u64 %rd7, %rd9, %rd1;
multimem.st.weak.global.v4.f16x2 [%rd7], {%r6, %r5, %r4, %r3};
bar.sync 0;
@%p0 multimem.red.relaxed.gpu.global.add.u32 [%rd2], 7;
"""
    source, out, counter = np.arange(256, dtype=np.float16), np.zeros(256, np.float16), np.zeros(1, np.uint32)
    run(body, source, out, counter)
    assert np.array_equal(out.view(np.uint32).reshape(32, 4), source.view(np.uint32).reshape(32, 4)[:, ::-1])
    assert counter[0] == 7
