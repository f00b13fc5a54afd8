"""Right kernels whose instructions are the owner's: what the builder emitted is taken for the owner's own code.

The builder forgets that it emitted some of the calls, and has no machine instructions for them any more. Known from
the IR alone, they must keep each kernel right; partly unknown, too, and at each point of the lowering.
"""

from __future__ import annotations

import random

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import TRIPLE
from nvbackend.builder.lower.lowering import NamedAsm
from nvbackend.signature import Pointer, TensorMap
from tests.corpus.test_corpus import CORPUS

_GLOBAL, _GENERIC = ir.PointerType(addrspace=1), ir.PointerType()
_SCALARS = {"i32": ir.IntType(32), "i64": ir.IntType(64), "float": ir.FloatType()}


def attached(kernel, *, lowering="intrinsic"):
    """The kernel in a function of somebody else's."""
    parameters = kernel.parameters()
    types = [
        _GLOBAL
        if isinstance(each.type, Pointer)
        else _GENERIC
        if isinstance(each.type, TensorMap)
        else _SCALARS[each.type.element.llvm]
        for each in parameters
    ]
    module = ir.Module("owner")
    module.triple = TRIPLE
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), kernel.name)
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    bounds = {"threads": kernel.threads, "cluster": kernel.cluster}
    k = nvb.attach(builder, kernel.target, parameters=parameters, lowering=lowering, **bounds)
    return k, builder


def write(kernel, k, builder):
    kernel._function(k, *k.arguments)
    if k.core.exit_kind is None:
        builder.ret_void()


def disown(k, share: float, seed: int) -> int:
    """Make a share of the calls the owner's; how many."""
    choice, count = random.Random(seed), 0
    for block in k.machine.blocks.values():
        kept = []
        for instruction in block.instructions:
            call = k.core.after.get(id(instruction))
            if instruction.row is not None and isinstance(call, ir.CallInstr) and choice.random() < share:
                k.core.following.emitted.discard(call)
                call.callee = call.callee.asm if isinstance(call.callee, NamedAsm) else call.callee
                count += 1
            else:
                kept.append(instruction)
        block.instructions = kept
    return count


@pytest.mark.sampled(6)
@pytest.mark.parametrize("lowering", ["intrinsic", "asm"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("kernel", CORPUS, ids=lambda kernel: kernel.__name__)
def test_nothing_is_said_about_a_right_kernel(kernel, share, lowering):
    k, builder = attached(kernel, lowering=lowering)
    write(kernel, k, builder)
    count = disown(k, share, len(kernel.name))
    assert k.verify() == ()
    unknown = [each for each in k.unknown if "what runs after" in each]
    assert all("'@$" in each for each in unknown)  # guarded ones
    assert bool(count) is (share > 0) or count < 3


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kernel", CORPUS, ids=lambda kernel: kernel.__name__)
def test_nor_where_something_is_unknown(kernel):
    """A call of a function that nobody knows is put before some of the instructions."""
    k, builder = attached(kernel)
    write(kernel, k, builder)
    helper = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), []), "helper")
    choice = random.Random(len(kernel.name))
    for block in choice.sample(k.function.blocks, min(3, len(k.function.blocks))):
        place = choice.randrange(len(block.instructions))
        while place < len(block.instructions) - 1 and isinstance(block.instructions[place], ir.PhiInstr):
            place += 1
        call = ir.CallInstr(block, helper, [])
        block.instructions.insert(place, call)
    assert k.verify() == ()
    assert any("a call of function helper" in each for each in k.unknown)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kernel", CORPUS, ids=lambda kernel: kernel.__name__)
def test_nor_at_any_point_of_the_lowering(kernel):
    k, builder = attached(kernel)
    record, every = k.core.record, random.Random(len(kernel.name))

    def recorded(*instruction):
        record(*instruction)
        if every.random() < 0.1:
            assert k.verify(partial=True) == ()

    k.core.record = recorded
    write(kernel, k, builder)
    assert k.verify() == ()
