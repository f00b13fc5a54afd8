"""Where accesses to shared memory are: the allocation, the constant offset, and the run-time part."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import ir

from nvbackend import KernelBuilder, attach, f16, f32, i32, u8, u32, u64, wgmma
from nvbackend.builder.value_tracking.addresses.places import LinearSum, Place, Places, symbol_name
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor
from nvbackend.isel.flow.memory_uses import symbol_terms, symbol_text
from nvbackend.isel.machine.function import MemoryObject, MemoryTouch, MemoryUse
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap

TILE = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)


def builder(target: str = "sm_90a", threads: int = 128, cluster: int = 1) -> KernelBuilder:
    parameters = [
        Parameter("map", TensorMap(f16, (64, 64))),
        Parameter("n", Scalar(i32)),
        Parameter("m", Scalar(i32)),
        Parameter("p", Pointer(f32)),
    ]
    return KernelBuilder("kernel", target, threads=threads, cluster=cluster, parameters=parameters)


def touches(k: KernelBuilder, opcode: str) -> list[MemoryTouch]:
    return [touch for instr in k.machine.instructions() if instr.opcode == opcode for touch in instr.memory]


def place(touch: MemoryTouch) -> tuple[str, int | None, str, int | None]:
    return touch.object.name, touch.offset, touch.symbol, touch.bytes


def test_allocations_are_objects_in_order() -> None:
    k = builder()
    k.shared(f32, 4, name="one").store(1.0)
    k.shared_static(f16, 8, name="two").store(1.0)
    k.mbarrier.array(3, 1, name="three")
    k.shared_tiles(TILE, 2, name="four").first.store(1)
    found = {touch.object.id: touch.object for instr in k.machine.instructions() for touch in instr.memory}
    shown = [(one.id, one.name, one.space, one.bytes, one.element_bytes) for one in found.values()]
    assert sorted(shown) == [
        (1, "one", "shared", 16, 4),
        (2, "two", "shared", 16, 2),
        (3, "three", "shared", 24, 8),
        (4, "four", "shared", 16384, 8192),
    ]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=12))
def test_each_allocation_and_each_of_a_peer_is_an_object_of_its_own(steps: list[tuple[bool, int]]) -> None:
    """What is allocated and what of it is mapped, in any order; a mapped one has one twin, and is mapped no further."""
    places = Places()
    own = [places.allocate(f"{number}", 64, 4) for number in range(2)]
    mapped: dict[int, Place] = {}
    for maps, number in steps:
        if not maps:
            own.append(places.allocate(f"{len(own)}", 64, 4))
            continue
        chosen = own[number % len(own)]
        there = places.of_peer(replace(chosen, offset=4 * number))
        assert there is not None
        assert (there.offset, there.terms, there.object.twin) == (4 * number, {}, chosen.object.id)
        assert there.object.space != chosen.object.space
        assert places.of_peer(there) is there
        first = mapped.setdefault(chosen.object.id, there)
        assert first.object is there.object
    objects = [one.object for one in (*own, *mapped.values())]
    assert len({one.id for one in objects}) == len(objects)
    assert places.of_peer(None) is None


def test_ordinary_accesses() -> None:
    k = builder()
    n, values = k.arguments[1], k.shared(f32, 256, name="values")
    (values + 4).store(1.0, 2.0)
    values[n * 2 + 3] = 0.0
    (values + n).byte_offset(4).load()
    stored, loaded = touches(k, "st.shared"), touches(k, "ld.shared")
    assert [place(one) for one in stored] == [("values", 16, "", 8), ("values", 12, "%n*8", 4)]
    assert [place(one) for one in loaded] == [("values", 4, "%n*4", 4)]
    assert {one.use for one in stored} == {MemoryUse.WRITE}
    assert {one.use for one in loaded} == {MemoryUse.READ}
    assert [one.location.function for one in k.machine.instructions() if one.location] == ["test_ordinary_accesses"] * 3


def test_global_memory_has_no_object() -> None:
    k = builder()
    k.arguments[3].store(1.0)
    assert not [one for one in k.machine.instructions() if one.memory]


def test_equal_indices_are_equal_places() -> None:
    k = builder()
    n, m, ring = k.arguments[1], k.arguments[2], k.shared(u64, 8, align=8, name="ring")
    for index in (n, n + 0, m + n - m, n % 4, n % 4, n & 7, m):
        k.mbarrier.arrive(ring + index)
    symbols = [touch.symbol for touch in touches(k, "mbarrier.arrive")]
    assert symbols[0] == symbols[1] == symbols[2] == "%n*8"
    assert symbols[3] == symbols[4]
    assert len(set(symbols)) == 4


def test_a_variable_is_another_value_in_every_round() -> None:
    k = builder()
    ring = k.shared(u64, 8, align=8, name="ring")
    stage = k.var(0, i32)
    with k.range(4):
        k.mbarrier.arrive(ring + stage)
        k.mbarrier.arrive(ring + stage)
        stage += 1
        k.mbarrier.arrive(ring + stage)
    one, same, following = touches(k, "mbarrier.arrive")
    assert one.symbol == same.symbol == following.symbol
    assert (one.offset, following.offset) == (0, 8)


def test_descriptors_lead_to_their_tile() -> None:
    k = builder()
    n, tiles, acc = k.arguments[1], k.shared_tiles(TILE, 4, name="tiles"), k.wgmma.accumulator(64)
    k.fence.proxy_async()
    with k.wgmma.group():
        request = wgmma.mma_async("m64n64k16", f16, f16, f32)
        k.wgmma.mma_async(acc, tiles.at(1), tiles.at(n), request, b_at=(0, 16))
        advanced = k.wgmma.smem_descriptor(tiles.at(n)) + 4
        k.wgmma.mma_async(acc, advanced, advanced, request)
    found = touches(k, "wgmma.mma_async")
    assert [(one.operand, one.offset, one.symbol) for one in found] == [
        ("a_desc", 8192, ""),
        ("b_desc", 32, "%n*8192"),
        ("a_desc", 64, "%n*8192"),
        ("b_desc", 64, "%n*8192"),
    ]
    assert [one.bytes for one in found] == [8192, 8192 - 32, None, None]
    assert {one.use for one in found} == {MemoryUse.ASYNC_READ}


def test_descriptors_of_tcgen05() -> None:
    k = builder("sm_100a")
    source = k.shared(u8, 4096, align=128, name="source")
    layout = Tcgen05SmemDescriptor(0, 128, 256)
    cell = k.shared(u32, 1, name="cell")
    k.tcgen05.alloc(cell, 32)
    tmem = cell[0]
    k.tcgen05.cp(tmem, k.tcgen05.smem_descriptor(source + 1024, layout), "128x256b")
    assert [place(one) for one in touches(k, "tcgen05.cp") if one.operand == "source"] == [("source", 1024, "", None)]
    assert [(place(one), one.use) for one in touches(k, "tcgen05.alloc") if one.object.space == "shared"] == [
        (("cell", 0, "", 4), MemoryUse.WRITE)
    ]


def test_copies_touch_what_they_fill_and_their_barrier() -> None:
    k = builder()
    tile, barrier = k.shared_tile(TILE), k.mbarrier.array(2, 1, name="full")
    with k.one_thread():
        k.tma.load(tile, k.arguments[0], (0, 0), barrier + 1)
        k.tma.store(k.arguments[0], (0, 0), tile)
        k.bulk.load(tile.address, k.arguments[3], 256, barrier)
        k.bulk.store(k.arguments[3], tile.address, k.arguments[1])
    load, full, store = touches(k, "cp.async.bulk.tensor")
    assert (place(load), load.use) == (("tile", 0, "", 8192), MemoryUse.ASYNC_WRITE)
    assert (place(full), full.use) == (("full", 8, "", 8), MemoryUse.SYNCHRONIZE)
    assert (place(store), store.use) == (("tile", 0, "", 8192), MemoryUse.ASYNC_READ)
    assert [(one.operand, one.bytes) for one in touches(k, "cp.async.bulk")] == [
        ("destination", 256),
        ("barrier", 8),
        ("source", None),
    ]


def test_ordinary_moves_of_matrices_and_cp_async() -> None:
    k = builder()
    buffer = k.shared(f16, 1024, align=128, name="buffer")
    k.mma.stmatrix(buffer + 8, k.mma.ldmatrix(buffer, 1))
    k.cp_async.copy(buffer + 16, k.arguments[3], 4)
    found = [*touches(k, "ldmatrix"), *touches(k, "stmatrix"), *touches(k, "cp.async")]
    assert [(one.use, one.offset, one.bytes) for one in found] == [
        (MemoryUse.READ, 0, 16),  # a thread's address is that of a row: eight elements of 16 bits
        (MemoryUse.WRITE, 16, 16),
        (MemoryUse.WRITE, 32, 4),
    ]


def test_a_barrier_of_a_peer_is_the_same_place() -> None:
    k = builder(cluster=2)
    ring = k.shared(u64, 4, align=8, name="ring")
    k.mbarrier.arrive(ring + k.arguments[1], rank=1, when=True)
    assert [place(one) for one in touches(k, "mbarrier.arrive")] == [("ring", 0, "%n*8", 8)]


@pytest.mark.parametrize("derived", [True, False])
def test_a_number_is_an_address_where_it_was_computed_from_one(derived: bool) -> None:
    k = builder()
    buffer = k.shared(u64, 64, align=8, name="buffer")
    number = buffer.bytes + 24 if derived else k.arguments[1].to(u32)
    k.mbarrier.arrive(k.shared_address(number, u64, 8))
    expected = [("buffer", 24, "", 8)] if derived else []
    assert [place(one) for one in touches(k, "mbarrier.arrive")] == expected


def test_attached_builders_know_their_own_allocations_only() -> None:
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.IntType(32)]), "f")
    k = attach(ir.IRBuilder(function.append_basic_block("entry")), "sm_90a", threads=128)
    k.mbarrier.arrive(k.shared(u64, 4, align=8, name="ring") + k.value(function.args[0], i32))
    k.mbarrier.arrive(k.shared_address(k.value(function.args[0], u32), u64, 8))
    known, unknown = list(k.machine.instructions())
    assert [place(one) for one in known.memory] == [
        ("ring", 0, f"{function.args[0].get_reference()}*8".replace('"', ""), 8)
    ]
    assert unknown.memory == ()


@given(st.lists(st.tuples(st.sampled_from("nm1"), st.integers(-9, 9), st.sampled_from(["*", "<<", "-"])), max_size=6))
def test_sums_are_what_arithmetic_says(steps: list[tuple[str, int, str]]) -> None:
    """The witness evaluates the same steps on numbers: the recorded place must be the same linear function."""
    k = builder()
    buffer = k.shared(u8, 4096, name="buffer")
    address, expected = buffer, {"n": 0, "m": 0, "1": 0}
    for which, factor, how in steps:
        unit = {"n": k.arguments[1], "m": k.arguments[2], "1": k.const(1, i32)}[which]
        if how == "*":
            moved, scale = unit * factor, factor
        elif how == "<<":
            moved, scale = (unit << abs(factor)) + 0, 1 << abs(factor)
        else:
            moved, scale = (unit - factor) * 2, 2
            expected["1"] -= 2 * factor
        expected[which] += scale
        address = address.byte_offset(moved)
    address.store(0)
    (touch,) = touches(k, "st.shared")
    assert touch.offset == expected["1"]
    assert dict(symbol_terms(touch.symbol)) == {f"%{name}": expected[name] for name in "mn" if expected[name]}


@given(st.dictionaries(st.text("%ab *+\\.0", min_size=1), st.just(0) | st.integers(-(1 << 31), 1 << 31)))
def test_symbols_can_be_taken_apart(terms: dict[str, int]) -> None:
    """What is multiplied by 0 is not there."""
    text = symbol_text(terms)
    factors = sorted(filter(None, terms.values()))
    assert sorted(factor for _, factor in symbol_terms(text)) == factors
    assert len({name for name, _ in symbol_terms(text)}) == len(factors)


def test_shifts_with_and_without_the_sign_are_two_symbols() -> None:
    """The same bits read as s32 and as u32: of a negative number the one is shifted ones in, the other zeros."""
    k = builder()
    n = k.arguments[1]
    signed, unsigned = symbol_name(((n >> 30) & 15).ir), symbol_name(((n.to(u32) >> 30) & 15).ir)
    assert signed != unsigned
    assert symbol_name(((n >> 30) & 15).ir) == signed
    assert symbol_name(((n.to(u32) >> 30) & 15).ir) == unsigned


@pytest.mark.parametrize(
    ("length", "doubles"),
    [*((length, doubles) for length in (1, 11, 12, 13) for doubles in (True, False)), (3000, False)],
)
def test_a_sum_of_any_length_is_a_step(length: int, doubles: bool) -> None:
    """However long the chain, the terms say what it comes to: only so many of its links are followed back."""
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(32)]), "f")
    b = ir.IRBuilder(function.append_basic_block())
    chain = [function.args[0]]
    for number in range(length):
        last = chain[-1]
        chain.append(b.add(last, last if doubles else ir.Constant(ir.IntType(32), number)))
    start, numbers = 5, {}
    for number, value in enumerate(chain):
        numbers[symbol_name(value)] = start << number if doubles else start + sum(range(number))
    step = Places().step(chain[-1])
    total = step.constant + sum(factor * numbers[name] for name, factor in symbol_terms(symbol_text(step.terms)))
    assert (total - numbers[symbol_name(chain[-1])]) % (1 << 32) == 0


STEPS = (
    0,
    1,
    12,
    (1 << 31) - 1,
    1 << 31,
    (1 << 31) + 4,
    (1 << 32) - 4,
    1 << 32,
    (1 << 33) + 8,
    -4,
    -(1 << 31),
    5 - (1 << 33),
)


@pytest.mark.parametrize("unit", [1, 4])
@pytest.mark.parametrize("step", STEPS)
def test_steps_are_those_of_addresses_of_32_bits(step: int, unit: int) -> None:
    """They go round, and are numbers from -2^31 on: the constant ones as the factors of run-time values."""
    start = Place(MemoryObject(1, "memory", "shared", 64, 4), 24, {"i": 8, "j": -12})
    moved = start.moved(LinearSum(step, {"i": step, "k": step}), unit)
    for found, whole in ((moved.offset, 24), (moved.terms.get("i", 0), 8), (moved.terms.get("k", 0), 0)):
        assert (found - whole - step * unit) % (1 << 32) == 0
        assert -(1 << 31) <= found < 1 << 31
    assert moved.terms["j"] == -12
    assert 0 not in moved.terms.values()


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_what_is_cut_to_an_address_goes_on_unless_it_is_one(bits: int) -> None:
    """A sum modulo 2^32 is that of its numbers modulo 2^32; of the parts of an address nothing is known."""
    word, long, narrow = ir.IntType(32), ir.IntType(64), ir.IntType(bits)
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [long, long, word]), "f")
    llvm, (x, far, near) = ir.IRBuilder(function.append_basic_block("entry")), function.args
    places = Places()
    known = places.allocate("own", 4096, 4)
    places.addresses.update({far: known, near: known})
    moved = llvm.add(llvm.mul(x, long(3)), long(5))
    cut = moved if bits == 64 else llvm.trunc(moved, narrow)
    step = places.step(cut)
    names = {symbol_name(x): 3} if bits in (32, 64) else {symbol_name(cut): 1}
    assert ({symbol_name_of(term): factor for term, factor in step.terms.items()}, step.constant) == (
        names,
        5 if bits in (32, 64) else 0,
    )
    if bits == 32:
        place = places.of_address(llvm.add(near, cut))
        assert place is not None
        assert (place.offset, place.object) == (5, known.object)
    if bits < 64:
        assert places.of_address(llvm.trunc(far, narrow)) is None


def symbol_name_of(term: str) -> str:
    ((name, _),) = symbol_terms(symbol_text({term: 1}))
    return name
