"""Which results of instructions are equal: those of one operation on equal values."""

from __future__ import annotations

import itertools

from llvmlite import ir

from nvbackend.builder.value_tracking.results import key_of

I32 = ir.IntType(32)
PAIR = ir.LiteralStructType([I32, I32])


def test_one_member_of_one_struct_is_one_value() -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [PAIR, PAIR]), "f")
    b = ir.IRBuilder(function.append_basic_block())
    keys = {
        (source, member): [key_of(b.extract_value(function.args[source], member), (source,)) for _ in range(2)]
        for source, member in itertools.product((0, 1), (0, 1))
    }
    for first, second in keys.values():
        assert first == second is not None
    assert len({first for first, _ in keys.values()}) == len(keys)
