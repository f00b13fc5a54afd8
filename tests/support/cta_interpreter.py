"""A CTA's LLVM IR, executed thread by thread in Python: integers and floats, memory, ldmatrix, mma.sync, barriers.

Values are bits; memory is bytes. What warps do together is in `warp_interpreter`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import ir

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.row import Row
from tests.support.warp_interpreter import LANES, base_of, pack, read, signed, together, unpack

_SHARED = 0
MOST_SHARED_BYTES = 227 << 10
"""What a CTA of sm_90 may have (CUDA Programming Guide, compute capabilities)."""
"""Where shared memory begins; each array has a gibibyte of its own behind it."""
_SPACE = 1 << 30
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
    memory[_SHARED] = np.zeros(MOST_SHARED_BYTES, np.uint8)
    waiting = [_Thread(k, thread, starts, memory).run() for thread in range(threads)]
    asked: list[Collective | None] = [next(one, None) for one in waiting]
    while any(one is not None for one in asked):
        for first in range(0, threads, LANES):
            warp = range(first, min(first + LANES, threads))
            given = [asked[thread] for thread in warp]
            while given[0] is not None and not given[0][0].opcode.startswith("bar"):
                assert all(one is not None and one[0] is given[0][0] for one in given), "a warp diverged"
                found = together(given[0][0], [one[1] for one in given if one is not None], memory)
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
            return lambda r, memory: pack(unpack(r[a], width) * unpack(r[b], width) + unpack(r[c], width), width)
        places, mask = [self.slot(each) for each in one.operands], (1 << width) - 1
        if name in _REALS:
            real = _REALS[name]
            return lambda r, memory: pack(real(*(unpack(r[each], width) for each in places)), width)
        if name in _INTEGERS:
            integer, (left, right) = _INTEGERS[name], places
            return lambda r, memory: integer(r[left], r[right]) & mask
        source = _bits(one.operands[0].type)
        if name in _SIGNED:
            with_sign, (left, right) = _SIGNED[name], places
            return lambda r, memory: with_sign(signed(r[left], source), signed(r[right], source)) & mask
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
            base = base_of(memory, r[place])
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
        ("fpext", "fptrunc"), lambda one, width, source: lambda given: pack(unpack(given[0], source), width)
    ),
    "sitofp": lambda one, width, source: lambda given: pack(float(signed(given[0], source)), width),
    "sext": lambda one, width, source: lambda given: signed(given[0], source),
    "icmp": lambda one, width, source: _compared(one.op, source),
    "getelementptr": lambda one, width, source: _moved(_bits(one.operands[1].type)),
    "select": lambda one, width, source: lambda given: given[1] if given[0] & 1 else given[2],
    "extractelement": lambda one, width, source: lambda given: given[0] >> given[1] * width,
    "insertelement": lambda one, width, source: _inserted(_bits(one.operands[1].type)),
}
"""Of an instruction, its width and that of its first operand: what gives its bits, of those of its operands."""
_REALS: dict[str, Callable[[float, float], float]] = {"fadd": lambda a, b: a + b, "fmul": lambda a, b: a * b}


def _moved(width: int) -> Callable[[list[int]], int]:
    return lambda given: given[0] + signed(given[1], width)


def _inserted(width: int) -> Callable[[list[int]], int]:
    def insert(given: list[int]) -> int:
        vector, value, place = given
        return vector & ~((1 << width) - 1 << place * width) | value << place * width

    return insert


def _compared(how: str, width: int) -> Callable[[list[int]], int]:
    compare: Callable[[int, int], bool] = getattr(operator, how.lstrip("su"))
    if how.startswith("s"):
        return lambda given: int(compare(signed(given[0], width), signed(given[1], width)))
    return lambda given: int(compare(given[0], given[1]))


def _bits(kind: Any) -> int:
    if isinstance(kind, ir.VectorType):
        return int(kind.count) * _bits(kind.element)
    for one, width in ((ir.FloatType, 32), (ir.DoubleType, 64), (ir.HalfType, 16), (ir.PointerType, 64)):
        if isinstance(kind, one):
            return width
    return int(getattr(kind, "width", 16))


def _constant(given: ir.Constant) -> int:
    number, width = given.constant, _bits(given.type)
    if number in (None, ir.Undefined):
        return 0
    if isinstance(number, (list, tuple)):
        each = width // len(number)
        return sum(_constant(one) << place * each for place, one in enumerate(number))
    return pack(number, width) if isinstance(number, float) else int(number) & (1 << width) - 1
