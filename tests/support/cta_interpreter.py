"""A CTA's LLVM IR, executed thread by thread in Python: integers and floats, memory, ldmatrix, mma.sync, barriers.

What warps do together follows `intrinsics.fragments.mma` and `fragments_matrix`, which are the PTX ISA's formulas, and
never the layouts of atoms. Values are bits; memory is bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from llvmlite import ir

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.fragments import mma as positions
from nvbackend.intrinsics.mma.mma import instruction_of
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType

LANES = 32
_SHARED = 0
"""Where shared memory begins; each array has a gibibyte of its own behind it."""
_SPACE = 1 << 30
_FLOATS = {16: "e", 32: "f", 64: "d"}
Collective = tuple[Row, dict[str, Any]]


class Recorded(KernelBuilder):
    """A kernel that knows of each instruction of a row its operands and results."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rows: dict[int, tuple[Row, dict[str, Any], dict[str, list[ir.Value]]]] = {}
        self._emit = self.core.emit
        self.core.emit = self._remembered  # type: ignore[method-assign]

    def _remembered(self, row: Row, operands: Any, **options: Any) -> dict[str, list[ir.Value]]:
        """As the core's `emit`, and remembers it under its call."""
        before = len(self.core.llvm.block.instructions)
        results = self._emit(row, operands, **options)
        call = next(one for one in self.core.llvm.block.instructions[before:] if isinstance(one, ir.CallInstr))
        self.rows[id(call)] = row, dict(operands), results
        return results


def run(k: Recorded, threads: int, arguments: dict[str, np.ndarray]) -> None:
    """Execute the kernel in one CTA on arrays, which it changes."""
    memory = {number * _SPACE + _SPACE: one.reshape(-1).view(np.uint8) for number, one in enumerate(arguments.values())}
    starts = dict(zip(arguments, memory, strict=True))
    memory[_SHARED] = np.zeros(1 << 17, np.uint8)
    waiting = [_Thread(k, thread, starts, memory).run() for thread in range(threads)]
    asked: list[Collective | None] = [next(one, None) for one in waiting]
    while any(one is not None for one in asked):
        for first in range(0, threads, LANES):
            warp = range(first, min(first + LANES, threads))
            given = [asked[thread] for thread in warp]
            while given[0] is not None and not given[0][0].opcode.startswith("bar"):
                assert all(one is not None and one[0] is given[0][0] for one in given), "a warp diverged"
                found = _together(given[0][0], [one[1] for one in given if one is not None], memory)
                given = [_next(waiting[thread], answer) for thread, answer in zip(warp, found, strict=True)]
            for thread, one in zip(warp, given, strict=True):
                asked[thread] = one
        assert all(one is None for one in asked) or all(one is not None for one in asked), "a barrier is not met"
        asked = [None if one is None else _next(waiting[thread], {}) for thread, one in enumerate(asked)]


def _next(thread: Generator[Collective, Any, None], answer: Any) -> Collective | None:
    try:
        return thread.send(answer)
    except StopIteration:
        return None


class _Thread:
    """One thread's values."""

    def __init__(self, k: Recorded, number: int, starts: dict[str, int], memory: dict[int, np.ndarray]) -> None:
        self.k, self.number, self.memory = k, number, memory
        self.values: dict[int, int] = {id(one): starts.get(one.name, 0) for one in k.function.args}
        self.cells: dict[int, int] = {}
        self.preset = {id(one) for _, _, results in k.rows.values() for each in results.values() for one in each}

    def run(self) -> Generator[Collective, Any, None]:
        """Yields what its warp or CTA does together, and is sent the outputs by operand."""
        block = self.k.function.entry_basic_block
        while True:
            for one in block.instructions:
                known = self.k.rows.get(id(one))
                if known is not None:
                    row, operands, results = known
                    answer = {"value": [self.number]} if "tid.x" in row.ptx else (yield row, self._given(operands))
                    for name, values in results.items():
                        self.values.update((id(value), bits) for value, bits in zip(values, answer[name], strict=True))
                elif not (id(one) in self.preset or one is block.terminator or one.opname == "extractvalue"):
                    self.values[id(one)] = self._result(one)
            end = block.terminator
            if end is None or end.opname in ("ret", "ret void"):
                return
            targets = end.operands
            block = targets[0] if len(targets) == 1 else targets[1 if self.value(targets[0]) & 1 else 2]

    def _given(self, operands: dict[str, Any]) -> dict[str, Any]:
        def bits(one: Any) -> Any:
            if isinstance(one, (list, tuple)):
                return [bits(each) for each in one]
            return one if isinstance(one, int) else self.value(one)

        return {name: bits(one) for name, one in operands.items()}

    def value(self, given: ir.Value) -> int:
        """The bits of a value."""
        if id(given) in self.values:
            return self.values[id(given)]
        if isinstance(given, ir.GlobalVariable):
            return _SHARED
        assert isinstance(given, ir.Constant), given
        if isinstance(given, ir.FormattedConstant) or isinstance(given.constant, str):
            return _SHARED
        return _constant(given)

    def _result(self, one: Any) -> int:
        name = one.opname
        if name == "alloca":
            return id(one)
        if name in ("load", "store"):
            return self._access(one)
        if name == "call":
            assert one.callee.name.startswith("llvm.fma."), one
            a, b, c = (_unpack(self.value(each), _bits(one.type)) for each in one.args)
            return _pack(a * b + c, _bits(one.type))
        given = [self.value(each) for each in one.operands]
        width, source = _bits(one.type), _bits(one.operands[0].type)
        if name in _INTEGERS:
            return _INTEGERS[name](_signed(given[0], source), _signed(given[1], source), given) & (1 << width) - 1
        if name in _REALS:
            return _pack(_REALS[name](*(_unpack(each, width) for each in given)), width)
        return _OTHERS[name](one, given, width) & (1 << width) - 1

    def _access(self, one: Any) -> int:
        pointer = one.operands[-1]
        if isinstance(pointer, ir.AllocaInstr):
            if one.opname == "store":
                self.cells[id(pointer)] = self.value(one.operands[0])
            return self.cells.get(id(pointer), 0)
        kind = one.type if one.opname == "load" else one.operands[0].type
        size, address = _bits(kind) // 8, self.value(pointer)
        if one.opname == "load":
            return int.from_bytes(read(self.memory, address, size), "little")
        place = _base(self.memory, address)
        raw = np.frombuffer(self.value(one.operands[0]).to_bytes(size, "little"), np.uint8)
        self.memory[place][address - place : address - place + size] = raw
        return 0


def read(memory: dict[int, np.ndarray], address: int, size: int) -> bytes:
    """Bytes of one of the arrays or of shared memory; past its end is a fault."""
    place = _base(memory, address)
    found = memory[place][address - place : address - place + size]
    assert len(found) == size, f"{size} bytes at {address - place} of {len(memory[place])}"
    return found.tobytes()


def _base(memory: dict[int, np.ndarray], address: int) -> int:
    return max(one for one in memory if one <= address)


_INTEGERS: dict[str, Callable[[int, int, list[int]], int]] = {
    "add": lambda a, b, _: a + b,
    "sub": lambda a, b, _: a - b,
    "mul": lambda a, b, _: a * b,
    "and": lambda a, b, _: a & b,
    "or": lambda a, b, _: a | b,
    "xor": lambda a, b, _: a ^ b,
    "shl": lambda a, b, _: a << b,
    "ashr": lambda a, b, _: a >> b,
    "lshr": lambda _a, _b, raw: raw[0] >> raw[1],
    "udiv": lambda _a, _b, raw: raw[0] // raw[1],
    "urem": lambda _a, _b, raw: raw[0] % raw[1],
    "sdiv": lambda a, b, _: int(a / b),
    "srem": lambda a, b, _: a - int(a / b) * b,
}
_OTHERS: dict[str, Callable[[Any, list[int], int], int]] = {
    **dict.fromkeys(("zext", "trunc", "bitcast", "inttoptr", "ptrtoint"), lambda one, given, width: given[0]),
    **dict.fromkeys(("fpext", "fptrunc"), lambda one, given, width: _resized(one, given[0], width)),
    "sitofp": lambda one, given, width: _pack(float(_signed(given[0], _bits(one.operands[0].type))), width),
    "sext": lambda one, given, width: _signed(given[0], _bits(one.operands[0].type)),
    "icmp": lambda one, given, width: int(_compare(one.op, given, _bits(one.operands[0].type))),
    "getelementptr": lambda one, given, width: given[0] + _signed(given[1], _bits(one.operands[1].type)),
    "select": lambda one, given, width: given[1] if given[0] & 1 else given[2],
    "extractelement": lambda one, given, width: given[0] >> given[1] * width,
    "insertelement": lambda one, given, width: _inserted(*given, _bits(one.operands[1].type)),
}
_REALS: dict[str, Callable[[float, float], float]] = {"fadd": lambda a, b: a + b, "fmul": lambda a, b: a * b}


def _resized(one: Any, bits: int, width: int) -> int:
    return _pack(_unpack(bits, _bits(one.operands[0].type)), width)


def _inserted(vector: int, value: int, place: int, width: int) -> int:
    return vector & ~((1 << width) - 1 << place * width) | value << place * width


def _compare(how: str, given: Sequence[int], width: int) -> bool:
    a, b = (_signed(one, width) if how.startswith("s") else one for one in given)
    return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[how.lstrip("su")]


def _signed(bits: int, width: int) -> int:
    half = 1 << width - 1
    return (bits + half) % (2 * half) - half


def _bits(kind: Any) -> int:
    if isinstance(kind, ir.VectorType):
        return int(kind.count) * _bits(kind.element)
    for one, width in ((ir.FloatType, 32), (ir.DoubleType, 64), (ir.HalfType, 16), (ir.PointerType, 64)):
        if isinstance(kind, one):
            return width
    return int(getattr(kind, "width", 16))


def _pack(value: float, width: int) -> int:
    return int.from_bytes(struct.pack(_FLOATS[width], value), "little")


def _unpack(bits: int, width: int) -> float:
    found: float = struct.unpack(_FLOATS[width], bits.to_bytes(width // 8, "little"))[0]
    return found


def _constant(given: ir.Constant) -> int:
    number, width = given.constant, _bits(given.type)
    if number in (None, ir.Undefined):
        return 0
    if isinstance(number, (list, tuple)):
        each = width // len(number)
        return sum(_constant(one) << place * each for place, one in enumerate(number))
    return _pack(number, width) if isinstance(number, float) else int(number) & (1 << width) - 1


# -- what a warp does together -----------------------------------------------------------------------------------------


def _together(row: Row, given: list[dict[str, Any]], memory: dict[int, np.ndarray]) -> list[dict[str, Any]]:
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
    return [float(_signed(one, bits) if element.is_signed else one) for one in found]


def packed(values: Sequence[float], element: ElementType) -> list[int]:
    """Accumulators as registers."""
    if element.name == "s32":
        return [int(one) & 0xFFFFFFFF for one in values]
    bits = [_pack(float(one), element.bits) for one in values]
    return bits if element.bits >= 32 else [low | high << 16 for low, high in zip(bits[::2], bits[1::2], strict=True)]
