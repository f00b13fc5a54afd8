"""Global memory that one CTA hands to another, where one of them copies: told as flags are, with a fix that works."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, u32

WIDTH = 64
FLOATS = nvb.Pointer(f32, align=16)
MAP = nvb.TensorMap(f32, box=(2, 32), swizzle=0)


def _written(k, mid, flag, box, how, parts):
    """CTA 0 writes 64 floats and stores a flag: by its threads, or by a bulk store of its shared memory."""
    thread = k.thread_id()
    value = thread.to(f32) * 2.0
    if how == "threads":
        mid[thread] = value
    else:
        box[thread] = value
        k.fence.proxy_async()
    if "proxy" in parts:
        k.fence.proxy_async(None)
    if "barrier" in parts or how != "threads":
        k.barrier.sync()
    with k.if_(thread == 0):
        if how != "threads":
            k.bulk.store(mid, box, 4 * WIDTH)
            k.tma.commit_group()
            k.tma.wait_group(0, reading="whole" not in parts)
            k.fence.proxy_async(None)
        flag.store(1, order="release" if "release" in parts else "relaxed", scope="gpu")


def _polled(k, flag, parts):
    if "flag" in parts:
        with k.loop():
            order = "acquire" if "acquire" in parts else "relaxed"
            k.break_if(flag.load(order=order, scope="gpu")[0] == 1)


def kernel(written, read, parts):
    @nvb.kernel("sm_90a", threads=WIDTH)
    def handed_over(k, mid: FLOATS, map_: MAP, flag: nvb.Pointer[u32], out: FLOATS, sized: i32):
        box = k.shared(f32, WIDTH, align=128)
        full = k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        thread = k.thread_id()
        with k.if_(k.block_id() == 0):
            _written(k, mid, flag, box, written, parts)
        with k.else_():
            with k.if_(thread == 0):
                _polled(k, flag, parts)
                k.fence.proxy_async(None) if "proxy" in parts else None
                k.mbarrier.arrive(full, expect_tx=4 * WIDTH)
                if read == "bulk":
                    k.bulk.load(box, mid, 4 * WIDTH, full)
                else:
                    k.tma.load_box(box, map_, (0, 0), full)
            k.mbarrier.wait(full, 0)
            out[thread] = box[thread]

    return handed_over


EVERYTHING = frozenset({"barrier", "release", "flag", "acquire", "proxy", "whole"})


def drawn(written, read, *without):
    compiled = kernel(written, read, EVERYTHING - {*without}).compile(cache=nvb.Cache.disabled(), assemble=False)
    mid, out = np.zeros((2, 32), np.float32), np.zeros(WIDTH, np.float32)
    try:
        nvb.runtime.load(compiled, device="simulator").launch(2, mid, mid, np.zeros(1, np.uint32), out, 1)
    except nvb.DiagnosticError as error:
        (found,) = error.diagnostics
        return found.rule_id, found.fix
    assert np.array_equal(out, 2 * np.arange(WIDTH))
    return None, ""


@pytest.mark.parametrize("read", ["bulk", "tensor"])
@pytest.mark.parametrize("written", ["threads", "bulk"])
def test_what_orders_it_is_a_flag(written, read):
    assert drawn(written, read) == (None, "")


@pytest.mark.parametrize("read", ["bulk", "tensor"])
@pytest.mark.parametrize(
    ("written", "missing", "rule", "fix"),
    [
        ("threads", "flag", "simulator.flag-missing", 'order="acquire"'),
        ("threads", "release", "simulator.flag-order", 'order="release"'),
        ("threads", "acquire", "simulator.flag-order", 'order="acquire"'),
        ("threads", "barrier", "simulator.flag-barrier", "k.barrier.sync()"),
        ("threads", "proxy", "proxy.missing-fence", "k.fence.proxy_async(None)"),
        ("bulk", "flag", "simulator.flag-missing", 'order="acquire"'),
        ("bulk", "release", "simulator.flag-order", 'order="release"'),
        ("bulk", "acquire", "simulator.flag-order", 'order="acquire"'),
        ("bulk", "whole", "proxy.write-in-flight", "wait_group of a bulk store"),
    ],
)
def test_what_is_missing_is_named(read, written, missing, rule, fix):
    found, advice = drawn(written, read, missing)
    assert found == rule
    assert fix in advice


@pytest.mark.parametrize("missing", ["flag", "release", "acquire"])
def test_who_copies_is_told_of_the_other_proxy(missing):
    _, advice = drawn("threads", "bulk", missing)
    assert "k.fence.proxy_async(None)" in advice
    assert "mbarrier" not in advice
