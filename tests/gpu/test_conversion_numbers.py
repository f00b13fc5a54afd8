"""`.to()` on a GPU against the cvt that the PTX ISA has for the pair, where it has one: NaN, ends, ties, subnormals."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import ir

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import bf16, f16, f32, f64, s64, tf32, u64
from nvbackend.signature import Parameter, Pointer
from tests.scalar import numbers
from tests.scalar.numbers import INTEGERS
from tests.scalar.specials import every_special
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES

THREADS = 1024
_REGISTERS = {16: "h", 32: "r", 64: "l"}
_FLOAT_REGISTERS = {"f16": "h", "bf16": "h", "f32": "f", "f64": "d"}
TO_INTEGERS = [(source, element) for source in (f16, f32, f64) for element in INTEGERS if element.bits >= 8]
FROM_INTEGERS = [
    (element, to)
    for element in INTEGERS
    for to in (f16, bf16, f32, f64)
    if element.bits >= (16 if to is bf16 else 8)  # ptxas has no cvt of 8 bits to bf16
]
BETWEEN_FLOATS = [(f32, f16), (f64, f16), (f32, bf16), (f64, bf16), (f64, f32), (f16, bf16), (bf16, f16), (f32, tf32)]


def _cvt(k, source, element, value):
    """The instruction itself; of what it gives, the bits of the type."""
    rounding = "rzi" if element.is_integer else "rna" if element is tf32 else "rn"
    wide = ir.IntType(max(element.bits, 16))
    given = value.ir
    if source.name in ("f16", "bf16"):
        given = k.core.llvm.bitcast(given, ir.IntType(16))
    elif source.bits == 8:
        given = (k.core.llvm.sext if source.is_signed else k.core.llvm.zext)(given, ir.IntType(16))
    letter = _FLOAT_REGISTERS[source.name] if source.is_float else _REGISTERS[max(source.bits, 16)]
    kind = ir.FunctionType(wide, [given.type])
    text = f"cvt.{rounding}.{element}.{source} $0, $1;"
    return k.core.llvm.call(ir.InlineAsm(kind, text, f"={_REGISTERS[wide.width]},{letter}"), [given])


@pytest.mark.parametrize(
    "pair", [*TO_INTEGERS, *FROM_INTEGERS, *BETWEEN_FLOATS], ids=lambda pair: f"{pair[0]}-{pair[1]}"
)
def test_a_conversion_gives_what_its_cvt_gives(pair):
    from numba import cuda

    from nvbackend import runtime

    source, element = pair
    parameters = [Parameter("given", Pointer(u64)), Parameter("out", Pointer(u64))]
    k = KernelBuilder("cvt", "sm_90a", threads=THREADS, parameters=parameters)
    given, out = k.arguments
    row = k.thread_id().to(s64)
    value = (given + row).cast(source)[0]
    made, wanted = value.to(element), _cvt(k, source, element, value)
    (out + row * 2).cast(element)[0] = made
    word = wanted if wanted.type.width == u64.bits else k.core.llvm.zext(wanted, ir.IntType(64))
    out[row * 2 + 1] = k.core.wrap(word, u64)
    column = every_special(source)
    words = np.zeros(THREADS, np.uint64)
    words[: len(column)] = numbers.bits_of(column)
    results = cuda.to_device(np.zeros(2 * THREADS, np.uint64))
    kernel = runtime.load(k.compile())
    kernel.launch(1, cuda.to_device(words), results)
    kernel.synchronize()
    bits = results.copy_to_host().reshape(THREADS, 2)[: len(column)] & np.uint64((1 << element.bits) - 1)
    got, expected = (numbers.from_bits(element, bits[:, part]) for part in range(2))
    different = np.flatnonzero(~numbers.same(element, got, expected))
    assert [(column[row], got[row], expected[row]) for row in different] == []
