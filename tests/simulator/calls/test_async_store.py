"""st.async, red.async and st.bulk in kernels, against NumPy: what arrives in the peer's memory, and where."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.simulator.calls.bodies import run
from tests.simulator.calls.test_copies import WAIT, dump

PEER = """@%p0 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
mov.u32 %r6, %cluster_ctarank; xor.b32 %r5, %r6, 1;
mapa.shared::cluster.u32 %r7, %r1, %r5; mapa.shared::cluster.u32 %r8, %r2, %r5;
"""
MEET = "barrier.cluster.arrive; barrier.cluster.wait;\n"
LANES = np.arange(32, dtype=np.uint32)


def arrived(fill: str, send: str, bytes: int, expected: int) -> np.ndarray:
    """The first bytes of shared memory of both CTAs as words, once the peer's values have come."""
    body = f"""{PEER}{fill}
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {expected};
{MEET}{send}
{WAIT}
{MEET}{dump(bytes)}"""
    found = np.zeros((2, bytes // 4), np.uint32)
    run(body, found, cluster=2)
    return found


@pytest.mark.parametrize(("form", "words"), [("b32", 1), ("v2.b32", 2), ("v4.b32", 4), ("b64", 2), ("v2.b64", 4)])
def test_each_value_lies_at_its_address_in_the_peer(form: str, words: int) -> None:
    """A thread's words are 1000 times the sender's rank, its lane by 16, and the word's number."""
    makes = "mad.lo.u32 %r10, %r0, 16, 0; mad.lo.u32 %r10, %r6, 1000, %r10;"
    makes += "".join(f"add.u32 %r{10 + word}, %r10, {word};" for word in range(1, 4))
    makes += "mov.b64 %rd10, {%r10, %r11}; mov.b64 %rd11, {%r12, %r13};"
    names = (
        [f"%rd{10 + each}" for each in range(words // 2)] if "b64" in form else [f"%r{10 + e}" for e in range(words)]
    )
    value = "{" + ", ".join(names) + "}" if "v" in form else names[0]
    send = f"""{makes} mad.lo.u32 %r9, %r0, {4 * words}, %r7;
st.async.shared::cluster.mbarrier::complete_tx::bytes.{form} [%r9], {value}, [%r8];"""
    found = arrived("", send, 128 * words, 128 * words)
    mine = LANES[:, None] * 16 + np.arange(words)
    assert np.array_equal(found, [(mine + 1000 * sender).reshape(-1) for sender in (1, 0)])


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("add.u32", lambda old, new: old + new),
        ("min.s32", np.minimum),
        ("max.u32", np.maximum),
        ("inc.u32", lambda old, new: np.where(old >= new, 0, old + 1)),
        ("dec.u32", lambda old, new: np.where((old == 0) | (old > new), new, old - 1)),
        ("and.b32", np.bitwise_and),
        ("or.b32", np.bitwise_or),
        ("xor.b32", np.bitwise_xor),
    ],
)
def test_each_value_is_combined_with_the_peers(operation: str, expected: Callable[..., np.ndarray]) -> None:
    """In memory is 13 times the lane and the rank, sent is 7 times the lane and 40 times the rank."""
    fill = "mad.lo.u32 %r3, %r0, 13, %r6; shl.b32 %r4, %r0, 2; add.u32 %r9, %r4, %r1; st.shared.u32 [%r9], %r3;"
    send = f"""mul.lo.u32 %r10, %r0, 7; mad.lo.u32 %r10, %r6, 40, %r10; add.u32 %r9, %r4, %r7;
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation} [%r9], %r10, [%r8];"""
    found = arrived(fill, send, 128, 128)
    assert np.array_equal(found, [expected(13 * LANES + rank, 7 * LANES + 40 * (1 - rank)) for rank in (0, 1)])


def test_zeros_lie_where_they_were_asked_for() -> None:
    body = f"""shl.b32 %r3, %r0, 2; add.u32 %r4, %r3, %r1; add.u32 %r5, %r0, 1; st.shared.u32 [%r4], %r5; bar.sync 0;
add.u32 %r9, %r1, 16; mov.u64 %rd5, 48;
@%p0 st.bulk.weak.shared::cta [%r9], %rd5, 0;
bar.sync 0;
{dump(128)}"""
    found = np.zeros(32, np.uint32)
    run(body, found)
    assert np.array_equal(found, np.where((LANES >= 4) & (LANES < 16), 0, LANES + 1))
