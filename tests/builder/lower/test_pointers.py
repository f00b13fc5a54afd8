"""Pointers and descriptors that are a constant step from an earlier one of their block, and those that are not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.lower.pointers import descriptor_of, pointer_to

REQUEST = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
WORD = 4  # bytes of a u32, which the addresses step by


def builder() -> tuple[KernelBuilder, nvb.Address, nvb.Value]:
    k = KernelBuilder("steps", "sm_90a", threads=128, parameters=[nvb.Parameter("n", nvb.Scalar(i32))])
    return k, k.shared(u32, 4096, align=128), k.arguments[0]


def calls(text: str, word: str) -> list[str]:
    return [line for line in text.splitlines() if word in line]


def widened(k: KernelBuilder) -> int:
    return len(calls(str(k.core.function), "= inttoptr "))


def steps(k: KernelBuilder) -> list[int]:
    return [*map(int, re.findall(r"getelementptr i8, ptr addrspace\(3\) [^,]*, i32 (-?\d+)", str(k.core.function)))]


def read(k: KernelBuilder, *places: nvb.Address) -> None:
    for place in places:
        k.mma.ldmatrix(place, 1)


def test_a_pointer_is_a_step_from_an_earlier_one_of_the_same_terms() -> None:
    k, shared, n = builder()
    row = shared + n * 4
    read(k, row, row + 64, row + 64 + 8, row - 32, row)
    assert (widened(k), steps(k)) == (1, [64 * WORD, 72 * WORD, -32 * WORD])
    read(k, shared + n * 4 + 64)  # equal numbers, but another product
    assert widened(k) == 2


def test_a_pointer_of_constants_alone_is_a_step_too() -> None:
    k, shared, _ = builder()
    read(k, shared + 64, shared, shared + 32)
    assert (widened(k), steps(k)) == (1, [-64 * WORD, -32 * WORD])


def test_pointers_to_two_variables_are_no_steps_from_each_other() -> None:
    k, _, _ = builder()
    variables = [ir.GlobalVariable(k.module, ir.IntType(32), name, addrspace=3) for name in ("one", "other")]
    pointers = [pointer_to(k.llvm, each.ptrtoint(ir.IntType(32)), 3) for each in (*variables, *variables)]
    assert pointers[0] is pointers[2] is not pointers[1] is pointers[3]
    assert (widened(k), steps(k)) == (2, [])


def test_a_difference_is_no_sum_and_wider_numbers_are_not_followed() -> None:
    k, shared, n = builder()
    number = (shared + n * 4).bytes.ir
    wide = k.llvm.zext(number, ir.IntType(64))
    less = k.llvm.sub(number, ir.Constant(number.type, 16))
    more = k.llvm.add(wide, ir.Constant(wide.type, 1 << 33))
    for each, space in ((number, 3), (less, 3), (wide, 1), (more, 1)):
        assert pointer_to(k.llvm, each, space).operands == [each]
    assert steps(k) == []


def test_a_descriptor_of_a_part_of_a_unit_is_packed() -> None:
    k, shared, _ = builder()
    base, packed = shared.bytes.ir, ir.Constant(ir.IntType(64), 7)
    places = [[base, ir.Constant(base.type, more)] for more in (0, 8, 32)]
    first, part, whole = (descriptor_of(k.llvm, place, 0, 16, lambda: packed) for place in places)
    assert first is packed and part is packed
    assert whole.opname == "add" and whole.operands[1].constant == 2


def test_a_pointer_of_another_block_may_not_be_there() -> None:
    k, shared, n = builder()
    row = shared + n * 4
    with k.if_(k.warp_id() == 0):
        read(k, row)
    read(k, row, row + 4)
    with k.if_(k.warp_id() == 0):
        read(k, row + 8)
    assert (widened(k), steps(k)) == (3, [4 * WORD])
    llvm.parse_assembly(k.finish(check=False).ir).verify()


def test_a_pointer_that_comes_later_in_the_block_is_not_there_yet() -> None:
    k, shared, n = builder()
    number = (shared + n * 4).bytes.ir
    later = pointer_to(k.llvm, number, 3)
    with k.llvm.goto_block(later.parent):
        k.llvm.position_before(later)
        assert pointer_to(k.llvm, number, 3) is not later
    k.llvm.position_at_end(later.parent)
    assert pointer_to(k.llvm, number, 3) is later


def test_in_code_of_another_each_pointer_is_made() -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(32)]), "theirs")
    theirs = ir.IRBuilder(function.append_basic_block())
    made = [pointer_to(theirs, function.args[0], 3) for _ in range(2)]
    assert [each.opname for each in made] == ["inttoptr", "inttoptr"]


def test_windows_of_memory_have_pointers_of_their_own() -> None:
    k, shared, n = builder()
    number = (shared + n * 4).bytes.ir
    pointers = [pointer_to(k.llvm, number, space) for space in (3, 7, 3, 7)]
    assert [pointer.type.addrspace for pointer in pointers] == [3, 7, 3, 7]
    assert pointers[0] is pointers[2]


def multiply(k: KernelBuilder, *pairs: tuple[nvb.SharedTile, tuple[int, int]]) -> list[str]:
    """How the descriptors of A that begin there, in tiles, are made: the operation of each."""
    b = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))
    accumulator = k.wgmma.accumulator(64)
    with k.wgmma.group():
        for tile, at in pairs:
            k.wgmma.mma_async(accumulator, tile, b, REQUEST, a_at=at)
    asm = [each for each in k.core.llvm.block.instructions if "wgmma.mma_async" in str(getattr(each, "callee", ""))]
    descriptors = [[each for each in call.args if each.type == ir.IntType(64)] for call in asm]
    return [first.opname for first, _ in descriptors]


def tiles(k: KernelBuilder) -> Iterator[nvb.SharedTile]:
    for mode in (nvb.SwizzleMode.B128, nvb.SwizzleMode.B64):
        yield k.shared_tile(nvb.SmemLayout(nvb.Major.K, mode, f16, 64, 64))


@pytest.mark.parametrize("step", [16, 32, 48])
def test_a_descriptor_is_an_addition_to_an_earlier_one(step: int) -> None:
    k, _, _ = builder()
    tile, _ = tiles(k)
    assert multiply(k, (tile, (0, 0)), (tile, (0, step)), (tile, (0, 0))) == ["or", "add", "or"]
    assert calls(str(k.core.function), f", {step * 2 // 16}\n"[:-1] + ", !dbg")


def test_a_descriptor_of_another_word_is_packed() -> None:
    k, _, _ = builder()
    one, other = tiles(k)
    assert multiply(k, (one, (0, 0)), (other, (0, 0)), (other, (0, 16))) == ["or", "or", "add"]


def test_the_places_of_descriptors_are_known_however_they_are_made() -> None:
    k, _, _ = builder()
    tile, _ = tiles(k)
    multiply(k, (tile, (0, 0)), (tile, (0, 16)), (tile, (0, 32)))
    products = [each for each in k.machine.instructions() if each.opcode.startswith("wgmma.mma_async")]
    places = [next(touch.offset for touch in each.memory if touch.operand == "a_desc") for each in products]
    assert places == [0, 32, 64]
    assert len({each.words["a_desc"] for each in products}) == 1
