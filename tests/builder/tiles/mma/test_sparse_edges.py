"""A sparse product of fewer rows than a tile: what is loaded for the others is legal metadata, not zeros."""

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, tf32, u16
from nvbackend.layout import Layout

ROWS = 11


def product(instruction, element, depth, words):
    @nvb.kernel("sm_80", threads=32)
    def few_rows(
        k,
        a: nvb.Pointer(element),
        kept: nvb.Pointer[u16],
        b: nvb.Pointer(element),
        out: nvb.Pointer[f32],
        rows: i32(minimum=1),
    ):
        mma = k.tiled_mma(instruction, tile=(16, 8))
        acc = mma.accumulator()

        def tile(source, height, width):
            return k.tensor(source, Layout((height, width), (width, 1)))

        def inside(width):
            return k.identity_tensor((16, width)).below(rows, None)

        left = mma.load_a(tile(a, 16, depth // 2), where=inside(depth // 2))
        metadata = mma.load_metadata(tile(kept, 16, words), where=inside(words))
        mma.gemm(acc, left, mma.load_b(tile(b, 8, depth)), metadata=metadata)
        mma.store(acc, tile(out, 16, 8), where=inside(8))

    return nvb.runtime.load(few_rows.compile(), device="simulator")


@pytest.mark.parametrize(
    ("shape", "element", "stored", "depth", "group", "code"),
    [("m16n8k32", f16, np.float16, 64, 4, 0b1100), ("m16n8k16", tf32, np.float32, 32, 2, 0b1110)],
    ids=["f16", "tf32"],
)
def test_rows_past_the_end_have_legal_metadata(shape, element, stored, depth, group, code):
    """The code keeps the first and last element of each group of f16, the second one of tf32."""
    instruction = nvb.mma.sync(shape, element, element, f32, sparse=True)
    held = f32 if element is tf32 else element
    words = depth // (4 * group)
    random = np.random.default_rng(0)
    kept, b = (random.integers(-3, 4, (rows, width)).astype(stored) for rows, width in ((ROWS, depth // 2), (8, depth)))
    a = np.zeros((ROWS, depth // group, group), np.float32)
    places = [code & 3, code >> 2] if group == 4 else [1]
    a[..., places] = kept.reshape(ROWS, depth // group, len(places))
    out = np.zeros((ROWS, 8), np.float32)
    metadata = np.full((ROWS, words), code * 0x1111, np.uint16)
    product(instruction, held, depth, words).launch(1, kept, metadata, b, out, ROWS)
    assert np.array_equal(out, a.reshape(ROWS, depth) @ b.T.astype(np.float32))
