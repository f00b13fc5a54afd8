"""Which cell of tensor memory each thread's element is in, against the simulator's transcription of the PTX ISA."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from nvbackend.atoms.umma import umma_atom
from nvbackend.layout import Layout
from nvbackend.simulator.tensor.tensor_memory import accumulator, register_cells
from nvbackend.tiled import make_tiled_mma
from nvbackend.tiled.lanes import LoadedLanes, loaded_lanes

SHAPES = [
    # M, N, CTAs, weight-stationary, A in tensor memory
    *((64, n, 1, False, a_in_tmem) for n in (8, 24, 256) for a_in_tmem in (False, True)),
    *((128, n, 1, False, False) for n in (16, 48, 256)),
    *((128, n, 2, False, False) for n in (16, 48, 256)),
    (256, 96, 2, False, False),
    *((m, 64, 1, True, False) for m in (32, 64, 128)),
]


def lanes_of(
    m: int, n: int, ctas: int, stationary: bool, a_in_tmem: bool, first: int, columns: int
) -> LoadedLanes | None:
    descriptor = nvb.InstructionDescriptor(kind="f16", m=m, n=n, a=f16, b=f16, d=f32)
    atom = umma_atom(descriptor, cta_group=ctas, weight_stationary=stationary, a_in_tmem=a_in_tmem)
    fragment = make_tiled_mma(atom).get_slice(0).partition_fragment_C(Layout((m, n)))
    return loaded_lanes(fragment, m // ctas, first, columns)


def cells(lanes: LoadedLanes) -> dict[tuple[int, int], tuple[int, int]]:
    """(row, column) of each element: the lane and column that the thread's register is loaded from."""
    shape, split = ("32x32b", 0) if lanes.split is None else ("16x32bx2", lanes.split)
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for thread, (row, column) in enumerate(lanes.ownership.firsts):
        numbers = iter(lanes.ownership.values)
        for start, count in lanes.runs:
            loaded = register_cells(shape, count, split=split)
            assert loaded is not None
            for register in range(count):
                down, right = next(numbers)
                lane = thread // 32 * 32 + int(loaded.lane[register, thread % 32])
                found[row + down, column + right] = lane, start + int(loaded.column[register, thread % 32])
        assert next(numbers, None) is None
    return found


@pytest.mark.parametrize(("m", "n", "ctas", "stationary", "a_in_tmem"), SHAPES)
def test_each_element_is_loaded_from_its_cell(m: int, n: int, ctas: int, stationary: bool, a_in_tmem: bool) -> None:
    right = accumulator(m, n, ctas, stationary=stationary, sparse=False)
    assert right is not None
    panels = [(0, n)] if (m // ctas == 64 and ctas == 2) or (stationary and m < 128) else [(0, n), (2, 4), (n - 2, 2)]
    for first, columns in panels:
        lanes = lanes_of(m, n, ctas, stationary, a_in_tmem, first, columns)
        assert lanes is not None
        rows = m // ctas
        assert cells(lanes) == {
            (row, column): (int(right.lane[row, first + column]), int(right.column[row, first + column]))
            for row in range(rows)
            for column in range(columns)
        }
        first_of = [lanes.places(thread, 0, 0) for thread in range(128)]
        assert first_of == [row + rows * column for row, column in lanes.ownership.firsts]
        assert [lanes.places(0, at, 0) for at in range(len(lanes.ownership.values))] == [
            row + rows * column for row, column in lanes.ownership.values
        ]


@pytest.mark.parametrize(
    ("shape", "first", "columns"),
    [((64, 32, 1, False, False), 0, 5), ((128, 32, 2, False, False), 0, 16), ((32, 64, 1, True, False), 0, 16)],
)
def test_unequal_parts_are_none(shape: tuple[int, int, int, bool, bool], first: int, columns: int) -> None:
    assert lanes_of(*shape, first, columns) is None
