"""Attached functions as kernels: bounds, parameters, modules of several, compiled, loaded and launched."""

from __future__ import annotations

import re

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError, f16, f32, i32
from nvbackend.builder.kernel.kernel import TRIPLE
from nvbackend.codegen.llvm import compile_ir
from nvbackend.codegen.ptxas import assemble

VOID, I32 = ir.VoidType(), ir.IntType(32)
GLOBAL, GENERIC = ir.PointerType(addrspace=1), ir.PointerType()
OUT = nvb.Parameter("out", nvb.Pointer(f32))
COUNT = nvb.Parameter("n", nvb.Scalar(i32))


def owner(types, name="own", module=None, *, kernel=True):
    module = module or ir.Module("owner")
    module.triple = TRIPLE
    function = ir.Function(module, ir.FunctionType(VOID, types), name)
    if kernel:
        function.calling_convention = "ptx_kernel"
    return ir.IRBuilder(function.append_basic_block("entry"))


def attach(builder, target="sm_90a", threads=32, **options):
    return nvb.attach(builder, target, threads=threads, **options)


def fill(k, value):
    out = k.arguments[0]
    out[k.block_id() * k.threads + k.thread_id()] = value


def finished(builder, k, **options):
    builder.ret_void()
    k.verify()
    return k.finish().compile(cache=nvb.Cache.disabled(), **options)


def fails(rule, do, *arguments, **options):
    """The message of the only diagnostic, at a line of this file."""
    with pytest.raises(DiagnosticError) as raised:
        do(*arguments, **options)
    (found,) = raised.value.diagnostics
    assert found.rule_id == rule
    assert found.location.file == __file__
    return found.message


# -- launching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pointer", [GLOBAL, GENERIC], ids=["global", "generic"])
@pytest.mark.parametrize("lowering", ["intrinsic", "asm"])
def test_a_kernel_runs(pointer, lowering):
    builder = owner([pointer, I32])
    k = attach(builder, parameters=[OUT, COUNT], lowering=lowering)
    out, n = k.arguments
    with k.if_(k.thread_id() < n):
        out[k.thread_id()] = k.lane_id().to(f32) * 2.0
    compiled = finished(builder, k, assemble=False)
    numbers = np.full(32, -1, np.float32)
    nvb.runtime.load(compiled, device="simulator").launch(1, numbers, 20)
    assert np.array_equal(numbers, np.where(np.arange(32) < 20, 2 * np.arange(32), -1))


def test_arguments_come_in_wherever_the_builder_is():
    """A generic pointer becomes a global one where the function begins, so each block may use it."""
    builder = owner([GENERIC])
    later = builder.append_basic_block("later")
    last = builder.append_basic_block("last")
    builder.branch(later)
    builder.position_at_end(later)
    k = attach(builder, parameters=[OUT])
    builder.branch(last)
    builder.position_at_end(last)
    fill(k, 3.0)
    compiled = finished(builder, k, assemble=False)
    numbers = np.zeros(32, np.float32)
    nvb.runtime.load(compiled, device="simulator").launch(1, numbers)
    assert np.array_equal(numbers, np.full(32, 3))


def test_where_the_irbuilder_is_stays_its_owners():
    """The conversion of a generic pointer goes before what is there, and the IRBuilder stays after it."""
    builder = owner([GENERIC, I32])
    before = builder.add(builder.function.args[1], ir.Constant(I32, 1))
    attach(builder, parameters=[OUT, COUNT])
    after = builder.add(before, ir.Constant(I32, 2))
    instructions = builder.block.instructions
    assert [each.opname for each in instructions] == ["addrspacecast", "add", "add"]
    assert instructions[1:] == [before, after]


def test_a_tensor_map_by_value():
    """TMA reads a tile by the map that the launch passes."""
    builder = owner([GENERIC, GLOBAL])
    box = nvb.Parameter("x", nvb.TensorMap(f16, box=(8, 64)))
    k = attach(builder, parameters=[box, OUT])
    x, out = k.arguments
    tile, full = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 8, 64)), k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=x.type.bytes)
        k.tma.load(tile, x, (0, 0), full)
    k.mbarrier.wait(full, 0)
    out[k.thread_id()] = tile.address.cast(f16)[k.thread_id()].to(f32)
    compiled = finished(builder, k, assemble=False)
    assert ".param .align 64 .b8 own_param_0[128]" in compiled.ptx
    numbers, read = np.arange(8 * 64, dtype=np.float16).reshape(8, 64), np.zeros(32, np.float32)
    nvb.runtime.load(compiled, device="simulator").launch(1, numbers, read)
    assert np.array_equal(read, np.arange(32))


@pytest.mark.parametrize(
    ("options", "directive"),
    [
        ({"threads": 96}, ".maxntid 96"),
        ({"threads": (8, 4)}, ".reqntid 8, 4"),
        ({"threads": 32, "cluster": 2}, ".reqnctapercluster 2"),
    ],
)
@pytest.mark.parametrize("lowering", ["intrinsic", "asm"])
def test_bounds_are_in_the_ptx(options, directive, lowering):
    builder = owner([])
    compiled = finished(builder, attach(builder, **options, lowering=lowering), assemble=False)
    assert directive in compiled.ptx
    assert compiled.signature.bounds.threads == np.prod(options["threads"])


@pytest.mark.parametrize("const", [False, True])
def test_what_the_owner_said_of_an_argument_stays(const):
    builder = owner([GLOBAL, GLOBAL])
    first, second = builder.function.args
    first.add_attribute("nonnull")
    first.attributes.align = 4
    second.add_attribute("noalias")
    read_only = nvb.Parameter("x", nvb.Pointer(f32, const=const))
    k = attach(builder, parameters=[read_only, OUT])
    x, out = k.arguments
    out[k.thread_id()] = x[k.thread_id()]
    compiled = finished(builder, k, assemble=False)
    line = next(line for line in compiled.ir.splitlines() if line.startswith("define"))
    assert ("noalias readonly align 16" in line) is const
    assert ("align 4" in line) is not const
    assert "nonnull" in line
    assert ("ld.global.nc" in compiled.ptx) is const


def test_an_older_llvm_finds_the_bounds_as_metadata():
    """String attributes that it does not know it would ignore without a word."""
    builder = owner([GENERIC, GLOBAL])
    builder.module.add_named_metadata("nvvm.annotations", [builder.function, "of the owner", ir.Constant(I32, 1)])
    box = nvb.Parameter("x", nvb.TensorMap(f16, box=(8, 64)))
    k = attach(builder, threads=(8, 4), cluster=2, parameters=[box, OUT], lowering="asm")
    compiled = finished(builder, k, assemble=False)
    assert "nvvm.reqntid" not in compiled.ir
    assert "nvvm.grid_constant" not in compiled.ir
    for said in (".reqntid 8, 4", ".reqnctapercluster 2", ".param .align 64 .b8 own_param_0[128]"):
        assert said in compiled.ptx
    assert compiled.ir.count("of the owner") == 1


@pytest.mark.parametrize("first", [nvb.TensorMap(f16, box=(8, 64)), nvb.Pointer(f32)], ids=["map", "pointer"])
@pytest.mark.parametrize("last", [nvb.TensorMap(f16, box=(8, 64)), nvb.Pointer(f32)], ids=["map", "pointer"])
def test_metadata_names_the_parameters_that_are_tensor_maps(first, last):
    """As NVVM IR lists them: the places of a kernel's grid constants, counted from 1, or no such list."""
    kinds = [first, nvb.Scalar(i32), last]
    types = [I32 if isinstance(kind, nvb.Scalar) else GENERIC for kind in kinds]
    types = [GLOBAL if isinstance(kind, nvb.Pointer) else type_ for kind, type_ in zip(kinds, types, strict=True)]
    builder = owner(types)
    parameters = [nvb.Parameter(f"p{place}", kind) for place, kind in enumerate(kinds)]
    k = attach(builder, parameters=parameters, lowering="asm")
    text = finished(builder, k, assemble=False).ir
    node = re.search(r'^!\d+ = !\{ ptr @"?own"?, !"grid_constant", !(\d+) \}$', text, re.MULTILINE)
    places = re.findall(r"i32 (\d+)", re.search(rf"^!{node[1]} = (.*)$", text, re.MULTILINE)[1]) if node else []
    assert [int(place) for place in places] == [n for n, kind in enumerate(kinds, 1) if isinstance(kind, nvb.TensorMap)]
    assert (node is None) == (not places)


# -- several of one module --------------------------------------------------------------------------------------------


def two_kernels():
    module = ir.Module("owner")
    made = {}
    for name, value in (("ones", 1.0), ("twos", 2.0)):
        builder = owner([GLOBAL], name, module)
        made[name] = attach(builder, parameters=[OUT], threads=32 if name == "ones" else 64)
        fill(made[name], value)
        builder.ret_void()
    return module, made


def test_a_module_of_several_kernels():
    _, made = two_kernels()
    for k in made.values():
        k.verify()
    module = nvb.compile_module([k.finish() for k in made.values()], assemble=False, cache=nvb.Cache.disabled())
    assert [compiled.ptx for compiled in module.values()] == [module.ptx] * 2
    assert (module.ptx.count(".entry"), ".maxntid 32" in module.ptx, ".maxntid 64" in module.ptx) == (2, True, True)
    for name, value, threads in (("ones", 1, 32), ("twos", 2, 64)):
        out = np.zeros(threads, np.float32)
        nvb.runtime.load(module[name], device="simulator").launch(1, out)
        assert np.array_equal(out, np.full(threads, value))


def test_beside_kernels_of_nvbackend():
    @nvb.kernel("sm_90a", threads=32)
    def threes(k, out: nvb.Pointer[f32]):
        out[k.thread_id()] = 3.0

    _, made = two_kernels()
    for k in made.values():
        k.verify()
    module = nvb.compile_module([made["ones"].finish(), threes], assemble=False, cache=nvb.Cache.disabled())
    assert module.ptx.count(".entry") == 3


def test_a_function_that_the_kernel_calls_has_shared_memory_of_its_own():
    module = ir.Module("owner")
    inside = owner([], "inside", module, kernel=False)
    inside.function.linkage = "internal"
    outside = owner([GLOBAL], "outside", module)
    outer = attach(outside, parameters=[OUT])
    outer.shared(f32, 32)[outer.thread_id()] = 1.0
    inner = attach(inside, shared_base=outer.shared_bytes)
    inner.shared(f32, 64)[inner.thread_id()] = 2.0
    inside.ret_void()
    inner.verify()
    outside.call(inside.function, [])
    fill(outer, 4.0)
    compiled = finished(outside, outer, assemble=False)
    assert compiled.signature.bounds.dynamic_shared_bytes == 128 + 256
    assert any("a call of function inside" in each for each in compiled.unknown)
    out = np.zeros(32, np.float32)
    nvb.runtime.load(compiled, device="simulator").launch(1, out)
    assert np.array_equal(out, np.full(32, 4))


# -- what is not judged is in the report ------------------------------------------------------------------------------


def test_the_report_says_what_was_not_judged():
    builder = owner([])
    k = attach(builder)
    builder.call(ir.Function(builder.module, ir.FunctionType(VOID, []), "llvm.nvvm.exit"), [])
    compiled = finished(builder, k, assemble=False)
    assert compiled.unknown == k.unknown
    lines = compiled.summary().splitlines()
    place = lines.index("  not judged")
    assert "what runs after the intrinsic llvm.nvvm.exit" in lines[place + 1]
    assert all(f"    {each}" in lines for each in compiled.unknown)


def test_a_kernel_of_nvbackends_own_has_no_such_section():
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    assert "not judged" not in k.compile(assemble=False).summary()


# -- mistakes ---------------------------------------------------------------------------------------------------------


def test_a_function_that_was_not_verified():
    builder = owner([])
    k = attach(builder)
    builder.ret_void()
    assert fails("attach.unverified", k.finish).startswith("function own was not verified")


def test_a_function_that_has_failed():
    builder = owner([])
    k = attach(builder)
    with pytest.raises(DiagnosticError):
        k.verify()
    builder.ret_void()
    fails("attach.unverified", k.finish)


@pytest.mark.parametrize("by", ["the owner", "the builder"])
def test_a_function_that_has_changed_since(by):
    builder = owner([])
    k = attach(builder)
    builder.ret_void()
    k.verify()
    builder.position_at_start(builder.block)
    if by == "the owner":
        builder.alloca(I32)
    else:
        k.barrier.sync()
    assert "has changed since it was verified" in fails("attach.unverified", k.finish)
    k.verify()
    k.finish()


def test_another_function_of_the_module():
    _, made = two_kernels()
    made["ones"].verify()
    assert fails("attach.unverified", made["ones"].finish).startswith("function twos was not verified")
    made["twos"].verify()
    made["ones"].finish()


def test_partial_is_not_enough():
    builder = owner([])
    k = attach(builder)
    builder.ret_void()
    k.verify(partial=True)
    assert "was not verified" in fails("attach.unverified", k.finish)


@pytest.mark.parametrize("mistake", ["a result", "local"])
def test_a_kernel_that_is_none(mistake):
    module = ir.Module("owner")
    returned = I32 if mistake == "a result" else VOID
    function = ir.Function(module, ir.FunctionType(returned, []), "own")
    function.calling_convention = "ptx_kernel"
    function.linkage = "internal" if mistake == "local" else ""
    builder = ir.IRBuilder(function.append_basic_block())
    k = attach(builder)
    builder.ret(ir.Constant(I32, 1)) if mistake == "a result" else builder.ret_void()
    k.verify()
    assert "cannot be launched" in fails("attach.kernel", k.finish)


@pytest.mark.parametrize(
    ("text", "isolated"), [("bar.sync $9;", True), ("frobnicate;", True), ("bar.sync 0;", False), ("", False)]
)
def test_what_llvm_may_not_compile_does_not_end_the_process(text, isolated):
    """LLVM ends its process on the first."""
    builder = owner([])
    k = attach(builder)
    builder.asm(ir.FunctionType(VOID, []), text, "", [], side_effect=True)
    builder.ret_void()
    k.verify()
    finished_ = k.finish()
    assert finished_.isolated is isolated
    if text.startswith("bar.sync $"):
        assert "Invalid $ operand number" in fails(
            "llvm.died", finished_.compile, assemble=False, cache=nvb.Cache.disabled()
        )


@pytest.mark.parametrize("kind", [ir.IntType(128), ir.IntType(7), ir.VectorType(ir.IntType(24), 3)])
def test_types_that_llvm_may_not_compile(kind):
    builder = owner([])
    k = attach(builder)
    one = ir.Constant(kind, 1 if isinstance(kind, ir.IntType) else [1, 1, 1])
    builder.store(builder.udiv(one, one), builder.alloca(kind))
    builder.ret_void()
    k.verify()
    assert k.finish().isolated


def test_no_kernel():
    builder = owner([], kernel=False)
    k = attach(builder)
    builder.ret_void()
    k.verify()
    assert "not marked as a kernel" in fails("attach.kernel", k.finish)


def test_arguments_without_parameters():
    builder = owner([GLOBAL])
    k = attach(builder)
    builder.ret_void()
    k.verify()
    assert "1 argument, and no parameters" in fails("attach.parameters", k.finish)


@pytest.mark.parametrize(
    ("types", "parameters", "said"),
    [
        ([GLOBAL], [OUT, COUNT], "takes 1 argument, and gets 2 parameters"),
        ([GLOBAL, I32], [COUNT, OUT], "argument 0 is ptr addrspace(1), and the parameter n"),
        ([ir.PointerType(addrspace=3)], [OUT], "argument 0 is ptr addrspace(3)"),
        ([ir.IntType(64)], [OUT], "argument 0 is i64"),
        ([ir.FloatType()], [COUNT], "argument 0 is float"),
        ([GLOBAL], [nvb.Parameter("x", nvb.TensorMap(f16, box=(8, 64)))], "argument 0 is ptr addrspace(1)"),
        ([GLOBAL], "out", "parameters='out'"),
        ([GLOBAL], 3, "parameters=3"),
    ],
)
def test_parameters_that_are_not_the_functions(types, parameters, said):
    assert said in fails("attach.parameters", attach, owner(types), parameters=parameters)


@pytest.mark.parametrize("parameters", [[f32], ["out"]])
def test_parameters_that_are_none(parameters):
    assert "is not an nvb.Parameter" in fails("kernel.parameter", attach, owner([GLOBAL]), parameters=parameters)


def test_other_parameters_of_one_function():
    builder = owner([GLOBAL])
    k = attach(builder, parameters=[OUT])
    assert attach(builder, parameters=[OUT]) is k
    assert attach(builder) is k
    other = nvb.Parameter("other", nvb.Pointer(f32))
    assert "other parameters" in fails("attach.again", attach, builder, parameters=[other])


@pytest.mark.parametrize("option", [{"level": 3}, {"optimise": 2}])
def test_an_option_that_compile_does_not_have(option):
    builder = owner([])
    k = attach(builder)
    builder.ret_void()
    k.verify()
    assert next(iter(option)) in fails("call.argument", k.finish().compile, **option)


@pytest.mark.parametrize("call", ["launch", "run"])
def test_launching_what_is_not_loaded(call):
    builder = owner([])
    compiled = finished(builder, attach(builder), assemble=False)
    with pytest.raises(DiagnosticError, match=r"launch\.call"):
        getattr(compiled, call)(1)


@pytest.mark.parametrize("kind", ["NoDebug", "DebugDirectivesOnly", "LineTablesOnly", "FullDebug"])
def test_what_ptxas_does_not_take_of_debug_information_is_said_before(kind):
    """By ptxas: what LLVM writes for a kind is refused by it exactly where `finish` refuses the kind."""
    builder = owner([])
    module = builder.module
    file = module.add_debug_info("DIFile", {"filename": "model.dsl", "directory": ""})
    facts = {"language": ir.DIToken("DW_LANG_C"), "file": file, "emissionKind": ir.DIToken(kind)}
    unit = module.add_debug_info("DICompileUnit", facts, is_distinct=True)
    module.add_named_metadata("llvm.dbg.cu", unit)
    module.add_named_metadata("llvm.module.flags", [I32(2), "Debug Info Version", I32(3)])
    facts = {"name": "own", "file": file, "unit": unit, "spFlags": ir.DIToken("DISPFlagDefinition")}
    facts["type"] = module.add_debug_info("DISubroutineType", {"types": module.add_metadata([None])})
    scope = module.add_debug_info("DISubprogram", facts, is_distinct=True)
    builder.function.set_metadata("dbg", scope)
    k = attach(builder)
    builder.debug_metadata = module.add_debug_info("DILocation", {"line": 7, "column": 3, "scope": scope})
    k.nanosleep(20)
    builder.ret_void()
    k.verify()
    try:
        assemble(compile_ir(str(module), k.target).ptx, k.target)
    except DiagnosticError:
        assert kind in fails("attach.debug-kind", k.finish)
    else:
        k.finish()
