"""Mistakes that a random user makes: each is a diagnostic at the line that made it, and the kernel stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, KernelBuilder, Parameter, Pointer, f16, f32, i32, u8
from nvbackend.diagnostics.arguments import wrong_arguments
from nvbackend.intrinsics.fragments import warpgroup as fragments
from nvbackend.intrinsics.row.row import NoSuchRow
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.isel.select.wgmma.select import select_wgmma

REQUEST = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)


def builder() -> KernelBuilder:
    return KernelBuilder("k", "sm_90a", threads=128, parameters=[Parameter("p", Pointer(f32))])


@pytest.mark.parametrize(
    ("call", "rule", "words"),
    [
        (
            lambda k: k.wgmma.accumulator(64).set([1.0] * 31),
            "wgmma.registers",
            "has 32 registers a thread, and 31 values",
        ),
        (lambda k: k.wgmma.wait_group(0, "acc"), "call.argument", "drains[0] must be Accumulator, not 'a' (a str)"),
        (lambda k: k.wgmma.wait_group(False), "call.argument", "pending must be int, not False (a bool)"),
        (lambda k: k.wgmma.accumulator(64)[32], "fragment.range", "register 32 is outside of 0 to 31"),
        (lambda k: k.wgmma.accumulator(64)[-1], "fragment.range", "register -1"),
        (lambda k: k.special_register("tid.w"), "register.name", "'tid.w' is not a special register"),
        (lambda k: k.thread_id("w"), "instruction.variant", "'w' is not an axis; the axes are x, y, z"),
        (lambda k: k.fence.proxy_async("local"), "row.axis", "space cannot be 'local', only None"),
        (lambda k: k.shared(u8, 0), "shared.extent", "0 elements"),
        (lambda k: k.shared(u8, -16), "shared.extent", "-16 elements"),
        (lambda k: k.shared(u8, 16, align=24), "shared.extent", "a multiple of 24 bytes"),
        (lambda k: k.shared_static(u8, 16, align=0), "shared.extent", "a multiple of 0 bytes"),
        (lambda k: k.shared_static(u8, k.thread_id()), "call.argument", "count must be int, not <s32"),
        (lambda k: k.global_address(k.arguments[0], f32, 4), "memory.pointer", "ptr addrspace(1)"),
        (lambda k: k.global_address(k.thread_id().ir, f32, 4), "memory.pointer", "address space 1"),
        (
            lambda k: k.arguments[0].cast("f16"),
            "call.argument",
            "element must be ElementType, not 'f16' (a str)",
        ),
        (lambda k: k.var(0, name=3), "call.argument", "name must be str | None, not 3 (an int)"),
        (lambda k: k.thread_id().named(None), "call.argument", "name must be str, not None"),
        (lambda k: k.tiled_mma(REQUEST, (2, 0)), "mma.warpgroups", "(2, 0)"),
        (
            lambda k: k.tiled_mma(REQUEST, {0: 1}),
            "call.argument",
            "warpgroups must be tuple[int, int], not {0",
        ),
        (lambda k: k.pipeline(2, 1, a="tile"), "call.argument", "a must be TileLayout, not 'tile' (a str)"),
        (lambda k: k.wgmma.wait_group(0, [k.thread_id()]), "call.argument", "drains[0] must be Accumulator, not <s32"),
        (lambda k: k.wgmma.accumulator(64).set((1.0, "x") * 16), "value.kind", "'x'"),
        (
            lambda k: select_wgmma("m64n64k16", k.target),
            "call.argument",
            "request must be WgmmaRequest, not 'm64n64k16'",
        ),
        (lambda k: select_wgmma(REQUEST, "sm_90a"), "call.argument", "target must be Target, not 'sm_90a' (a str)"),
        (
            lambda k: nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 8 << 40, 64),
            "layout.size",
            "reaches 262144",
        ),
        (lambda k: nvb.SmemDescriptor(16.0, 16, 16), "descriptor.range", "16.0"),
        (lambda k: k.arguments[0].steps(64, 10**5000), "call.argument", "has a number of 16610 bits"),
        (lambda k: k.arguments[0].steps(64, 10**5000), "call.argument", "Address.steps: "),
        (
            lambda k: k.shared_address(k.thread_id(), "f32", 4),
            "call.argument",
            "element must be ElementType, not 'f32'",
        ),
        (lambda k: k.shared_address(k.thread_id(), f16, "4"), "call.argument", "align must be int, not '4'"),
        (lambda k: fragments.accumulator_position("0", 0), "call.argument", "thread must be int, not '0'"),
        (lambda k: fragments.accumulator_position(0), "call.argument", "missing a required argument: 'index'"),
    ],
)
def test_it_is_a_diagnostic(call: Callable[[Any], object], rule: str, words: str) -> None:
    k = builder()
    with pytest.raises(DiagnosticError) as raised:
        call(k)
    found = raised.value.diagnostics[0]
    assert found.rule_id == rule
    assert words in f"{found.message} {found.fix}"
    assert found.location is not None
    assert found.location.file == __file__
    k.finish()


def test_a_field_of_a_request_is_named() -> None:
    broken = nvb.WgmmaRequest(n=64, k=16, d=f32, a=f16, b=f16)
    object.__setattr__(broken, "a", [])
    (found,) = wrong_arguments(select_wgmma, (broken, nvb.Target.parse("sm_90a")), {})
    assert found.message == "nvb.wgmma.select: request.a must be ElementType, not [] (a list)"


def test_two_numbers_are_a_value_too() -> None:
    k = builder()
    assert [k.math.min(3, 4).type, k.math.max(1.0, 2).type, k.select(True, 1, 2).type] == [i32, f32, i32]
    assert k.math.fma(1.0, 2.0, 3.0).type is f32
    k.finish()


def test_an_accumulator_is_a_sequence_of_its_registers() -> None:
    accumulator = builder().wgmma.accumulator(16)
    assert len(accumulator) == 8
    assert [value.type for value in accumulator] == [f32] * 8


def test_a_special_register_has_the_type_that_it_has_in_ptx() -> None:
    k = builder()
    names = ("laneid", "clock64", "is_explicit_cluster")
    assert [str(k.special_register(name).type) for name in names] == ["s32", "s64", "pred"]


def test_a_row_that_is_not_there_is_a_diagnostic_and_a_failed_look_up() -> None:
    with pytest.raises(NoSuchRow) as raised:
        sync.fence_proxy_async("local")
    assert isinstance(raised.value, LookupError)
    assert isinstance(raised.value, DiagnosticError)


def test_a_kernel_that_an_exception_tore_can_not_be_closed() -> None:
    """Not even the blocks around the torn one, whose ends would be branches out of a block that has ended."""
    k = builder()
    outer = k.if_(k.thread_id() == 0)
    outer.__enter__()
    with pytest.raises(KeyError), k.loop():
        raise KeyError
    with pytest.raises(DiagnosticError) as raised:
        outer.__exit__(None, None, None)
    assert raised.value.diagnostics[0].rule_id == "control.torn"


def test_a_condition_that_is_none_leaves_no_block_behind() -> None:
    k = builder()
    with k.loop():
        before = len(k.function.blocks)
        with pytest.raises(DiagnosticError):
            k.break_if("x")  # type: ignore[arg-type]
        assert len(k.function.blocks) == before
        k.break_()
    k.finish()


@pytest.mark.parametrize("at", [(0.5, 0), (True, 0), (f32, 0)])
def test_coordinates_count_from_integers(at: tuple[object, object]) -> None:
    with pytest.raises(DiagnosticError) as raised:
        builder().identity_tensor((16, 8), at=at)  # type: ignore[arg-type]
    location = raised.value.diagnostics[0].location
    assert location is not None
    assert location.file == __file__
