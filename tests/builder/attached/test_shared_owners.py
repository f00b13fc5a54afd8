"""Dynamic shared memory of functions that call one another: each has bytes of its own, or a diagnostic says so."""

from __future__ import annotations

import inspect
import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError, f32, i32
from nvbackend.builder.kernel.kernel import TRIPLE, KernelBuilder
from nvbackend.builder.kernel.owners import shared_faults
from nvbackend.codegen.llvm import compile_ir
from tests.builder.attached import test_finished

VOID = ir.FunctionType(ir.VoidType(), [])


def function(module: ir.Module, name: str, *, kernel: bool = False) -> ir.IRBuilder:
    made = ir.Function(module, VOID, name)
    if kernel:
        made.calling_convention = "ptx_kernel"
    return ir.IRBuilder(made.append_basic_block("entry"))


def module() -> ir.Module:
    made = ir.Module("owner")
    made.triple = TRIPLE
    return made


def attach(builder: ir.IRBuilder, **options) -> nvb.builder.attach.AttachedBuilder:
    return nvb.attach(builder, "sm_90a", threads=128, **options)


def fill(k, count: int) -> None:
    k.shared(f32, count)[k.thread_id()] = 1.0


def touch(builder: ir.IRBuilder, array: ir.GlobalVariable) -> None:
    address = builder.inttoptr(array.ptrtoint(ir.IntType(32)), ir.PointerType(addrspace=3))
    builder.store(ir.Constant(ir.IntType(8), 1), address)


def here() -> int:
    """The line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def broken(k) -> list[str]:
    with pytest.raises(DiagnosticError) as raised:
        k.verify()
    return [one.rule.id for one in raised.value.diagnostics]


def test_a_function_has_one_builder():
    place = function(module(), "f")
    k = attach(place)
    first = k.shared(f32, 128)
    assert attach(place) is k
    assert attach(place, shared_base=0) is k
    second = attach(place).shared(f32, 128)
    assert first._place.object is not second._place.object
    assert k.shared_bytes == 1024


@pytest.mark.parametrize(
    "change",
    [{"target": "sm_90"}, {"threads": 64}, {"cluster": 2}, {"shared_base": 512}, {"builder": True}],
    ids=lambda change: next(iter(change)),
)
def test_another_builder_of_the_same_function(change):
    place = function(module(), "f")
    attach(place)
    given = {"builder": place, "target": "sm_90a", "threads": 128, **change}
    if "builder" in change:
        given["builder"] = ir.IRBuilder(place.block)
    with pytest.raises(DiagnosticError, match=r"attach\.again"):
        nvb.attach(given.pop("builder"), given.pop("target"), **given)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_all_that_call_one_another_are_found(graph):
    """Functions that all lay out byte 0 on, which call one another, in circles too; the closure is Warshall."""
    count, calls = graph
    home = module()
    places = [function(home, f"f{one}") for one in range(count)]
    builders = [attach(place) for place in places]
    for k in builders:
        fill(k, 32)
    for caller, callee in sorted(calls):
        places[caller].call(places[callee].function, [])
    reach = set(calls)
    for via, start, end in itertools.product(range(count), repeat=3):
        if (start, via) in reach and (via, end) in reach:
            reach.add((start, end))
    for one, k in enumerate(builders):
        others = [other for other in range(count) if other != one]
        expected = [(f"function f{other}", "which it calls") for other in others if (one, other) in reach]
        expected += [(f"function f{other}", "which calls it") for other in others if (other, one) in reach]
        found = [(found.values["other"], found.values["relation"]) for found in shared_faults(k)]
        assert sorted(found) == sorted(expected)


def test_the_builder_of_a_kernel_is_its_only_one():
    k = KernelBuilder("k", "sm_90a", threads=128)
    with pytest.raises(DiagnosticError, match=r"attach\.again"):
        attach(ir.IRBuilder(k.function.entry_basic_block))


def pair(base: int | None):
    """A kernel that fills 512 bytes and calls a function that fills 1024, by way of one of the owner's."""
    owner = module()
    callee, between, caller = (
        function(owner, "callee"),
        function(owner, "between"),
        function(owner, "caller", kernel=True),
    )
    outer = attach(caller)
    fill(outer, 128)
    inner = attach(callee, **({} if base is None else {"shared_base": base}))
    fill(inner, 256)
    between.call(callee.function, [])
    caller.call(between.function, [])
    for one in (callee, between, caller):
        one.ret_void()
    return owner, outer, inner


@pytest.mark.parametrize("base", [None, 0, 496])
@pytest.mark.parametrize("order", [1, -1], ids=["caller first", "callee first"])
def test_a_caller_and_a_callee_do_not_have_the_same_bytes(base, order):
    _, *builders = pair(base)
    for k in builders[::order]:
        assert broken(k) == ["attach.shared"]


def test_a_callee_behind_its_caller():
    owner, outer, inner = pair(512)
    assert outer.verify() == inner.verify() == ()
    assert (outer.shared_bytes, inner.shared_bytes) == (512, 512 + 1024)
    ptx = compile_ir(str(owner), outer.target).ptx
    assert re.search(r"add\.s32\s+%r\d+, %r\d+, 512;", ptx)


def test_functions_that_do_not_call_one_another_may_have_the_same_bytes():
    owner = module()
    builders = []
    for name in ("one", "two"):
        place = function(owner, name, kernel=True)
        builders.append(attach(place))
        fill(builders[-1], 128)
        place.ret_void()
    assert [k.verify() for k in builders] == [(), ()]


@pytest.mark.parametrize("linkage", ["external", "", "extern_weak"])
@pytest.mark.parametrize("user", ["itself", "callee", "caller", "nobody"])
@pytest.mark.parametrize("base", [None, 4096])
def test_an_array_of_the_owner(linkage, user, base):
    owner = module()
    array = ir.GlobalVariable(owner, ir.ArrayType(ir.IntType(8), 0), "arrays", addrspace=3)
    array.linkage, array.align = linkage, 16
    places = {name: function(owner, name) for name in ("callee", "caller", "nobody")}
    places["itself"] = function(owner, "itself", kernel=True)
    k = attach(places["itself"], **({} if base is None else {"shared_base": base}))
    fill(k, 128)
    touch(places[user], array)
    places["itself"].call(places["callee"].function, [])
    places["caller"].call(places["itself"].function, [])
    for one in places.values():
        one.ret_void()
    if base is None and user != "nobody":
        assert broken(k) == ["attach.shared"]
    else:
        assert k.verify() == ()


def test_static_arrays_of_the_owner_are_not_in_the_way():
    owner = module()
    array = ir.GlobalVariable(owner, ir.ArrayType(ir.IntType(8), 64), "fixed", addrspace=3)
    array.linkage, array.initializer = "internal", ir.Constant(array.value_type, ir.Undefined)
    place = function(owner, "f", kernel=True)
    k = attach(place)
    fill(k, 128)
    touch(place, array)
    place.ret_void()
    assert k.verify() == ()


def test_a_kernel_whose_module_got_an_array():
    k = KernelBuilder("k", "sm_90a", threads=128, parameters=[nvb.Parameter("out", nvb.Pointer(i32))])
    fill(k, 128)
    array = ir.GlobalVariable(k.module, ir.ArrayType(ir.IntType(8), 0), "arrays", addrspace=3)
    array.linkage = "external"
    touch(k.core.llvm, array)
    with pytest.raises(DiagnosticError, match=r"attach\.shared"):
        k.finish()


@pytest.mark.parametrize("base", [-1, 1.5, True, "0"])
def test_what_is_no_base(base):
    with pytest.raises(DiagnosticError) as raised:
        attach(function(module(), "f"), shared_base=base)
    assert raised.value.diagnostics[0].rule.id in ("attach.shared-base", "call.argument")


def test_a_name_that_the_owner_has_taken():
    owner = module()
    place = function(owner, "f", kernel=True)
    array = ir.GlobalVariable(owner, ir.ArrayType(ir.IntType(8), 64), "f__dynamic_shared", addrspace=3)
    array.linkage, array.initializer = "internal", ir.Constant(array.value_type, ir.Undefined)
    k = attach(place)
    fill(k, 128)
    place.ret_void()
    assert k.verify() == ()
    assert k.memory.dynamic is not array


# -- what else a module shows ----------------------------------------------------------------------------------------


def called_indirectly(owner, caller: ir.IRBuilder, callee: ir.Function, how: str) -> None:
    if how == "a table":
        kind = ir.ArrayType(callee.type, 1)
        table = ir.GlobalVariable(owner, kind, "table")
        table.initializer = ir.Constant(kind, [callee])
        place = caller.gep(table, [ir.Constant(ir.IntType(32), 0)] * 2)
        caller.call(caller.load(place), [])
    else:
        slot = caller.alloca(callee.type)
        caller.store(callee, slot)
        caller.call(caller.load(slot), [])


@pytest.mark.parametrize("how", ["a table", "a variable"])
@pytest.mark.parametrize("base", [None, 512])
def test_a_callee_by_an_indirect_call(how, base):
    owner = module()
    callee, caller = function(owner, "callee"), function(owner, "caller", kernel=True)
    outer = attach(caller)
    fill(outer, 128)
    inner = attach(callee, **({} if base is None else {"shared_base": base}))
    fill(inner, 256)
    called_indirectly(owner, caller, callee.function, how)
    callee.ret_void()
    caller.ret_void()
    for k in (inner, outer):
        if base is None:
            assert broken(k) == ["attach.shared"]
        else:
            assert k.verify() == ()


@pytest.mark.parametrize("known_as", ["an argument", "stored", "in a table", "called", "declared", "nothing"])
def test_an_indirect_call_reaches_what_has_an_address(known_as):
    """Only a function whose address is somewhere: in an instruction or a table, but not as the callee of a call."""
    owner = module()
    callee, caller, other = function(owner, "callee"), function(owner, "caller", kernel=True), function(owner, "other")
    outer, inner = attach(caller), attach(callee)
    fill(outer, 128)
    fill(inner, 256)
    if known_as == "an argument":
        taking = ir.Function(owner, ir.FunctionType(ir.VoidType(), [callee.function.type]), "taking")
        other.call(taking, [callee.function])
    elif known_as == "stored":
        other.store(callee.function, other.alloca(callee.function.type))
    elif known_as == "in a table":
        table = ir.GlobalVariable(owner, ir.ArrayType(callee.function.type, 1), "table")
        table.initializer = ir.Constant(table.value_type, [callee.function])
    elif known_as == "called":
        other.call(callee.function, [])
    elif known_as == "declared":
        declared = ir.Function(owner, VOID, "declared")
        other.store(declared, other.alloca(declared.type))
    caller.call(caller.inttoptr(ir.Constant(ir.IntType(64), 64), callee.function.type), [])
    for one in (callee, caller, other):
        one.ret_void()
    for k in (inner, outer):
        if known_as in ("an argument", "stored", "in a table"):
            assert broken(k) == ["attach.shared"]
        else:
            assert k.verify() == ()


def test_an_indirect_call_reaches_no_function_of_another_type():
    owner = module()
    caller = function(owner, "caller", kernel=True)
    outer = attach(caller)
    fill(outer, 128)
    taken = ir.Function(owner, ir.FunctionType(ir.VoidType(), [ir.IntType(32)]), "taken")
    inner = attach(ir.IRBuilder(taken.append_basic_block("entry")))
    fill(inner, 256)
    inner.core.llvm.ret_void()
    caller.store(taken, caller.alloca(taken.type))
    one = ir.Function(owner, VOID, "one")
    ir.IRBuilder(one.append_basic_block("entry")).ret_void()
    called_indirectly(owner, caller, one, "a variable")
    caller.ret_void()
    assert outer.verify() == ()


@pytest.mark.parametrize(("callees", "cluster"), [(128, 1), (256, 1), (128, 2)])
def test_a_callee_of_another_number_of_threads(callees, cluster):
    owner = module()
    callee, caller = function(owner, "callee"), function(owner, "caller", kernel=True)
    outer, inner = attach(caller), nvb.attach(callee, "sm_90a", threads=callees, cluster=cluster)
    caller.call(callee.function, [])
    for one in (callee, caller):
        one.ret_void()
    for k in (outer, inner):
        if (callees, cluster) == (128, 1):
            assert k.verify() == ()
            continue
        with pytest.raises(DiagnosticError) as raised:
            k.verify()
        (diagnostic,) = raised.value.diagnostics
        assert diagnostic.rule_id == "attach.threads"
        other = (callees, cluster) if k is outer else (128, 1)
        told = f"for {other[0]}" + (f" in clusters of {other[1]}" if cluster > 1 else "")
        assert re.search(f"{told}(?! in clusters)", diagnostic.message), diagnostic.message
        own = "128 threads" if k is outer else f"{callees} threads" + f" in clusters of {cluster}" * (cluster > 1)
        assert f" is built for CTAs of {own}, and " in diagnostic.message


@pytest.mark.parametrize(
    ("bounds", "is_broken"),
    [
        ({"maxntidx": 128}, False),
        ({"maxntidx": 64}, True),
        ({"maxntidx": 64, "maxntidy": 2}, False),
        ({"maxntidx": 256}, False),
        ({"reqntidx": 256}, True),
        ({"reqntidx": 128, "reqntidy": 1}, False),
        ({"reqntidx": 32, "reqntidy": 2, "reqntidz": 2}, False),
        ({"reqntidx": 32, "reqntidy": 2, "reqntidz": 3}, True),
        ({"maxntidy": 64, "reqntidz": 3}, False),
        ({"kernel": 1}, False),
    ],
)
@pytest.mark.parametrize("together", [False, True])
def test_launch_bounds_of_the_owner(bounds, is_broken, together):
    """Each in a note of its own, or all in one; a note on another function is nothing to this one."""
    owner = module()
    place = function(owner, "f", kernel=True)
    k = attach(place)
    place.ret_void()
    other = function(owner, "other")
    other.ret_void()
    pairs = [[(name, number)] for name, number in bounds.items()]
    notes = [(place.function, each) for each in ([[*bounds.items()]] if together else pairs)]
    elsewhere = (other.function, [("maxntidx", 1), ("reqntidx", 1)])
    for owned, each in (elsewhere, *notes, elsewhere):
        numbers = [part for name, number in each for part in (name, ir.Constant(ir.IntType(32), number))]
        owner.add_named_metadata("nvvm.annotations", owner.add_metadata([owned, *numbers]))
    owner.add_named_metadata("nvvm.annotations", owner.add_metadata([place.function, "maxntidx"]))  # without a number
    if is_broken:
        assert broken(k) == ["attach.threads"]
    else:
        assert k.verify() == ()


@pytest.mark.parametrize("static", [24 * 1024, 40 * 1024])
@pytest.mark.parametrize("user", ["itself", "callee", "nobody"])
def test_static_arrays_of_the_owner_beside_dynamic_memory(static, user):
    """ptxas knows nothing of the dynamic part, and the launch would fail: 227 KB are what there is (sm_90)."""
    owner = module()
    array = ir.GlobalVariable(owner, ir.ArrayType(ir.ArrayType(ir.IntType(32), 4), static // 16), "a", addrspace=3)
    array.linkage, array.initializer, array.align = "internal", ir.Constant(array.value_type, ir.Undefined), 16
    places = {name: function(owner, name, kernel=name == "itself") for name in ("callee", "itself", "nobody")}
    k = attach(places["itself"])
    line = here() + 1
    fill(k, 200 * 1024 // 4)
    k.shared(f32, 16)
    touch(places[user], array)
    places["itself"].call(places["callee"].function, [])
    for one in places.values():
        one.ret_void()
    if static == 40 * 1024 and user != "nobody":
        with pytest.raises(DiagnosticError) as raised:
            k.verify()
        (diagnostic,) = raised.value.diagnostics
        assert diagnostic.rule_id == "shared.size"
        assert diagnostic.location is not None
        assert (diagnostic.location.function, diagnostic.location.callers[0].line) == ("fill", line)
    else:
        assert k.verify() == ()


def test_static_memory_of_the_kernel_itself_is_counted_once():
    k = KernelBuilder("k", "sm_90a", threads=128)
    k.shared_static(f32, 6 * 1024)[k.thread_id()] = 1.0
    fill(k, 200 * 1024 // 4)
    assert k.finish().diagnostics == ()


def test_in_the_module_of_a_kernel_of_nvbackends_own():
    """That one is verified by its own builder."""
    own = KernelBuilder("own", "sm_90a", threads=64, parameters=[test_finished.OUT])
    own.arguments[0][own.thread_id()] = 5.0
    own.finish()
    builder = test_finished.owner([test_finished.GLOBAL], "beside", own.module)
    k = test_finished.attach(builder, parameters=[test_finished.OUT])
    test_finished.fill(k, 7.0)
    compiled = test_finished.finished(builder, k, assemble=False)
    assert compiled.ptx.count(".entry") == 2
    out = np.zeros(32, np.float32)
    nvb.runtime.load(compiled, device="simulator").launch(1, out)
    assert np.array_equal(out, np.full(32, 7))
