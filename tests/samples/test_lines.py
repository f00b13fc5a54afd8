"""The lines of Python in a cubin cost nothing: every sample has the instructions that it has without them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator

import pytest

import nvbackend as nvb
from nvbackend.codegen.llvm import compile_ir
from nvbackend.codegen.sass import disassemble
from nvbackend.ptx.syntax import Instruction, Loc, flattened
from samples import flash_attention
from samples.block_scaled_few_rows import WIDTHS, forms
from samples.gemm import choice
from samples.gemm.forms import FORMS
from samples.gemm.thin import Thin
from samples.gemm.wide import Wide
from samples.tensor_dsl.__main__ import TARGETS, layer, totals
from samples.tensor_dsl.kernel import Kernel
from tests.samples.test_problems import KERNELS, SAMPLES, problem_of
from tests.support.lines import without_lines
from tests.support.process import ROOT

GEMMS = (
    "ada_gemm",
    "ampere_gemm",
    "blackwell_gemm",
    "blackwell_pair_gemm",
    "consumer_blackwell_gemm",
    "hopper_gemm",
    "turing_gemm",
)
HELPERS = {
    "__init__",
    "attention_by_tiles",
    "block_scales",
    "formats",
    "problem",
    "program",
    "tuning",
    "turns",
    "warp_tiles",
}
_OF_LINES = re.compile(r"\s*(?:\.loc|\.file|\.section|\$L__(?:func|tmp|inlined)|\.b8|[{}]?$)")
_CODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*$", re.MULTILINE)

Compile = Callable[[], nvb.CompiledKernel]


def samples() -> Iterator[tuple[str, Compile]]:
    """The kernels of every sample, each with a name that begins with its module."""
    for name in GEMMS:
        yield name, importlib.import_module(f"samples.{name}").gemm.compile
    for name, form in KERNELS:
        size = next(size for size in SAMPLES[name].small if form in ("", size[0]))
        yield f"{name} {form}", lambda name=name, size=size: problem_of(name, *size).kernel.compile()
    for form in flash_attention.FORMS:
        yield f"flash_attention {form}", lambda form=form: problem_of("flash_attention", form, 1, 200).kernel.compile()
    for one in (Wide(128, 1, 1, 7), Wide(256, 2, 2, 3), Thin(16, 1, 2, 8), Thin(64, 2, 4, 7, 1)):
        yield f"gemm {one}", lambda one=one: one.kernel.compile()
    for columns in WIDTHS[:3:2]:
        one = forms(columns)[0]
        yield f"block_scaled_few_rows {one.label}", lambda one=one: one.kernel.compile()
    for name, form in FORMS.items():
        one = choice.choose(4096, 4096, 4096, form.operand, form.result, batches=form.batches, majors=form.majors)
        yield f"gemm {name}", lambda one=one: one.kernel.compile()
    for target in TARGETS:
        for name, result in (("layer", layer), ("totals", totals)):
            yield (
                f"tensor_dsl {name} {target}",
                lambda result=result, target=target: Kernel("k", result, target).compiled,
            )


ALL = dict(samples())


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ALL, ids=str)
def test_lines_leave_the_code_of_a_sample_as_it_is(name: str) -> None:
    """The same PTX but for lines, the same SASS, and lines that are there."""
    compiled = ALL[name]()
    plain = compile_ir(without_lines(compiled.ir), compiled.target).ptx
    assert ".loc" not in plain and "debug" not in plain
    assert f".target {compiled.target.name}\n" in compiled.ptx  # `debug` there would make ptxas spill
    with_lines, without = (
        [line for line in one.splitlines() if not _OF_LINES.match(line)] for one in (compiled.ptx, plain)
    )
    assert with_lines == without
    with_lines, without = (
        _CODE.findall(one) for one in (compiled.sass(), disassemble(nvb.codegen.assemble(plain, compiled.target).data))
    )
    assert with_lines == without
    assert len(with_lines) > 50
    assert part_with_a_place(compiled.ptx) > 0.5


def part_with_a_place(ptx: str) -> float:
    """The part of the instructions that have a line."""
    has: list[bool] = []
    for function in nvb.ptx.parse(ptx).functions:
        here = False
        for statement in flattened(() if function.body is None else function.body.statements):
            if isinstance(statement, Loc):
                here = statement.line > 0
            elif isinstance(statement, Instruction):
                has.append(here)
    return sum(has) / len(has)


def test_every_sample_is_there() -> None:
    files = {path.stem for path in (ROOT / "samples").glob("*.py")} - HELPERS
    folders = {path.parent.name for path in (ROOT / "samples").glob("*/__init__.py")}
    assert {name.partition(" ")[0] for name in ALL} == files | folders
