"""What a function lacks: a whole kernel lacks it certainly, and of a part it may be in the rest."""

from __future__ import annotations

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError, u32
from nvbackend.builder.kernel.kernel import TRIPLE


def found(*, later: bool, calls: bool, frees: bool) -> list[str]:
    """Tensor memory, in a function of the owner's from its beginning or `later` on, that `calls` what is not known."""
    module = ir.Module("owner")
    module.triple = TRIPLE
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "own")
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    if later:
        builder.branch(function.append_basic_block("later"))
        builder.position_at_end(function.blocks[-1])
    k = nvb.attach(builder, "sm_100a", threads=32)
    cell = k.shared(u32, 1)
    k.tcgen05.alloc(cell, 64)
    k.barrier.sync()
    if frees:
        k.tcgen05.dealloc(cell[0], 64)
    if calls:
        builder.call(ir.Function(module, ir.FunctionType(ir.VoidType(), []), "unknown"), [])
    builder.ret_void()
    try:
        return [each.rule_id for each in k.verify()]
    except DiagnosticError as error:
        return [each.rule_id for each in error.diagnostics]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("calls", [False, True])
def test_what_is_not_freed(later: bool, calls: bool) -> None:
    """What the called function does is not known: it may free the columns."""
    assert found(later=later, calls=calls, frees=True) == []
    assert found(later=later, calls=calls, frees=False) == ([] if calls else ["tcgen05.missing-dealloc"])
