"""LLVM, the disassemblers and the command line."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import nvbackend as nvb
from nvbackend.cli import build, catalogue, draw, encode, explain, simulate
from nvbackend.cli import program as commands
from nvbackend.codegen import Tool, assemble, compile_ir, compile_ir_isolated, disassemble, find_disassembler
from nvbackend.codegen.lto.lto_ir import check_lto_ir
from tests.rules.example import program
from tests.rules.setup import BLACKWELL, HOPPER, empty, scratch
from tests.support import wgmma_ptx
from tests.support.ir_texts import TCGEN05_FENCE
from tests.support.process import ROOT

SOFTMAX = str(ROOT / "tests" / "ptx" / "foreign" / "nvrtc_softmax.ptx")


@program("llvm.not-unrolled")
def barrier_in_an_unrolled_loop():
    count = nvb.Scalar(nvb.i32)  # breaks
    count = nvb.Scalar(nvb.i32, multiple_of=4)  # keeps
    k = nvb.KernelBuilder("k", "sm_80", threads=32, parameters=[nvb.Parameter("count", count)])
    with k.range(k.arguments[0], unroll=4):
        k.barrier.sync()
    return k.compile(assemble=False)


@program("llvm.cannot-select")
def tensor_memory_on_hopper():
    """Compiled in a process of its own, which LLVM ends."""
    compile_ir_isolated(TCGEN05_FENCE, HOPPER)  # breaks
    compile_ir_isolated(TCGEN05_FENCE, BLACKWELL)  # keeps


@program("llvm.died")
def constraint_that_llvm_does_not_know():
    """Compiled in a process of its own, which LLVM ends."""
    constraint = "=x"  # breaks
    constraint = "=r"  # keeps
    asm = f'call i32 asm sideeffect "mov.u32 $0, 1;", "{constraint}"()'
    compile_ir_isolated(f"define ptx_kernel void @k() {{\n  %r = {asm}\n  ret void\n}}\n", HOPPER)


@program("llvm.foreign-triple")
def ir_of_another_processor():
    compile_ir('target triple = "x86_64"\n', HOPPER)  # breaks
    compile_ir('target triple = "nvptx64-nvidia-cuda"\n', HOPPER)  # keeps


@program("llvm.invalid-ir")
def sum_of_an_integer_and_a_float():
    compile_ir("define void @k() {\n  %x = add i32 1, 1.0\n  ret void\n}\n", HOPPER)  # breaks
    compile_ir("define void @k() {\n  %x = add i32 1, 1\n  ret void\n}\n", HOPPER)  # keeps


@program("llvm.optimize")
def seventh_level():
    compile_ir("", HOPPER, optimize=7)  # breaks
    compile_ir("", HOPPER, optimize=3)  # keeps


@program("llvm.unknown-intrinsic")
def intrinsic_that_llvm_does_not_know():
    name = "llvm.nvvm.barrier.cta.sync"  # breaks
    name = "llvm.nvvm.barrier.cta.sync.aligned.all"  # keeps
    compile_ir(f"declare void @{name}(i32)\ndefine void @k() {{\n  call void @{name}(i32 0)\n  ret void\n}}\n", HOPPER)


@program("saved.file")
def folder_that_there_is_not():
    with scratch():
        empty().compile(assemble=False).save("none/kernel.nvb")  # breaks
        empty().compile(assemble=False).save("kernel.nvb")  # keeps


@program("saved.damaged")
def file_that_was_cut_off():
    with scratch():
        path = Path("kernel.nvb")
        empty().compile(assemble=False).save(path)
        path.write_bytes(path.read_bytes()[:-1])  # breaks
        nvb.load_compiled(path)


@program("saved.format")
def file_of_another_version():
    with scratch():
        path = Path("kernel.nvb")
        with patch("nvbackend.codegen.saved.written.FORMAT_VERSION", 1):  # breaks
            empty().compile(assemble=False).save(path)  # breaks
        empty().compile(assemble=False).save(path)  # keeps
        nvb.load_compiled(path)


@program("saved.together")
def same_target_twice():
    with scratch():
        hopper = empty().compile(assemble=False)
        other = empty("sm_90a").compile(assemble=False)  # breaks
        other = empty("sm_80").compile(assemble=False)  # keeps
        hopper.save("kernel.nvb", other)


@program("saved.holds")
def module_loaded_as_a_kernel():
    @nvb.kernel("sm_90a", threads=32)
    def meet(k):
        k.barrier.sync()

    with scratch():
        nvb.compile_module([meet], assemble=False).save("kernels.nvb")
        nvb.load_compiled("kernels.nvb")  # breaks
        nvb.load_compiled_module("kernels.nvb")  # keeps


@program("sass.failed")
def bytes_that_are_no_cubin():
    cubin = b"not an image"  # breaks
    cubin = assemble(wgmma_ptx.kernel(""), HOPPER).data  # keeps
    disassemble(cubin)


@program("sass.missing")
def machine_without_a_disassembler():
    with patch("nvbackend.codegen.toolchain.locate", return_value=None):  # breaks
        find_disassembler()  # breaks
    find_disassembler()  # keeps


@nvb.function
def _lane_sum(k: nvb.Builder, x: nvb.i32) -> nvb.i32:
    total: nvb.Value = k.warp.reduce("add", x)
    return total


@program("lto.missing")
def machine_without_libnvvm():
    with patch("nvbackend.codegen.lto.libraries._places", return_value=iter(())):  # breaks
        _lane_sum.compile("sm_100").lto_ir()  # breaks
    _lane_sum.compile("sm_100").lto_ir()  # keeps


@program("lto.dialect")
def instruction_that_llvm_7_lacks():
    _lane_sum.compile("sm_90").lto_ir()  # breaks
    _lane_sum.compile("sm_100").lto_ir()  # keeps


@program("lto.input")
def ptx_for_lto_ir():
    compiled = _lane_sum.compile("sm_100")
    check_lto_ir(compiled.ptx.encode(), compiled.name, compiled.target)  # breaks
    check_lto_ir(compiled.lto_ir(), compiled.name, compiled.target)  # keeps


@program("toolchain.broken")
def path_without_a_program():
    Tool.at("/nothing/ptxas")  # breaks
    Tool.at(find_disassembler().path)  # keeps


@program("toolchain.directory")
def machine_without_a_temporary_directory():
    cubin = assemble(wgmma_ptx.kernel(""), HOPPER).data
    with patch("tempfile.mkdtemp", side_effect=FileNotFoundError(2, "No usable temporary directory")):  # breaks
        disassemble(cubin)  # breaks
    disassemble(cubin)  # keeps


@program("cli.usage", located=False)
def command_with_a_typing_error():
    commands.parser().parse_args(["catalog"])  # breaks
    commands.parser().parse_args(["catalogue"])  # keeps


@program("dump.write")
def dump_into_a_file():
    with scratch(), patch.dict("os.environ", NVBACKEND_DUMP="forms"):
        Path("forms").write_text("")  # breaks
        empty().compile(assemble=False)


@program("log.write")
def log_into_a_folder():
    with scratch(), patch.dict("os.environ", NVBACKEND_LOG="lines"):
        Path("lines").mkdir()  # breaks
        empty().compile(assemble=False)


@program("cli.build")
def kernel_that_is_not_there():
    with scratch():
        text = "import nvbackend as nvb\n@nvb.kernel('sm_80', threads=32)\ndef first(k): pass\n"
        Path("kernels.py").write_text(text)
        name = "second"  # breaks
        name = "first"  # keeps
        list(build.run(commands.parser().parse_args(["build", f"kernels.py:{name}", "--show", "ptx"])))


@program("cli.family")
def family_with_a_typing_error():
    list(catalogue.run(commands.parser().parse_args(["catalogue", "--family", "wgma"])))  # breaks
    list(catalogue.run(commands.parser().parse_args(["catalogue", "--family", "cluster"])))  # keeps


@program("cli.own-rows")
def rows_of_a_module_that_has_none():
    name = "nvbackend.rows"  # breaks
    name = "nvbackend.intrinsics.catalogue"  # keeps
    list(catalogue.run(commands.parser().parse_args(["catalogue", "--family", "traps", "--rows", name])))


@program("cli.spelling")
def spelling_without_a_qualifier():
    list(explain.run(commands.parser().parse_args(["explain", "wgmma.fence.aligned"])))  # breaks
    list(explain.run(commands.parser().parse_args(["explain", "wgmma.fence.sync.aligned"])))  # keeps


@program("cli.line")
def line_that_declares():
    line = 1  # breaks
    line = Path(SOFTMAX).read_text(encoding="utf-8").partition("ld.param")[0].count("\n") + 1  # keeps
    list(explain.run(commands.parser().parse_args(["explain", f"{SOFTMAX}:{line}"])))


@program("cli.simulate")
def text_for_a_number():
    rows = "four"  # breaks
    rows = "4"  # keeps
    arguments = ["--shared", "64", "--block", "32", "--arg", "f32[4]=ones", "--arg", "f32[4]", "--arg", rows]
    list(simulate.run(commands.parser().parse_args(["simulate", SOFTMAX, *arguments])))


@program("cli.draw")
def layout_with_an_operand():
    list(draw.run(commands.parser().parse_args(["draw", "(8,8):(8,1)", "--operand", "d"])))  # breaks
    list(draw.run(commands.parser().parse_args(["draw", "(8,8):(8,1)", "--banks", "32"])))  # keeps


@program("cli.operand")
def fragment_of_a_descriptor():
    spelling = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    list(draw.run(commands.parser().parse_args(["draw", spelling, "--operand", "b_desc"])))  # breaks
    list(draw.run(commands.parser().parse_args(["draw", spelling, "--operand", "d"])))  # keeps


@program("cli.word")
def field_with_a_typing_error():
    field = "strid_byte_offset=1024"  # breaks
    field = "stride_byte_offset=1024"  # keeps
    given = ["start_address=0x400", "leading_byte_offset=16", field]
    list(encode.run(commands.parser().parse_args(["encode", "wgmma-desc", *given])))


@program("cli.output")
def picture_where_a_directory_is():
    file = "/"  # breaks
    file = "/dev/null"  # keeps
    list(draw.run(commands.parser().parse_args(["draw", "(8,8):(8,1)", "-o", file])))
