"""Where a bulk copy lands, what its box is and who issues it: refused at the call, and on the machine form again."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f16
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.copy import tma_bulk, tma_tensor
from nvbackend.intrinsics.row.types import BY_NAME, u8
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.operands.tma_places import ALIGNMENT, check_places
from nvbackend.isel.select.tma.request import TmaRequest
from nvbackend.isel.select.tma.select import select_tma
from nvbackend.isel.target.target import Target
from nvbackend.signature import Parameter, Scalar, TensorMap
from tests.support.barriers import barrier_of_somebody

MAPS = {
    "right": TensorMap(f16, (64, 64)),
    "plain": TensorMap(f16, (8, 64), swizzle=0),
    "narrow": TensorMap(f16, (2, 16), swizzle=32),
    "whole": TensorMap(f16, (64, 16), swizzle=32),
}


def builder(cluster=1):
    parameters = [*(Parameter(name, each) for name, each in MAPS.items()), Parameter("n", Scalar(nvb.i32))]
    k = KernelBuilder("kernel", "sm_90a", threads=128, cluster=cluster, parameters=parameters)
    return k, dict(zip(MAPS, k.arguments, strict=False)), k.arguments[-1]


def broken(call):
    with pytest.raises(nvb.DiagnosticError) as caught:
        call()
    assert {one.location.file for one in caught.value.diagnostics} == {__file__}
    return [one.rule_id for one in caught.value.diagnostics]


@pytest.mark.parametrize(("align", "step"), [(16, 0), (64, 0), (128, 64), (1024, 16)])
def test_a_box_lies_at_a_multiple_of_128_bytes(align, step):
    k, maps, _ = builder()
    place = k.shared(u8, 16384, align=align).byte_offset(step)
    with k.one_thread():
        for call in (
            lambda: k.tma.load_box(place, maps["right"], (0, 0), barrier_of_somebody(k)),
            lambda: k.tma.store_box(maps["right"], (0, 0), place),
            lambda: k.tma.reduce_box(maps["right"], (0, 0), place, "add"),
        ):
            assert broken(call) == ["tma.alignment"]


@pytest.mark.parametrize(("align", "step"), [(128, 0), (128, 256), (1024, 128)])
def test_a_box_that_lies_right(align, step):
    k, maps, n = builder()
    place = k.shared(u8, 16384, align=align).byte_offset(step)
    with k.one_thread():
        k.tma.store_box(maps["right"], (0, 0), place)
        k.tma.store_box(maps["right"], (0, 0), place.byte_offset(n * 128, align=128))
        k.tma.commit_group()
        k.tma.wait_group()
    assert k.finish(check=False).diagnostics == ()


def test_the_boxes_of_a_tile_lie_right_too():
    """A tile of 32-byte rows, in boxes of two rows: every other box would begin in the middle of 128 bytes."""
    k, maps, _ = builder()
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B32, f16, 64, 16))
    with k.one_thread():
        assert broken(lambda: k.tma.load(tile, maps["narrow"], (0, 0), barrier_of_somebody(k))) == ["tma.alignment"]
        assert broken(lambda: k.tma.store(maps["narrow"], (0, 0), tile)) == ["tma.alignment"]
        k.tma.load(tile, maps["whole"], (0, 0), barrier_of_somebody(k))


def test_tiles_without_a_swizzle_lie_where_tma_can_write_them():
    k, _, _ = builder()
    k.shared(u8, 16)
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.NONE, f16, 64, 64))
    assert tile.address.align % 128 == 0


def test_a_row_of_the_box_is_a_multiple_of_16_bytes_and_within_the_swizzle():
    """Where the map is declared: what the copies ask again is for maps that are made elsewhere."""
    assert broken(lambda: TensorMap(f16, (64, 4))) == ["tensor-map.box-bytes"]
    assert broken(lambda: TensorMap(f16, (64, 64), swizzle=64)) == ["tensor-map.swizzle"]
    k, maps, _ = builder()
    with k.one_thread():
        k.tma.store_box(maps["plain"], (0, 0), k.shared(u8, 16384, align=1024))


def by_all(k, maps, place):
    k.tma.store_box(maps["right"], (0, 0), place)


def by_a_warp(k, maps, place):
    with k.if_(k.warp_id() == 0):
        k.tma.store_box(maps["right"], (0, k.block_id() * 64), place)


def one_of_each_warp(k, maps, place):
    with k.if_(k.elect()):
        k.tma.reduce_box(maps["right"], (0, 0), place, "add")


def in_each_round(k, maps, place):
    with k.if_(k.warp_id() == 0), k.range(k.arguments[-1]) as step:
        k.tma.store_box(maps["right"], (0, step * 64), place)


def in_each_round_of_two_loops(k, maps, place):
    with k.range(k.block_id(), k.arguments[-1], 8) as outer, k.range(outer) as inner:
        k.tma.store_box(maps["right"], (inner * 8, outer + inner), place)


@pytest.mark.parametrize("program", [by_all, by_a_warp, one_of_each_warp, in_each_round, in_each_round_of_two_loops])
def test_the_same_box_by_several_threads(program):
    k, maps, _ = builder()
    place = k.shared(u8, 16384, align=1024)
    assert broken(lambda: program(k, maps, place)) == ["tma.one-thread"]


def test_boxes_of_their_own_and_threads_that_nobody_can_count():
    k, maps, n = builder()
    place = k.shared(u8, 16384, align=1024)
    k.tma.store_box(maps["right"], (0, k.thread_id()), place)
    (store,) = (one for one in k.machine.instructions() if one.row is not None and one.row.family == "tma")
    assert (store.facts[facts.SAME], store.facts[facts.THREADS]) == (0, k.threads)
    with k.if_(n == k.thread_id()):
        k.tma.store_box(maps["right"], (0, 0), place)
    with k.if_(k.thread_id() == 77):
        k.tma.store_box(maps["right"], (0, 0), place)
    with k.range(k.thread_id(), n) as step:
        k.tma.store_box(maps["right"], (0, step), place)
    with k.range(n) as _, k.range(0, n, k.thread_id() + 1) as step:
        k.tma.store_box(maps["right"], (0, step), place)
    row = k.var(0)
    with k.if_(k.thread_id() == 3):
        row.set(64)
    k.tma.store_box(maps["right"], (0, row), place)


STARTS = {
    "a constant": (lambda n: 20, 8),
    "a step of whole units and a part": (lambda n: n * 64 + 4, 8),
    "a part taken off": (lambda n: (n + 3) * 8 - 1, 14),
    "whole units": (lambda n: n * 64 + 8, None),
    "a constant of whole units": (lambda n: 40, None),
    "steps of half a unit": (lambda n: n * 4 + 2, None),
    "anything": (lambda n: n, None),
    "before the array": (lambda n: n * 8 - 4, 8),
}
"""Innermost coordinates of f16, and the bytes behind a multiple of 16 where those are certain and not 0."""


@pytest.mark.parametrize(("start", "wanted"), STARTS.values(), ids=STARTS)
def test_boxes_start_at_multiples_of_16_bytes(start, wanted):
    k, maps, n = builder()
    place, tile = (
        k.shared(u8, 16384, align=1024),
        k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)),
    )
    column = start(n)
    moves = (
        lambda: k.tma.load_box(place, maps["right"], (column, n), barrier_of_somebody(k)),
        lambda: k.tma.store_box(maps["right"], (column, n), place),
        lambda: k.tma.reduce_box(maps["right"], (column, n), place, "add"),
        lambda: k.tma.store(maps["right"], (n, column), tile),
        lambda: k.tma.load(tile, maps["right"], (n, column), barrier_of_somebody(k)),
        lambda: k.tma.prefetch_box(maps["right"], (column, n)),
    )
    with k.one_thread():
        k.tma.store_box(maps["right"], (0, column), place)
        for call in moves:
            if wanted is None:
                call()
                continue
            with pytest.raises(nvb.DiagnosticError, match=f"starts {wanted} byte") as caught:
                call()
            assert [(one.rule_id, one.location.file) for one in caught.value.diagnostics] == [("tma.start", __file__)]


@pytest.mark.parametrize(("element", "column", "wrong"), [(nvb.f32, 21, True), (nvb.f32, 20, False), (nvb.u8, 8, True)])
def test_a_start_counts_in_bytes(element, column, wrong):
    """f32 at column 21 stopped an H200, at 20 it did not."""
    k = KernelBuilder("kernel", "sm_90a", threads=128, parameters=[Parameter("a", TensorMap(element, (8, 32), 0))])
    with k.one_thread():
        call = lambda: k.tma.store_box(k.arguments[0], (column, 0), k.shared(u8, 1024, align=128))  # noqa: E731
        assert (broken(call) if wrong else call()) == (["tma.start"] if wrong else None)


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (tma_tensor.store_tensor(2), True),
        (select_tma(TmaRequest(2, "reduce", operation="add"), Target.parse("sm_90a")), True),
        (select_tma(TmaRequest(3, "store", "im2col_no_offs"), Target.parse("sm_90a")), True),
        (tma_tensor.load_tensor(2), True),
        (select_tma(TmaRequest(2, "prefetch"), Target.parse("sm_90a")), True),
        (select_tma(TmaRequest(3, mode="im2col"), Target.parse("sm_90a")), True),
        (select_tma(TmaRequest(2, "store", "tile::scatter4"), Target.parse("sm_100a")), False),
    ],
    ids=lambda one: one if isinstance(one, bool) else one.opcode,
)
def test_a_start_is_checked_on_the_machine_form_too(row, wrong):
    instr = MachineInstr(row.opcode, row, facts={facts.START: 4})
    assert [one.rule_id for one in check_places(instr, Target.parse("sm_90a"))] == ["tma.start"] * wrong


@pytest.mark.parametrize("place", [(-8, 0), (0, -1), (-64, -3)])
def test_only_loads_start_before_the_tensor(place):
    """On an H200 loads of such boxes were filled with zeros; stores and reductions stopped the kernel."""
    k, maps, n = builder()
    memory = k.shared(u8, 16384, align=1024)
    wanted = "the innermost" if place[0] else r"along dimension 1\n"
    with k.one_thread():
        k.tma.load_box(memory, maps["right"], place, barrier_of_somebody(k))
        k.tma.prefetch_box(maps["right"], place)
        for call in (
            lambda: k.tma.store_box(maps["right"], place, memory),
            lambda: k.tma.reduce_box(maps["right"], place, memory, "add"),
        ):
            with pytest.raises(nvb.DiagnosticError, match=wanted) as caught:
                call()
            assert [one.rule_id for one in caught.value.diagnostics] == ["tma.before"]
        k.tma.store_box(maps["right"], (0, n - 8), memory)


@pytest.mark.parametrize(("direction", "wrong"), [("load", False), ("prefetch", False), ("store", True)])
def test_a_start_before_the_tensor_is_found_on_the_machine_form_too(direction, wrong):
    row = select_tma(TmaRequest(2, direction), Target.parse("sm_90a"))
    instr = MachineInstr(row.opcode, row, facts={facts.BEFORE: 1})
    assert [one.rule_id for one in check_places(instr, Target.parse("sm_90a"))] == ["tma.before"] * wrong


REDUCED = {
    "add": "u32 s32 u64 f32 f16 bf16 f64 tf32",
    **dict.fromkeys(("min", "max"), "u32 s32 u64 s64 f16 bf16"),
    **dict.fromkeys(("inc", "dec"), "u32"),
    **dict.fromkeys(("and", "or", "xor"), "u32 s32 u64"),
}
"""The types that an H200 reduced, of all that tensor maps have; it stopped on the others."""
CODES = ["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz"]
"""Element types of maps in the order of CUtensorMapDataType (cuda.h)."""


@pytest.mark.parametrize("operation", REDUCED)
def test_reductions_are_of_types_that_have_them(operation):
    for name in ("e4m3", "s8", "s16", *(code for code in CODES if code in BY_NAME)):
        parameter = Parameter("a", TensorMap(BY_NAME[name], (8, 32), 0))
        k = KernelBuilder("kernel", "sm_90a", threads=128, parameters=[parameter])
        place = k.shared(u8, 4096, align=128)
        with k.one_thread():
            call = lambda k=k, place=place: k.tma.reduce_box(k.arguments[0], (0, 0), place, operation)  # noqa: E731
            right = name in REDUCED[operation].split()
            assert (call() if right else broken(call)) == (None if right else ["tma.reduced-type"]), name


@pytest.mark.parametrize("code", range(len(CODES)), ids=CODES)
def test_the_type_of_a_reduction_is_checked_on_the_machine_form_too(code):
    for operation, types in REDUCED.items():
        row = select_tma(TmaRequest(2, "reduce", operation=operation), Target.parse("sm_90a"))
        instr = MachineInstr(row.opcode, row, facts={facts.ELEMENT: code})
        found = [one.rule_id for one in check_places(instr, Target.parse("sm_90a"))]
        right = CODES[code].removesuffix(".ftz") in types.split() and CODES[code] != "tf32.ftz"  # nobody tried that
        assert found == ["tma.reduced-type"] * (not right), operation


@pytest.mark.parametrize(
    ("known", "rule"),
    [
        ({facts.ALIGNMENT: 64}, "tma.alignment"),
        ({facts.BOX_ROW: 24}, "tma.box-row"),
        ({facts.BOX_ROW: 128, facts.SWIZZLE: 64}, "tma.box-swizzle"),
        ({facts.SAME: 1, facts.THREADS: 32}, "tma.one-thread"),
        ({facts.ALIGNMENT: 128, facts.BOX_ROW: 128, facts.SWIZZLE: 128, facts.SAME: 1, facts.THREADS: 1}, None),
        ({facts.SAME: 0, facts.THREADS: 32}, None),
        ({}, None),
    ],
)
def test_the_machine_form_is_checked_again(known, rule):
    instr = MachineInstr("cp.async.bulk.tensor", tma_tensor.load_tensor(2), facts=known)
    assert [one.rule_id for one in check_places(instr, Target.parse("sm_90a"))] == ([rule] if rule else [])


@pytest.mark.parametrize("direction", ["load", "store", "reduce"])
def test_the_operand_in_shared_memory_is_named(direction):
    operation = "add" if direction == "reduce" else None
    row = select_tma(TmaRequest(2, direction, operation=operation), Target.parse("sm_90a"))
    instr = MachineInstr(row.opcode, row, facts={facts.ALIGNMENT: 64})
    (found,) = check_places(instr, Target.parse("sm_90a"))
    operand = "destination" if direction == "load" else "source"
    assert f": its {operand} in shared memory is promised to be a multiple of 64 bytes; it must be one of 128" in (
        found.message
    )


def test_bytes_in_a_row_lie_at_multiples_of_16():
    k, _, _ = builder()
    place = k.shared(u8, 256, align=16)
    with k.one_thread():
        k.bulk.store(place + 16, place, 16, barrier=barrier_of_somebody(k), rank=0)
        assert broken(lambda: k.bulk.store(place + 8, place, 16, barrier=barrier_of_somebody(k), rank=0)) == [
            "tma.alignment"
        ]
        assert broken(lambda: k.bulk.store(place, place + 4, 16, barrier=barrier_of_somebody(k), rank=0)) == [
            "tma.alignment"
        ]
    instr = MachineInstr("cp.async.bulk", tma_bulk.load_bulk(), facts={facts.ALIGNMENT: 16})
    assert list(check_places(instr, Target.parse("sm_90a"))) == []
    instr = MachineInstr("cp.async.bulk", tma_bulk.load_bulk(), facts={facts.ALIGNMENT: 8})
    assert [one.rule_id for one in check_places(instr, Target.parse("sm_90a"))] == [ALIGNMENT.id]
