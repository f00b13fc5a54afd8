"""What an alignment diagnostic advises, followed: each advice makes the same access one that is accepted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f16, u8, u32
from nvbackend.builder.core.memory import Address
from nvbackend.builder.values.values import Value

Access = Callable[[nvb.KernelBuilder, Address, Value], object]


def advice(align: int, access: Access) -> str | None:
    """The fix of the diagnostic that `access` to a pointer of this alignment draws; None where it draws none."""
    parameters = [nvb.Parameter("a", nvb.Pointer(f16, align=align)), nvb.Parameter("n", nvb.i32)]
    kernel = nvb.KernelBuilder("k", "sm_90a", threads=32, parameters=parameters)
    try:
        access(kernel, *kernel.arguments)
    except DiagnosticError as error:
        (found,) = error.diagnostics
        assert found.rule_id == "memory.alignment"
        return found.fix
    return None


def test_more_is_asked_of_a_pointer_that_promises_less() -> None:
    fix = advice(4, lambda k, a, n: a.cast(u32).load(4))
    assert fix == "ask for memory that begins at a multiple of 16 bytes, Pointer(element, align=16)"
    assert advice(16, lambda k, a, n: a.cast(u32).load(4)) is None


@pytest.mark.parametrize("align", [16, 32])
def test_nothing_more_is_asked_of_a_pointer_that_promises_enough(align: int) -> None:
    fix = advice(align, lambda k, a, n: (a + n).cast(u32).load(4))
    assert fix is not None
    assert "Pointer" not in fix
    assert fix.startswith(f"step by multiples of 16 bytes from where the memory begins, which is a multiple of {align}")
    assert "address.byte_offset(step, align=16)" in fix
    assert advice(align, lambda k, a, n: (a + n * 8).cast(u32).load(4)) is None
    assert advice(align, lambda k, a, n: a.byte_offset(n * 2, align=16).cast(u32).load(4)) is None


def test_both_are_asked_where_both_are_missing() -> None:
    fix = advice(4, lambda k, a, n: (a + n).cast(u32).load(2))
    assert fix == (
        "ask for memory that begins at a multiple of 8 bytes, Pointer(element, align=8), "
        "and step by multiples of 8 bytes from there; "
        "for a run-time step that is one, promise it: address.byte_offset(step, align=8)"
    )
    assert advice(8, lambda k, a, n: (a + n * 4).cast(u32).load(2)) is None


def test_shared_memory_is_asked_for_as_such() -> None:
    fix = advice(16, lambda k, a, n: k.shared(u8, 64, align=4).cast(u32).load(4))
    assert fix is not None
    assert fix.startswith("ask for memory that begins at a multiple of 16 bytes, k.shared(..., align=16)")
    assert advice(16, lambda k, a, n: k.shared(u8, 64, align=16).cast(u32).load(4)) is None
