"""What verify of an attached builder judges: as much as of a kernel where nothing else in the function matters."""

from __future__ import annotations

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError, f32, i32
from nvbackend.builder.kernel.kernel import TRIPLE, KernelBuilder

VOID, I32 = ir.VoidType(), ir.IntType(32)
SHARED = ir.PointerType(addrspace=3)


def attached(name="own", *, later=False, **options):
    """A builder attached where the owner's function begins, or `later`, where it is open who comes."""
    module = ir.Module("owner")
    module.triple = TRIPLE
    function = ir.Function(module, ir.FunctionType(VOID, [ir.PointerType(addrspace=1), I32]), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    if later:
        block = function.append_basic_block("later")
        builder.branch(block)
        builder.position_at_end(block)
    k = nvb.attach(builder, "sm_90a", threads=128, **options)
    return k, builder, k.global_address(function.args[0], f32, 16), k.value(function.args[1], i32)


def said(k) -> list[str]:
    try:
        return [one.rule_id for one in k.verify()]
    except DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]


def race(k, out, n):
    shared = k.shared(f32, 128)
    shared[k.thread_id()] = 1.0
    out[k.thread_id()] = shared[127 - k.thread_id()]


def nobody_arrives(k, out, n):
    full = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    k.mbarrier.wait(full, 0)


def past_the_end(k, out, n):
    shared = k.shared(f32, 100)
    shared[k.thread_id()] = 1.0


def in_half_of_the_threads(k, out, n):
    with k.if_(k.thread_id() < 40):
        k.barrier.sync()


def race_in_a_loop(k, out, n):
    shared = k.shared(f32, 128)
    with k.range(n) as i:
        shared[k.thread_id()] = 1.0
        k.barrier.sync()
        out[i] = shared[127 - k.thread_id()]


def right(k, out, n):
    shared = k.shared(f32, 128)
    full = k.mbarrier.array(1, 128)
    k.mbarrier.ready()
    with k.if_(k.thread_id() < 64):
        shared[k.thread_id()] = 1.0
    with k.range(n) as i:
        k.barrier.sync()
        out[i] = shared[127 - k.thread_id()]
    k.mbarrier.arrive(full)
    k.mbarrier.wait(full, 0)


BODIES = [race, nobody_arrives, past_the_end, in_half_of_the_threads, race_in_a_loop, right]


def of_a_kernel(body) -> list[str]:
    parameters = [nvb.Parameter("out", nvb.Pointer(f32, align=16)), nvb.Parameter("n", nvb.Scalar(i32))]
    k = KernelBuilder("own", "sm_90a", threads=128, parameters=parameters)
    try:
        body(k, *k.arguments)
        return [one.rule_id for one in k.finish(check=False).diagnostics]
    except DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]


def harmless(builder) -> None:
    """What an owner adds that matters to no protocol."""
    first, second = builder.function.args
    again = builder.gep(first, [builder.add(second, ir.Constant(I32, 4))], source_etype=I32)
    builder.store(builder.load(again, typ=I32), again)
    for name, arguments in (("llvm.ctpop.i32", [second]), ("llvm.nvvm.read.ptx.sreg.tid.x", [])):
        known = builder.module.globals.get(name)
        made = known or ir.Function(builder.module, ir.FunctionType(I32, [I32] * len(arguments)), name)
        builder.call(made, arguments)


@pytest.mark.parametrize("body", BODIES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("mine", ["nothing", "values", "a branch at the end"])
def test_as_a_kernel_is_judged(body, mine):
    k, builder, out, n = attached()
    if mine == "values":
        harmless(builder)
    body(k, out, n)
    if mine == "a branch at the end":
        more, done = (builder.append_basic_block(name) for name in ("more", "done"))
        builder.cbranch(builder.icmp_signed(">", k.function.args[1], ir.Constant(I32, 7)), more, done)
        builder.position_at_end(more)
        harmless(builder)
        builder.branch(done)
        builder.position_at_end(done)
    builder.ret_void()
    found = said(k)
    assert found == of_a_kernel(body)
    assert bool(found) is (body is not right)


def of_shared_memory(builder):
    array = ir.GlobalVariable(builder.module, ir.ArrayType(I32, 4), "array", addrspace=3)
    array.linkage, array.initializer = "internal", ir.Constant(array.value_type, ir.Undefined)
    builder.load(builder.gep(array, [ir.Constant(I32, 0), ir.Constant(I32, 0)]), typ=I32)


def of_a_call(builder):
    callee = ir.Function(builder.module, ir.FunctionType(VOID, []), "callee")
    builder.call(callee, [])


def of_assembly(builder):
    builder.asm(ir.FunctionType(VOID, []), "bar.sync 0;", "", [], side_effect=True)


def of_a_barrier(builder):
    name = "llvm.nvvm.barrier.cta.sync.aligned.all"
    builder.call(ir.Function(builder.module, ir.FunctionType(VOID, [I32]), name), [ir.Constant(I32, 0)])


def of_a_warp(builder):
    name = "llvm.nvvm.bar.warp.sync"
    builder.call(ir.Function(builder.module, ir.FunctionType(VOID, [I32]), name), [ir.Constant(I32, -1)])


def of_copied_memory(builder):
    generic = ir.PointerType()
    kind = ir.FunctionType(VOID, [generic, generic, I32, ir.IntType(1)])
    pointer = builder.inttoptr(ir.Constant(ir.IntType(64), 64), generic)
    given = [pointer, pointer, ir.Constant(I32, 4), ir.Constant(ir.IntType(1), 0)]
    builder.call(ir.Function(builder.module, kind, "llvm.memcpy.p0.p0.i32"), given)


def of_a_generic_pointer(builder):
    pointer = builder.inttoptr(ir.Constant(ir.IntType(64), 64), ir.PointerType())
    builder.store(ir.Constant(I32, 1), pointer)


@pytest.mark.parametrize(
    "mine",
    [of_shared_memory, of_a_call, of_assembly, of_a_barrier, of_copied_memory, of_a_generic_pointer],
    ids=lambda one: one.__name__,
)
def test_what_the_owner_may_have_ordered_is_left_alone(mine):
    k, builder, out, _ = attached()
    shared = k.shared(f32, 128)
    shared[k.thread_id()] = 1.0
    mine(builder)
    out[k.thread_id()] = shared[127 - k.thread_id()]
    builder.ret_void()
    assert said(k) == []


def test_a_barrier_of_warps_orders_no_other_threads():
    """The owner's call is known, and so is that it is not enough."""
    k, builder, out, _ = attached()
    shared = k.shared(f32, 128)
    shared[k.thread_id()] = 1.0
    of_a_warp(builder)
    out[k.thread_id()] = shared[127 - k.thread_id()]
    builder.ret_void()
    assert said(k) == ["shared.missing-barrier"]


def of_unknown_assembly(builder):
    builder.asm(ir.FunctionType(VOID, []), "exit;", "", [], side_effect=True)


@pytest.mark.parametrize("mine", [of_shared_memory, of_a_call, of_unknown_assembly], ids=lambda one: one.__name__)
def test_who_comes_after_the_owners_own_is_open(mine):
    """Those threads that would write past the end may have left, or never come."""
    k, builder, out, n = attached()
    mine(builder)
    past_the_end(k, out, n)
    builder.ret_void()
    assert said(k) == []


def test_blocks_of_the_owner_are_run_by_who_knows():
    """Only some threads may come to the owner's block: there the reads are of one warp."""
    k, builder, out, n = attached()
    shared = k.shared(f32, 128)
    some, done = (builder.append_basic_block(name) for name in ("some", "done"))
    builder.cbranch((k.thread_id() < n).ir, some, done)
    builder.position_at_end(some)
    shared[k.thread_id()] = 1.0
    with k.if_(k.thread_id() >= 0):
        out[k.thread_id()] = shared[127 - k.thread_id()]
    builder.branch(done)
    builder.position_at_end(done)
    builder.ret_void()
    assert said(k) == []


def test_a_loop_of_the_owner_around_our_blocks():
    """Some threads leave the owner's loop early, and all that begins in it is run by fewer."""
    k, builder, _, n = attached()
    full = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full)
    again, done = builder.block, builder.append_basic_block("done")
    k.mbarrier.wait(full, 0)
    builder.cbranch((k.thread_id() < n).ir, again, done)
    builder.position_at_end(done)
    builder.ret_void()
    assert said(k) == []


def called_by_another(function):
    caller = ir.Function(function.module, function.function_type, "caller")
    place = ir.IRBuilder(caller.append_basic_block("entry"))
    place.call(function, caller.args)
    place.ret_void()


def given_to_another(function):
    caller = ir.Function(function.module, ir.FunctionType(VOID, [function.type.as_pointer()]), "caller")
    place = ir.IRBuilder(caller.append_basic_block("entry"))
    place.store(function, caller.args[0])
    place.ret_void()


@pytest.mark.parametrize("linkage", ["", "external", "internal", "private"])
@pytest.mark.parametrize("returns", [VOID, I32])
@pytest.mark.parametrize("known_to", [None, called_by_another, given_to_another])
def test_judged_as_a_kernel_only_where_it_can_be_nothing_else(linkage, returns, known_to):
    """Others see a kernel, it returns nothing, and no function of its module calls it or has its address."""
    module = ir.Module("owner")
    module.triple = TRIPLE
    function = ir.Function(module, ir.FunctionType(returns, [ir.PointerType(addrspace=1), I32]), "own")
    function.linkage = linkage
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    k = nvb.attach(builder, "sm_90a", threads=128)
    race(k, k.global_address(function.args[0], f32, 16), k.value(function.args[1], i32))
    builder.ret_void() if returns is VOID else builder.ret(ir.Constant(I32, 0))
    if known_to is not None:
        known_to(function)
    can_be_one = linkage in ("", "external") and returns is VOID and known_to is None
    assert said(k) == (["shared.missing-barrier"] if can_be_one else [])


# -- after the end --------------------------------------------------------------------------------------------------


LATE = {
    "a value": lambda k, out, n: n + 1,
    "a store": lambda k, out, n: out.store(1.0),
    "a barrier": lambda k, out, n: k.barrier.sync(),
    "a variable": lambda k, out, n: k.var(0).set(n),
    "a block": lambda k, out, n: k.if_(n > 0).__enter__(),
}


@pytest.mark.parametrize("what", LATE)
def test_calls_after_the_end(what):
    k, builder, out, n = attached()
    builder.ret_void()
    before = len(builder.block.instructions)
    with pytest.raises(DiagnosticError, match=r"attach\.block"):
        LATE[what](k, out, n)
    assert builder.block.instructions[before - 1] is builder.block.terminator or before < 2


@pytest.mark.parametrize("what", ["a barrier", "a store"])
def test_a_call_after_the_end_is_told_at_its_own_line(what):
    """The frames of llvmlite, through which the call goes, are not the user's."""
    k, builder, out, n = attached()
    builder.ret_void()
    with pytest.raises(DiagnosticError) as raised:
        LATE[what](k, out, n)
    place = raised.value.diagnostics[0].location
    assert place.file == __file__
    assert f'"{what}": lambda' in place.source


def test_code_of_the_owner_after_the_end():
    k, builder, _, _ = attached()
    builder.ret_void()
    harmless(builder)
    assert said(k) == ["attach.block"]


# -- how blocks end -------------------------------------------------------------------------------------------------


def ended_in_an_if(k, builder):
    with k.if_(k.thread_id() == 0):  # broken
        builder.ret_void()


def ended_in_a_range(k, builder):
    elsewhere = builder.append_basic_block("elsewhere")
    with k.range(5):  # broken
        builder.branch(elsewhere)


def ended_in_one_thread(k, builder):
    with k.one_thread():  # broken
        builder.unreachable()


def ended_in_a_loop(k, builder):
    with k.loop():  # broken
        k.break_if(k.thread_id() == 0)
        builder.ret_void()


@pytest.mark.parametrize("program", [ended_in_an_if, ended_in_a_range, ended_in_one_thread, ended_in_a_loop])
def test_an_end_at_the_wrong_place_is_told_at_the_users_line(program):
    k, builder, _, _ = attached()
    with pytest.raises(DiagnosticError) as raised:
        program(k, builder)
    (found,) = raised.value.diagnostics
    assert found.rule_id == "attach.block"
    assert found.location.file == __file__
    assert found.location.source.endswith("# broken")


def test_an_open_block_of_the_owner():
    k, builder, _, _ = attached()
    builder.append_basic_block("open")
    builder.ret_void()
    assert said(k) == ["attach.block"]


def of_type(returned):
    function = ir.Function(ir.Module(), ir.FunctionType(returned, []), "own")
    builder = ir.IRBuilder(function.append_basic_block())
    return nvb.attach(builder, "sm_90a", threads=32), builder


def test_what_a_function_returns():
    """LLVM refuses any other return: the value and the type of the function must be the same."""
    k, _ = of_type(I32)
    with pytest.raises(DiagnosticError, match=r"attach\.block"):
        k.return_()
    for returned, given, rules in (
        (I32, ir.Constant(I32, 1), []),
        (I32, ir.Constant(ir.IntType(64), 1), ["attach.block"]),
        (I32, None, ["attach.block"]),
        (VOID, None, []),
        (VOID, ir.Constant(I32, 1), ["attach.block"]),
    ):
        k, builder = of_type(returned)
        builder.ret_void() if given is None else builder.ret(given)
        assert said(k) == rules


@pytest.mark.parametrize("yes", ["thread", "warp", "n", "constant"])
@pytest.mark.parametrize("no", ["thread", "warp", "n", "constant"])
@pytest.mark.parametrize("parts", ["n", "thread"])
def test_a_phi_of_the_owner_is_what_both_ways_bring(yes, no, parts):
    """Threads part by it where they differ on either way."""
    k, builder, _out, n = attached()
    brought = {"thread": k.thread_id(), "warp": k.warp_id(), "n": n, "constant": k.const(3, i32)}
    condition = builder.icmp_signed(">", brought[parts].ir, ir.Constant(I32, 40))
    start = builder.block
    with builder.if_then(condition):
        inner = builder.block
    phi = builder.phi(I32)
    phi.add_incoming(brought[no].ir, start)
    phi.add_incoming(brought[yes].ir, inner)
    with k.if_(k.value(phi, i32) == 2):
        k.barrier.sync()
    builder.ret_void()
    uniform = {"n", "constant"}
    differs = not {yes, no} <= uniform
    assert said(k) == ["barrier.divergent"] * differs


@pytest.mark.parametrize("announced", [32, 64])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("mask", [0b01, 0b11])
@pytest.mark.parametrize("later", [False, True])
def test_a_barrier_of_some_cta_of_the_cluster(announced, known, mask, later):
    """Both CTAs bring 64 bytes to each CTA of the mask. Of a CTA that data choose only the sum of all is known."""
    k, builder, out, n = attached(cluster=2, later=later)
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared(f32, 64, align=128)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, rank=1 if known else n, expect_tx=announced)
    with k.if_(k.thread_id() == 0):
        k.bulk.load(tile, out, 64, full, multicast_mask=mask)
    k.mbarrier.wait(full, 0)
    k.cluster.sync()
    builder.ret_void()
    found = [one for one in said(k) if one.startswith("mbarrier")]
    assert len(found) == (not later and (known or 2 * announced != 64 * 2 * mask.bit_count()))


@pytest.mark.parametrize("later", [False, True])
def test_the_owner_may_wait_for_the_peer(later):
    """Where all of the kernel is seen, the peer may not have started, and may have ended."""
    k, builder, out, _ = attached(cluster=2, later=later)
    peer = k.cluster.map_shared_rank(k.shared(f32, 128), k.cluster.peer_rank())
    out[k.thread_id()] = peer[k.thread_id()]
    builder.ret_void()
    assert said(k) == ["cluster.access-before-start", "cluster.exit-before-access"] * (not later)
