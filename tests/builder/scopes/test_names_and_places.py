"""Names, alignments, scopes and counts that would make a module LLVM cannot read: each a diagnostic at its line."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, Major, SmemLayout, SwizzleMode, f16, f32, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import Layout
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap
from tests.support.process import python_output, run_python

BAD_NAMES = {"empty": "", "long": "a" * 5000, "NUL": "a\0b", "line": "a\nb", "surrogate": "\ud800"}
GOOD_NAMES = ["a{b}", 'quo"ted', "a.b c", "%x", "naïve", "back\\slash", "a" * 250]


def builder(name="value", target="sm_90a") -> KernelBuilder:
    parameters = [Parameter("out", Pointer(i32)), Parameter(name, Scalar(i32))]
    return KernelBuilder("k", target, threads=128, parameters=parameters)


def rules_of(error: DiagnosticError) -> list[str]:
    return [one.rule.id for one in error.diagnostics]


def counted(k, name):
    with k.range(k.arguments[1], name=name) as i:
        k.arguments[0][i] = i


def stored(k, name):
    memory = k.shared_static(i32, 128, name=name)
    memory[k.thread_id()] = 1
    k.barrier.sync()
    k.arguments[0][0] = memory[0]


def assigned(k, name):
    number = k.var(0, name=name)
    with k.range(k.arguments[1]) as i:
        number += i
    k.arguments[0][0] = number


def multiplied(k, name):
    tile = k.wmma.accumulator("m16n16k16", f32, name=name)
    k.arguments[0][0] = tile.values()[0].to(i32)


def kept(k, name):
    tile = k.register_tensor(i32, Layout((4, 4)), name=name)
    tile[0, 0] = k.arguments[1]
    k.arguments[0][0] = tile[0, 0]


def in_shared(k, name):
    memory = k.shared(i32, 128, name=name)
    memory[k.thread_id()] = 1
    k.barrier.sync()
    k.arguments[0][0] = memory[0]


NAMED = {
    "value": lambda k, name: k.arguments[0].__setitem__(0, (k.arguments[1] + 1).named(name)),
    "counter": counted,
    "static": stored,
    "shared": in_shared,
    "variable": assigned,
    "accumulator": multiplied,
    "registers": kept,
    "barriers": lambda k, name: k.mbarrier.array(1, 128, name=name),
    "tile": lambda k, name: k.shared_tile(SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64), name=name),
}


@pytest.mark.parametrize("bad", BAD_NAMES)
@pytest.mark.parametrize("what", NAMED)
def test_what_is_no_name_is_refused_where_it_is_given(what, bad):
    with pytest.raises(DiagnosticError) as raised:
        NAMED[what](builder(), BAD_NAMES[bad])
    assert rules_of(raised.value) == ["value.name"]
    assert raised.value.diagnostics[0].location.file == __file__


@pytest.mark.parametrize("bad", BAD_NAMES)
def test_what_is_no_name_of_a_parameter(bad):
    with pytest.raises(DiagnosticError) as raised:
        builder(BAD_NAMES[bad])
    assert rules_of(raised.value) == ["value.name"]


@pytest.mark.parametrize("good", GOOD_NAMES, ids=lambda name: ascii(name[:9]))
def test_every_name_gives_a_module_that_llvm_reads(good):
    parameters = [Parameter("out", Pointer(i32)), Parameter(good, Scalar(i32))]
    parameters.append(Parameter(good + "}", TensorMap(f16, (64, 64), 128)))
    k = KernelBuilder("k", "sm_90a", threads=128, parameters=parameters)
    for named in NAMED.values():
        named(k, good)
    with k.one_thread():
        k.tma.prefetch_box(k.arguments[2], (0, 0))
    assert ".entry k" in k.finish().compile(assemble=False).ptx


@pytest.mark.parametrize("power", [17, 30, 33])
def test_static_memory_is_aligned_to_no_more_than_there_is(power):
    with pytest.raises(DiagnosticError) as raised:
        builder(target="sm_80").shared_static(i32, 4, align=1 << power)
    assert rules_of(raised.value) == ["shared.extent"]


@pytest.mark.parametrize("what", ["count", "align"])
@pytest.mark.parametrize("value", [0.5, 16.0, "16", None, True, [16]], ids=repr)
@pytest.mark.parametrize("call", ["shared", "shared_static"])
def test_extents_of_shared_memory_are_integers(call, value, what):
    """The argument is named, and not what its value as a number would be refused for."""
    with pytest.raises(DiagnosticError) as raised:
        getattr(builder(), call)(i32, **{"count": 4, "align": 16, what: value})
    assert rules_of(raised.value) == ["call.argument"]
    assert f"k.{call}: {what} must be int, not {value!r}" in raised.value.diagnostics[0].message


@pytest.mark.parametrize("align", [0, 3, -4, 1 << 33])
def test_what_is_no_alignment_of_an_address(align):
    k = builder()
    for make in (
        lambda: k.shared_address(k.thread_id().bitcast(u32), i32, align),
        lambda: k.global_address(k.function.args[0], i32, align),
        lambda: k.arguments[0].byte_offset(0, align=align),
    ):
        with pytest.raises(DiagnosticError) as raised:
            make()
        assert rules_of(raised.value) == ["memory.misaligned"]
    with pytest.raises(DiagnosticError) as raised:
        Pointer(i32, align=align)
    assert rules_of(raised.value) == ["pointer.align"]


@pytest.mark.parametrize(("count", "names"), [(1, ["mine"]), (3, ["mine.0", "mine.1", "mine.2"])])
def test_registers_are_called_as_they_were_named(count, names):
    k = KernelBuilder("k", "sm_90a", threads=32)
    k.register_tensor(i32, Layout(count), name="mine")
    assert [one.name for one in k.function.entry_basic_block.instructions if one.opname == "alloca"] == names


@pytest.mark.parametrize("use", ["load", "store", "cast", "bytes", "step", "atomic", "ldmatrix"])
def test_an_address_lives_in_the_block_that_computes_it(use):
    k = builder()
    count = k.arguments[1]
    with k.if_(count > 0):
        inside = k.shared_address((count * 16).bitcast(u32), i32, 16)
        inside.load()
    uses = {
        "load": inside.load,
        "store": lambda: inside.store(1),
        "cast": lambda: inside.cast(u32).load(),
        "bytes": lambda: inside.bytes,
        "step": (inside + 4).load,
        "atomic": lambda: inside.atomic("add", 1),
        "ldmatrix": lambda: k.mma.ldmatrix(inside, 1),
    }
    with pytest.raises(DiagnosticError) as raised:
        uses[use]()
    assert rules_of(raised.value) == ["value.scope"]


def test_a_tensor_map_lives_in_the_block_that_finds_it():
    k = builder()
    maps = k.arguments[0].cast(u32).byte_offset(0, align=64)
    with k.if_(k.arguments[1] > 0):
        found = k.tensormap.at(maps, TensorMap(f16, (64, 64), 128))
    with pytest.raises(DiagnosticError) as raised, k.one_thread():
        k.tma.prefetch_box(found, (0, 0))
    assert rules_of(raised.value)[0] == "value.scope"


def test_an_address_outlives_a_block_that_only_moves_it():
    k = builder()
    count = k.arguments[1]
    outside = k.shared(i32, 128)
    with k.if_(count > 0):
        moved = (outside + 4).cast(u32)
    moved.store(1)
    assert "store" in k.finish().ir


def test_a_tensor_of_more_registers_than_a_thread_has():
    """In a process of its own, that it ends."""
    program = """
import nvbackend as nvb
for element, count in ((nvb.f64, 128), (nvb.i32, 256), (nvb.f16, 1 << 33), (nvb.i32, 1 << 40)):
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    try:
        k.register_tensor(element, count)
    except nvb.DiagnosticError as error:
        print(error.diagnostics[0].rule.id)
"""
    assert run_python(program).stdout.splitlines() == ["tensor.register-count"] * 4


def test_registers_that_a_thread_has():
    k = builder()
    for element, count in ((i32, 255), (f16, 510), (nvb.f64, 127)):
        assert len(k.register_tensor(element, count).registers()) <= 255


def test_registers_are_not_indexed_at_run_time():
    k = builder()
    tile = k.register_tensor(f16, (4, 8))
    for call in (
        lambda: tile[k.thread_id(), 0],
        lambda: tile.__setitem__((0, k.arguments[1]), 1.0),
        lambda: tile[k.var(0)],
    ):
        with pytest.raises(DiagnosticError) as raised:
            call()
        assert rules_of(raised.value) == ["tensor.register-index"]


def outside_of_each(k):
    """Coordinates that are not in the shape (8, (4, 2)) of tensors of all kinds."""
    layout = Layout((8, (4, 2)), (8, (1, 4)))
    tensors = [k.tensor(k.shared(i32, 64), layout), k.tensor(k.arguments[0], layout), k.register_tensor(i32, layout)]
    tensors.append(k.identity_tensor((8, (4, 2))))
    for tensor in tensors:
        for coordinate in ((8, 0), (-1, 0), (0, 8), (0, (4, 0)), (0, (0, 2)), (64,), (None, 8), (9, None)):
            yield tensor, coordinate


def test_a_coordinate_that_is_known_lies_in_the_shape():
    k = builder()
    for tensor, coordinate in outside_of_each(k):
        with pytest.raises(DiagnosticError) as raised:
            tensor[coordinate if len(coordinate) > 1 else coordinate[0]]
        assert rules_of(raised.value) == ["tensor.coordinate"], coordinate
    whole = k.tensor(k.arguments[0], Layout((8, 8), (8, 1)))
    with pytest.raises(DiagnosticError) as raised:
        whole[k.const(9, i32), 0] = 1
    assert rules_of(raised.value) == ["tensor.coordinate"]
    with pytest.raises(DiagnosticError) as raised:
        whole.tile((4, 4), (2, 0))
    assert rules_of(raised.value) == ["tensor.coordinate"]
    whole.tile((4, 4), (1, 1))[3, 3] = whole[7, 7]


HUGE = """
import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.layout import ComposedLayout, Layout, SmemPtr, Swizzle

HUGE = 1 << 40
SWIZZLED = ComposedLayout(Swizzle(3, 4, 3), SmemPtr(16), Layout((HUGE, 64), (64, 1)))
CALLS = {
    "swizzled tensor": lambda k: k.tensor(k.shared(f16, 4096, align=1024), SWIZZLED),
    "copy ring": lambda k: k.pipeline(2, copies="cp.async", tile=(f16, SWIZZLED)),
    "coordinates": lambda k: k.identity_tensor(((HUGE, 1), HUGE)).below(4, 4)._torn(),
    "registers": lambda k: k.register_tensor(i32, Layout((4, HUGE), (1, 0))),
    "negative registers": lambda k: k.register_tensor(i32, Layout(4, -1)),
    "warpgroups": lambda k: k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), (HUGE, HUGE)),
    "atoms": lambda k: k.tiled_mma("SM80_16x8x16_F32F16F16F32_TN", atom_layout=Layout((HUGE, 1, 1))),
}
for name, call in CALLS.items():
    try:
        call(nvb.KernelBuilder("k", "sm_90a", threads=128))
        print(name, "built", sep=": ")
    except nvb.DiagnosticError as error:
        print(name, error.diagnostics[0].rule.id, sep=": ")
"""
BOUNDED = {
    "swizzled tensor": "tensor.bounds",
    "copy ring": "shared.size",
    "coordinates": "built",
    "registers": "tensor.registers",
    "negative registers": "tensor.registers",
    "warpgroups": "mma.threads",
    "atoms": "mma.threads",
}


def test_what_is_too_large_is_not_counted_one_by_one():
    found = dict(line.split(": ") for line in python_output(HUGE, timeout=60).splitlines())
    assert found == BOUNDED
