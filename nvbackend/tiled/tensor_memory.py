"""Where tcgen05.mma has its accumulators, and A if it is not in shared memory: CuTe's tmem_frg.

An address is a lane and a column. As in CuTe the layouts count elements: the next column of 32 bits is 32 / bits
further on, the next lane 65536 times that. CUTLASS include/cute/atom/mma_traits_sm100_frag.hpp.
"""

from __future__ import annotations

from nvbackend.atoms import MmaAtom, Residency
from nvbackend.atoms.tensor_memory import COLUMN_BITS, lane_stride
from nvbackend.intrinsics.copy.tcgen05_memory import COLUMNS
from nvbackend.intrinsics.maps.tcgen05 import LANES
from nvbackend.layout import IntTuple, Layout, composition, cosize, make_layout, size, tiled_product
from nvbackend.layout.algebra.inttuple import compact, modes, text
from nvbackend.tiled.operand import MmaOperand
from nvbackend.tiled.rules import FRAGMENT, TENSOR_MEMORY

_HALF = LANES // 2
_QUARTER = LANES // 4


def tmem_cell(index: int, bits: int) -> tuple[int, int, int]:
    """The (lane, column, first bit in it) of an index that counts elements of `bits`."""
    lane, rest = divmod(index, lane_stride(bits))
    column, bit = divmod(rest * bits, COLUMN_BITS)
    return lane, column, bit


def tmem_layout(atom: MmaAtom, operand: MmaOperand, shape: IntTuple, bits: int) -> Layout:
    """The layout of a partitioned `shape`, ((rows, columns), MMA_M, MMA_N or MMA_K, ...), elements of `bits`.

    An accumulator has a column to itself, also of 16 bits; A is dense. Raises tiled-mma.fragment where it is not known
    how the atom has its rows, tiled-mma.tensor-memory where there are not so many columns.
    """
    own, *rest = modes(shape)
    rows, columns = map(size, modes(own))
    if operand is MmaOperand.A and atom.weight_stationary and rows < LANES:
        problem = f"no second source says where the {rows} rows of a weight-stationary A go"
        instead = "take an atom of 128 rows, or one that has A in shared memory"
        FRAGMENT.fail(operand=operand.value, mma=atom, given=text(shape), problem=problem, instead=instead)
    block, apart = _block(atom, operand, rows, columns)
    tiles = Layout(tuple(rest), compact(tuple(rest), apart))
    virtual = tiled_product(block, tiles)
    width = COLUMN_BITS if operand is MmaOperand.C else bits
    used = -(-cosize(virtual) // LANES) * width // COLUMN_BITS
    if used > COLUMNS:
        TENSOR_MEMORY.fail(operand=operand.value, given=text(shape), columns=used, most=COLUMNS)
    layout = composition(make_layout((LANES, COLUMNS), (lane_stride(bits), width // bits)), virtual)
    assert isinstance(layout, Layout)
    return layout


def _block(atom: MmaAtom, operand: MmaOperand, rows: int, columns: int) -> tuple[Layout, int]:
    """What one instruction has, lane + 128 * column, and how far the next one is; 128 lanes fill before columns do."""
    if rows == _HALF and _fills_half_quarters(atom):
        both = atom.a_residency is not Residency.TENSOR_MEMORY  # A and C have the same lanes: none are left for another
        return Layout(((_QUARTER // 2, 4), columns), ((1, _QUARTER), LANES)), 1 if both else 2
    if operand is MmaOperand.A:  # fewer rows are written twice, for either half of the columns of D
        return Layout((LANES, columns), (1, LANES)), 1
    if rows < LANES:  # the columns in as many blocks as fit side by side
        blocks = LANES // rows
        return Layout((rows, (columns // blocks, blocks)), (1, (LANES, rows))), 1
    return Layout((rows, columns), (1, LANES)), 1


def _fills_half_quarters(atom: MmaAtom) -> bool:
    """Whether 64 rows of a CTA are in the lower halves of the quarters of the lanes: layouts F and C of the PTX ISA.

    CUTLASS's tmem_frg_2sm has a sparse A of 128 rows in two CTAs like a dense one; no kernel of CUTLASS uses that.
    """
    if atom.threads == 1:
        return not atom.weight_stationary
    return atom.sparsity is not None
