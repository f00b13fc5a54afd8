"""What one tcgen05.mma reads of its tiles in shared memory."""

from __future__ import annotations

import pytest

from nvbackend import Major, SmemLayout, SwizzleMode
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.ops.matrix.tcgen05_operands import operand_extents
from nvbackend.intrinsics.row.types import f16, f32
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor
from nvbackend.isel.select.tcgen05.request import Tcgen05Request


def builder(cluster=1):
    return KernelBuilder("blackwell", "sm_100a", threads=128, cluster=cluster)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("major", "rows", "columns"), [("K", 0, 0), ("K", 8, 16), ("MN", 0, 0), ("MN", 0, 32)])
def test_what_one_instruction_reads_of_its_tiles(group, sparse, major, rows, columns):
    """16 k of f16, or 32 of which a sparse A stores 16; each CTA of a pair has half of the rows of A and of B."""
    one = InstructionDescriptor(kind="f16", m=128 * group, n=64, a=f16, b=f16, d=f32, sparse=sparse)
    k = builder(cluster=group)
    tiles = [k.shared_tile(SmemLayout(Major(major), SwizzleMode.B128, f16, count, 64)) for count in (192, 128)]
    request, at = Tcgen05Request("f16", cta_group=group, sparse=sparse), (rows, columns)
    a, b = (tile.layout for tile in tiles)
    assert operand_extents(request, one, (tiles[0], at), (tiles[1], at)) == {
        "a_desc": a.reach(rows, columns, 128, 16),
        "b_desc": b.reach(rows, columns, 64 // group, 32 if sparse else 16),
    }


@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("step", range(4))
def test_what_one_instruction_reads_of_a_tiles_fragments(major, step):
    """The same as of the tile itself, from the same element on: 16 k of 64."""
    one = InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
    k = builder()
    tiles = [k.shared_tile(SmemLayout(Major(major), SwizzleMode.B128, f16, count, 64)) for count in (128, 64)]
    mma = k.tiled_mma(Tcgen05Request("f16"), descriptor=one)
    a, b = mma.partition_fragment_A(tiles[0])(0, 0, step), mma.partition_fragment_B(tiles[1])(0, 0, step)
    at = (0, 16 * step)
    expected = operand_extents(Tcgen05Request("f16"), one, (tiles[0], at), (tiles[1], at))
    assert operand_extents(Tcgen05Request("f16"), one, (a, (0, 0)), (b, (0, 0))) == expected
    assert set(expected) == {"a_desc", "b_desc"}


def test_the_instruction_is_told_what_it_reads(monkeypatch):
    k = builder()
    a, b = (k.shared_tile(SmemLayout(Major.K, SwizzleMode.B128, f16, count, 64)) for count in (128, 64))
    one = InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
    seen = []
    emit = k.core.emit
    monkeypatch.setattr(k.core, "emit", lambda *row, **how: (seen.append(how.get("extents")), emit(*row, **how))[1])
    with k.one_thread():
        k.tcgen05.mma(Tcgen05Request("f16"), 0, a, b, one, a_at=(0, 16), b_at=(0, 32))
    assert [each for each in seen if each] == [
        {"a_desc": a.layout.reach(0, 16, 128, 16), "b_desc": b.layout.reach(0, 32, 64, 16)}
    ]
