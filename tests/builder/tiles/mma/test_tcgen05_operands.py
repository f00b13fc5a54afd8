"""A of tcgen05.mma stored to tensor memory from elements of another product: run in the simulator, against NumPy."""

from contextlib import nullcontext
from typing import Annotated, Any

import ml_dtypes
import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import bf16, e4m3, f16, f32, tf32
from nvbackend.layout import Layout

HEAD, KEYS, OUT = 64, 64, 32
"""Columns of Q and K, rows of K and columns of P, columns of the result."""
NUMPY = {f16: np.float16, bf16: ml_dtypes.bfloat16, e4m3: ml_dtypes.float8_e4m3fn, tf32: np.float32}
KIND = {e4m3: "f8f6f4", tf32: "tf32"}


def weighing(m: int, ctas: int, element: nvb.ElementType, tiles: int, by_address: bool) -> nvb.KernelDefinition:
    """S = Q K^T in tensor memory, P = S / 2 as `element`, back to tensor memory, and O = P V; `tiles` atoms along M.

    P is stored to columns that are allocated, or to the plain address of them.
    """
    kind = KIND.get(element, "f16")
    step = 256 // element.bits
    rows = m * tiles // ctas
    swizzle = nvb.SwizzleMode.B64 if element is e4m3 else nvb.SwizzleMode.B128
    Queries = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(rows, HEAD))]
    Keys = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(KEYS // ctas, HEAD))]
    wide = min(KEYS, 1024 // element.bits)
    Values = Annotated[nvb.TensorMap, nvb.TensorMap(element, box=(OUT // ctas, wide), swizzle=wide * element.bits // 8)]

    @nvb.kernel("sm_100a", threads=128, cluster=ctas)
    def kernel(k, q: Queries, keys: Keys, values: Values, out: nvb.Pointer[f32]):
        scores = k.tiled_mma(nvb.tcgen05.mma(f"m{m}n{KEYS}k16", f16, f16, f32, cta_group=ctas), tile=(m * tiles, KEYS))
        weights = k.tiled_mma(
            nvb.tcgen05.mma(f"m{m}n{OUT}k{step}", element, element, f32, kind=kind, cta_group=ctas, a_in_tmem=True),
            tile=(m * tiles, OUT),
        )
        rank = k.cluster.rank() if ctas > 1 else k.const(0, nvb.i32)
        layouts = scores.smem_a(HEAD), scores.smem_b(HEAD), weights.smem_b(KEYS, swizzle=swizzle)
        a, b, c = map(k.shared_tile, layouts)
        full, done = k.mbarrier.array(1, arrivals=1), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=sum(layout.bytes for layout in layouts))
            for tile, source, height in ((a, q, rows), (b, keys, KEYS // ctas), (c, values, OUT // ctas)):
                k.tma.load(tile, source, (rank * height, 0), full)
        k.mbarrier.wait(full, 0)
        mask = None if ctas == 1 else 0b11

        def multiply(mma, d, first, second, phase):
            k.tcgen05.fence_before_thread_sync()
            k.cluster.sync() if ctas > 1 else k.barrier.sync()
            with k.one_thread(0), k.if_(rank == 0) if ctas > 1 else nullcontext():
                k.tcgen05.fence_after_thread_sync()
                mma.accumulate(d, first, second, accumulate=False)
                k.tcgen05.commit(done, cta_group=ctas, multicast_mask=mask)
            k.mbarrier.wait(done, phase)
            k.tcgen05.fence_after_thread_sync()

        with k.tcgen05.tmem((256 if element is tf32 else 128) * tiles, cta_group=ctas) as tmem:
            s, o = tmem.columns(0, 64 * tiles), tmem.columns(96 * tiles, 32 * tiles)
            multiply(scores, s, a, b, 0)
            place = tmem.columns(128 * tiles, 64 * tiles) if element is tf32 else tmem.columns(64 * tiles, 32 * tiles)
            p = weights.make_fragment_A(place.address if by_address else place, scores.load(s) * 0.5)
            multiply(weights, o, p, c, 1)
            weights.load(o).store(k.tensor(out + rank * (rows * OUT), Layout((rows, OUT), (OUT, 1))))
            if ctas > 1:
                k.cluster.sync()

    return kernel


@pytest.mark.parametrize(
    ("m", "ctas", "element", "tiles", "by_address"),
    [
        (128, 1, f16, 1, True),
        (64, 1, f16, 1, False),
        (256, 2, bf16, 1, False),
        (128, 1, e4m3, 1, False),
        (64, 1, e4m3, 1, True),
        (128, 1, f16, 2, True),
        (128, 1, tf32, 1, False),
        (64, 1, tf32, 1, True),
    ],
)
def test_weights_go_back_to_tensor_memory(
    m: int, ctas: int, element: nvb.ElementType, tiles: int, by_address: bool
) -> None:
    random = np.random.default_rng(m)
    q, keys = (random.integers(-1, 2, (count, HEAD)).astype(np.float16) for count in (m * tiles, KEYS))
    values, out = random.integers(-2, 3, (OUT, KEYS)).astype(NUMPY[element]), np.zeros((m * tiles, OUT), np.float32)
    kernel = weighing(m, ctas, element, tiles, by_address)
    compiled = kernel.compile()
    nvb.runtime.load(compiled, device="simulator").launch(ctas, q, keys, values, out)
    p = (0.5 * (q.astype(np.float32) @ keys.astype(np.float32).T)).astype(NUMPY[element])
    assert np.array_equal(out, p.astype(np.float32) @ values.astype(np.float32).T)
    shape = "32x32b" if m != 64 else "16x32bx2"
    assert f"tcgen05.st.sync.aligned.{shape}" in compiled.ptx and compiled.cubin is not None


def refused(function: Any) -> tuple[str, str]:
    with pytest.raises(nvb.DiagnosticError) as caught:
        function()
    (fault,) = caught.value.diagnostics
    assert fault.location is not None and fault.location.file == __file__
    return fault.rule_id, fault.message


def test_wrong_operands_are_refused() -> None:
    k = nvb.KernelBuilder("wrong", "sm_100a", threads=128, cluster=2)
    request = nvb.tcgen05.mma("m128n64k16", f16, f16, f32, a_in_tmem=True)
    mma, wide = k.tiled_mma(request), k.tiled_mma(nvb.tcgen05.mma("m64n64k16", f16, f16, f32))
    shared = k.tiled_mma(nvb.tcgen05.mma("m128n64k16", f16, f16, f32))
    pair = k.tiled_mma(nvb.tcgen05.mma("m128n64k16", f16, f16, f32, cta_group=2, a_in_tmem=True))
    narrow = k.tiled_mma(nvb.tcgen05.mma("m128n64k32", e4m3, nvb.e2m1, f32, kind="f8f6f4", a_in_tmem=True))
    small = k.tiled_mma(nvb.tcgen05.mma("m128n64k32", nvb.e2m1, e4m3, f32, kind="f8f6f4", a_in_tmem=True))
    with k.tcgen05.tmem(128) as tmem:
        tile = shared.load(tmem)
        assert refused(lambda: shared.make_fragment_A(tmem, 64))[0] == "mma.tile-operand"
        rule, message = refused(lambda: mma.make_fragment_A(tmem.columns(0, 16), 64))
        assert rule == "mma.tile-operand" and "16 columns for the 32 that its 128 x 64 elements take" in message
        assert refused(lambda: mma.make_fragment_A(tmem, wide.load(tmem)))[0] == "elements.operand"
        assert refused(lambda: pair.make_fragment_A(tmem, pair.load(tmem)))[0] == "mma.tile-operand"
        assert refused(lambda: small.make_fragment_A(tmem, tile))[0] == "mma.tile-operand"
        assert refused(lambda: mma.make_fragment_A(tmem, 24))[0] == "tiled-mma.tile"
        narrow.make_fragment_A(tmem, tile)


def test_columns_are_an_address() -> None:
    k = nvb.KernelBuilder("wrong", "sm_100a", threads=128)
    mma = k.tiled_mma(nvb.tcgen05.mma("m128n64k16", f16, f16, f32, a_in_tmem=True))
    assert refused(lambda: mma.make_fragment_A("columns", 64))[0] == "value.kind"
    assert refused(lambda: mma.make_fragment_A(k.const(1.0, f32), 64))[0] == "value.type"
