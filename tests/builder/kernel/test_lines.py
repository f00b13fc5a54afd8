"""The `.loc` lines of the PTX are those of the user's calls. The witness is the source of this file."""

from __future__ import annotations

import inspect
import itertools
import re
import sys

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import i32, u32
from nvbackend.builder.lower.lines import Lines
from nvbackend.codegen.llvm import compile_ir
from nvbackend.codegen.stages.inlined import FIRST_KEY, LAST_KEY, OUTERMOST, TABLE
from nvbackend.codegen.toolchain import find_disassembler
from nvbackend.diagnostics import Location
from nvbackend.diagnostics.ascii_paths import ascii_path, plain_path
from nvbackend.diagnostics.location import CallerChain
from nvbackend.ptx.syntax import Block, Instruction, Loc
from tests.support.proxy_program import MMA, TILE


def ptx_of(definition, **options):
    finished = definition.build(**options)
    return compile_ir(finished.ir, finished.target).ptx


def located(ptx):
    """Each instruction of the PTX with the file and line of the `.loc` before it; None before the first."""
    module = nvb.ptx.parse(ptx)
    for function in module.functions:
        here = None
        for statement in _flat(function.body):
            if isinstance(statement, Loc):
                here = (module.files[statement.file], statement.line) if statement.line else None
            elif isinstance(statement, Instruction):
                yield statement.opcode, here


def _flat(block):
    for one in block.statements:
        if isinstance(one, Block):
            yield from _flat(one)
        else:
            yield one


def lines_of(definition):
    """The text of the line of this file that each kind of instruction is from."""
    found: dict[str, set[str]] = {}
    source = inspect.getsource(sys.modules[__name__]).splitlines()
    for opcode, place in located(ptx_of(definition)):
        if place is not None:
            assert place[0] == __file__
            found.setdefault(opcode, set()).add(source[place[1] - 1].strip())
    return found


@nvb.kernel("sm_90a", threads=64)
def straight(k, out: nvb.Pointer[u32]):
    k.barrier.sync()
    k.fence.thread("acq_rel", "gpu")
    vote = k.warp.vote("ballot", out[0] == 7)
    k.nanosleep(20)
    out[1] = vote


def test_each_instruction_is_of_its_call():
    found = lines_of(straight)
    assert found["bar.sync"] == {"k.barrier.sync()"}
    assert found["fence.acq_rel.gpu"] == {'k.fence.thread("acq_rel", "gpu")'}
    assert found["vote.sync.ballot.b32"] == {'vote = k.warp.vote("ballot", out[0] == 7)'}
    assert found["ld.global.b32"] == {'vote = k.warp.vote("ballot", out[0] == 7)'}
    assert found["nanosleep.u32"] == {"k.nanosleep(20)"}
    assert found["st.global.b32"] == {"out[1] = vote"}
    assert found["ret"] == {"out[1] = vote"}  # the kernel ends with its last line


def helper(k, barrier):
    k.barrier.sync(barrier)


@nvb.kernel("sm_90a", threads=64)
def blocks(k, out: nvb.Pointer[u32], count: i32):
    total = k.var(0, u32)
    with k.range(count) as i:
        with k.if_(out[i] == 3):
            k.nanosleep(30)
        with k.else_():
            k.cluster.arrive()
        total.set(k.special_register("clock").to(u32) + total)
    helper(k, 1)
    with k.loop():
        k.fence.thread("sc", "gpu")
        k.break_if(out[9] == 4)
    with k.one_thread():
        out[2] = total


def test_blocks_and_helpers():
    found = lines_of(blocks)
    assert found["nanosleep.u32"] == {"k.nanosleep(30)"}
    assert found["barrier.cluster.arrive.aligned"] == {"k.cluster.arrive()"}
    assert 'total.set(k.special_register("clock").to(u32) + total)' in found["mov.u32"]
    assert found["bar.sync"] == {"k.barrier.sync(barrier)"}  # the helper's own line
    assert found["fence.sc.gpu"] == {'k.fence.thread("sc", "gpu")'}
    assert found["elect.sync"] == {"with k.one_thread():"}
    assert found["st.global.b32"] == {"out[2] = total"}
    assert found["ld.global.b32"] == {"with k.if_(out[i] == 3):", "k.break_if(out[9] == 4)"}
    assert "with k.range(count) as i:" in found["add.s32"] | found["setp.ne.b32"]  # the end of the loop


def executed(text, file, **more):
    """The kernel that `text` defines, as a program called `file`."""
    scope = {"nvb": nvb, "u32": u32, **more}
    exec(compile(text, file, "exec"), scope)
    return scope["made"]


MADE = """
@nvb.kernel("sm_90a", threads=32)
def made(k, out: nvb.Pointer[u32]):
    k.nanosleep(20)
    out[0] = 1
"""
ODD = (
    "<input-3-abc>",
    "/a folder/cell 1/2.py",
    "<string>",
    "",
    'a"b.py',
    "C:\\x\\y.py",
    "é/日本.py",
    "a\nb.py",
    "a//b",
    "50%25",
    "\udce9.py",
    "$L__tmp0: */ //",
)


@pytest.mark.parametrize("file", ODD, ids=ascii)
def test_any_name_of_a_file(file):
    kernel = executed(MADE, file)
    compiled = kernel.compile(cache=nvb.Cache.disabled())  # ptxas takes it
    assert {opcode: place for opcode, place in located(compiled.ptx) if place} == {
        "nanosleep.u32": (file or "<nameless>", 4),
        "st.global.b32": (file or "<nameless>", 5),
        "ret": (file or "<nameless>", 5),
    }


def test_a_name_with_a_byte_of_zero():
    """No file has one, and a code object may."""
    code = compile("k.nanosleep(20)", "x", "exec").replace(co_filename="a\0b.py")

    @nvb.kernel("sm_90a", threads=32)
    def zero(k):
        exec(code, {"k": k})

    compiled = zero.compile(cache=nvb.Cache.disabled())
    assert ("nanosleep.u32", ("a\0b.py", 1)) in list(located(compiled.ptx))


def test_names_are_ascii_and_come_back():
    names = [*ODD, *map("/".join, itertools.permutations(("a", "", '"', "%41", "\0", "\ud800", "ÿ"), 3))]
    encoded = [ascii_path(name) for name in names if name]
    assert [plain_path(one) for one in encoded] == [name for name in names if name]
    assert all(re.fullmatch(r"[ -~]+", one) and not set('"\\') & set(one) and "//" not in one for one in encoded)
    assert plain_path("/home/a%FF%zz.cu") == "/home/a%FF%zz.cu"  # another printer's


def test_what_llvm_removes_has_no_line():
    """Accesses of variables become registers; a node for each would make the text longer, and the PTX no different."""

    @nvb.kernel("sm_90a", threads=32)
    def counted(k, out: nvb.Pointer[u32]):
        total = k.var(out[0])
        with k.range(4) as i:
            total += out[i]
        out[0] = total

    text = counted.build().ir
    slots = set(re.findall(r"(%\S+) = alloca", text))
    accesses = [line for line in text.splitlines() if re.match(r"\s*(?:%\S+ = load|store)\b", line)]
    of_slots = [line for line in accesses if any(re.search(rf"\* {re.escape(slot)}(?:,|$)", line) for slot in slots)]
    assert slots
    assert len(of_slots) > 4
    assert [line for line in of_slots if "!dbg" in line] == []
    assert all("!dbg" in line for line in accesses if line not in of_slots)


def test_a_helper_in_another_file():
    text = "def pause(k):\n\n    k.nanosleep(40)\n"
    scope = {}
    exec(compile(text, "other.py", "exec"), scope)
    found = dict(located(ptx_of(executed(MADE.replace("k.nanosleep(20)", "pause(k)"), "first.py", **scope))))
    assert found["nanosleep.u32"] == ("other.py", 3)
    assert found["st.global.b32"] == ("first.py", 5)


def test_a_program_that_differs_in_lines_alone_is_another(tmp_path):
    cache = nvb.Cache(tmp_path)
    first = executed(MADE, "same.py").compile(cache=cache, assemble=False)
    again = executed(MADE, "same.py").compile(cache=cache, assemble=False)
    lower = executed("\n" + MADE, "same.py").compile(cache=cache, assemble=False)
    moved = executed(MADE, "other.py").compile(cache=cache, assemble=False)
    assert again.ptx == first.ptx and again.cached
    assert not lower.cached and dict(located(lower.ptx))["nanosleep.u32"] == ("same.py", 5)
    assert not moved.cached and dict(located(moved.ptx))["nanosleep.u32"] == ("other.py", 4)


def test_a_builder_without_a_function():
    k = nvb.KernelBuilder("bare", "sm_90a", threads=32)
    k.nanosleep(20)
    line = inspect.currentframe().f_lineno - 1
    finished = k.finish()
    found = dict(located(compile_ir(finished.ir, finished.target).ptx))
    assert found == {"nanosleep.u32": (__file__, line), "ret": (__file__, line + 2)}


def registers_in_memory(*, sets_line):
    """The instructions of a kernel that takes results apart, into slots and out of them, a dozen at once."""
    k = nvb.KernelBuilder("k", "sm_90a", threads=128, parameters=[nvb.Parameter("x", nvb.Pointer(nvb.f32))])
    module = k.llvm.block.module
    if sets_line:
        scope = module.add_debug_info("DISubprogram", {"name": "own"}, is_distinct=True)
        k.llvm.debug_metadata = module.add_debug_info("DILocation", {"line": 3, "column": 0, "scope": scope})
    acc, tile = k.wgmma.accumulator(64), k.shared_tile(TILE)
    with k.range(2), k.wgmma.group(in_flight=0):
        k.wgmma.mma_async(acc, tile, tile, MMA, a_at=(0, 0), b_at=(0, 0))
    for number, value in enumerate(acc.values()):
        k.arguments[0][number] = value
    return [instruction for block in k.function.blocks for instruction in block.instructions]


def test_where_the_user_sets_a_line_no_instruction_is_without_one():
    plain, lined = registers_in_memory(sets_line=False), registers_in_memory(sets_line=True)
    assert [instruction.opname for instruction in lined] == [instruction.opname for instruction in plain]
    assert all("dbg" in instruction.metadata for instruction in lined)


def attached(*, subprogram, location):
    """An owner's module whose instructions come from line 3 of its own language."""
    module = ir.Module("own")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "own")
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    if subprogram:
        file = module.add_debug_info("DIFile", {"filename": "own.dsl", "directory": ""})
        unit = {"language": ir.DIToken("DW_LANG_C"), "file": file, "emissionKind": ir.DIToken("DebugDirectivesOnly")}
        unit = module.add_debug_info("DICompileUnit", unit, is_distinct=True)
        module.add_named_metadata("llvm.dbg.cu", unit)
        kind = ir.IntType(32)
        module.add_named_metadata("llvm.module.flags", [kind(2), "Debug Info Version", kind(3)])
        body = {"name": "own", "file": file, "unit": unit, "spFlags": ir.DIToken("DISPFlagDefinition")}
        function.set_metadata("dbg", scope := module.add_debug_info("DISubprogram", body, is_distinct=True))
        if location:
            builder.debug_metadata = module.add_debug_info("DILocation", {"line": 3, "column": 0, "scope": scope})
    k = nvb.attach(builder, "sm_90a", threads=32)
    with k.if_(k.thread_id() == 0):
        k.nanosleep(20)
    k.barrier.sync()
    builder.ret_void()
    k.verify()
    return module, k


def test_an_owners_lines_are_its_own():
    module, k = attached(subprogram=True, location=True)
    found = dict(located(compile_ir(str(module), k.target).ptx))
    assert found["nanosleep.u32"] == found["bar.sync"] == ("own.dsl", 3)


@pytest.mark.parametrize("subprogram", [False, True])
def test_an_owner_without_lines_is_left_alone(subprogram):
    module, k = attached(subprogram=subprogram, location=False)
    assert str(module).count("!dbg") == int(subprogram)
    assert all(place is None for _, place in located(compile_ir(str(module), k.target).ptx))


def test_the_cubin_has_a_line_table():
    """What ptxas writes of `.loc`, as nvdisasm reads it."""
    compiled = straight.compile(cache=nvb.Cache.disabled())
    tool = find_disassembler()
    with tool.directory("kernel.cubin", compiled.cubin.data) as directory:
        done = tool.run(["--print-line-info", "--print-code", "kernel.cubin"], directory)
    assert done.returncode == 0, done.stderr
    source = inspect.getsource(sys.modules[__name__]).splitlines()
    here, found = "", {}
    for text in done.stdout.splitlines():
        if (marked := re.match(r'\s*//## File "(.*)", line (\d+)', text)) is not None:
            assert marked[1] == __file__
            here = source[int(marked[2]) - 1].strip()
        elif (opcode := re.search(r"\b(BAR|NANOSLEEP|VOTE|STG)\b", text)) is not None:
            found.setdefault(opcode[1], here)
    assert found["NANOSLEEP"] == "k.nanosleep(20)"
    assert found["BAR"] == "k.barrier.sync()"
    assert found["STG"] == "out[1] = vote"


@pytest.mark.parametrize("column", [0, 1, FIRST_KEY - 1, FIRST_KEY, FIRST_KEY + 1, LAST_KEY, LAST_KEY + 1])
def test_a_column_that_could_be_a_key_is_in_the_table(column):
    """What has a key of its own is told from a column: the key's node has the column."""
    module = ir.Module("own")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "own")
    lines = Lines(function, CallerChain())
    first = lines.at(Location("own.lang", 3, "own", column=LAST_KEY))
    node = lines.at(Location("own.lang", 5, "own", column=column))
    keys = [[part.constant for part in row.operands[:4]] for row in module.namedmetadata[TABLE].operands]
    in_table = [[FIRST_KEY, 3, LAST_KEY, OUTERMOST]]
    if column >= FIRST_KEY:
        in_table.append([FIRST_KEY + 1, 5, column, OUTERMOST])
    assert keys == in_table
    shown = [dict(each.operands)["column"] for each in (first, node)]
    assert shown == [FIRST_KEY, FIRST_KEY + 1 if column >= FIRST_KEY else column]
