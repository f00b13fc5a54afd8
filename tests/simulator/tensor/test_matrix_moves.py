"""ldmatrix, stmatrix and movmatrix against loops, and against the builder's map of each row of the table."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.maps.rows import fragment_maps
from nvbackend.simulator.tensor import matrix_moves


def find(opcode):
    return matrix_moves.find(tuple(opcode.split(".")))


ROWS = {row.ptx: row for row in matrix_move.rows() if row.opcode in ("ldmatrix", "stmatrix")}
OF_BYTES = [ptx for ptx in ROWS if ".b8x16." not in ptx]


@pytest.mark.parametrize("ptx", OF_BYTES)
def test_every_row(ptx):
    """An element's code says where it was."""
    row = ROWS[ptx]
    found = find(ptx)
    (held,) = fragment_maps(row)
    assert found.registers == row.operand("fragment").count
    size = 2 if ptx.endswith("b16") else 1
    random = np.random.default_rng(2)
    data = random.integers(0, 256, (3, found.rows, 16), dtype=np.uint8)
    words = found.load(data)
    assert words.shape == (found.registers, 96)
    elements = np.ascontiguousarray(words.T).view(np.uint16 if size == 2 else np.uint8)
    per_matrix = found.rows // row.axes["count"]
    for warp, lane in np.ndindex(3, 32):
        for index in range(held.elements):
            matrix, line, column = held.position(lane, index)
            source = data[warp, per_matrix * matrix + line, column * size : column * size + size]
            assert elements[32 * warp + lane, index] == source.view(elements.dtype)[0]
    assert np.array_equal(found.store(words), data)


def test_the_plain_and_the_transposed_matrix():
    data = np.arange(64, dtype=np.uint16).reshape(1, 8, 8)
    rows = data.view(np.uint8)
    plain = find("ldmatrix.sync.aligned.m8n8.x1.shared.b16").load(rows)[0]
    turned = find("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16").load(rows)[0]
    for lane in range(32):
        row, column = lane // 4, lane % 4 * 2
        assert plain[lane] == int(data[0, row, column]) | int(data[0, row, column + 1]) << 16
        assert turned[lane] == int(data[0, column, row]) | int(data[0, column + 1, row]) << 16
    assert np.array_equal(matrix_moves.transposed(plain), turned)


@pytest.mark.parametrize(("source", "bits"), [("b6x16_p32", 6), ("b4x16_p64", 4)])
@pytest.mark.parametrize("shape", ["m8n16.x2", "m16n16.x1.trans"])
def test_narrow_elements_get_a_byte_each(source, bits, shape):
    random = np.random.default_rng(bits)
    codes = random.integers(0, 1 << bits, (1, 16, 16), dtype=np.uint8)
    rows = np.zeros((1, 16, 16), np.uint8)
    for row in range(16):
        packed = sum(int(code) << (bits * place) for place, code in enumerate(codes[0, row]))
        rows[0, row] = np.frombuffer(packed.to_bytes(16, "little"), np.uint8)
    rows[..., 2 * bits :] = 0xFF  # padding
    narrow = find(f"ldmatrix.sync.aligned.{shape}.shared.b8x16.{source}")
    if "m16n16" in shape:
        plain = find("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8")
        assert np.array_equal(narrow.load(rows), plain.load(codes))
    else:
        words = narrow.load(rows)
        for register, lane in np.ndindex(2, 32):
            four = codes[0, 8 * register + lane // 4, 4 * (lane % 4) : 4 * (lane % 4) + 4]
            assert words[register, lane] == four.view(np.uint32)[0]


@pytest.mark.parametrize(
    "opcode",
    [
        "ldmatrix.sync.aligned.m8n8.x3.shared.b16",
        "ldmatrix.sync.aligned.m8n8.x1.global.b16",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b32",
        "stmatrix.sync.aligned.m16n16.x1.trans.shared.b8",
    ],
)
def test_unknown_pieces(opcode):
    assert find(opcode) is None
