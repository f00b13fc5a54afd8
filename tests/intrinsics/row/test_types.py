"""Element types against the PTX ISA's words, ptxas, LLVM, NumPy and ml_dtypes."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import ml_dtypes
import numpy
import pytest
from llvmlite import binding

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row import types
from nvbackend.intrinsics.row.types import BY_NAME, ELEMENT_TYPES, ElementType, NumberKind, Scalar, s8, u8
from tests.support.ptxas import assemble

WITNESSES = {
    "f16": numpy.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": numpy.float32,
    "f64": numpy.float64,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "s4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    "s8": numpy.int8,
    "u8": numpy.uint8,
    "s16": numpy.int16,
    "u16": numpy.uint16,
    "s32": numpy.int32,
    "u32": numpy.uint32,
    "s64": numpy.int64,
    "u64": numpy.uint64,
}
"""The same types as others define them. tf32, ue4m3, b1 and pred have no counterpart; their widths stand below."""

OTHER_BITS = {"tf32": 32, "ue4m3": 8, "b1": 1, "pred": 1}
"""PTX ISA 5.2.3: tf32 takes a .b32 register; 9.7.15.3: a ue4m3 scale factor takes a byte, .b1 one bit."""

CONVERSIONS = {
    "f16": "cvt.rn.f16.f32 h, f",
    "bf16": "cvt.rn.bf16.f32 h, f",
    "tf32": "cvt.rna.tf32.f32 r, f",
    "f32": "cvt.rn.f32.f64 f, d",
    "f64": "cvt.f64.f32 d, f",
    "e4m3": "cvt.rn.satfinite.e4m3x2.f32 h, f, f",
    "e5m2": "cvt.rn.satfinite.e5m2x2.f32 h, f, f",
    "e2m3": "cvt.rn.satfinite.e2m3x2.f32 h, f, f",
    "e3m2": "cvt.rn.satfinite.e3m2x2.f32 h, f, f",
    "e2m1": "cvt.rn.satfinite.e2m1x2.f32 c, f, f",
    "ue8m0": "cvt.rz.satfinite.ue8m0x2.f32 h, f, f",
    "s4": "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {r, r}, {r}, {r}, {r, r}",
    "u4": "mma.sync.aligned.m8n8k32.row.col.s32.u4.u4.s32 {r, r}, {r}, {r}, {r, r}",
    "b1": "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc {r, r}, {r}, {r}, {r, r}",
    "s8": "cvt.rzi.s8.f32 r, f",
    "u8": "cvt.rzi.u8.f32 r, f",
    "s16": "cvt.rzi.s16.f32 h, f",
    "u16": "cvt.rzi.u16.f32 h, f",
    "s32": "cvt.rzi.s32.f32 r, f",
    "u32": "cvt.rzi.u32.f32 r, f",
    "s64": "cvt.rzi.s64.f32 l, f",
    "u64": "cvt.rzi.u64.f32 l, f",
    "pred": ".reg .pred q",
    "ue4m3": "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 "
    "{f, f, f, f}, {r, r, r, r}, {r, r}, {f, f, f, f}, {r}, {0, 0}, {r}, {0, 0}",
}
"""A PTX instruction that names the type, as the PTX ISA writes it (9.7.9.21, 9.7.14.5, 5.2.1)."""

each_type = pytest.mark.parametrize("element", ELEMENT_TYPES, ids=str)


def _kernel(instruction: str) -> str:
    registers = ".reg .b8 c; .reg .b16 h; .reg .b32 r; .reg .f32 f; .reg .b64 l; .reg .f64 d;"
    return f".version 9.0\n.target sm_120a\n.address_size 64\n.entry k() {{ {registers} {instruction}; ret; }}\n"


def _limits(witness: type) -> Any:
    """What ml_dtypes says of a type: a finfo, or an iinfo for integers."""
    limits: Any = ml_dtypes
    try:
        return limits.iinfo(witness)
    except (ValueError, TypeError):
        return limits.finfo(witness)


def test_the_witnesses_cover_every_type() -> None:
    names = {element.name for element in ELEMENT_TYPES}
    assert names == WITNESSES.keys() | OTHER_BITS.keys() == CONVERSIONS.keys()
    assert len(names) == len(ELEMENT_TYPES)


@each_type
def test_bits(element: ElementType) -> None:
    witness = WITNESSES.get(element.name)
    assert element.bits == (OTHER_BITS[element.name] if witness is None else _limits(witness).bits)


@each_type
def test_kind_says_what_numpy_says(element: ElementType) -> None:
    if element.name in ("b1", "pred"):
        assert element.kind is NumberKind.BITS
    elif element.name in ("ue8m0", "ue4m3"):
        assert element.kind is NumberKind.SCALE
    elif element.name == "tf32":
        assert element.is_float
    else:
        limits = _limits(WITNESSES[element.name])
        assert element.is_float == hasattr(limits, "eps")
        assert element.is_integer != element.is_float
        assert element.is_signed == (element.is_integer and limits.min < 0)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_ptxas_knows_the_name(name: str) -> None:
    accepted, said = assemble(_kernel(CONVERSIONS[name]), "sm_120a")
    assert accepted, said
    assert BY_NAME[name].ptx in CONVERSIONS[name]


def test_ptxas_refuses_a_name_that_is_none() -> None:
    accepted, _ = assemble(_kernel(CONVERSIONS["e4m3"].replace("e4m3", "e3m4")), "sm_120a")
    assert not accepted


@each_type
def test_storage_holds_the_type(element: ElementType) -> None:
    stored = element.numpy_dtype()
    witness = WITNESSES.get(element.name)
    assert stored.itemsize == element.bytes_for(1)
    if witness is not None and witness.__module__ == "numpy":
        assert stored == witness


@each_type
def test_an_llvm_value_has_room_for_the_type(element: ElementType) -> None:
    binding.initialize_all_targets()
    machine = binding.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine()
    module = binding.parse_assembly(f"@x = external global {element.llvm}")
    bits = 8 * machine.target_data.get_abi_size(module.get_global_variable("x").global_value_type)
    assert bits >= element.bits
    if element.bits >= 16:
        assert bits == element.bits


def test_bytes_are_those_of_a_packed_c_array() -> None:
    assert [types.f32.bytes_for(count) for count in (0, 1, 7)] == [ctypes.sizeof(ctypes.c_float * n) for n in (0, 1, 7)]
    assert [types.s4.bytes_for(count) for count in (0, 1, 2, 3)] == [0, 1, 1, 2]
    assert [types.e2m3.bytes_for(count) for count in (1, 4, 16)] == [1, 3, 12]
    assert [types.b1.bytes_for(count) for count in (1, 8, 9, 256)] == [1, 1, 2, 32]


def test_aliases_are_the_signed_integers() -> None:
    assert types.i32 is BY_NAME["s32"]
    assert types.i64 is BY_NAME["s64"]


@pytest.mark.parametrize("element", [u8, s8], ids=str)
@pytest.mark.parametrize("multiple", [1, 3, 8])
def test_the_values_that_are_asserted(element: ElementType, multiple: int) -> None:
    every = range(-128, 128) if element is s8 else range(256)
    for least, most in itertools.product((None, -129, -8, -1, 0, 1, 9), (None, 12, 24, 127, 255, 300)):
        kept = [
            number
            for number in every
            if (least is None or number >= least) and (most is None or number <= most) and number % multiple == 0
        ]
        if not kept:
            with pytest.raises(DiagnosticError, match=f"no {element} is in these bounds"):
                Scalar(element, minimum=least, maximum=most, multiple_of=multiple)
            continue
        scalar = Scalar(element, minimum=least, maximum=most, multiple_of=multiple)
        assert list(scalar.values) == kept
        assert scalar.asserts == ((least, most, multiple) != (None, None, 1))
