"""Tiled copies: every element moved once, what CuTe prints, and registers that are what the mma wants."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend import DiagnosticError, f16, f32
from nvbackend.intrinsics.copy.matrix_move import HALVES
from nvbackend.intrinsics.maps.matrix import matrix_position
from nvbackend.layout import ComposedLayout, Layout, Swizzle, composition, make_layout, make_ordered_layout, size
from nvbackend.tiled import (
    cp_async_copy,
    ldmatrix_copy,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_C_atom,
    make_tiled_copy_D,
    make_tiled_copy_S,
    make_tiled_mma,
    stmatrix_copy,
    universal_copy,
)

pytestmark = pytest.mark.sampled(3)

SWIZZLED = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
POWERS = st.sampled_from([1, 2, 4, 8])


@st.composite
def tiled_copies(draw):
    """Threads and values in any order over M and N, and a tensor of whole tiles with gaps between its rows."""
    thr = make_ordered_layout((draw(POWERS), draw(POWERS)), draw(st.permutations((0, 1)).map(tuple)))
    val = make_ordered_layout((draw(POWERS), draw(POWERS)), draw(st.permutations((0, 1)).map(tuple)))
    atom = universal_copy(f16, 16 * math.gcd(draw(POWERS), size(val)))
    tiled = make_tiled_copy(atom, thr, val)
    rows, columns = (extent * draw(st.integers(1, 3)) for extent in tiled.tiler)
    pitch = draw(st.integers(0, 3))
    strides = (columns + pitch, 1) if draw(st.booleans()) else (1, rows + pitch)
    layout = Layout((rows, columns), strides)
    return tiled, ComposedLayout(Swizzle(2, 1, 3), 0, layout) if draw(st.booleans()) else layout


@settings(max_examples=80, deadline=None)
@given(tiled_copies())
def test_every_element_once_and_to_the_same_coordinate(case):
    tiled, source = case
    plain = source.layout_b if isinstance(source, ComposedLayout) else source
    destination = make_layout(plain.shape)
    where = {}
    for thread in range(tiled.size):
        part = tiled.get_slice(thread)
        pairs = zip(part.partition_S(source).offsets(), part.partition_D(destination).offsets(), strict=True)
        for start, end in pairs:
            assert end not in where
            where[end] = start
    assert where == dict(enumerate(source.offsets()))


@settings(max_examples=30, deadline=None)
@given(tiled_copies())
def test_threads_and_values_lie_as_the_layouts_say(case):
    """The thread-value layout by its definition: thread t's value v is at thread place * values + value place."""
    tiled, _ = case
    assert sorted(tiled.layout_tv.offsets()) == list(range(math.prod(tiled.tiler)))
    assert tiled.get_layoutS_TV().offsets() == tiled.get_layoutD_TV().offsets() == tiled.layout_tv.offsets()


def test_the_printouts_of_cutes_tutorial():
    """sgemm_sm80.cu and tiled_copy.cu: copies of 128 threads, contiguous along K and along M."""
    by_k = make_tiled_copy(cp_async_copy(f16), Layout((16, 8), (8, 1)), Layout((1, 8)))
    assert (str(by_k.layout_tv), by_k.tiler) == ("((_8,_16),_8):((_128,_1),_16)", (16, 64))
    by_m = make_tiled_copy(universal_copy(f32, 128), Layout((32, 8)), Layout((4, 1)))
    assert (str(by_m.layout_tv), by_m.tiler) == ("(_256,_4):(_4,_1)", (128, 8))
    part = by_m.get_slice(33).partition_S(Layout((128, 64), (1, 128)))
    assert str(part) == "((_4,_1),_1,_8):((_1,_0),_0,_1024) from 132"


def test_the_printouts_of_an_sm80_gemm():
    """The copies of A, B and C of 2 x 2 warps of SM80_16x8x16_F32F16F16F32_TN over 32 x 32 x 16."""
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    a = make_tiled_copy_A(ldmatrix_copy(f16), mma)
    assert a.tiler == (32, 16)
    assert str(a.get_slice(37).partition_S(SWIZZLED).plain) == "((_8,_1),_2,_4):((_1,_0),_2048,_16)"
    c = make_tiled_copy_C(universal_copy(f32, 64), mma)
    assert c.tiler == (32, 32)
    assert str(c.get_slice(37).partition_D(Layout((64, 64), (64, 1)))) == (
        "((_2,(_2,_2)),_2,_2):((_1,(_512,_16)),_2048,_32) from 1090"
    )


def expected_registers(operand, mma, thread, rows, columns):
    """Index in the fragment to coordinate: the fragment is compact in the order that the MMA partitions in."""
    identity = Layout((rows, columns))
    part = getattr(mma.get_slice(thread), f"partition_{operand}")(identity)
    fragment = getattr(mma, f"make_fragment_{operand}")(part)
    return fragment.layout, dict(zip(fragment.offsets(), part.offsets(), strict=True))


def matrices_moved(tiled, layout, count, *, transposed):
    """By the formulas of the PTX ISA: for each (thread, place of an instruction) the coordinates of its elements.

    Lanes give addresses of rows; lane and index name a matrix, row and column, which are elements behind an address.
    """
    at = {index: coordinate for coordinate, index in enumerate(layout.offsets())}
    parts = [tiled.get_slice(thread).partition_S(layout) for thread in range(tiled.size)]
    if tiled.atom.row.opcode == "stmatrix":
        parts = [tiled.get_slice(thread).partition_D(layout) for thread in range(tiled.size)]
    rest = [range(size(parts[0].plain[0, 1])), *(range(size(mode)) for mode in parts[0].plain.modes[1:])]
    found = {}
    for place, first in itertools.product(itertools.product(*rest), range(0, tiled.size, 32)):
        starts = [parts[first + lane]((0, place[0]), *place[1:]) for lane in range(8 * count)]
        assert all(start % 8 == 0 for start in starts)
        for lane in range(32):
            moved = (matrix_position(HALVES, transposed, lane, index) for index in range(2 * count))
            found[first + lane, place] = [at[starts[8 * matrix + row] + column] for matrix, row, column in moved]
    return found


OPERANDS = [("A", 4, False), ("A", 2, False), ("A", 1, False), ("B", 4, False), ("B", 2, False), ("A", 4, True)]
MMAS = [
    ("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16)),
    ("SM80_16x8x16_F32F16F16F32_TN", (1, 1, 1), (16, 16, 16)),
    ("SM75_16x8x8_F32F16F16F32_TN", (2, 1, 1), (32, 16, 16)),
]


@pytest.mark.parametrize("mma", MMAS, ids=str)
@pytest.mark.parametrize(("operand", "count", "transposed"), OPERANDS)
def test_what_ldmatrix_loads_is_what_the_mma_wants(mma, operand, count, transposed):
    """ldmatrix from a swizzled tile, by the PTX ISA's formulas, into the retiled fragment: the same coordinates."""
    tiled_mma = make_tiled_mma(*mma)
    make = {"A": make_tiled_copy_A, "B": make_tiled_copy_B}[operand]
    tiled = make(ldmatrix_copy(f16, count, transposed=transposed), tiled_mma)
    layout = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (1, 64) if transposed else (64, 1)))
    loaded = matrices_moved(tiled, layout, count, transposed=transposed)
    for thread in (0, 5, 31, tiled.size - 1):
        fragment, wanted = expected_registers(operand, tiled_mma, thread, 64, 64)
        registers = tiled.retile(fragment)
        got = {}
        for place in itertools.product(*(range(size(mode)) for mode in (registers[0, 1], *registers.modes[1:]))):
            for index, coordinate in enumerate(loaded[thread, place]):
                got[registers((index, place[0]), *place[1:])] = coordinate
        assert got == wanted


@pytest.mark.parametrize(("count", "transposed"), [(4, False), (2, False), (1, False), (2, True), (4, True)])
def test_what_stmatrix_stores_is_what_the_mma_has(count, transposed):
    """C in registers as stmatrix takes them, to a swizzled tile: each register's coordinate gets its element."""
    tiled_mma = make_tiled_mma("SM80_16x8x16_F16F16F16F16_TN", (2, 2, 1), (32, 32, 16))
    tiled = make_tiled_copy_C(stmatrix_copy(f16, count, transposed=transposed), tiled_mma)
    layout = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (1, 64) if transposed else (64, 1)))
    stored = matrices_moved(tiled, layout, count, transposed=transposed)
    for thread in (0, 5, 31, tiled.size - 1):
        fragment, wanted = expected_registers("C", tiled_mma, thread, 64, 64)
        registers = tiled.retile(fragment)
        for place in itertools.product(*(range(size(mode)) for mode in (registers[0, 1], *registers.modes[1:]))):
            own = [wanted[registers((index, place[0]), *place[1:])] for index in range(tiled.atom.values)]
            assert own == stored[thread, place]


def test_another_atom_with_the_threads_values():
    """make_tiled_copy_S and _D: stores of what a copy loaded, elements where they were."""
    loads = make_tiled_copy(universal_copy(f16, 128), Layout((4, 8), (8, 1)), Layout((1, 8)))
    for made in (make_tiled_copy_S(universal_copy(f16), loads), make_tiled_copy_D(universal_copy(f16), loads)):
        assert made.tiler == loads.tiler
        assert made.layout_tv.offsets() == loads.layout_tv.offsets()


REFUSED = {
    "rows of one thread": (
        lambda: make_tiled_copy(universal_copy(f16), Layout((4, 4), (0, 1)), Layout((1, 2))),
        "copy.tile",
    ),
    "too few threads": (
        lambda: make_tiled_copy(ldmatrix_copy(f16), Layout((4, 4)), Layout((1, 8))),
        "copy.threads",
    ),
    "too few values": (
        lambda: make_tiled_copy(universal_copy(f16, 128), Layout((4, 4)), Layout((1, 4))),
        "copy.threads",
    ),
    "no such thread": (
        lambda: make_tiled_copy(universal_copy(f16), Layout((4, 4)), Layout((1, 4))).get_slice(16),
        "copy.threads",
    ),
    "another fragment": (
        lambda: make_tiled_copy(universal_copy(f16), Layout((4, 4)), Layout((1, 4))).retile(Layout((3, 2, 2))),
        "copy.fragment",
    ),
    "tiles that are no multiple of those of the copy": (
        lambda: make_tiled_copy(universal_copy(f16), Layout((2, 2)), Layout((4, 1))).retile(Layout((2, 3, 1))),
        "copy.fragment",
    ),
    "a fragment of one mode": (
        lambda: make_tiled_copy(universal_copy(f16), Layout((4, 4)), Layout((1, 4))).retile(Layout(4)),
        "copy.fragment",
    ),
}


def test_refused():
    """All in one, since of several tests every third is run."""
    for make, rule in REFUSED.values():
        with pytest.raises(DiagnosticError) as caught:
            make()
        assert [found.rule.id for found in caught.value.diagnostics] == [rule]


@pytest.mark.parametrize(
    ("name", "atoms", "atom"),
    [
        ("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), stmatrix_copy(f16, 1)),
        ("SM80_16x8x16_F32F16F16F32_TN", (1, 4, 1), universal_copy(f16, 32)),
        ("SM90_64x64x16_F32F16F16_SS<Major::K, Major::K>", (2, 1, 1), stmatrix_copy(f16, 4)),
        ("SM90_64x96x16_F32F16F16_SS<Major::K, Major::K>", (1, 1, 1), stmatrix_copy(f16, 2)),
    ],
)
def test_the_smallest_copy_of_c_has_the_first_values_of_each_thread(name, atoms, atom):
    mma = make_tiled_mma(name, atoms)
    m, n, _ = mma.tile_size_mnk
    copy = make_tiled_copy_C_atom(atom, mma)
    of_mma = mma.get_layoutC_TV()
    assert size(copy.layout_tv, 1) == atom.values
    assert size(of_mma, 1) > atom.values
    picked = composition(Layout((m, n)), copy.tiler)
    assert size(picked) == copy.size * atom.values
    for thread, value in itertools.product(range(mma.size), range(atom.values)):
        assert picked(copy.layout_tv(thread, value)) == of_mma(thread, value)
    part = copy.retile(mma.get_slice(5).partition_fragment_C(Layout((m, n))).layout)
    assert size(part, 0, 0) == atom.values
    assert part.offsets() == list(range(size(of_mma, 1)))


def test_fewer_values_than_the_copy_moves():
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
    with pytest.raises(DiagnosticError, match=r"copy\.tile"):
        make_tiled_copy_C_atom(stmatrix_copy(f16, 4), mma)


def test_of_a_sparse_a_the_stored_columns_are_copied():
    """16 x 16 stored elements of m16n8k32: thread t has pairs at row t / 4 and column 2 (t % 4), as if A were dense."""
    mma = make_tiled_mma("SM80_SPARSE_16x8x32_F32F16F16F32_TN")
    copy = make_tiled_copy_A(universal_copy(f16, 32), mma)
    assert copy.tiler == (16, 16)
    found = [copy.get_slice(thread).partition_S(Layout((16, 48), (48, 1))).offsets() for thread in range(32)]
    for thread, own in enumerate(found):
        row, column = thread // 4, 2 * (thread % 4)
        corners = [(row + down) * 48 + column + right for right in range(0, 48, 8) for down in (0, 8)]
        assert sorted(own) == sorted(corner + one for corner in corners for one in (0, 1))
