"""Kernels whose function, blocks and branches are llvmlite's own, with the builder attached in between."""

from __future__ import annotations

import operator

from llvmlite import ir

import nvbackend as nvb
from nvbackend.intrinsics.row.types import f32, s32
from tests.support.random_kernels import control, memory, scalars
from tests.support.random_kernels.writer import Writer

WORD, POINTER = ir.IntType(32), ir.PointerType(addrspace=1)
STATEMENTS = [*scalars.STATEMENTS, *memory.STATEMENTS, *control.EVERYWHERE]


def write(w: Writer, name: str) -> str | None:
    """The module's text, None where the builder refused it."""
    name = name or "attached"  # llvmlite has none for functions without
    module = ir.Module(name)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER, WORD, ir.FloatType()]), name)
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    w.threads = w.count(32, 64, 128, 256)
    w.k = w.call(nvb.attach, builder, w.target, threads=w.threads)
    if w.k is None:
        return None
    _take(w, function)
    w.some(STATEMENTS, w.rng.randint(1, 6))
    ended = _blocks(w, builder)
    if not ended and not builder.block.is_terminated:
        builder.ret_void()
    verified = w.call(w.k.verify)
    return str(module) if verified is not None else None


def _take(w: Writer, function: ir.Function) -> None:
    """The function's arguments as the builder's values."""
    pointer, word, number = function.args
    w.addresses[0].append(w.call(w.k.global_address, pointer, w.element(*memory.STORED), w.one(1, 4, 16)))
    for argument, element in ((word, s32), (number, f32)):
        w.keep(w.call(w.k.value, argument, element if not w.odd() else w.element("u64", "f16", "pred")))
    w.addresses[0] = [one for one in w.addresses[0] if one is not None]


def _blocks(w: Writer, builder: ir.IRBuilder) -> bool:
    """Branches and loops of llvmlite's with statements in them; whether the function ended."""
    for _ in range(w.rng.randint(0, 3)):
        if builder.block.is_terminated:
            return True
        condition = w.call(operator.lt, w.call(w.k.thread_id), w.number(s32))
        if condition is None or w.chance(0.3):
            w.some(STATEMENTS, w.rng.randint(1, 4))
            continue
        w.values.append([])
        w.addresses.append([])
        w.divergent += 1
        if w.chance(0.5):
            with builder.if_then(condition.ir):
                w.some(STATEMENTS, w.rng.randint(0, 4))
        else:
            _loop(w, builder, condition.ir)
        w.divergent -= 1
        w.values.pop()
        w.addresses.pop()
    return False


def _loop(w: Writer, builder: ir.IRBuilder, condition: ir.Value) -> None:
    """A loop with a phi that counts."""
    before = builder.block
    header, done = builder.append_basic_block("own.loop"), builder.append_basic_block("own.done")
    builder.cbranch(condition, header, done)
    builder.position_at_end(header)
    counter = builder.phi(WORD)
    counter.add_incoming(ir.Constant(WORD, 0), before)
    w.keep(w.call(w.k.value, counter, s32))
    w.some(STATEMENTS, w.rng.randint(0, 4))
    if builder.block.is_terminated:
        builder.position_at_end(done)
        return
    following = builder.add(counter, ir.Constant(WORD, 1))
    counter.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, ir.Constant(WORD, 10)), header, done)
    builder.position_at_end(done)
