"""Prints, assertions, traps and clocks of a kernel. One switch removes them: `debug=False` of the build.

CUDA C++ Programming Guide, Formatted Output and Assertion; PTX ISA 9.7.19.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import issue
from nvbackend.builder.core.threads import Threads
from nvbackend.builder.lower.lowering import declare
from nvbackend.builder.ops.debug.failures import Recorder, Texts
from nvbackend.builder.ops.debug.formats import Piece, c_format, check_letters, pieces
from nvbackend.builder.ops.debug.rules import FORMAT
from nvbackend.builder.ops.debug.values import Shown, as_word, promoted, shown_values
from nvbackend.builder.scopes.in_functions import INLINE, check_of_kernel
from nvbackend.builder.values.values import Operand, Value, as_value, constant
from nvbackend.diagnostics import caller_location
from nvbackend.intrinsics.row.types import pred, s32, s64
from nvbackend.intrinsics.sync import traps
from nvbackend.isel.machine.assertions import ADDRESS, MOST_VALUES, Assertion
from nvbackend.isel.machine.pseudo import ASSERT, PRINT
from nvbackend.isel.target.target import VARIANT

_I32, _I64, _GENERIC = ir.IntType(32), ir.IntType(64), ir.PointerType()
CLOCKS = {"clock": s32, "clock64": s64, "globaltimer": s64}
"""The clocks, and the types of their values."""


class Debug:
    """`k.print`, `k.assert_`, `k.trap`, `k.breakpoint` and `k.clock` of one function."""

    def __init__(self, k: Core, control: Control, threads: Threads) -> None:
        self._k = k
        self._control = control
        self._threads = threads
        self._texts = Texts(k)
        self._recorder = Recorder(k)

    def print(self, text: str, values: Sequence[object], when: Operand | None, end: str) -> None:
        """`k.print`."""
        self._k.check_live()
        parts = pieces("k.print", text, len(values))
        check_letters("k.print", text, end)
        shown = shown_values(self._k, "k.print", values)
        written = _c_text("k.print", text, parts, shown) + end.replace("%", "%%")
        if not self._k.debug:
            return
        if when is None:
            self._print(written, parts, shown)
        else:
            with self._control.apart(when):
                self._print(written, parts, shown)

    def _print(self, written: str, parts: Sequence[Piece], shown: Sequence[Shown]) -> None:
        builder = self._k.llvm
        used = [shown[part.argument] for part in parts if part.argument is not None]
        registers = [promoted(self._k, each.value) for each in used if each.value is not None]
        arguments = self._buffer(registers)
        call = declare(builder.module, "vprintf", _I32, [_GENERIC, _GENERIC])
        builder.call(call, [self._texts.address(written), arguments])
        self._k.pseudo(PRINT)

    def _buffer(self, registers: Sequence[ir.Value]) -> ir.Value:
        """The address of the registers in local memory, as a struct of C."""
        if not registers:
            return ir.Constant(_GENERIC, None)
        builder = self._k.llvm
        with builder.goto_entry_block():
            box = builder.alloca(ir.LiteralStructType([register.type for register in registers]), name="printed")
            box.align = 8
        for index, register in enumerate(registers):
            builder.store(register, builder.gep(box, [ir.Constant(_I32, 0), ir.Constant(_I32, index)]))
        return box

    def check(self, condition: Operand, text: str, values: Sequence[object]) -> None:
        """`k.assert_`."""
        self._k.check_live()
        test = as_value(self._k, condition, pred)
        self._stop(test, "assertion", "k.assert_", text, values)

    def trap(self, text: str, values: Sequence[object]) -> None:
        """`k.trap`."""
        self._k.check_live()
        self._stop(None, "trap", "k.trap", text, values)

    def _stop(self, test: Value | None, what: str, call: str, text: str, values: Sequence[object]) -> None:
        """End the launch, where `test` fails; check everything first, so that the switch hides no mistake."""
        check_of_kernel(self._k.functions.open, call, INLINE)
        shown = shown_values(self._k, call, values)
        unnamed = "{" not in text.replace("{{", "") and bool(shown)
        written = f"{text}{': ' if text else ''}{', '.join('{}' for _ in shown)}" if unnamed else text
        _c_text(call, text, pieces(call, written, len(shown)), shown)
        kept = [each.value for each in shown if each.value is not None]
        if len(kept) > MOST_VALUES:
            problem = f"it has {len(kept)} values, and a failure records {MOST_VALUES}"
            FORMAT.fail(call=call, text=text, problem=problem, advice="leave values out")
        if not self._k.debug:
            return
        assertion = Assertion(what, written, tuple(each.kind for each in shown), caller_location())
        if test is None:
            self._end(assertion, kept)
        else:
            with self._control.apart(~test):
                self._end(assertion, kept)

    def _end(self, assertion: Assertion, kept: Sequence[Value]) -> None:
        known = self._k.machine.assertions
        known.append(assertion)
        self._recorder.write(len(known) - 1, [as_word(self._k, value) for value in kept])
        self._k.pseudo(ASSERT)
        if assertion.what == "trap":
            issue(self._k, traps.trap("trap"))
            return
        place = assertion.location
        types = [_GENERIC, _GENERIC, _I32, _GENERIC, _I64]
        call = declare(self._k.llvm.module, "__assertfail", ir.VoidType(), types)
        arguments = [
            self._texts.address(assertion.text),
            self._texts.address(place.file if place else ""),
            ir.Constant(_I32, place.line if place else 0),
            self._texts.address(self._k.name),
            ir.Constant(_I64, 1),
        ]
        self._k.llvm.call(call, arguments)

    def breakpoint(self) -> None:
        """`k.breakpoint`."""
        self._k.check_live()
        if self._k.debug:
            issue(self._k, traps.trap("brkpt"))

    def clock(self, register: str) -> Value:
        """`k.clock`."""
        if register not in CLOCKS:
            reason = f"{register!r} is not a clock; {', '.join(CLOCKS)} are"
            VARIANT.fail(instruction="k.clock", reason=reason)
        if not self._k.debug:
            return constant(self._k, 0, CLOCKS[register])
        return self._threads.special_register(register)


def _c_text(call: str, text: str, parts: Sequence[Piece], shown: Sequence[Shown]) -> str:
    """The format of C. What is known when the kernel is built is in it already."""
    written = list(parts)
    for index, part in enumerate(parts):
        if part.argument is None:
            continue
        each = shown[part.argument]
        if each.value is None:
            letters = part.letters + _constant(call, text, part.spec, each.kind)
            written[index] = Piece(letters)
        elif each.kind is ADDRESS and not part.spec:
            written[index] = Piece(part.letters, part.argument, "#x")
    kinds = [each.element for each in shown]
    whole = c_format(call, text, written, kinds)
    check_letters(call, text, whole)
    return whole


def _constant(call: str, text: str, spec: str, value: object) -> str:
    try:
        return format(value, spec)
    except (ValueError, TypeError, OverflowError) as error:
        FORMAT.fail(call=call, text=text, problem=f"Python says of {value!r}: {error}", advice="write {} for it")
