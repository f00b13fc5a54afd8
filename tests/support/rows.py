"""One-instruction kernels made from rows, compiled by LLVM in a process of its own and assembled by ptxas.

A kernel reads every operand of its row from global memory, executes the instruction, and writes every output back, each
in the order of the row at SLOT_BYTES from the one before, so nothing can be folded or dropped. LLVM ends its process
where it cannot select; the batch goes on after that row.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from nvbackend.builder.lower.lowering import lower
from nvbackend.intrinsics.row.row import PtxVersion, Role, Row, RowOperand
from nvbackend.isel.target.target import Target, dotted, lowest_ptx_version, target_names
from tests.support.process import ROOT

FIRST_PTXAS_CHIP = 75
"""ptxas 13 knows no older chip."""
RENAMED_CHIP = 101
"""What ptxas 13 knows as sm_110 only."""
PTX_VERSIONS: tuple[PtxVersion, ...] = (
    *((6, minor) for minor in range(6)),
    *((7, minor) for minor in range(9)),
    *((8, minor) for minor in range(9)),
    (9, 0),
)
"""Every PTX version since 6.0, from the release notes of the PTX ISA."""

SLOT_BYTES = 8
"""Between one operand and the next in the kernel's memory."""

_TRIPLE = "nvptx64-nvidia-cuda"

_TYPES: dict[str, ir.Type] = {
    "i1": ir.IntType(1),
    "i16": ir.IntType(16),
    "i32": ir.IntType(32),
    "i64": ir.IntType(64),
    "float": ir.FloatType(),
    "double": ir.DoubleType(),
}

_CHILD = """
import json, os, sys, tempfile
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
triple = llvm.Target.from_triple(sys.argv[1])


def answered(jobs, said):
    for text, cpu, features in jobs:
        try:
            module = llvm.parse_assembly(text)
            module.verify()
            machine = triple.create_target_machine(cpu=cpu, features=features, opt=3)
            answer = [True, machine.emit_assembly(module)]
        except RuntimeError as error:
            answer = [False, str(error)]
        said.write(json.dumps(answer) + "\\n")
        said.flush()


jobs, done = [json.loads(line) for line in sys.stdin], 0
while done < len(jobs):
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as words:
        fork = os.fork()
        if not fork:
            os.dup2(words.fileno(), 2)
            answered(jobs[done:], said)
            os._exit(0)
        _, status = os.waitpid(fork, 0)
        said.seek(0), words.seek(0)
        answers = said.read().splitlines()
        told = words.read().strip().splitlines()
    done += len(answers)
    if done < len(jobs):
        told = told or [f"the process ended with {os.waitstatus_to_exitcode(status)}"]
        answers.append(json.dumps([False, told[0]]))
        done += 1
    print(*answers, sep="\\n")
"""
"""A fork of it answers until LLVM ends it; the next one goes on after that job."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What LLVM made of one kernel: `ptx`, or what it said in `error` (its last words where it ended the process)."""

    ptx: str
    error: str


def kernel_text(
    row: Row,
    name: str = "kernel",
    immediates: Mapping[str, int] | None = None,
    constants: Mapping[str, int] | None = None,
) -> str:
    """The LLVM IR of a kernel `name` that executes `row` once; immediates not given are the first legal value.

    Operands in registers that `constants` names have that number, which LLVM may write as an immediate.
    """
    module = ir.Module(name=name)
    module.triple = _TRIPLE
    memory = ir.PointerType(addrspace=1)
    kernel = ir.Function(module, ir.FunctionType(ir.VoidType(), [memory, memory]), name)
    kernel.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(kernel.append_basic_block())
    source, result = kernel.args
    slots = itertools.count()
    operands: dict[str, int | list[ir.Value]] = {}
    for operand in row.operands:
        if operand.role is Role.IMMEDIATE:
            operands[operand.name] = (immediates or {}).get(operand.name, _first_legal(operand))
        elif constants and operand.name in constants:
            number = ir.Constant(_TYPES[operand.register.llvm], constants[operand.name])
            operands[operand.name] = [number] * operand.count
        elif operand.role is Role.INPUT or operand.tied:
            operands[operand.name] = [_read(builder, source, next(slots), operand) for _ in range(operand.count)]
    results = itertools.chain.from_iterable(lower(builder, row, operands).values())
    for index, value in enumerate(results):
        _write(builder, result, index, value)
    builder.ret_void()
    return str(module)


def _first_legal(operand: RowOperand) -> int:
    assert operand.values, f"{operand.name} is an immediate without legal values"
    return operand.values[0]


def _slot(builder: ir.IRBuilder, base: ir.Value, index: int) -> ir.Value:
    offset = ir.Constant(ir.IntType(64), index * SLOT_BYTES)
    return builder.gep(base, [offset], source_etype=ir.IntType(8))


def _read(builder: ir.IRBuilder, base: ir.Value, index: int, operand: RowOperand) -> ir.Value:
    is_predicate = operand.register.llvm == "i1"
    kind = _TYPES["i32" if is_predicate else operand.register.llvm]
    value = builder.load(_slot(builder, base, index), typ=kind, align=SLOT_BYTES)
    return builder.icmp_unsigned("!=", value, ir.Constant(kind, 0)) if is_predicate else value


def _write(builder: ir.IRBuilder, base: ir.Value, index: int, value: ir.Value) -> None:
    if isinstance(value.type, ir.IntType) and value.type.width == 1:
        value = builder.zext(value, ir.IntType(32))
    builder.store(value, _slot(builder, base, index), align=SLOT_BYTES)


def compile_batch(jobs: Sequence[tuple[str, Target]]) -> list[Compiled]:
    """Each (IR text, target) through LLVM, in order, in a process that its aborts do not end."""
    lines = [json.dumps((text, target.name, target.ptx_attribute)) for text, target in jobs]
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, _TRIPLE],
        input="\n".join(lines),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(jobs)
    return [Compiled(text, "") if fine else Compiled("", text) for fine, text in answers]


def compile_rows(rows: Sequence[tuple[Row, Target]]) -> list[Compiled]:
    """Each row as a kernel of its own, named by its place, for its target."""
    return compile_batch([(kernel_text(row, f"kernel{place}"), target) for place, (row, target) in enumerate(rows)])


def spelled_in(spelling: str, ptx: str) -> bool:
    """Whether `spelling` stands in `ptx` with nothing more of a name or qualifier before or after it."""
    return re.search(rf"(?<![\w.:%]){re.escape(spelling)}(?![\w.:])", ptx) is not None


def joined(texts: Sequence[str]) -> str:
    """Several PTX files for one target as one: the first one's header, then the kernels of all."""
    header = texts[0][: texts[0].index(".visible")]
    return header + "\n".join(text[text.index(".visible") :] for text in texts)


def retargeted(ptx: str, target_name: str, version: PtxVersion) -> str:
    """The same text with another `.target` and `.version`."""
    text = re.sub(r"^\.target .*$", f".target {target_name}", ptx, flags=re.MULTILINE)
    return re.sub(r"^\.version .*$", f".version {dotted(version)}", text, flags=re.MULTILINE)


@functools.cache
def _targets() -> tuple[Target, ...]:
    return tuple(Target.parse(name) for name in target_names())


def _fitting(row: Row, first_chip: int) -> list[Target]:
    return [
        target
        for target in _targets()
        if target.number >= first_chip
        and not (first_chip and target.number == RENAMED_CHIP)
        and target.has(row.requires)
        and target.ptx_version >= row.ptx_version
    ]


def lowest_target(row: Row, first_chip: int = 0) -> Target:
    """The oldest target from `first_chip` on that has `row`, at the lowest PTX version that both of them take."""
    target = _fitting(row, first_chip)[0]
    lowest = lowest_ptx_version(target.number, target.suffix)
    return Target.parse(target.name, max(row.ptx_version, lowest))


def newest_target(row: Row) -> Target:
    """The newest target that has `row`, at the newest PTX version."""
    return _fitting(row, 0)[-1]


def newest_without(row: Row) -> Target | None:
    """The newest target ptxas knows that lacks a feature of `row`, None where all of them have it."""
    without = [target for target in _targets() if not target.has(row.requires) and target.number >= FIRST_PTXAS_CHIP]
    return without[-1] if without else None


def version_before(version: PtxVersion) -> PtxVersion | None:
    """The PTX version before this one, None for the first."""
    place = PTX_VERSIONS.index(version)
    return PTX_VERSIONS[place - 1] if place else None
