"""What a CTA does in one round of each loop: operations of the tensor cores and of floats, and bytes of global memory.

It is counted in the machine form and in the IR beside it, whose blocks are the same: instructions of tensor cores and
copies by their rows, ordinary loads, stores and arithmetic by their lines in the IR. How many threads run a block is
what the builder knows of it; where it knows nothing, all threads of the CTA are taken, and the numbers are the most.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast

from nvbackend.codegen.looking.built import BuiltKernel
from nvbackend.codegen.looking.ir_places import Place
from nvbackend.codegen.looking.listings import ir_lines
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import RegisterClass
from nvbackend.intrinsics.row.semantics import Completion, Scope
from nvbackend.isel.flow.loops import Loop, loops_of
from nvbackend.isel.machine.function import (
    INSTRUCTION_DESCRIPTOR,
    MachineBlock,
    MachineInstr,
    MemoryUse,
    instruction_descriptor,
)

_WARP, _WARPGROUP = 32, 128
_LABEL = re.compile(r'^"?([\w.$]+)"?:')
_LOAD = re.compile(r"= load (?:volatile )?(?:<(\d+) x (\w+)>|(\w+)), (?:ptr|[^,]*?) ?addrspace\(1\)")
_STORE = re.compile(r"^\s*store (?:volatile )?(?:<(\d+) x (\w+)>|(\w+)) .*, (?:ptr|[^,]*?) ?addrspace\(1\)")
_FLOAT = re.compile(r"= (?:tail )?(fadd|fsub|fmul|fdiv|call) .*?(?:<(\d+) x )?\b(half|bfloat|float|double)\b")
_ASM = re.compile(r'\basm +(?:\w+ )*"(add|sub|mul|fma)\.(?:[a-z.]+\.)?(b?f(?:16|32|64))(x2)? ')
"""What LLVM has no operator for: numbers in pairs, roundings, saturation."""
_FUSED = re.compile(r"@\"?llvm\.fma\.")
_MOVED = (MemoryUse.ASYNC_WRITE, MemoryUse.ASYNC_READ)
_SIZES = {"half": 2, "bfloat": 2, "float": 4, "double": 8}
_NAMES = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
_K_BYTES = 32
"""K of a tcgen05.mma, of one operand (PTX ISA 9.7.16.2.1); of the 4-bit kinds half of them hold two numbers each."""


@dataclass(slots=True)
class Work:
    """Operations by type, a multiplication and an addition being two; bytes that are read and written in global memory.

    `most` says that some of it is at most so much: threads may pass by.
    """

    operations: Counter[str] = field(default_factory=Counter)
    read: int = 0
    written: int = 0
    most: bool = False

    def add(self, other: Work) -> None:
        """With that of another."""
        self.operations += other.operations
        self.read += other.read
        self.written += other.written
        self.most = self.most or other.most

    def __bool__(self) -> bool:
        return bool(self.operations or self.read or self.written)


@dataclass(frozen=True, slots=True)
class LoopWork:
    """One round of a loop, without the loops in it; `place` is its first line, None where no line of it is known.

    `depth` is the number of loops around it, with itself, 0 for code outside of loops; `is_inner` says that no loop
    is in it.
    """

    place: Place | None
    depth: int
    is_inner: bool
    work: Work

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        file, line = self.place or (None, None)
        work = self.work
        counts = {"operations": dict(work.operations), "read": work.read, "written": work.written}
        return {"file": file, "line": line, "depth": self.depth, **counts, "at_most": work.most}


def work_by_loop(kernel: BuiltKernel) -> list[LoopWork]:
    """What one CTA does in a round of each loop that does anything, and outside of loops, in the order of the code."""
    function = kernel.machine
    loops = loops_of(function)
    plain, places = _of_ir(kernel.ir)
    works: dict[str, Work] = {}
    of_header: dict[str, Loop | None] = {}
    for name, block in function.blocks.items():
        if not loops.is_reachable(name):
            continue
        loop = loops.innermost(name)
        header = "" if loop is None else loop.header
        of_header[header] = loop
        works.setdefault(header, Work()).add(_of_block(block, plain.get(name, Work()), kernel))
    every = [loop for loop in of_header.values() if loop is not None]
    told = []
    for header, work in works.items():
        loop = of_header[header]
        if not work:
            continue
        if loop is None:
            told.append(LoopWork(None, 0, not every, work))
            continue
        depth = sum(header in other.blocks for other in every)
        is_inner = not any(other.header in loop.blocks for other in every if other is not loop)
        place = next((places[name] for name in function.blocks if name in loop.blocks and name in places), None)
        told.append(LoopWork(place, depth, is_inner, work))
    return told


def _of_block(block: MachineBlock, plain: Work, kernel: BuiltKernel) -> Work:
    threads = kernel.signature.bounds.threads
    warps, known = -(-threads // _WARP), block.crew is not None
    elected = False
    if block.crew is not None:
        elected = block.crew.elected
        threads = block.crew.bits.bit_count()
        warps = threads if elected else -(-threads // _WARP)
    work = Work(Counter({name: count * threads for name, count in plain.operations.items()}))
    work.read, work.written = plain.read * threads, plain.written * threads
    for instr in block.instructions:
        work.add(_of_instr(instr, threads, 1 if elected else warps, known=known))
    work.most = bool(work) and not known
    return work


def _of_instr(instr: MachineInstr, threads: int, warps: int, *, known: bool) -> Work:
    """What all threads that run the block do by it."""
    row, work = instr.row, Work()
    if row is None:
        return work
    if row.semantics.multiplies:
        name, count = _multiplied(instr)
        groups = {Scope.WARPGROUP: threads // _WARPGROUP, Scope.WARP: warps}.get(row.semantics.together, 1)
        work.operations[name] += count * max(groups, 1)
        return work
    is_bulk = row.semantics.issues in (Completion.BYTES, Completion.BULK_GROUP)
    issuers = 1 if is_bulk and not known else threads  # one thread issues a bulk copy, unless it is known to be more
    moved = sum(touch.bytes or 0 for touch in instr.memory if touch.use in _MOVED)
    for access in row.semantics.memory:
        if not row.has_operand(access.name):
            continue
        register = row.operand(access.name).register
        if register is not RegisterClass.GLOBAL:
            continue
        extent = access.extent if isinstance(access.extent, int) else moved
        work.written += extent * issuers * access.writes
        work.read += extent * issuers * (not access.writes)
    if row.has_operand("tensor_map"):
        is_load = any(touch.use is MemoryUse.ASYNC_WRITE for touch in instr.memory)
        work.read += moved * issuers * is_load
        work.written += moved * issuers * (not is_load)
    return work


def _multiplied(instr: MachineInstr) -> tuple[str, int]:
    """The type of A, and the operations of one multiplication."""
    row = instr.row
    assert row is not None
    if "shape" in row.axes:
        m, n, k = cast("tuple[int, int, int]", row.axes["shape"])
        return f"tensor {row.axes.get('a')}", 2 * m * n * k
    kind = str(row.axes["kind"])
    word = instr.words.get(INSTRUCTION_DESCRIPTOR)
    if word is None:
        return f"tensor {kind}", 0
    decoded = instruction_descriptor(word, kind=kind)
    bits = {"f16": 16, "tf32": 32}.get(kind, 4 if "mxf4" in kind else 8)
    return f"tensor {kind}", 2 * decoded.m * decoded.n * _K_BYTES * 8 // bits * (2 if row.axes["sparse"] else 1)


def _of_ir(text: str) -> tuple[Mapping[str, Work], Mapping[str, Place]]:
    """What one thread does in each block of the IR, and the first line of each block.

    Ordinary loads and stores of global memory and arithmetic of floats; the blocks of the kernel alone.
    """
    blocks: dict[str, Work] = {}
    places: dict[str, Place] = {}
    work, name = Work(), ""
    for listed in ir_lines(text):
        line = listed.text
        label = _LABEL.match(line)
        if label is not None:
            name = label[1]
            work = blocks.setdefault(name, Work())
            continue
        if listed.place is not None:
            places.setdefault(name, listed.place)
        load, store, number, asm = (pattern.search(line) for pattern in (_LOAD, _STORE, _FLOAT, _ASM))
        if load is not None:
            work.read += _bytes(load)
        elif store is not None:
            work.written += _bytes(store)
        elif asm is not None:
            work.operations[asm[2]] += (2 if asm[1] == "fma" else 1) * (2 if asm[3] else 1)
        elif number is not None and (number[1] != "call" or _FUSED.search(line)):
            fused = 2 if number[1] == "call" else 1
            work.operations[_NAMES[number[3]]] += fused * int(number[2] or 1)
    return blocks, places


def _bytes(match: re.Match[str]) -> int:
    count, name = int(match[1] or 1), match[2] or match[3]
    return count * (_SIZES[name] if name in _SIZES else max(int(name[1:]) // 8, 1) if name[1:].isdigit() else 8)
