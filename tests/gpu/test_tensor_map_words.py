"""Tensor maps bit by bit, against the driver's encoder, and copies by a map that nvbackend encoded itself."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, u32
from nvbackend.intrinsics.copy.tensor_map_word import ATOMICITIES, FILLS, INTERLEAVES

pytestmark = pytest.mark.gpu((9, 0))

BYTES = 128
ADDRESS = 0x7F00_0000_0000
DRIVER_TYPES = {
    "u8": "UINT8",
    "u16": "UINT16",
    "u32": "UINT32",
    "s32": "INT32",
    "u64": "UINT64",
    "s64": "INT64",
    "f16": "FLOAT16",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
    "bf16": "BFLOAT16",
    "f32.ftz": "FLOAT32_FTZ",
    "tf32": "TFLOAT32",
    "tf32.ftz": "TFLOAT32_FTZ",
}
SIZES = {"u8": 1, "u16": 2, "f16": 2, "bf16": 2, "u64": 8, "s64": 8, "f64": 8}
"""Bytes of an element, 4 where it is not here."""
SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
INTERLEAVED = {0: "NONE", 16: "16B", 32: "32B"}
PROMOTED = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}
ROWS, COLUMNS, BOX, PLACE = 24, 64, (8, 32), (5, 16)


@pytest.fixture(scope="module")
def driver():
    """cuda.bindings.driver in a context."""
    from cuda.core import Device

    Device().set_current()
    return pytest.importorskip("cuda.bindings.driver")


def encoded(driver, word: nvb.TensorMapWord) -> int:
    """The driver's map of what `word` describes."""
    sizes, words = driver.cuuint64_t, driver.cuuint32_t
    fill = "NONE" if word.fill == FILLS[0] else "NAN_REQUEST_ZERO_FMA"
    status, made = driver.cuTensorMapEncodeTiled(
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{DRIVER_TYPES[word.element]}"),
        word.rank,
        word.global_address,
        [sizes(extent) for extent in word.global_dim],
        # cuda.bindings makes a null pointer of an empty list, and the driver refuses that.
        [sizes(stride) for stride in word.global_stride or (0,)],
        [words(extent) for extent in word.box_dim],
        [words(step) for step in word.element_stride or (1,) * word.rank],
        getattr(driver.CUtensorMapInterleave, f"CU_TENSOR_MAP_INTERLEAVE_{INTERLEAVED[word.interleave]}"),
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{SWIZZLES[word.swizzle]}"),
        getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{PROMOTED[word.l2_promotion]}"),
        getattr(driver.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}"),
    )
    assert status == driver.CUresult.CUDA_SUCCESS, (status, word)
    return sum(int(part) << 64 * place for place, part in enumerate(made.opaque))


def described(chooser: random.Random, element: str, rank: int, swizzle: int) -> nvb.TensorMapWord:
    """A map that the driver takes, of random numbers."""
    size = SIZES.get(element, 4)
    row = swizzle or 64
    extents = [chooser.randrange(1, 1 << 32) for _ in range(rank)]
    strides = [chooser.randrange(1, 1 << 36) * 16 for _ in range(rank - 1)]
    box = [row // size, *(chooser.randrange(1, 9) for _ in range(rank - 1))]
    steps = [1, *(chooser.randrange(1, 9) for _ in range(rank - 1))]
    floating = not element.startswith(("u", "s"))
    return nvb.TensorMapWord(
        ADDRESS + chooser.randrange(1 << 20) * 16,
        element,
        tuple(extents),
        tuple(box),
        tuple(strides),
        () if set(steps) == {1} else tuple(steps),
        swizzle=swizzle,
        fill=chooser.choice(FILLS) if floating else FILLS[0],
        l2_promotion=chooser.choice(list(PROMOTED)),
    )


def beside(word: nvb.TensorMapWord) -> int:
    """What the driver writes where no field is: the bytes of a box by whole steps, and the alignment of its tile."""
    steps = word.element_stride or (1,) * word.rank
    elements = math.prod(extent // step for extent, step in zip(word.box_dim, steps, strict=True))
    return SIZES.get(word.element, 4) * elements << 512 | (8 * word.swizzle or 16) << 576


def test_the_driver_writes_these_fields(driver) -> None:
    """All that was asked for reads back, and `other` is what follows from it, but for a bit about the memory."""
    chooser = random.Random(20_261_128)
    for element, rank, swizzle in itertools.product(DRIVER_TYPES, range(1, 6), SWIZZLES):
        asked = described(chooser, element, rank, swizzle)
        word = encoded(driver, asked)
        found = nvb.TensorMapWord.decode(word)
        assert found.other & ~(1 << 85) == beside(asked), (asked, hex(found.other))
        assert nvb.TensorMapWord(**{**fields(asked), "other": found.other}) == found
        assert found.encode() == word


@pytest.mark.parametrize("interleave", INTERLEAVES[1:])
def test_an_interleaved_map(interleave: int, driver) -> None:
    swizzle = 32 if interleave == 32 else 0
    asked = nvb.TensorMapWord(ADDRESS, "f16", (64, 16, 8), (8, 4, 2), (1024, 32768), (), interleave, swizzle)
    found = nvb.TensorMapWord.decode(encoded(driver, asked))
    assert nvb.TensorMapWord(**{**fields(asked), "other": found.other}) == found
    assert found.swizzle_atomicity == ATOMICITIES[0]


def fields(word: nvb.TensorMapWord) -> dict[str, object]:
    return {name: getattr(word, name) for name in word.__dataclass_fields__}


@nvb.kernel("sm_90a", threads=256)
def load_by_a_map_in_memory(k, maps: nvb.Pointer(u32, align=BYTES), out: nvb.Pointer[f32]):
    tile = k.shared(f32, BOX[0] * BOX[1], align=BYTES)
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.one_thread():
        k.tensormap.acquire(maps, scope="sys")
        k.mbarrier.arrive(full, expect_tx=4 * BOX[0] * BOX[1])
        k.tma.load_box(tile, k.tensormap.at(maps, nvb.TensorMap(f32, BOX, 0)), PLACE[::-1], full)
    k.mbarrier.wait(full, 0)
    out[k.thread_id()] = tile[k.thread_id()]


def test_a_copy_by_a_map_that_no_driver_made() -> None:
    """With `other` 0, as device code makes a map from zeros."""
    from numba import cuda

    from nvbackend import runtime

    matrix = np.random.default_rng(7).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    device, out = cuda.to_device(matrix), cuda.to_device(np.zeros(BOX[0] * BOX[1], np.float32))
    address = device.device_ctypes_pointer.value
    word = nvb.TensorMapWord(address, "f32", (COLUMNS, ROWS), BOX[::-1], (4 * COLUMNS,))
    room = cuda.to_device(np.frombuffer(word.encode().to_bytes(BYTES, "little"), np.uint32).copy())
    runtime.load(load_by_a_map_in_memory.build().compile()).launch(1, room, out)
    rows, columns = (slice(start, start + extent) for start, extent in zip(PLACE, BOX, strict=True))
    np.testing.assert_array_equal(out.copy_to_host().reshape(BOX), matrix[rows, columns])
