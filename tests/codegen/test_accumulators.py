"""Accumulators that LLVM does not see: the numbers, and the machine code, are those of the kernel that it does see."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.codegen import llvm
from nvbackend.codegen.llvm import compile_ir
from nvbackend.codegen.ptxas import assemble
from nvbackend.codegen.sass import disassemble
from nvbackend.codegen.stages.accumulators import held
from nvbackend.codegen.stages.accumulators.followed import Followed
from nvbackend.isel.target.target import Target
from nvbackend.simulator import Simulator
from samples import convolution, dynamic_gemm, flash_attention, hopper_gemm
from samples.w4a16 import __main__ as w4a16

SM_90A = Target.parse("sm_90a")
VARIABLES, LANES = 6, 32
OWN = 4
"""Of the variables so many are set by assembly alone, unless a program is a wild one."""
SEEDS = range(150)

KERNELS: dict[str, Callable[[], nvb.KernelDefinition]] = {
    "hopper_gemm": lambda: hopper_gemm.gemm,
    "dynamic_gemm": lambda: dynamic_gemm.problem(136, 264, 136).kernel,
    "convolution": lambda: convolution.problem(2, 7, 72, 136).kernel,
    "w4a16": lambda: w4a16.problem(72, 256, 256).kernel,
    "flash_attention": lambda: flash_attention.problem("causal", 1, 136).kernel,
}


def code(ptx: str) -> list[str]:
    """The instructions of a kernel, as they are disassembled, without padding."""
    lines = disassemble(assemble(ptx, SM_90A).data).splitlines()
    texts = [re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", line)).strip() for line in lines if ";" in line]
    return [text for text in texts if text and "NOP" not in text]


@pytest.mark.parametrize("name", KERNELS)
def test_the_machine_code_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though LLVM has fewer values that a loop carries on."""
    ir = KERNELS[name]().build().ir
    kept = compile_ir(ir, SM_90A)
    monkeypatch.setattr(llvm, "held", lambda text: text)
    seen = compile_ir(ir, SM_90A)
    assert kept.optimized_ir.count("phi float") < seen.optimized_ir.count("phi float")
    assert re.search(r"wgmma\.mma_async.*\{%acc0_0, ", kept.ptx)
    assert not re.search(r"wgmma\.mma_async.*\{%acc", seen.ptx)
    assert code(kept.ptx) == code(seen.ptx)


class Program:
    """A random kernel in the builder's words, over variables that assembly adds to, moves, and leaves alone."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0
        self._lines: list[str] = []
        self._held: dict[str, list[str]] = {}
        self._is_wild = self._random.random() < 0.3

    def text(self) -> str:
        """The module."""
        self._begin()
        self._block(depth=2)
        stores = [
            line
            for number in range(VARIABLES)
            for line in (
                *self._last(number),
                f'  %"at.{number}" = getelementptr float, ptr addrspace(1) %"mine", i32 {number * LANES}',
                f'  store float %"sum.{number}", ptr addrspace(1) %"at.{number}"',
            )
        ]
        start = [
            *(f'  %"v.{number}" = alloca float' for number in range(VARIABLES)),
            '  %"turn" = alloca i32',
            '  %"tid" = call i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()',
            '  %"mine" = getelementptr float, ptr addrspace(1) %"out", i32 %"tid"',
        ]
        types = [f'%"{n} x float" = type {{{", ".join(["float"] * n)}}}' for n in range(2, VARIABLES + 1)]
        head = 'define ptx_kernel void @"k"(ptr addrspace(1) %"out")'
        body = [head, "{", "entry:", *start, *self._lines, *stores, "  ret void", "}"]
        declared = 'declare i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()'
        return "\n".join(['target triple = "nvptx64-nvidia-cuda"', *types, *body, declared, ""])

    def _last(self, number: int) -> list[str]:
        """What a variable and the next one hold at the end, added: one or both by assembly that does nothing else."""
        names = [f'%"last.{number}.{each}"' for each in range(3)]
        both = ", ".join(f"float {name}" for name in names[:2])
        also = f"float {names[2]}" if self._count % 3 else both.split(", ")[0]  # of a value that another one takes
        return [
            *(f'  {name} = load float, float* %"v.{(number + each) % VARIABLES}"' for each, name in enumerate(names)),
            f'  %"pair.{number}" = call float asm  "sub.rn.f32 $0, $2, $1;", "=f,f,f"({both})',
            f'  %"more.{number}" = call float asm  "add.rn.f32 $0, $1, $1;", "=f,f"({also})',
            f'  %"sum.{number}" = fadd float %"pair.{number}", %"more.{number}"',
        ]

    def _begin(self) -> None:
        """Every variable gets a number of its own, by assembly."""
        values = [self._loaded(number) for number in range(VARIABLES)]
        moves = " ".join(f"mov.b32 ${number}, 0f{0x3F800000 + (number << 20):08X};" for number in range(VARIABLES))
        for number, value in enumerate(self._assembled(f"/* wgmma. */ {moves}", values)):
            self._stored(value, number)
        self._held = {}

    def _name(self) -> str:
        self._count += 1
        return f'%".{self._count}"'

    def _block(self, depth: int) -> None:
        for _ in range(self._random.randint(2, 5)):
            kinds = [self._assembly, self._assembly, self._arithmetic, self._restore, self._pass]
            self._random.choice([*kinds, *([self._branch, self._loop] if depth else [])])(depth)

    def _loaded(self, number: int) -> str:
        """A variable's value: read now, or before, which may be another one."""
        before = self._held.get(str(number), [])
        if before and self._random.random() < (0.5 if self._is_wild else 0.25):
            return self._random.choice(before)
        name = self._name()
        self._lines.append(f'  {name} = load float, float* %"v.{number}"')
        self._held.setdefault(str(number), []).append(name)
        return name

    def _stored(self, name: str, number: int) -> None:
        self._lines.append(f'  store float {name}, float* %"v.{number}"')

    def _restore(self, _depth: int) -> None:
        """A variable gets a value that it had before."""
        number = self._any()
        self._stored(self._loaded(number), number)

    def _any(self) -> int:
        """A variable that something else may set."""
        return self._random.randrange(0 if self._is_wild else OWN, VARIABLES)

    def _assembly(self, _depth: int) -> None:
        """A run of additions to some variables, as an accumulator has it, whose results go there, elsewhere or lost."""
        is_odd = self._is_wild and self._random.random() < 0.1
        several = self._random.choices if is_odd else self._random.sample
        numbers = several(range(VARIABLES), k=self._random.randint(2, VARIABLES))
        values = [self._loaded(number) for number in numbers]
        for _ in range(self._random.randint(1, 3)):
            values = self._added(values)
            for number, value in zip(numbers, values, strict=True):
                if self._is_wild and self._random.random() < 0.2:
                    self._held.setdefault(str(number), []).append(value)
        is_moved = self._is_wild and self._random.random() < 0.3
        targets = self._random.sample(range(VARIABLES), len(numbers)) if is_moved else numbers
        for target, value in zip(targets, values, strict=True):
            if not self._is_wild or self._random.random() < 0.9:
                self._stored(value, target)
        if (
            self._is_wild and self._random.random() < 0.2
        ):  # a result that is taken when its variable may have another value
            (name, line), number = self._late(), self._random.randrange(VARIABLES)
            self._restore(0)
            self._lines.append(line)
            self._stored(name, number)

    def _late(self) -> tuple[str, str]:
        """A name, and the line that gives it the first result of the last assembly."""
        name, line = self._name(), next(line for line in reversed(self._lines) if line.endswith(", 0"))
        return name, f"  {name} = {line.split(' = ')[1]}"

    def _added(self, values: list[str]) -> list[str]:
        """Each one more, or twice as much; only what is waited for may be read."""
        kind = self._random.choice(["wgmma.", "wgmma.wait_group"])
        step = self._random.choice(["0f3F800000", "0f40000000"])
        adds = " ".join(f"add.rn.f32 ${number}, ${number}, {step};" for number in range(len(values)))
        return self._assembled(f"/* {kind} */ {adds}", values)

    def _assembled(self, text: str, values: list[str]) -> list[str]:
        count, whole = len(values), self._name()
        letters = ",".join(["=f"] * count + [str(number) for number in range(count)] + ["~{memory}"])
        passed = ", ".join(f"float {value}" for value in values)
        kind = f'%"{count} x float"'
        self._lines.append(f'  {whole} = call {kind} asm sideeffect "{text}", "{letters}"({passed}) convergent')
        names = [self._name() for _ in values]
        self._lines += [f"  {name} = extractvalue {kind} {whole}, {number}" for number, name in enumerate(names)]
        return names

    def _arithmetic(self, _depth: int) -> None:
        source, target = self._random.randrange(VARIABLES), self._any()
        first, second, name = self._loaded(source), self._loaded(target), self._name()
        self._lines.append(f"  {name} = fadd float {first}, {second}")
        self._stored(name, target)

    def _pass(self, _depth: int) -> None:
        """A jump to a block that nothing else enters."""
        label = f"next.{self._count}"
        self._count += 1
        self._lines += [f'  br label %"{label}"', f"{label}:"]

    def _inside(self, depth: int) -> None:
        """A block whose values are of no use after it."""
        held = {number: [*values] for number, values in self._held.items()}
        self._block(depth - 1)
        self._held = held

    def _branch(self, depth: int) -> None:
        condition, masked, here = self._name(), self._name(), self._count
        self._lines += [
            f'  {masked} = and i32 %"tid", {1 << self._random.randrange(5)}',
            f"  {condition} = icmp eq i32 {masked}, 0",
            f'  br i1 {condition}, label %"then.{here}", label %"end.{here}"',
            f"then.{here}:",
        ]
        self._inside(depth)
        self._lines += [f'  br label %"end.{here}"', f"end.{here}:"]

    def _loop(self, depth: int) -> None:
        turn, more, after, here = self._name(), self._name(), self._name(), self._count
        self._lines += ['  store i32 0, i32* %"turn"', f'  br label %"loop.{here}"', f"loop.{here}:"]
        held = {number: [*values] for number, values in self._held.items()}
        for _ in range(2):
            self._assembly(0)
        self._held = held
        self._lines += [
            f'  {turn} = load i32, i32* %"turn"',
            f"  {after} = add i32 {turn}, 1",
            f'  store i32 {after}, i32* %"turn"',
            f"  {more} = icmp slt i32 {after}, 3",
            f'  br i1 {more}, label %"loop.{here}", label %"over.{here}"',
            f"over.{here}:",
        ]


def numbers(ptx: str) -> np.ndarray:
    """What the kernel leaves, in the simulator."""
    out = np.zeros(VARIABLES * LANES, np.float32)
    Simulator("sm_90a").load(ptx).launch("k", block=(LANES,), args=[out])
    return out


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_compute_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ir = Program(seed).text()
    kept = compile_ir(ir, SM_90A, optimize=seed % 4)
    monkeypatch.setattr(llvm, "held", lambda text: text)
    np.testing.assert_array_equal(numbers(kept.ptx), numbers(compile_ir(ir, SM_90A, optimize=seed % 4).ptx))


def in_another_order(ir: str, seed: int) -> str:
    """The module, whose blocks after the first are in an order by chance: values may be used before they are made."""
    start, end = ir.index("entry:"), ir.rindex("}")
    first, *others = re.split(r"^(?=[\w.]+:$)", ir[start:end], flags=re.MULTILINE)
    random.Random(seed).shuffle(others)
    return ir[:start] + first + "".join(others) + ir[end:]


def test_another_round_would_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [text for seed in SEEDS for ir in (Program(seed).text(),) for text in (ir, in_another_order(ir, seed))]
    once = [held(program) for program in programs]
    assert once != programs
    ends_before: dict[int, dict[int, object]] = {}

    def unchanged(self: Followed, _code: object, _begins: object, ends: dict[int, object]) -> bool:
        before, ends_before[id(self)] = ends_before.get(id(self)), dict(ends)
        return before == ends

    monkeypatch.setattr(Followed, "_is_settled", unchanged)
    for program, expected in zip(programs, once, strict=True):
        ends_before.clear()
        assert held(program) == expected


def with_commas(ir: str) -> str:
    """The module, whose variables and blocks have names with a comma and a space in them."""
    ir = re.sub(r'%"(v|then|end|next|loop|over)\.(\d+)"', r'%"\1, \2"', ir)
    return re.sub(r"^(then|end|next|loop|over)\.(\d+):$", r'"\1, \2":', ir, flags=re.MULTILINE)


def test_names_may_have_what_separates_others() -> None:
    for seed in SEEDS:
        ir = Program(seed).text()
        assert held(with_commas(ir)) == with_commas(held(ir))


def test_a_constant_may_have_what_separates_arguments() -> None:
    """And what LLVM refuses is left to it."""
    pair = ADDED.replace('"=f,=f,0,1"', '"=f,=f,0,1,r"').replace('%".2")', '%".2", <2 x half> <half 0.0, half 0.0>)')
    assert "(<2 x half> <half 0.0, half 0.0>)" in held(pair)
    assert numbers(compile_ir(pair, SM_90A).ptx)[0] == 3
    too_many = ADDED.replace('%".2")', '%".2", float 0.0)')
    assert held(too_many) == too_many
    with pytest.raises(nvb.DiagnosticError, match=r"llvm\.invalid-ir"):
        compile_ir(too_many, SM_90A)


def test_random_programs_hold_registers() -> None:
    """Most of them, some of their variables, and not all."""
    texts = [held(Program(seed).text()) for seed in SEEDS]
    counts = [int(match[1]) if (match := re.search(r"\.reg \.b32 %acc0_<(\d+)>", text)) else 0 for text in texts]
    assert set(counts) >= set(range(OWN + 1))
    assert sum(map(bool, counts)) > len(texts) // 3


ADDED = """\
target triple = "nvptx64-nvidia-cuda"
%"2 x float" = type {float, float}
define ptx_kernel void @"k"(ptr addrspace(1) %"out")
{
entry:
  %"a" = alloca float
  %"b" = alloca float
  %".1" = load float, float* %"a"
  %".2" = load float, float* %"b"
  %".3" = call %"2 x float" asm sideeffect "/* wgmma.wait_group */ mov.f32 $0, 0f40400000;", "=f,=f,0,1"\
(float %".1", float %".2")
  %".4" = extractvalue %"2 x float" %".3", 0
  %".5" = extractvalue %"2 x float" %".3", 1
  store float %".4", float* %"a"
  store float %".5", float* %"b"
  %".6" = load float, float* %"a"
  store float %".5", ptr addrspace(1) %"out"
  store float %".6", ptr addrspace(1) %"out"
  ret void
}
"""
END, ASSEMBLY = "  ret void", "/* wgmma.wait_group */ mov.f32 $0, 0f40400000;"
AGAIN = '  br i1 %"more", label %"again", label %"over"\nover:\n  ret void'
SEEN = {
    "the whole result": (END, '  store %"2 x float" %".3", ptr addrspace(1) %"out"\n  ret void'),
    "the variables": (
        END,
        '  store ptr %"a", ptr addrspace(1) %"out"\n  store ptr %"b", ptr addrspace(1) %"out"\n  ret void',
    ),
    "others set them": (END, '  store float 1.0, float* %"a"\n  store float 1.0, float* %"b"\n  ret void'),
    "one gets the value of the other": (
        '  store float %".4", float* %"a"\n  store float %".5", float* %"b"',
        '  store float %".5", float* %"a"\n  store float %".4", float* %"b"',
    ),
    "a merge, which is not there yet": (
        END,
        """  br label %"next"
next:
  %".7" = phi float [%".4", %"entry"]
  %".8" = phi float [%".5", %"entry"]
  store float %".7", ptr addrspace(1) %"out"
  store float %".8", ptr addrspace(1) %"out"
  ret void""",
    ),
    "a loop that begins again with what was before it": (
        '  %".3" = ',
        """  br label %"again"
again:
  %".3" = """,
    ),
    "a wgmma in flight": ("wgmma.wait_group", "wgmma.mma_async"),
    "one variable twice": ('(float %".1", float %".2")', '(float %".1", float %".1")'),
    "other assembly has its results": (
        END,
        (
            '  %".7" = call %"2 x float" asm sideeffect "neg.f32 $0, $0;", "=f,=f,0,1"(float %".4", float %".5")\n'
            '  %".8" = extractvalue %"2 x float" %".7", 0\n  store float %".8", ptr addrspace(1) %"out"\n  ret void'
        ),
    ),
    "results that are taken once more after the next": (
        '  store float %".4", float* %"a"\n  store float %".5", float* %"b"',
        (
            f'  %".7" = call %"2 x float" asm sideeffect "{ASSEMBLY}", "=f,=f,0,1"(float %".4", float %".5")\n'
            '  %".8" = extractvalue %"2 x float" %".3", 0\n  %".9" = extractvalue %"2 x float" %".3", 1\n'
            '  store float %".8", ptr addrspace(1) %"out"\n  store float %".9", ptr addrspace(1) %"out"\n'
            '  %".10" = extractvalue %"2 x float" %".7", 0\n  %".11" = extractvalue %"2 x float" %".7", 1\n'
            '  store float %".10", float* %"a"\n  store float %".11", float* %"b"'
        ),
    ),
    "a dollar": (ASSEMBLY, f"{ASSEMBLY} // $$"),
    "a modifier": ("mov.f32 $0", "mov.f32 ${0:c}"),
    "another assembly": ("wgmma.", "mma."),
    "results of another kind": ('"=f,=f,0,1"', '"=f,=d,0,1"'),
    "an entry of another name": ("entry:", "start:"),
    "a brace on a line of its own": (ASSEMBLY, f"{{ {ASSEMBLY}\n}}\n"),
}


def test_two_variables_are_held() -> None:
    text = held(ADDED)
    assert "alloca" not in text
    assert "mov.f32 %acc0_0, 0f40400000;" in text
    assert numbers(compile_ir(ADDED, SM_90A).ptx)[0] == 3


@pytest.mark.parametrize("what", SEEN)
def test_what_may_be_wrong_in_registers_stays_as_it_is(what: str) -> None:
    text = ADDED.replace(*SEEN[what])
    assert text != ADDED
    if "again:" in text:
        text = text.replace(END, '  %"more" = icmp eq ptr addrspace(1) %"out", null\n' + AGAIN)
    assert held(text) == text


def test_a_store_on_one_path_says_nothing_of_another() -> None:
    """One block gets the value into the variable, and its sibling reads the variable as it was."""
    branch = '  br i1 %"more", label %"stored", label %"read"\nstored:'
    load = '  %".6" = load float, float* %"a"'
    text = ADDED.replace(
        'float %".4", float* %"a"\n',
        f'float 0.0, ptr addrspace(1) %"out"\n{branch}\n  store float %".4", float* %"a"\n',
    )
    text = text.replace(load, f"  ret void\nread:\n{load}")
    assert text.count('"a"') == ADDED.count('"a"')
    assert re.search(r'load float, float\* %"a"\n  store', held(text))


def test_llvm_reads_the_type_of_many_copies_once() -> None:
    load = '  %".6" = load float, float* %"a"\n'
    text = ADDED.replace(load, f'{load}  %".7" = load float, float* %"b"\n')
    text = text.replace(END, '  store float %".7", ptr addrspace(1) %"out"\n' + END)
    assert '%acc0.type0 = type {float, float} define ptx_kernel void @"k"' in held(text)
    assert held(text).count("{float, float}") == 2  # the builder has one
    assert re.search(r"mov\.b32 \S+ %acc0_0;\n\s*mov\.b32 \S+ %acc0_1;", compile_ir(text, SM_90A).ptx)


def test_names_of_the_assembly_are_not_taken_again() -> None:
    text = ADDED.replace("/* wgmma.", "{ .reg .f32 %acc; } /* wgmma.")
    assert ".reg .b32 %acc_0_<2>;" in held(text)
    assert numbers(compile_ir(text, SM_90A).ptx)[0] == 3


def test_other_operands_attributes_and_locations_stay() -> None:
    operands = '(float %".1", float %".2"'
    text = ADDED.replace("{float, float}", "{float, float, <2 x half>}").replace('"=f,=f,0,1"', '"=f,=f,=r,0,1,2"')
    text = text.replace(f"{operands})", f'{operands}, <2 x half> %"h") nounwind, !dbg !1')
    text = text.replace('%"out")', '%"out", <2 x half> %"h")')
    text = text.replace(END, f'  %".7" = extractvalue %"2 x float" %".3", 2, !dbg !2\n{END}')
    assert re.search(r' = call <2 x half> asm .*, "=r,0"\(<2 x half> %"h"\) nounwind, !dbg !1\n', held(text))
    assert '  %".7" = bitcast <2 x half> %".3" to <2 x half>, !dbg !2\n' in held(text)


def test_names_may_have_spaces() -> None:
    assert held(ADDED.replace('".1"', '"of a"').replace('".2"', '"of %a, %b"')) == held(ADDED)


def test_one_result_is_not_taken_apart() -> None:
    call = 'call float asm sideeffect "/* wgmma.wait_group */ mov.f32 $0, 0f40000000;", "=f,0"(float %".1")'
    text = re.sub(r'  %"\.3" = .*\n.*\n.*\n', f'  %".4" = {call}\n', ADDED).replace('float %".5"', 'float %".2"')
    assert held(text) == text
    assert numbers(compile_ir(text, SM_90A).ptx)[0] == 2
