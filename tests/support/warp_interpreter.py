"""What the threads of a warp do together, of the operands of each: ldmatrix and mma.sync; and the memory they read.

It follows `intrinsics.fragments.mma` and `fragments_matrix`, which are the PTX ISA's formulas, and never the layouts of
atoms. Values are bits; memory is bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from nvbackend.intrinsics.fragments import mma as positions
from nvbackend.intrinsics.mma.mma import instruction_of
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType

LANES = 32
_FLOATS = {16: "e", 32: "f", 64: "d"}


def read(memory: dict[int, np.ndarray], address: int, size: int) -> bytes:
    """Bytes of one of the arrays or of shared memory; past its end is a fault."""
    place = base_of(memory, address)
    found = memory[place][address - place : address - place + size]
    assert len(found) == size, f"{size} bytes at {address - place} of {len(memory[place])}"
    return found.tobytes()


def base_of(memory: dict[int, np.ndarray], address: int) -> int:
    return max(one for one in memory if one <= address)


def signed(bits: int, width: int) -> int:
    half = 1 << width - 1
    return (bits + half) % (2 * half) - half


def pack(value: float, width: int) -> int:
    return int.from_bytes(struct.pack(_FLOATS[width], value), "little")


def unpack(bits: int, width: int) -> float:
    found: float = struct.unpack(_FLOATS[width], bits.to_bytes(width // 8, "little"))[0]
    return found


def together(row: Row, given: list[dict[str, Any]], memory: dict[int, np.ndarray]) -> list[dict[str, Any]]:
    if row.opcode.startswith("ldmatrix"):
        return _ldmatrix(row, given, memory)
    assert row.family == "mma", row
    return _mma(row, given)


def _ldmatrix(row: Row, given: list[dict[str, Any]], memory: dict[int, np.ndarray]) -> list[dict[str, Any]]:
    """Of b16 matrices, PTX ISA 9.7.14.5.15: lane r gives row r % 8 of matrix r // 8."""
    count, transposed = row.operand("fragment").count, ".trans" in row.ptx
    rows = [read(memory, one["address"], 16) for one in given]
    found = []
    for lane in range(LANES):
        registers = []
        for matrix in range(count):
            cells = [np.frombuffer(rows[8 * matrix + line], np.uint16) for line in range(8)]
            line, pair = divmod(lane, 4)
            a, b = ((cells[2 * pair + each][line] if transposed else cells[line][2 * pair + each]) for each in (0, 1))
            registers.append(int(a) | int(b) << 16)
        found.append({"fragment": registers})
    return found


def _mma(row: Row, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    one = instruction_of(row)
    if one.shape == positions.FOUR_MATRICES and one.a.name == "f16":
        return _four_matrices(one, given)
    m, n, k = one.shape
    stored = (m, n, k // 2) if one.sparsity else one.shape
    bits = one.a.bits
    a, b, c = np.zeros((m, stored[2])), np.zeros((n, k)), np.zeros((m, n))
    for lane, registers in enumerate(given):
        for index, value in enumerate(elements(registers["a"], one.a, bits)):
            a[positions.a_position(stored, bits, lane, index)] = value
        for index, value in enumerate(elements(registers["b"], one.b, bits)):
            row_k, column = positions.b_position(one.shape, bits, lane, index)
            b[column, row_k] = value
        for index, value in enumerate(elements(registers["c"], one.c, one.c.bits)):
            c[positions.d_position(one.shape, lane, index)] = value
    if one.sparsity:
        a = _unpacked(one, bits, a, given)
    if one.scale is not None:
        _scale(one, a, b, given)
    d = c + ((a[:, None, :] != b[None, :, :]).sum(axis=2) if one.operation == "xor" else a @ b.T)
    count = m * n // LANES
    return [
        {"d": packed([d[positions.d_position(one.shape, lane, index)] for index in range(count)], one.d)}
        for lane in range(LANES)
    ]


def _unpacked(one: Any, bits: int, a: np.ndarray, given: list[dict[str, Any]]) -> np.ndarray:
    """The sparse A with its zeros, by the metadata of the threads that the selector 0 names."""
    m, _, k = one.shape
    whole = np.zeros((m, k))
    unit = 2 if bits == 4 else 1
    for lane, registers in enumerate(given):
        if not positions.metadata_counts(one.shape, bits, lane, 0):
            continue
        for chunk in range(8):
            row, first = positions.metadata_chunk(one.shape, bits, lane, chunk)
            code = registers["metadata"] >> 4 * chunk & 15
            chosen = [{0b0100: 0, 0b1110: 1}[code]] if bits == 32 else [code & 3, code >> 2]
            for index, place in enumerate(chosen):
                source = first // 2 + index * unit
                whole[row, first + place * unit : first + (place + 1) * unit] = a[row, source : source + unit]
    return whole


def _scale(one: Any, a: np.ndarray, b: np.ndarray, given: list[dict[str, Any]]) -> None:
    """Multiply the rows of A and the columns of B with one ue8m0 factor each. PTX ISA 9.7.14.3."""
    assert one.scale.name == "ue8m0" and one.scale_vec in (None, 1), one
    for lane, registers in enumerate(given):
        for matrix, name, place in (
            (a, "a", positions.scale_a_row(lane, registers["thread_id_a"])),
            (b, "b", positions.scale_b_column(lane, registers["thread_id_b"])),
        ):
            if place is not None:
                exponent = registers[f"scale_{name}"] >> 8 * registers[f"byte_id_{name}"] & 255
                matrix[place] *= 2.0 ** (exponent - 127)


def _four_matrices(one: Any, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    a, b, c = (np.zeros((4, *shape)) for shape in ((8, 4), (4, 8), (8, 8)))
    for lane, registers in enumerate(given):
        matrix = positions.matrix_of(lane)
        for index, value in enumerate(elements(registers["a"], one.a, 16)):
            a[(matrix, *positions.four_matrices_a_position(one.a_layout, lane, index))] = value
        for index, value in enumerate(elements(registers["b"], one.b, 16)):
            b[(matrix, *positions.four_matrices_b_position(one.b_layout, lane, index))] = value
        for index, value in enumerate(elements(registers["c"], one.c, one.c.bits)):
            c[(matrix, *positions.four_matrices_d_position(one.c, lane, index))] = value
    d = a @ b + c
    return [
        {
            "d": packed(
                [
                    d[(positions.matrix_of(lane), *positions.four_matrices_d_position(one.d, lane, index))]
                    for index in range(8)
                ],
                one.d,
            )
        }
        for lane in range(LANES)
    ]


_DECODED = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
}


def elements(registers: Sequence[int], element: ElementType, bits: int) -> list[float]:
    """The numbers in registers, the lowest bits first."""
    width = max(32, bits)
    found = [register >> at & (1 << bits) - 1 for register in registers for at in range(0, width, bits)]
    if element.name in _DECODED:
        kind = np.dtype(_DECODED[element.name])
        return [float(np.array([one], f"u{bits // 8}").view(kind)[0]) for one in found]
    return [float(signed(one, bits) if element.is_signed else one) for one in found]


def packed(values: Sequence[float], element: ElementType) -> list[int]:
    """Accumulators as registers."""
    if element.name == "s32":
        return [int(one) & 0xFFFFFFFF for one in values]
    bits = [pack(float(one), element.bits) for one in values]
    return bits if element.bits >= 32 else [low | high << 16 for low, high in zip(bits[::2], bits[1::2], strict=True)]
