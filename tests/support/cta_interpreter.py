"""A CTA's LLVM IR, executed thread by thread in Python: integers and floats, memory, ldmatrix, mma.sync, barriers.

What warps do together follows `intrinsics.fragments.mma` and `fragments_matrix`, which are the PTX ISA's formulas, and
never the layouts of atoms. Values are bits; memory is bytes.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
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

    @functools.cached_property
    def code(self) -> Code:
        """Its instructions, once all are there."""
        return Code(self)

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
    """One thread's values, by the slots that its kernel's code gives them."""

    def __init__(self, k: Recorded, number: int, starts: dict[str, int], memory: dict[int, np.ndarray]) -> None:
        self.code, self.number, self.memory = k.code, number, memory
        self.registers = list(self.code.initial)
        for one in k.function.args:
            self.registers[self.code.slots[id(one)]] = starts.get(one.name, 0)

    def run(self) -> Generator[Collective, Any, None]:
        """Yields what its warp or CTA does together, and is sent the outputs by operand."""
        registers, memory = self.registers, self.memory
        block = self.code.blocks[0]
        while True:
            for part in block.parts:
                for slot, compute in part.steps:
                    registers[slot] = compute(registers, memory)
                if part.row is not None:
                    row = part.row
                    answer = {"value": [self.number]} if "tid.x" in row.ptx else (yield row, self._given(part.operands))
                    for name, slots in part.results:
                        for slot, bits in zip(slots, answer[name], strict=True):
                            registers[slot] = bits
            if not block.targets:
                return
            block = self.code.blocks[
                block.targets[0 if block.condition is None or registers[block.condition] & 1 else 1]
            ]

    def _given(self, operands: dict[str, Any]) -> dict[str, Any]:
        registers = self.registers

        def bits(one: Any) -> Any:
            if isinstance(one, list):
                return [bits(each) for each in one]
            return registers[one] if type(one) is _Slot else one

        return {name: bits(one) for name, one in operands.items()}


class _Slot(int):
    """The place of a value, where a number could stand too."""


Compute = Callable[[list[int], dict[int, np.ndarray]], int]
"""The bits of a value, of the thread's registers and the memory."""


@dataclass
class _Part:
    """Instructions of a thread alone, and what comes after them of a row: its operands as slots, and its results."""

    steps: list[tuple[int, Compute]] = field(default_factory=list)
    row: Row | None = None
    operands: dict[str, Any] = field(default_factory=dict)
    results: list[tuple[str, list[int]]] = field(default_factory=list)


@dataclass
class _CodeBlock:
    """A block's parts, and the blocks after it by number, the first where the condition holds."""

    parts: list[_Part]
    condition: int | None
    targets: list[int]


class Code:
    """A kernel's instructions with all that is the same for each thread: types, constants, places."""

    def __init__(self, k: Recorded) -> None:
        self.slots: dict[int, int] = {}
        self.initial: list[Any] = []
        """The bits of constants; None of what is computed."""
        self._kept: list[Any] = []
        """What the keys of `slots` are of."""
        self._rows = k.rows
        self._preset = {id(one) for _, _, results in k.rows.values() for each in results.values() for one in each}
        for one in k.function.args:
            self._new(one, 0)
        numbers = {id(block): number for number, block in enumerate(k.function.blocks)}
        self.blocks = [self._block(block, numbers) for block in k.function.blocks]

    def _new(self, value: Any, bits: int | None) -> int:
        self._kept.append(value)
        self.slots[id(value)] = len(self.initial)
        self.initial.append(bits)
        return len(self.initial) - 1

    def slot(self, value: Any) -> int:
        """Where a value is, which may be computed later."""
        if id(value) not in self.slots:
            self._new(value, None if isinstance(value, ir.Instruction) else _known(value))
        return self.slots[id(value)]

    def _block(self, block: Any, numbers: dict[int, int]) -> _CodeBlock:
        parts = [_Part()]
        for one in block.instructions:
            known = self._rows.get(id(one))
            if known is not None:
                row, operands, results = known
                last = parts[-1]
                last.row, last.operands = row, {name: self._slots_of(given) for name, given in operands.items()}
                last.results = [(name, [self.slot(value) for value in values]) for name, values in results.items()]
                parts.append(_Part())
            elif not (id(one) in self._preset or one is block.terminator or one.opname == "extractvalue"):
                parts[-1].steps.append((self.slot(one), self._compute(one)))
        end = block.terminator
        if end is None or end.opname in ("ret", "ret void"):
            return _CodeBlock(parts, None, [])
        targets = [numbers[id(each)] for each in (end.operands if len(end.operands) == 1 else end.operands[1:])]
        return _CodeBlock(parts, self.slot(end.operands[0]) if len(targets) > 1 else None, targets)

    def _slots_of(self, given: Any) -> Any:
        if isinstance(given, (list, tuple)):
            return [self._slots_of(each) for each in given]
        return given if isinstance(given, int) else _Slot(self.slot(given))

    def _compute(self, one: Any) -> Compute:  # noqa: PLR0911 -- a return for each kind of instruction
        name = one.opname
        if name == "alloca":
            return lambda r, memory: 0
        if name in ("load", "store"):
            return self._access(one)
        width = _bits(one.type)
        if name == "call":
            assert one.callee.name.startswith("llvm.fma."), one
            a, b, c = (self.slot(each) for each in one.args)
            return lambda r, memory: _pack(_unpack(r[a], width) * _unpack(r[b], width) + _unpack(r[c], width), width)
        places, mask = [self.slot(each) for each in one.operands], (1 << width) - 1
        if name in _REALS:
            real = _REALS[name]
            return lambda r, memory: _pack(real(*(_unpack(r[each], width) for each in places)), width)
        if name in _INTEGERS:
            integer, (left, right) = _INTEGERS[name], places
            return lambda r, memory: integer(r[left], r[right]) & mask
        source = _bits(one.operands[0].type)
        if name in _SIGNED:
            with_sign, (left, right) = _SIGNED[name], places
            return lambda r, memory: with_sign(_signed(r[left], source), _signed(r[right], source)) & mask
        other = _OTHERS[name](one, width, source)
        return lambda r, memory: other([r[each] for each in places]) & mask

    def _access(self, one: Any) -> Compute:
        pointer, is_load = one.operands[-1], one.opname == "load"
        place = self.slot(pointer)
        if isinstance(pointer, ir.AllocaInstr):
            if is_load:
                return lambda r, memory: r[place]
            value = self.slot(one.operands[0])

            def keep(r: list[int], memory: dict[int, np.ndarray]) -> int:
                r[place] = r[value]
                return 0

            return keep
        size = _bits(one.type if is_load else one.operands[0].type) // 8
        if is_load:
            return lambda r, memory: int.from_bytes(read(memory, r[place], size), "little")
        value = self.slot(one.operands[0])

        def store(r: list[int], memory: dict[int, np.ndarray]) -> int:
            base = _base(memory, r[place])
            raw = np.frombuffer(r[value].to_bytes(size, "little"), np.uint8)
            memory[base][r[place] - base : r[place] - base + size] = raw
            return 0

        return store


def _known(value: Any) -> int:
    """The bits of what is not computed: constants, and variables in shared memory."""
    if isinstance(value, ir.GlobalVariable):
        return _SHARED
    assert isinstance(value, ir.Constant), value
    if isinstance(value, ir.FormattedConstant) or isinstance(value.constant, str):
        return _SHARED
    return _constant(value)


def read(memory: dict[int, np.ndarray], address: int, size: int) -> bytes:
    """Bytes of one of the arrays or of shared memory; past its end is a fault."""
    place = _base(memory, address)
    found = memory[place][address - place : address - place + size]
    assert len(found) == size, f"{size} bytes at {address - place} of {len(memory[place])}"
    return found.tobytes()


def _base(memory: dict[int, np.ndarray], address: int) -> int:
    return max(one for one in memory if one <= address)


_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "lshr": operator.rshift,
    "udiv": operator.floordiv,
    "urem": operator.mod,
}
_SIGNED: dict[str, Callable[[int, int], int]] = {
    "ashr": operator.rshift,
    "sdiv": lambda a, b: int(a / b),
    "srem": lambda a, b: a - int(a / b) * b,
}
_OTHERS: dict[str, Callable[[Any, int, int], Callable[[list[int]], int]]] = {
    **dict.fromkeys(
        ("zext", "trunc", "bitcast", "inttoptr", "ptrtoint"), lambda one, width, source: lambda given: given[0]
    ),
    **dict.fromkeys(
        ("fpext", "fptrunc"), lambda one, width, source: lambda given: _pack(_unpack(given[0], source), width)
    ),
    "sitofp": lambda one, width, source: lambda given: _pack(float(_signed(given[0], source)), width),
    "sext": lambda one, width, source: lambda given: _signed(given[0], source),
    "icmp": lambda one, width, source: _compared(one.op, source),
    "getelementptr": lambda one, width, source: _moved(_bits(one.operands[1].type)),
    "select": lambda one, width, source: lambda given: given[1] if given[0] & 1 else given[2],
    "extractelement": lambda one, width, source: lambda given: given[0] >> given[1] * width,
    "insertelement": lambda one, width, source: _inserted(_bits(one.operands[1].type)),
}
"""Of an instruction, its width and that of its first operand: what gives its bits, of those of its operands."""
_REALS: dict[str, Callable[[float, float], float]] = {"fadd": lambda a, b: a + b, "fmul": lambda a, b: a * b}


def _moved(width: int) -> Callable[[list[int]], int]:
    return lambda given: given[0] + _signed(given[1], width)


def _inserted(width: int) -> Callable[[list[int]], int]:
    def insert(given: list[int]) -> int:
        vector, value, place = given
        return vector & ~((1 << width) - 1 << place * width) | value << place * width

    return insert


def _compared(how: str, width: int) -> Callable[[list[int]], int]:
    compare: Callable[[int, int], bool] = getattr(operator, how.lstrip("su"))
    if how.startswith("s"):
        return lambda given: int(compare(_signed(given[0], width), _signed(given[1], width)))
    return lambda given: int(compare(given[0], given[1]))


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
