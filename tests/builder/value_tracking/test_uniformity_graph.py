"""Which values of a function the divergence analysis takes for one: equal expressions, and no others."""

from llvmlite import ir

from nvbackend.builder.thread_tables.tables import Cta
from nvbackend.builder.value_tracking.uniformity import branches
from nvbackend.builder.value_tracking.uniformity_graph import Entry, Graph, Stores
from nvbackend.intrinsics.row.semantics import Scope

I32, I64 = ir.IntType(32), ir.IntType(64)


def _function():
    """An empty function, the builder at its entry, and a call of which nothing is known."""
    module = ir.Module("m")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I32]), "f")
    read = ir.Function(module, ir.FunctionType(I32, []), "llvm.nvvm.read.ptx.sreg.tid.x")
    return function, ir.IRBuilder(function.append_basic_block("entry")), read


def _numbers(function, values, before=lambda _: ()):
    graph = Graph(values, Stores(function), before)
    return [graph.numbers[id(value)] for value in values]


def test_the_same_operation_on_the_same_nodes_is_one_node():
    function, builder, read = _function()
    sums = [builder.add(builder.mul(builder.call(read, []), I32(4)), I32(8)) for _ in range(3)]
    assert len(set(_numbers(function, sums))) == 1


def test_other_operations_constants_operands_and_types_are_other_nodes():
    function, builder, read = _function()
    index, given = builder.call(read, []), function.args[0]
    values = [
        *(builder.icmp_signed("<", index, I32(3)), builder.icmp_unsigned("<", index, I32(3))),
        *(builder.icmp_signed("<", index, I32(4)), builder.icmp_signed("<", given, I32(3))),
        *(builder.icmp_signed("<", I32(3), index), builder.add(index, I32(3)), builder.sub(index, I32(3))),
        *(builder.zext(index, I64), builder.sext(index, I64), builder.zext(index, ir.IntType(48))),
        *(builder.zext(builder.trunc(index, ir.IntType(1)), I64), builder.add(index, index)),
    ]
    numbers = _numbers(function, values)
    assert len(set(numbers)) == len(values)


def test_loads_are_what_was_stored_before_them():
    function, builder, _ = _function()
    slots = [builder.alloca(I32), builder.alloca(I32)]
    for slot in slots:
        builder.store(function.args[0], slot)
    first, again = builder.load(slots[0]), builder.load(slots[0])
    builder.store(builder.add(first, I32(1)), slots[0])
    later = builder.load(slots[0])
    numbers = _numbers(function, [first, again, later])
    assert numbers[0] == numbers[1] != numbers[2]


def test_variables_of_loops_stay_apart():
    """What goes round a loop is a node of its own, with what comes in and what comes back as its sources."""
    function, builder, _ = _function()
    slots = [builder.alloca(I32, name=name) for name in ("one", "other")]
    loop = function.append_basic_block("loop")
    for slot in slots:
        builder.store(I32(0), slot)
    builder.branch(loop)
    builder.position_at_end(loop)
    values, sums = [], []
    for slot in slots:
        values.append(builder.load(slot))
        sums.append(builder.add(values[-1], I32(1)))
        builder.store(sums[-1], slot)
    builder.branch(loop)
    graph = Graph(values, Stores(function), {"loop": ["entry", "loop"]}.__getitem__)
    assert graph.numbers[id(values[0])] != graph.numbers[id(values[1])]
    entries = {node.slot: index for index, node in enumerate(graph.nodes) if isinstance(node, Entry)}
    for slot, value, total in zip(slots, values, sums, strict=True):
        assert graph.sources[graph.numbers[id(total)]][0] == graph.numbers[id(value)]
        start, back = graph.sources[entries[slot]]
        assert graph.nodes[start].constant == 0
        assert back == graph.numbers[id(total)]
        assert entries[slot] in graph.users[start]
        assert entries[slot] in graph.users[back]


def test_a_slot_whose_address_is_stored_or_passed_may_hold_anything():
    function, builder, _ = _function()
    takes = ir.Function(function.module, ir.FunctionType(ir.VoidType(), [ir.PointerType(I32)]), "takes")
    stored, passed, kept = (builder.alloca(I32) for _ in range(3))
    home = builder.alloca(stored.type)
    for slot in (stored, passed, kept):
        builder.store(I32(5), slot)
    builder.store(stored, home)
    builder.call(takes, [passed])
    stores = Stores(function)
    assert [stores.is_unknown(builder.load(slot)) for slot in (stored, passed, kept)] == [True, True, False]
    assert stores.last("entry", home) is stored


def test_a_condition_that_no_way_brings_is_nobodys():
    """Two blocks that only lead to each other: nothing decides, so nothing parts, and no side is taken."""
    function, builder, _ = _function()
    dead, end = function.append_basic_block("dead"), function.append_basic_block("end")
    builder.branch(end)
    builder.position_at_end(dead)
    phi = builder.phi(ir.IntType(1))
    phi.add_incoming(phi, dead)
    builder.cbranch(phi, dead, end)
    builder.position_at_end(end)
    builder.ret_void()
    scopes = {phi: Scope.THREAD}
    (branch,) = branches(function, Cta(64, 1, (64, 1, 1)), {}, scopes).values()
    assert (branch.uniform, branch.one_thread, branch.fixed, branch.location) == (Scope.GRID, False, False, None)
    assert scopes == {phi: Scope.GRID}
