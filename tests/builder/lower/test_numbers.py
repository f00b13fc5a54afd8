"""Numbers that a kernel is given: NumPy's, those that are rounded, and what is said of those that do not fit."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Pointer, f16, f32, f64, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter


def builder(threads=32):
    memory = (("x", i32), ("v", f32), ("e", nvb.e4m3), ("h", f16))
    return KernelBuilder("k", "sm_90a", threads=threads, parameters=[Parameter(n, Pointer(t)) for n, t in memory])


def said(call):
    k = builder()
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(k, *k.arguments)
    (found,) = caught.value.diagnostics
    assert found.location is not None
    assert found.location.file == __file__
    return found


@pytest.mark.parametrize(
    ("given", "shown"), [(1.0, "1.0 "), (2**70, f"{2**70} "), (2**61, f"{2**61} "), (-(2**61) - 1, f"{-(2**61) - 1} ")]
)
def test_an_index_is_shown_as_it_was_written(given, shown) -> None:
    found = said(lambda k, x, v, e, h: x[given])
    assert found.rule_id == "value.constant"
    assert found.message.startswith(shown + "is not an index")


def test_the_last_index_whose_bytes_an_address_has() -> None:
    k = builder()
    x = k.arguments[0]
    assert (x + (2**61 - 1))._offset.constant == (2**61 - 1) * 4
    assert (x + -(2**61))._offset.constant == -(2**63)


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("element", [nvb.u8, f16, f32, f64], ids=str)
def test_the_indices_that_are_advised_are_those_whose_bytes_an_address_has(element, space) -> None:
    """Addresses of global memory are numbers of 64 bits with a sign, those of shared memory of 32 without."""
    out = Parameter("out", Pointer(element))
    k = KernelBuilder("k", "sm_90a", threads=32, parameters=[out])
    array = k.arguments[0] if space == "global" else k.shared(element, 8)
    unit, lowest = element.bits // 8, -(2**63) if space == "global" else -(2**31)
    highest = 2**63 - 1 if space == "global" else 2**32 - 1
    with pytest.raises(nvb.DiagnosticError, match=r"value\.constant") as caught:
        array + 2**80
    first, last = map(int, re.findall(r"-?\d+", caught.value.diagnostics[0].fix))
    assert (first - 1) * unit < lowest <= first * unit
    assert last * unit <= highest < (last + 1) * unit
    for index in (first, last):
        array + index
    for index in (first - 1, last + 1):
        with pytest.raises(nvb.DiagnosticError, match=r"value\.constant"):
            array + index


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda a: a // 0, "division by the constant 0"),
        (lambda a: a % 0, "division by the constant 0"),
        (lambda a: a << 32, "a shift by 32 of a type of 32 bits"),
        (lambda a: a.to(nvb.u8) >> 8, "a shift by 8 of a type of 8 bits"),
    ],
)
def test_what_is_wrong_with_the_operation_and_not_with_the_number(broken, message) -> None:
    assert said(lambda k, x, v, e, h: broken(x[0])).message == message


@pytest.mark.parametrize("broken", [lambda a: a // 0, lambda a: a % 0, lambda a: a << 32, lambda a: a >> -1])
def test_an_operation_that_no_thread_comes_to_may_be_any(broken) -> None:
    """Of a program that is made for several sizes a block may be for none of the threads of this one."""
    for first, is_reached in ((32, False), (31, True)):
        k = builder()
        x = k.arguments[0]
        with k.if_(k.thread_id() >= first):
            if is_reached:
                with pytest.raises(nvb.DiagnosticError, match=r"value\.constant"):
                    broken(x[0])
            else:
                x[0] = broken(x[0])


@pytest.mark.parametrize("kind", [nvb.i32, nvb.u32, nvb.i64, nvb.u64, nvb.s8, nvb.u8])
@pytest.mark.parametrize("number", [-96, 7])
def test_a_value_that_is_known_gives_what_it_gives_at_run_time(kind, number) -> None:
    """A program may guard a division by 0 or drop its result: `k.select(v == 0, x, x // v)`."""
    bits, signed = kind.bits, kind.is_signed
    held = number if signed else number % (1 << bits)
    seen = {}

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, out: nvb.Pointer[i32]):
        x, zero, past = k.const(held, kind), k.var(0, kind), k.var(bits, kind)
        seen.update({"//": x // zero, "%": x % zero, "<<": x << past, ">>": x >> past})
        out[0] = 1

    kernel.build()
    ones = -1 if signed else (1 << bits) - 1
    shifted = -1 if signed and held < 0 else 0
    expected = {"//": ones, "%": ones, "<<": 0, ">>": shifted}
    assert {operation: value.constant for operation, value in seen.items()} == expected


@pytest.mark.parametrize("number", [np.int8(3), np.int64(3), np.uint32(3), np.uint64(3)])
def test_numpy_integers_are_numbers(number) -> None:
    plain, given = builder(threads=np.int64(32)), builder(threads=32)
    for k, three in ((plain, number), (given, 3)):
        x = k.arguments[0]
        x[three] = x[0] * three + three
        x[three - 3] = three
        shared = k.shared(i32, three, align=type(three)(16))
        shared.store(three)
        with k.range(three) as i:
            x[i] = k.select(i < three, three, i)
    assert str(plain.finish().ir) == str(given.finish().ir)


@pytest.mark.parametrize("number", [np.float16(1.5), np.float32(1.5), np.float64(1.5)])
def test_numpy_floats_are_numbers_on_either_side(number) -> None:
    plain, given = builder(), builder()
    for k, half in ((plain, number), (given, 1.5)):
        v = k.arguments[1]
        v[0] = half * (v[0] * half + half)
        v[1] = half
        k.var(0.0).set(half)
    assert str(plain.finish().ir) == str(given.finish().ir)


def test_a_definition_takes_numpy_threads_and_leaves_constants_alone() -> None:
    seen = []

    @nvb.kernel("sm_90a", threads=np.int64(64), min_ctas=np.int32(1))
    def definition(k, x: Pointer[i32], *, factor=None):
        seen.append(type(factor))

    definition.build(factor=np.float32(3))
    assert definition.threads == 64
    assert seen == [np.float32]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.True_, r"call\.argument.*threads must be one to three integers, not (np\.)?True"),
        (True, r"kernel\.bounds.*threads = True: it must be a Python integer"),
    ],
)
def test_truth_values_are_no_integers(given, message) -> None:
    with pytest.raises(nvb.DiagnosticError, match=message):
        builder(threads=given)


@pytest.mark.parametrize("number", [0.1, 65519.0, -65519.0, 2.0**-25, 3 * 2.0**-25, 1e-30, -0.0, 2049.0, math.pi])
@pytest.mark.parametrize(("element", "witness"), [(f16, np.float16), (f32, np.float32), (f64, np.float64)])
def test_a_constant_is_the_value_held(number, element, witness) -> None:
    held = builder().const(number, element).constant
    assert held == float(witness(number))
    assert math.copysign(1, held) == math.copysign(1, number)


def test_a_bf16_constant_is_the_value_held() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for number in (0.1, 1.00390625, 1.01171875, -3.14159, 3.39e38, 1e-40):
        assert builder().const(number, nvb.bf16).constant == float(np.array(number).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(("number", "element"), [(65520.0, f16), (-65520.0, f16), (2.0**128, f32), (3.4e38, nvb.bf16)])
def test_what_rounds_to_infinity_is_refused(number, element) -> None:
    assert said(lambda k, x, v, e, h: k.const(number, element)).rule_id == "value.constant"


def test_a_predicate_is_had_by_a_comparison() -> None:
    assert "value != 0" in said(lambda k, x, v, e, h: k.select(x[0], 1, 2)).fix
    k = builder()
    x = k.arguments[0]
    x[1] = k.select(x[0] != 0, 1, 2)
    k.finish()


def test_bits_of_packed_elements_are_stored_as_integers() -> None:
    def store(k, x, v, e, h):
        e[0] = h[0].bitcast(nvb.u16)

    found = said(store)
    assert ".to(" not in found.fix
    assert "pointer.cast(nvb.u16)[0] = pair" in found.fix
    pairs = nvb.Pointer(nvb.e4m3, align=2)
    k = KernelBuilder("k", "sm_90a", threads=32, parameters=[Parameter("e", pairs)])
    pointer = k.arguments[0]
    pointer.cast(nvb.u16)[0] = k.const(1, nvb.u16)
    k.finish()


def test_no_conversion_is_advised_that_does_not_exist() -> None:
    assert "value.to(nvb.f32) != 0" in said(lambda k, x, v, e, h: e[0].to(nvb.pred)).fix
    k = builder()
    x, _, e, _ = k.arguments
    x[0] = k.select(e[0].to(nvb.f32) != 0, 1, 2)
    k.finish()


def test_a_stride_of_nothing_takes_any_index():
    """All columns are the same place; a number of thousands of digits is refused by its size."""
    k = builder()
    tensor = k.tensor(k.arguments[1], nvb.layout.Layout((8, 8), (1, 0)))
    tensor[k.thread_id() % 8, 5] = 1.0
    assert k.finish().diagnostics == ()
    with pytest.raises(nvb.DiagnosticError, match="an integer of 16610 bits"):
        tensor[0, 10**5000]


@pytest.mark.parametrize("operation", ["<<", ">>"])
@pytest.mark.parametrize("element", [nvb.u8, nvb.s8, nvb.u32, nvb.s32, nvb.u64, nvb.s64, nvb.u4, nvb.s4], ids=str)
def test_a_shift_masks_what_its_register_has_above_the_type(element, operation):
    """Of s4 in a byte the amount has copies of its sign above it, of u4 zeros, which a result must get again."""
    parameters = [nvb.Parameter(name, nvb.Scalar(element)) for name in ("a", "b")]
    k = KernelBuilder("shifts", "sm_90a", threads=32, parameters=parameters)
    a, b = k.arguments
    _ = a << b if operation == "<<" else a >> b
    masks = str(k.llvm.function).count(" and ")
    assert masks == (element.bits < 8)


def test_divmod_gives_quotient_and_rest_as_the_operators_do() -> None:
    k = builder()
    x, v = k.arguments[0], k.var(7)
    pairs = [(divmod(x[0], 8), (x[0] // 8, x[0] % 8)), (divmod(100, x[0]), (100 // x[0], 100 % x[0]))]
    for made, operators in pairs:
        assert [value.ir.opname for value in made] == [value.ir.opname for value in operators]
    assert [value.constant for value in (*divmod(v, 2), *divmod(-9, v))] == [3, 1, -2, 5]


def test_signed_types_have_both_names() -> None:
    assert (nvb.i8, nvb.i16, nvb.i32, nvb.i64) == (nvb.s8, nvb.s16, nvb.s32, nvb.s64)
