"""IR to PTX: what is printed, for which chip, the same each time; and what LLVM would accept in silence."""

from __future__ import annotations

import hashlib
import re
import time

import pytest

from nvbackend.codegen.llvm import compile_ir
from nvbackend.codegen.ptxas import assemble
from nvbackend.codegen.sass import count_instructions, disassemble
from nvbackend.diagnostics import DiagnosticError
from nvbackend.isel.target.target import Target, lowest_ptx_version, target_names
from tests.support.golden import Golden
from tests.support.ir_texts import SCALE, empty_kernel, wgmma_loop
from tests.support.process import python_output

HOPPER = Target.parse("sm_90a")


def rules_of(caught: pytest.ExceptionInfo[DiagnosticError]) -> list[str]:
    return [found.rule_id for found in caught.value.diagnostics]


@pytest.mark.parametrize("name", target_names())
def test_ptx_is_for_exactly_the_target(name: str) -> None:
    newest = Target.parse(name)
    for target in (newest, Target.parse(name, lowest_ptx_version(newest.number, newest.suffix))):
        ptx = compile_ir(empty_kernel(), target).ptx
        assert re.search(r"^\.target (\S+)$", ptx, re.MULTILINE)[1] == name  # type: ignore[index]
        major, minor = target.ptx_version
        assert f"\n.version {major}.{minor}\n" in ptx
        assert "\n.visible .entry k(" in ptx


def test_a_target_that_llvm_does_not_know_never_reaches_it(capfd: pytest.CaptureFixture[str]) -> None:
    made_up = Target("sm_91q", 91, "q", HOPPER.features, HOPPER.ptx_version)
    with pytest.raises(DiagnosticError) as caught:
        compile_ir(empty_kernel(), made_up)
    assert rules_of(caught) == ["target.unknown"]
    too_old = Target("sm_90a", 90, "a", HOPPER.features, (7, 0))
    with pytest.raises(DiagnosticError) as caught:
        compile_ir(empty_kernel(), too_old)
    assert rules_of(caught) == ["target.ptx-version"]
    assert capfd.readouterr().err == ""


def test_printed_ptx(golden: Golden) -> None:
    golden.check("scale.ptx", compile_ir(SCALE, HOPPER).ptx)


def test_variables_in_memory_become_registers() -> None:
    for level in range(4):
        result = compile_ir(SCALE, HOPPER, optimize=level)
        assert ".local" not in result.ptx, f"level {level}"
        assert ("alloca" in result.optimized_ir) == (level == 0)


def test_stages_are_timed() -> None:
    start = time.perf_counter()
    timings = compile_ir(SCALE, HOPPER).timings
    whole = time.perf_counter() - start
    assert set(timings) == {"parse", "optimise", "print"}
    assert all(seconds > 0 for seconds in timings.values())
    assert sum(timings.values()) <= whole, "the stages follow one another within the call"


@pytest.mark.parametrize("level", [0, 3])
def test_a_chain_of_wgmma_keeps_its_accumulators_in_place(level: int) -> None:
    chain, n = 4, 256
    ptx = compile_ir(wgmma_loop(n, chain), HOPPER, optimize=level).ptx
    assert ptx.count("wgmma.mma_async") == chain
    blocks = re.findall(r"wgmma\.mma_async\S+ \{([^}]*)\}", ptx)
    body = ptx[ptx.index("wgmma.fence") : ptx.index("wgmma.wait_group")]
    # Between fence and wait nothing but the next link's addresses: each link's outputs are the next one's inputs.
    assert len(blocks) == chain
    assert "mov" not in body
    cubin = assemble(ptx, HOPPER)
    assert cubin.diagnostics == ()
    assert n // 2 < cubin.kernel("gemm").registers <= 168
    # ptxas unrolls the loop, so there is more than one chain, and nothing is copied between two of its links.
    counts = count_instructions(disassemble(cubin.data))
    assert counts["HGMMA"] % chain == 0
    assert counts.get("MOV", 0) + counts.get("IMAD", 0) < 8


def test_loops_unroll_only_where_asked() -> None:
    loop = """
define ptx_kernel void @k(ptr addrspace(1) %p) {
entry:
  br label %body
body:
  %i = phi i32 [ 0, %entry ], [ %next, %body ]
  call void asm sideeffect "nanosleep.u32 $0;", "r"(i32 %i)
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, 4
  br i1 %more, label %body, label %exit METADATA
exit:
  ret void
}
!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.full"}
"""
    assert compile_ir(loop.replace("METADATA", ""), HOPPER).ptx.count("nanosleep") == 1
    assert compile_ir(loop.replace("METADATA", ", !llvm.loop !0"), HOPPER).ptx.count("nanosleep") == 4


def test_two_processes_print_the_same() -> None:
    code = """
import hashlib, sys
from nvbackend.codegen.llvm import compile_ir
from nvbackend.isel.target.target import Target
from tests.support.ir_texts import wgmma_loop
result = compile_ir(wgmma_loop(64), Target.parse("sm_90a"))
print(hashlib.sha256((result.ptx + result.optimized_ir).encode()).hexdigest())
"""
    result = compile_ir(wgmma_loop(64), HOPPER)
    here = hashlib.sha256((result.ptx + result.optimized_ir).encode()).hexdigest()
    assert {python_output(code).strip(), python_output(code).strip()} == {here}


def test_what_was_compiled_before_leaves_no_trace() -> None:
    text = "%pair = type { i32, float }\n@unused = global %pair zeroinitializer\n" + empty_kernel()
    first = compile_ir(text, HOPPER)
    compile_ir(text.replace("i32, float", "float, i32"), HOPPER)
    assert compile_ir(text, HOPPER) == first


NOT_DOMINATED = """
define void @k(i1 %c) {
  br i1 %c, label %a, label %b
a:
  %x = add i32 1, 1
  br label %b
b:
  %y = add i32 %x, 1
  ret void
}
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("define void @k() {\n  %x = add i32 1, 1.0\n  ret void\n}\n", "line 2, column 19: %x = add i32 1, 1.0"),
        ("define void @k( {", "expected type"),
        (NOT_DOMINATED, "dominate"),
        # An intrinsic that LLVM knows, with a signature that is not its own.
        (
            SCALE.replace("tid.x()", "tid.x(i64 0)", 2).replace("tid.x(i64 0)", "tid.x(i64)", 1),
            "incorrect argument type",
        ),
    ],
)
def test_invalid_ir_quotes_llvm_and_the_line(text: str, said: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_ir(text, HOPPER)
    assert rules_of(caught) == ["llvm.invalid-ir"]
    assert said in str(caught.value)


ODD = ["a b", "a@b", "a-b", "\u00e9", "a\\22b", "}\\0A"]
"""Names at which LLVM's code generator ends the process."""


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize(
    "text",
    [
        'define ptx_kernel void @"{}"() {{ ret void }}',
        'define void @"{}"() {{ ret void }}',
        'declare void @"{}"()\ndefine ptx_kernel void @k() {{ call void @"{}"()\nret void }}',
        '@"{}" = addrspace(1) global i32 0',
    ],
)
def test_names_that_are_no_symbols_are_refused(name: str, text: str) -> None:
    with pytest.raises(DiagnosticError, match=r"has characters that a symbol of PTX has not") as caught:
        compile_ir(text.format(name, name), HOPPER)
    assert rules_of(caught) == ["llvm.invalid-ir"]


@pytest.mark.parametrize("name", [*ODD, "a.b", "a$b"])
def test_names_that_llvm_leaves_out_or_changes_may_be_any(name: str) -> None:
    declared = f'declare void @"{name}"()\ndefine ptx_kernel void @k(i32 %"{name}") {{ ret void }}'
    assert ".extern" not in compile_ir(declared, HOPPER).ptx
    called = f'call void @"{name}"()\n%"{name}" = alloca i32\nret void'
    own = f'define internal void @"{name}"() noinline {{ ret void }}\ndefine ptx_kernel void @k() {{ {called} }}'
    assert compile_ir(own, HOPPER).ptx.count(".entry k(") == 1


def test_unknown_intrinsics_are_named_all_of_them() -> None:
    text = """
declare i32 @llvm.nvvm.no.such.thing(i32)
declare void @llvm.nvvm.bogus()
declare i32 @helper(i32)
define ptx_kernel void @k(ptr addrspace(1) %p) {
  call void @llvm.nvvm.bogus()
  %x = call i32 @llvm.nvvm.no.such.thing(i32 1)
  %y = call i32 @helper(i32 %x)
  store i32 %y, ptr addrspace(1) %p
  ret void
}
"""
    with pytest.raises(DiagnosticError) as caught:
        compile_ir(text, HOPPER)
    assert rules_of(caught) == ["llvm.unknown-intrinsic"] * 2
    names = [found.values["name"] for found in caught.value.diagnostics]
    assert names == ["llvm.nvvm.bogus", "llvm.nvvm.no.such.thing"]


def test_ir_for_another_machine_is_refused() -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_ir(empty_kernel("x86_64-unknown-linux-gnu"), HOPPER)
    assert rules_of(caught) == ["llvm.foreign-triple"]
    for own in ("nvptx64-nvidia-cuda", "unknown-unknown-unknown"):
        assert compile_ir(empty_kernel(triple=own), HOPPER).ptx == compile_ir(empty_kernel(), HOPPER).ptx


def test_levels_are_those_of_llvm() -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_ir(empty_kernel(), HOPPER, optimize=4)
    assert rules_of(caught) == ["llvm.optimize"]


def test_a_diagnostic_that_is_kept_leaves_nothing_of_llvm_behind() -> None:
    """Its traceback holds our frames: what they refer to is freed late, in an order that no one chooses."""
    said = python_output("""
import gc
from nvbackend.codegen.llvm import compile_ir
from nvbackend.diagnostics import DiagnosticError
from nvbackend.isel.target.target import Target
from tests.codegen.test_llvm import NOT_DOMINATED

def attempt():
    try:
        compile_ir(NOT_DOMINATED, Target.parse("sm_90a"))
    except DiagnosticError as error:
        # A cycle through the frame, so that only the collector frees it.
        kept = error
        return kept

for _ in range(20):
    attempt()
gc.collect()
print("still here")
""")
    assert said == "still here\n"


LEAK = """
import gc, sys
import nvbackend as nvb
from nvbackend.codegen.llvm import compile_ir

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4

target = nvb.Target.parse("sm_90a")
def rounds(count):
    for _ in range(count):
        compile_ir(sys.argv[1], target)
    gc.collect()
    return resident()

first = rounds(40)
print(rounds(200) - first)
"""


def test_a_compile_leaves_no_memory_behind() -> None:
    """The resident KiB of 200 compiles of a small kernel; a pass manager that is not freed is 50 of them each."""
    assert int(python_output(LEAK, SCALE)) < 200 * 8
