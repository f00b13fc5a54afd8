"""What each instruction of a tiled wgmma reads, by its descriptor's bits, against rows and columns counted by hand."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemDescriptor, SmemLayout, SwizzleMode, f16, f32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import Layout, desc_layout
from tests.support.ir_addresses import condition_of, evaluate, instructions, pointer_of

pytestmark = pytest.mark.sampled(3)

REQUEST = nvb.wgmma.mma_async("m64n32k16", f16, f16, f32)
K, TILE_K, STEP = 16, 64, 64


def plain(along: int, warpgroups: int):
    """Rows of atom `atom` of warpgroup `one` of `warpgroups`, `along` elements each: in turns."""
    return lambda one, atom: np.arange(along) + along * (one + warpgroups * atom)


def of_pairs(one: int, atom: int) -> np.ndarray:
    """N dealt out in eights, every other one to the same warpgroup: columns 0-7, 16-23, ... to the first."""
    assert atom == 0
    return np.concatenate([np.arange(8) + 16 * core + 8 * one for core in range(4)])


def of_blocks(one: int, atom: int) -> np.ndarray:
    """M in blocks of 64 in the order 0, 2, 1, 3, which the two warpgroups take in turn."""
    return np.arange(64) + 64 * [0, 2, 1, 3][one + 2 * atom]


CASES = {
    "one atom": ({}, plain(64, 1), plain(32, 1)),
    "two below each other": ({"warpgroups": (2, 1)}, plain(64, 2), plain(32, 1)),
    "two beside each other": ({"warpgroups": (1, 2)}, plain(64, 1), plain(32, 2)),
    "several atoms": ({"warpgroups": (2, 1), "tile": (256, 64)}, plain(64, 2), plain(32, 1)),
    "atoms both ways": ({"tile": (128, 64)}, plain(64, 1), plain(32, 1)),
    "M in another order": (
        {"warpgroups": (2, 1), "permutation": (Layout((64, 2, 2), (1, 128, 64)),), "tile": (256, 32)},
        of_blocks,
        plain(32, 1),
    ),
    "N in another order": (
        {"warpgroups": (1, 2), "permutation": (None, Layout((8, 4, 2), (1, 16, 8)))},
        plain(64, 1),
        of_pairs,
    ),
}
WIDTH = operator.attrgetter("bytes")
LAYOUTS = [
    (name, major, swizzle)
    for name in CASES
    for major in Major
    for swizzle in SwizzleMode
    # A permutation by eights would cut the swizzled rows of an MN-major tile, which are longer.
    if name != "N in another order" or major is Major.K or swizzle is SwizzleMode.NONE
]


def read(k: KernelBuilder, word, thread: int, major: Major, shape: tuple[int, int], image: np.ndarray) -> np.ndarray:
    """The elements that an instruction of that thread's warpgroup finds by its descriptor."""
    bits = evaluate(word._value().ir, {"tid.x": thread}) & (1 << 64) - 1
    start, layout = desc_layout(major, SmemDescriptor.decode(bits), f16, shape)
    return np.array(
        [[image[start // 2 + layout(row, column)] for column in range(shape[1])] for row in range(shape[0])]
    )


@pytest.mark.parametrize(("name", "major", "swizzle"), LAYOUTS)
def test_each_instruction_reads_its_rows_and_columns(name, major, swizzle):
    how, rows_of, columns_of = CASES[name]
    k = KernelBuilder("tiled", "sm_90a", threads=128 * int(np.prod(how.get("warpgroups", (1, 1)))))
    mma = k.tiled_mma(REQUEST, **how)
    one = k.thread_id() // 128
    narrow = min(swizzle, SwizzleMode.B64, key=WIDTH)
    fitting = [swizzle if major is Major.K or extent >= 64 else narrow for extent in mma.shape]
    tiles = [SmemLayout(major, one, f16, extent, TILE_K) for one, extent in zip(fitting, mma.shape, strict=True)]
    shared = [k.shared_tile(tile) for tile in tiles]
    a, b = mma.partition_fragment_A(shared[0], one), mma.partition_fragment_B(shared[1], one)
    image = np.zeros(227 * 1024 // 2, np.float16)
    matrices = [np.arange(extent * TILE_K).reshape(extent, TILE_K) % 2039 for extent in mma.shape]
    for tile, layout, matrix in zip(shared, tiles, matrices, strict=True):
        begin = evaluate(tile.address.bytes.ir, {}) // 2
        image[begin : begin + layout.bytes // 2] = layout.arrange(matrix.astype(np.float16)).view(np.float16)
    for warpgroup in range(mma.layouts.size // 128):
        m_of, n_of = warpgroup % mma.warpgroups[0], warpgroup // mma.warpgroups[0]
        for issue in mma.issues(mma.accumulators(), a, b)[warpgroup::3]:
            columns = slice(K * issue.k, K * (issue.k + 1))
            found = read(k, a(0, issue.m, issue.k), 128 * warpgroup, major, (64, K), image)
            assert np.array_equal(found, matrices[0][rows_of(m_of, issue.m), columns])
            found = read(k, b(0, issue.n, issue.k), 128 * warpgroup, major, (32, K), image)
            assert np.array_equal(found, matrices[1][columns_of(n_of, issue.n), columns])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("units", "said"),
    [
        (6, None),
        (7, "112 bytes after the start of a pattern of 128 B swizzle leaves its row of 128 bytes after 16 of 32"),
        (8, "128 bytes after the start of a pattern of 128 B swizzle starts in the middle of it"),
        (64, None),
        (71, "1136 bytes after the start of a pattern of 128 B swizzle leaves its row of 128 bytes after 16 of 32"),
    ],
)
def test_where_the_operand_of_one_instruction_may_begin(units, said):
    """Units of 16 bytes; an operand has 32 of each of its rows of 128, and the pattern has eight rows."""
    k = KernelBuilder("tiled", "sm_90a", threads=128)
    mma = k.tiled_mma(REQUEST)
    first = mma.partition_fragment_A(k.shared_tile(mma.smem_a(TILE_K)))(0, 0, 0)
    if said is None:
        assert evaluate((first + units).address.bytes.ir, {}) == 16 * units
        return
    with pytest.raises(nvb.DiagnosticError) as caught:
        first + units
    (found,) = caught.value.diagnostics
    assert found.rule_id == "descriptor.pattern"
    assert said in found.message


def test_atoms_along_k_take_its_steps_in_turn():
    k = KernelBuilder("tiled", "sm_90a", threads=256)
    mma = k.tiled_mma(REQUEST, atom_layout=(1, 1, 2))
    a = mma.partition_fragment_A(k.shared_tile(mma.smem_a(TILE_K)), k.thread_id() // 128)
    starts = [[evaluate(a(0, 0, step).address.bytes.ir, {"tid.x": 128 * one}) for step in range(2)] for one in range(2)]
    assert starts == [[0, 64], [32, 96]]  # bytes: 16 halves of K are 32


@pytest.mark.sampled(1)
@pytest.mark.parametrize("call", ["store", "axpby"])
@pytest.mark.parametrize("warpgroup", [0, 1, None], ids=str)
def test_of_warpgroups_along_k_the_first_stores(call, warpgroup):
    """`warpgroup` is known when the kernel is built, or is the thread's at run time."""
    k = KernelBuilder("tiled", "sm_90a", threads=256, parameters=[nvb.Parameter("c", nvb.Pointer(f32))])
    mma = k.tiled_mma(REQUEST, atom_layout=(1, 1, 2))
    acc = mma.accumulators()
    acc.fill(0.0)
    of = k.thread_id() // 128 if warpgroup is None else warpgroup
    if call == "store":
        mma.store(acc, k.arguments[0], 32, of)
    else:
        mma.axpby(2.0, acc, 0.0, k.arguments[0], 32, of)
    stores = list(instructions(k.function, "store"))
    assert bool(stores) is (warpgroup != 1)
    for one in stores:
        condition = condition_of(one)
        if warpgroup is None:
            assert [bool(evaluate(condition, {"tid.x": thread})) for thread in (0, 127, 128, 255)] == [1, 1, 0, 0]
        else:
            assert condition is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", [name for name in CASES if "order" not in name])
def test_every_element_of_c_is_stored_once_by_its_owner(case):
    how = CASES[case][0]
    warpgroups = int(np.prod(how.get("warpgroups", (1, 1))))
    parameters = [nvb.Parameter("c", nvb.Pointer(f32)), nvb.Parameter("n", nvb.Scalar(nvb.i32))]
    k = KernelBuilder("tiled", "sm_90a", threads=128 * warpgroups, parameters=parameters)
    c, n = k.arguments
    mma = k.tiled_mma(REQUEST, **how)
    acc = mma.accumulators()
    acc.fill(0.0)
    mma.store(acc, c, n, k.thread_id() // 128)
    pitch = 1000
    pointers = [pointer_of(one) for one in instructions(k.function, "store")]
    seen = []
    along_m, along_n = mma.warpgroups
    for thread in range(0, 128 * warpgroups, 5):
        known = {"tid.x": thread, "c": 0, "n": pitch}
        found = [evaluate(pointer, known) // 4 for pointer in pointers]
        lane, warp, one = thread % 32, thread % 128 // 32, thread // 128
        counts = (mma.shape[0] // 64 // along_m, mma.shape[1] // 32 // along_n)
        wanted = []
        for atom_n, atom_m in itertools.product(range(counts[1]), range(counts[0])):
            top = 64 * (one % along_m + along_m * atom_m) + 16 * warp + lane // 4
            left = 32 * (one // along_m + along_n * atom_n) + 2 * (lane % 4)
            wanted += [(top + 8 * low) * pitch + left + 8 * core for core in range(4) for low in range(2)]
        assert found == wanted
        seen += found
    assert len(seen) == len(set(seen))


def test_tiles_of_a_and_b_have_their_rows_and_the_columns_of_k():
    """B is stored as its transpose, so that K is the second dimension of both: bM x bK and bN x bK."""
    mma = KernelBuilder("tiled", "sm_90a", threads=128).tiled_mma(REQUEST, tile=(128, 96))
    a, b = mma.smem_a(TILE_K), mma.smem_b(TILE_K)
    assert (a.rows, a.columns) == (128, TILE_K)
    assert (b.rows, b.columns) == (96, TILE_K)
