"""The text of a module: that of llvmlite, letter by letter, of each instruction with all that it may have."""

from __future__ import annotations

from collections.abc import Iterator

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend.builder.lower import registers
from nvbackend.builder.lower.lowering import AsmCall, TypedCall
from nvbackend.builder.lower.text import _WRITTEN, text_of_module
from samples import hopper_gemm

FLOAT, BIT, INTEGER, POINTER = ir.FloatType(), ir.IntType(1), ir.IntType(32), ir.PointerType(addrspace=3)
VECTOR = ir.VectorType(FLOAT, 2)


def computing(k: ir.IRBuilder, a: ir.Value, x: ir.Value) -> Iterator[ir.Instruction]:
    yield k.add(a, ir.Constant(INTEGER, -3), name='a "sum" \\ of two')
    yield k.add(a, a, flags=("nsw", "nuw"))
    yield k.fadd(x, ir.Constant(FLOAT, 0.5), flags=("fast",))
    yield k.fneg(x)
    yield k.icmp_signed("<=", a, ir.Constant(INTEGER, 7))
    yield k.fcmp_unordered("!=", x, x)
    yield k.fcmp_ordered("<", x, x, flags=["nnan", "ninf"])
    yield k.zext(a, ir.IntType(64))
    yield k.bitcast(x, INTEGER)
    chosen = k.icmp_unsigned(">", a, a)
    yield chosen
    yield k.select(chosen, a, ir.Constant(INTEGER, ir.Undefined))
    yield k.select(chosen, x, x, flags=("nsz",))
    struct = ir.Constant(ir.LiteralStructType([FLOAT, ir.ArrayType(INTEGER, 2)]), None)
    yield k.extract_value(struct, 0)
    yield k.extract_value(struct, (1, 1), name="x")
    yield k.insert_value(struct, x, 0)
    vector = k.insert_element(ir.Constant(VECTOR, ir.Undefined), x, ir.Constant(INTEGER, 1))
    yield vector
    yield k.extract_element(vector, a)
    difference = registers.Operation(k.block, "sub", (a, a), 'a "difference"')
    k._insert(difference)
    yield difference


def in_memory(k: ir.IRBuilder, a: ir.Value, x: ir.Value) -> Iterator[ir.Instruction]:
    slot = k.alloca(FLOAT, name="slot")
    yield slot
    yield k.alloca(INTEGER, size=a)
    yield from registers.slots(k, [INTEGER], ["slot"])
    yield from registers.loads(k, [slot], "x")
    registers.stores(k, [x], [slot])
    yield k.load(slot)
    yield k.load(slot, align=4)
    yield k.store(x, slot)
    yield k.store(x, slot, align=8)
    there = k.inttoptr(a, POINTER)
    yield there
    yield k.gep(there, [a], source_etype=FLOAT)
    yield k.gep(there, [a, ir.Constant(INTEGER, 0)], inbounds=True, source_etype=ir.ArrayType(FLOAT, 4))
    further = registers.ByteStep(k.block, there, ir.Constant(INTEGER, -16))
    k._insert(further)
    yield further
    yield k.load(there, typ=VECTOR)
    yield k.atomic_rmw("add", there, a, "monotonic")
    yield k.load_atomic(there, "acquire", 4, typ=INTEGER)


def calling(k: ir.IRBuilder, a: ir.Value, x: ir.Value) -> Iterator[ir.Instruction]:
    module = k.module
    plain = ir.Function(module, ir.FunctionType(FLOAT, [INTEGER, POINTER]), "plain")
    there = ir.Constant(POINTER, None)
    yield k.call(plain, [a, there])
    yield k.call(plain, [a, there], name="named", tail="musttail", fastmath=("nnan", "fast"), attrs=("convergent",))
    yield k.call(plain, [a, there], cconv="fastcc", arg_attrs={1: ("nonnull", "noalias")})
    nothing = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "nothing")
    nothing.calling_convention = "ptx_device"
    yield k.call(nothing, [], attrs=("convergent", "nounwind"), tail=True)
    yield k.call(ir.Function(module, ir.FunctionType(INTEGER, [INTEGER], var_arg=True), "several"), [a, x, a])
    several = ir.FunctionType(ir.LiteralStructType([FLOAT, FLOAT, INTEGER]), [INTEGER])
    asm = ir.InlineAsm(several, "mov $0, $1;", "=f,=f,=r,r", side_effect=True)
    results = k.call(asm, [a], name="results", attrs=("convergent",))
    yield results
    alike = AsmCall(k.block, asm, [a], "results", ("convergent",))
    k._insert(alike)
    yield alike
    assert all(hasattr(alike, name) for name in vars(results) if "cached" not in name)
    yield from registers.members(k, results, range(3))
    typed = TypedCall(k.block, plain, [a, there], "", ())
    k._insert(typed)
    yield typed
    yield k.asm(ir.FunctionType(ir.VoidType(), []), "bar.sync 0;", "~{memory}", [], True)


def made() -> tuple[ir.Module, list[ir.Instruction]]:
    """A module with instructions of every kind, and those of them that were made apart from branches."""
    module = ir.Module("made")
    module.triple = "nvptx64-nvidia-cuda"
    ir.GlobalVariable(module, ir.ArrayType(FLOAT, 4), "table", addrspace=3).linkage = "internal"
    kind = ir.FunctionType(INTEGER, [INTEGER, FLOAT])
    function = ir.Function(module, kind, "made")
    function.attributes.add("convergent")
    names = ["entry", 'the "second"', "third", "4"]
    entry, second, third, last = (function.append_basic_block(name) for name in names)
    k, (a, x) = ir.IRBuilder(entry), function.args
    instrs = [each for part in (computing, in_memory, calling) for each in part(k, a, x)]
    k.branch(second)
    k.position_at_end(second)
    k.cbranch(instrs[4], second, third).set_weights([99, 1])
    k.position_at_end(third)
    phi = k.phi(INTEGER, name="phi")
    phi.add_incoming(a, second)
    k.switch(phi, last).add_case(7, last)
    k.position_at_end(last)
    k.ret(phi)
    k.position_at_end(function.append_basic_block())
    k.unreachable()
    return module, instrs


@pytest.mark.parametrize("marked", [False, True])
def test_each_instruction_is_as_llvmlite_writes_it(marked: bool) -> None:
    module, instrs = made()
    if marked:
        node = module.add_metadata([ir.Constant(INTEGER, 1)])
        for instr in instrs:
            instr.set_metadata("m", node)
            instr.set_metadata("again", node)
    text = text_of_module(module)
    assert text == str(module)
    assert ("!again" in text) is marked
    assert {type(instr) for instr in module.get_global("made").entry_basic_block.instructions} > set(_WRITTEN) - {
        ir.ConditionalBranch
    }
    llvm.parse_assembly(text.replace("musttail ", "tail ")).verify()


def test_a_kernel_is_as_llvmlite_writes_it() -> None:
    finished: list[str] = []

    @nvb.kernel("sm_90a", threads=32)
    def scaled(k: nvb.KernelBuilder, out: nvb.Pointer[nvb.f32], scale: nvb.f32) -> None:
        with k.range(4) as i:
            out[i] = k.math.max(out[i] * scale, 0.0)
        with k.if_(k.thread_id() == 3):
            out[8] = scale
        finished.append(str(k.module))
        finished.append(text_of_module(k.module))

    scaled.build()
    assert finished[0] == finished[1]
    module = llvm.parse_assembly(hopper_gemm.gemm.build(check=False).ir)
    assert [function.name for function in module.functions if not function.is_declaration] == ["gemm"]


def test_a_module_that_writes_itself_does() -> None:
    class Own(ir.Module):  # type: ignore[misc]
        def __repr__(self) -> str:
            return "; its own"

    assert text_of_module(Own()) == "; its own"
