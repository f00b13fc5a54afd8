"""Calls of the owner's own: what the catalogue has is judged as ours is, and nothing is said of the rest."""

from __future__ import annotations

import contextlib

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError, f16, f32, i32
from nvbackend.builder.attached.asm_text import Unreadable, read_asm
from nvbackend.builder.attached.foreign import foreign
from nvbackend.builder.kernel.kernel import TRIPLE
from nvbackend.builder.lower.lowering import lower
from nvbackend.intrinsics.catalogue import rows
from nvbackend.intrinsics.row.asm_form import asm_form
from nvbackend.intrinsics.row.row import Intrinsic, Role, Row
from nvbackend.isel.machine.pseudo import UNKNOWN

VOID, I1, I32, I64 = ir.VoidType(), ir.IntType(1), ir.IntType(32), ir.IntType(64)
SHARED = ir.PointerType(addrspace=3)
_TYPES = {"i1": I1, "i16": ir.IntType(16), "i32": I32, "i64": I64, "float": ir.FloatType(), "double": ir.DoubleType()}


def attached(target="sm_90a", **options):
    module = ir.Module("owner")
    module.triple = TRIPLE
    function = ir.Function(module, ir.FunctionType(VOID, [ir.PointerType(addrspace=1), I32]), "own")
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    k = nvb.attach(builder, target, threads=128, **options)
    return k, builder, k.global_address(function.args[0], f32, 16), k.value(function.args[1], i32)


def said(k) -> list[str]:
    try:
        return [one.rule_id for one in k.verify()]
    except DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]


def asm(builder, text, constraints="", arguments=(), result=VOID):
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.asm(kind, text, constraints, list(arguments), side_effect=True)


def intrinsic(builder, name, arguments=(), result=VOID):
    known = builder.module.globals.get(name)
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(known or ir.Function(builder.module, kind, name), list(arguments))


def number(value, kind=I32):
    return ir.Constant(kind, value)


def opcodes(k) -> list[str]:
    return [each.opcode for each in k.core.verified.machine.instructions()]


# -- barriers ---------------------------------------------------------------------------------------------------------

BARRIERS = {
    "barrier0": lambda b: intrinsic(b, "llvm.nvvm.barrier0"),
    "present name": lambda b: intrinsic(b, "llvm.nvvm.barrier.cta.sync.aligned.all", [number(0)]),
    "bar.sync": lambda b: intrinsic(b, "llvm.nvvm.bar.sync", [number(0)]),
    "counted": lambda b: intrinsic(b, "llvm.nvvm.barrier.cta.sync.aligned.count", [number(1), number(128)]),
    "asm": lambda b: asm(b, "bar.sync 0;"),
    "asm with a number": lambda b: asm(b, "bar.sync $0;", "n", [number(1)]),
    "asm in braces": lambda b: asm(b, r"{\0A\09barrier.cta.sync.aligned 0;\0A}"),
    "asm, counted": lambda b: asm(b, "barrier.sync.aligned $0, $1;", "r,n", [number(0), number(128)]),
    "asm, two of them": lambda b: asm(b, "fence.acq_rel.gpu; bar.sync 0;"),
}


def exchanged(k, out):
    """Threads write what others read after the barrier, which the owner emits."""
    shared = k.shared(f32, 128)
    shared[k.thread_id()] = 1.0
    yield
    out[k.thread_id()] = shared[127 - k.thread_id()]


@pytest.mark.parametrize("how", BARRIERS)
def test_a_barrier_of_the_owners_orders_our_accesses(how):
    k, builder, out, _ = attached()
    for _ in exchanged(k, out):
        BARRIERS[how](builder)
    builder.ret_void()
    assert said(k) == []
    assert [one for one in opcodes(k) if one.startswith(("bar.", "barrier."))] == ["bar.sync"]
    assert k.unknown == ("registers of a thread against the launch bounds; what a dry run of the kernel would show",)


@pytest.mark.parametrize("text", ["bar.arrive 0, 128;", "bar.warp.sync 0xffffffff;", ""])
def test_what_is_no_barrier_of_the_cta_orders_nothing(text):
    k, builder, out, _ = attached()
    for _ in exchanged(k, out):
        asm(builder, text)
    builder.ret_void()
    assert "shared.missing-barrier" in said(k)


def test_the_result_of_assembly_is_not_followed():
    """Threads may part by it, and what depends on who comes is left out."""
    k, builder, out, _ = attached()
    for _ in exchanged(k, out):
        lane = asm(builder, "mov.u32 $0, %laneid;", "=r", result=I32)
    with k.if_(k.value(lane, i32) < 5):
        k.setmaxnreg.inc(232)
    builder.ret_void()
    assert said(k) == []
    assert any("races" in each for each in k.unknown)


@pytest.mark.parametrize("how", ["barrier0", "asm"])
def test_a_barrier_of_the_owners_that_some_threads_do_not_reach(how):
    k, builder, _, _ = attached()
    with k.if_(k.thread_id() < 40):
        BARRIERS[how](builder)
    builder.ret_void()
    assert said(k) == ["barrier.divergent"]


# -- wgmma ------------------------------------------------------------------------------------------------------------

INSTRUCTION = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
WGMMA = {
    "intrinsics": lambda b, step: intrinsic(b, f"llvm.nvvm.wgmma.{step}.sync.aligned"),
    "asm": lambda b, step: asm(b, f"wgmma.{step}.sync.aligned;"),
}


def wait(builder, pending):
    asm(builder, "wgmma.wait_group.sync.aligned $0;", "n", [number(pending, I64)])


@pytest.mark.parametrize("how", WGMMA)
@pytest.mark.parametrize("left_out", [None, "fence", "commit_group", "wait"])
def test_the_owners_fence_commit_and_wait(how, left_out):
    k, builder, _, _ = attached()
    tile, acc = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)), k.wgmma.accumulator(64)
    if left_out != "fence":
        WGMMA[how](builder, "fence")
    k.wgmma.mma_async(acc, tile, tile, INSTRUCTION)
    if left_out != "commit_group":
        WGMMA[how](builder, "commit_group")
    if left_out != "wait":
        wait(builder, 0)
    builder.ret_void()
    found = said(k)
    assert bool(found) == (left_out is not None)
    assert all(one.startswith("wgmma") for one in found)


# -- every row --------------------------------------------------------------------------------------------------------


def _operands(builder, row: Row):
    operands = {}
    for each in row.operands:
        if each.role is Role.IMMEDIATE:
            operands[each.name] = (each.values or (0,))[0]
        elif each.role is Role.INPUT or each.tied:
            values = [ir.Constant(_TYPES[each.register.llvm], 8 * place) for place in range(each.count)]
            operands[each.name] = values if each.count > 1 else values[0]
    return operands


def _recognised(row: Row, *, in_asm: bool) -> list[str]:
    """The rows' spellings of what an owner's emission of `row` is taken for."""
    k, builder, _, _ = attached("sm_100a")
    lower(builder, asm_form(row) if in_asm else row, _operands(builder, row))
    calls = [each for each in builder.block.instructions if isinstance(each, ir.CallInstr)]
    known = foreign(k.core, calls[-1], lambda _: False)
    return [known.unknown] if known.unknown else [each.row.ptx for each in known.instructions]


def _matters(row: Row) -> bool:
    return any(row.semantics.said()) or row.semantics.completion is not None


ROWS = [row for row in rows() if row.family != "special_registers" and _matters(row)]
EACH = 211
"""So many rows are left out between two of the ordinary run."""


def _misread(every, *, in_asm: bool) -> list[str]:
    found = []
    for row in every:
        known = _recognised(row, in_asm=in_asm)
        if known != [row.ptx] and not row.semantics.exits:
            found.append(f"{row.ptx}: {known}")
    return found


def test_rows_are_recognised_in_asm():
    assert _misread(ROWS[::EACH], in_asm=True) == []


def test_rows_are_recognised_by_their_intrinsics():
    assert _misread([row for row in ROWS if isinstance(row.lowering, Intrinsic)][::EACH], in_asm=False) == []


@pytest.mark.exhaustive(seconds=40)
@pytest.mark.parametrize("first", range(4))
def test_all_rows_are_recognised_in_asm(first):
    assert _misread(ROWS[first::4], in_asm=True) == []


@pytest.mark.exhaustive(seconds=20)
def test_all_rows_are_recognised_by_their_intrinsics():
    assert _misread([row for row in ROWS if isinstance(row.lowering, Intrinsic)], in_asm=False) == []


# -- what is unknown --------------------------------------------------------------------------------------------------


def helper(module):
    return ir.Function(module, ir.FunctionType(VOID, []), "helper")


UNKNOWN_CALLS = {
    "function helper": lambda b: b.call(helper(b.module), []),
    "inline assembly 'frobnicate": lambda b: asm(b, "frobnicate.sync 1;"),
    "in which exit is not known": lambda b: asm(b, "exit;"),
    "which jumps": lambda b: asm(b, "{ .reg .pred p; AGAIN: setp.ne.u32 p, 1, 1; @p bra AGAIN; }"),
    "in which wgmma.wait_group.sync.aligned": lambda b: asm(
        b, "@$0 wgmma.wait_group.sync.aligned 0;", "b", [number(1, I1)]
    ),
    "the intrinsic llvm.nvvm.not.there": lambda b: intrinsic(b, "llvm.nvvm.not.there"),
    "an address": lambda b: b.call(b.inttoptr(number(64, I64), ir.FunctionType(VOID, []).as_pointer()), []),
}


@pytest.mark.parametrize("what", UNKNOWN_CALLS)
def test_what_is_unknown_is_named_and_ends_what_is_judged(what):
    """It may have waited for the mma: nothing is said of the read after it."""
    k, builder, out, _ = attached()
    tile, acc = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)), k.wgmma.accumulator(64)
    k.wgmma.fence()
    k.wgmma.mma_async(acc, tile, tile, INSTRUCTION)
    k.wgmma.commit_group()
    UNKNOWN_CALLS[what](builder)
    out[k.thread_id()] = acc[0]
    builder.ret_void()
    assert said(k) == []
    assert UNKNOWN in opcodes(k)
    assert any(what in one for one in k.unknown)
    assert any("races" in one for one in k.unknown)


@pytest.mark.parametrize("what", UNKNOWN_CALLS)
def test_what_comes_before_is_judged(what):
    k, builder, out, _ = attached()
    tile, acc = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)), k.wgmma.accumulator(64)
    k.wgmma.fence()
    k.wgmma.mma_async(acc, tile, tile, INSTRUCTION)
    k.wgmma.commit_group()
    out[k.thread_id()] = acc[0]
    UNKNOWN_CALLS[what](builder)
    builder.ret_void()
    assert any(one.startswith("wgmma") for one in said(k))


def test_in_a_loop_it_is_before_all_of_the_loop():
    k, builder, out, n = attached()
    tile, acc = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)), k.wgmma.accumulator(64)
    k.wgmma.fence()
    k.wgmma.mma_async(acc, tile, tile, INSTRUCTION)
    k.wgmma.commit_group()
    with k.range(n):
        out[k.thread_id()] = acc[0]
        builder.call(helper(builder.module) if "helper" not in builder.module.globals else None, [])
    builder.ret_void()
    assert said(k) == []


def test_a_function_of_the_owners_that_only_computes_is_known():
    k, builder, out, _ = attached()
    square = ir.Function(builder.module, ir.FunctionType(I32, [I32]), "square")
    inside = ir.IRBuilder(square.append_basic_block())
    inside.ret(inside.mul(*square.args * 2))
    for _ in exchanged(k, out):
        builder.call(square, [number(3)])
    builder.ret_void()
    assert said(k) == ["shared.missing-barrier"]


# -- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "constraints"),
    [
        ("bar.sync $0", "r"),
        ("bar.sync $1;", "r"),
        ("bar.sync $0;", "m"),
        ("bar.sync $0;", "*r"),
        ("bar.sync $(0|1$);", "r"),
        ("} bar.sync 0; {", ""),
        ("bar.sync 0; extra words", ""),
    ],
)
def test_texts_that_are_not_read(text, constraints):
    asm = ir.InlineAsm(ir.FunctionType(VOID, []), text, constraints)
    with pytest.raises(Unreadable):
        read_asm(asm, [number(0)] if constraints else [])


def test_two_dollars_are_one_of_the_text():
    text = "{ .reg .b32 a$$1; mov.b32 a$$1, $1; mov.b32 $0, a$$1; }"
    found = read_asm(ir.InlineAsm(ir.FunctionType(I32, [I32]), text, "=r,r"), [number(5)])
    written, read = (each.operands[place] for place, each in enumerate(found.instructions))
    assert "a$1" in str(written)
    assert str(written) == str(read)


def test_a_mistake_of_the_owners_is_told_at_its_own_line():
    k, builder, _, _ = attached("sm_80")
    module = builder.module
    file = module.add_debug_info("DIFile", {"filename": "model.dsl", "directory": "/home"})
    program = module.add_debug_info("DISubprogram", {"name": "scale", "file": file, "line": 3, "isDefinition": False})
    builder.debug_metadata = module.add_debug_info("DILocation", {"line": 7, "column": 2, "scope": program})
    asm(builder, "wgmma.fence.sync.aligned;")
    builder.ret_void()
    with pytest.raises(DiagnosticError) as raised:
        k.verify()
    (found,) = raised.value.diagnostics
    assert (found.location.file, found.location.line, found.location.function) == ("model.dsl", 7, "scale")


def in_dsl(module, line):
    """A location in line `line` of a program of the owner's."""
    file = module.add_debug_info("DIFile", {"filename": "model.dsl", "directory": "/home"})
    program = module.add_debug_info("DISubprogram", {"name": "scale", "file": file, "line": 3, "isDefinition": False})
    return module.add_debug_info("DILocation", {"line": line, "column": 2, "scope": program})


@pytest.mark.parametrize("is_stated", [False, True])
def test_a_mistake_by_a_call_is_told_at_the_owners_line_too(is_stated):
    """Of the calls of `k` and of what the owner emits itself, all places of one message are in one program."""
    k, builder, _, _ = attached("sm_90a")
    acc = k.wgmma.accumulator(64)
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, nvb.f16, 64, 64))
    builder.debug_metadata = in_dsl(builder.module, 7)
    asm(builder, "wgmma.fence.sync.aligned;")
    builder.debug_metadata = in_dsl(builder.module, 8)
    k.wgmma.mma_async(acc, tile, tile, nvb.wgmma.mma_async("m64n64k16", nvb.f16, nvb.f16, nvb.f32))
    builder.debug_metadata = in_dsl(builder.module, 9)
    with k.location("other.dsl", 5) if is_stated else contextlib.nullcontext():
        k.mbarrier.ready()
        acc[0] + acc[1]
    builder.ret_void()
    with pytest.raises(DiagnosticError) as raised:
        k.verify()
    found = next(each for each in raised.value.diagnostics if each.rule_id == "wgmma.read-in-flight")
    said = [(place.file, place.line) for place in (found.location, *(place for _, place in found.notes))]
    assert said == [("other.dsl", 5) if is_stated else ("model.dsl", 9), ("model.dsl", 8)]


def test_without_lines_of_its_own_it_is_told_where_the_builder_was_attached():
    k, builder, _, _ = attached("sm_80")
    asm(builder, "wgmma.fence.sync.aligned;")
    builder.ret_void()
    with pytest.raises(DiagnosticError) as raised:
        k.verify()
    assert raised.value.diagnostics[0].location.file == __file__


@pytest.mark.parametrize(
    ("text", "is_known", "is_read"),
    [
        ("shfl.sync.bfly.b32 $0, $1, 1, 31, -1;", True, True),
        ("shfl.sync.bfly.f32 $0, $1, 1, 31, -1;", False, False),
        ("add.s32 $0, $1;", True, False),
        ("words that are no code", False, False),
        ("{ .reg .pred p; setp.eq.u32 p, $1, 3; @p shfl.sync.bfly.b32 $0, $1, 1, 31, -1; }", True, False),
        ("{ .reg .pred p; setp.eq.u32 p, $1, 3; @p shfl.sync.bfly.f32 $0, $1, 1, 31, -1; }", False, False),
        ("{ .reg .pred p; setp.eq.u32 p, $1, 3; @p vote.sync.ballot.b32 $0, p, -1; }", True, False),
        ("{ .reg .pred p; setp.eq.u32 p, $1, 3; @p movmatrix.sync.aligned.m8n8.trans.b16 $0, $1; }", False, False),
        ("{ .reg .pred p; setp.eq.u32 p, $1, 3; @p wgmma.fence.sync.aligned; }", False, False),
        ("{ .reg .pred p; setp.eq.u32 p, $1, 3; @p mov.b32 $0, $1; }", True, False),
    ],
)
def test_what_only_ptxas_reads_is_named(text: str, is_known: bool, is_read: bool) -> None:
    """ptxas takes shuffles of .b32 alone, and add has three operands: it is asked when the kernel is assembled."""
    function = ir.Function(ir.Module("m"), ir.FunctionType(ir.VoidType(), []), "f")
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block())
    k = nvb.attach(builder, "sm_90a", threads=128)
    word = ir.IntType(32)
    builder.asm(ir.FunctionType(word, [word]), text, "=r,r", [word(1)], side_effect=True)
    builder.ret_void()
    assert k.verify() == ()
    named = f"the inline assembly {text[:60]!r}"
    assert any(each.startswith(f"what runs after {named}") for each in k.unknown) is not is_known
    assert any(each.startswith(f"whether {named}") and "is PTX" in each for each in k.unknown) is not is_read
