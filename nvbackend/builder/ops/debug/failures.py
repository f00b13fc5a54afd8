"""What a failing thread does: it records which assertion failed, where and with what values, and ends the launch."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.lower.lowering import declare
from nvbackend.builder.values.values import GLOBAL_SPACE
from nvbackend.isel.machine.assertions import CLAIM, CTA, DONE, NUMBER, THREAD, VALUES, WORDS, place_name, record_name

_I32, _I64, _BYTE, _GENERIC = ir.IntType(32), ir.IntType(64), ir.IntType(8), ir.PointerType()
_WORD_BYTES = 8


class Texts:
    """Texts of a kernel in global memory, each once."""

    def __init__(self, k: Core) -> None:
        self._k = k
        self._known: dict[bytes, ir.GlobalVariable] = {}

    def address(self, text: str) -> ir.Value:
        """The generic address of a text, which a zero byte ends."""
        data = bytearray(text.encode() + b"\0")
        variable = self._known.get(bytes(data))
        if variable is None:
            module, kind = self._k.llvm.module, ir.ArrayType(_BYTE, len(data))
            name = module.get_unique_name(f"{self._k.name}__text")
            variable = self._known[bytes(data)] = ir.GlobalVariable(module, kind, name, GLOBAL_SPACE)
            variable.linkage, variable.align, variable.global_constant = "internal", 1, True
            variable.initializer = ir.Constant(kind, data)
        return self._k.llvm.addrspacecast(variable, _GENERIC)


class Recorder:
    """The record of the first failure of a kernel, and the functions that write it."""

    def __init__(self, k: Core) -> None:
        self._k = k
        self._writers: dict[int, ir.Function] = {}
        self._variables: tuple[ir.GlobalVariable, ir.GlobalVariable] | None = None

    def write(self, number: int, values: Sequence[ir.Value]) -> None:
        """Record failure `number` with `values`, words of 64 bits."""
        self._k.llvm.call(self._writer(len(values)), [ir.Constant(_I64, number), *values])

    def _writer(self, count: int) -> ir.Function:
        """A function that records `count` values: out of line, since it is seldom called."""
        if count in self._writers:
            return self._writers[count]
        record, place = self._record()
        module = self._k.llvm.module
        kind = ir.FunctionType(ir.VoidType(), [_I64] * (1 + count))
        function = self._writers[count] = ir.Function(module, kind, module.get_unique_name(f"__nvb_record_{count}"))
        function.linkage = "internal"
        for attribute in ("noinline", "cold", "nounwind"):
            function.attributes.add(attribute)
        entry, first, done = (function.append_basic_block(name) for name in ("entry", "first", "done"))
        builder = ir.IRBuilder(entry)
        claim = builder.gep(record, [ir.Constant(_I64, 0), ir.Constant(_I64, CLAIM)])
        before = builder.atomic_rmw("xchg", claim, ir.Constant(_I64, 1), 'syncscope("device") monotonic')
        builder.cbranch(builder.icmp_unsigned("==", before, ir.Constant(_I64, 0)), first, done)
        builder.position_at_end(first)
        base = builder.load(place, typ=_GENERIC)
        number, *values = function.args
        words = {NUMBER: number, **{VALUES + index: value for index, value in enumerate(values)}}
        for start, register in ((CTA, "ctaid"), (THREAD, "tid")):
            for index, axis in enumerate("xyz"):
                words[start + index] = builder.zext(_special(builder, f"{register}.{axis}"), _I64)
        for word, value in words.items():
            builder.store(value, _word(builder, base, word), align=_WORD_BYTES)
        builder.fence("seq_cst")
        builder.store(ir.Constant(_I64, 1), _word(builder, base, DONE), align=_WORD_BYTES)
        builder.fence("seq_cst")
        builder.branch(done)
        builder.position_at_end(done)
        builder.ret_void()
        return function

    def _record(self) -> tuple[ir.GlobalVariable, ir.GlobalVariable]:
        if self._variables is None:
            module, kind = self._k.llvm.module, ir.ArrayType(_I64, WORDS)
            record = ir.GlobalVariable(module, kind, record_name(self._k.name), GLOBAL_SPACE)
            record.initializer = ir.Constant(kind, None)
            place = ir.GlobalVariable(module, _GENERIC, place_name(self._k.name), GLOBAL_SPACE)
            cast = f"addrspacecast ({record.type} {record.get_reference()} to ptr)"
            place.initializer = ir.FormattedConstant(_GENERIC, cast)
            for variable in (record, place):
                variable.linkage, variable.align = "", _WORD_BYTES
            self._variables = record, place
        return self._variables


def _special(builder: ir.IRBuilder, register: str) -> ir.Value:
    return builder.call(declare(builder.module, f"llvm.nvvm.read.ptx.sreg.{register}", _I32, []), [])


def _word(builder: ir.IRBuilder, base: ir.Value, word: int) -> ir.Value:
    return builder.gep(base, [ir.Constant(_I64, word * _WORD_BYTES)], source_etype=_BYTE)
