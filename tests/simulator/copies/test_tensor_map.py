"""The map in memory: encoded, decoded, and changed field by field."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvbackend.diagnostics import DiagnosticError
from nvbackend.simulator.copies.tensor_map import MAP_BYTES, TensorMap, decode, problem_of, replaced

MAP = TensorMap(0x7A0000000000, "f16", (64, 1 << 32, 8), (128, 4096), (64, 8, 2), (1, 2, 1), swizzle=128)
PIXELS = TensorMap(
    256, "u8", (64, 9, 7, 3), (64, 640, 4480), (64, 300), mode="im2col", lower=(-1, -2), upper=(-128, 127), swizzle=64
)
WIDE = TensorMap(256, "bf16", (64, 9, 3), (128, 1280), (64, 128), mode="im2col::w::128", lower=(-9,), upper=(0,))


@pytest.mark.parametrize("tensor_map", [MAP, PIXELS, WIDE])
def test_a_map_is_read_as_it_was_written(tensor_map):
    data = tensor_map.encode()
    assert len(data) == MAP_BYTES
    again = decode(data)
    assert again is not None
    assert again.encode() == data
    assert (again.extents, again.strides, again.box) == (tensor_map.extents, tensor_map.strides, tensor_map.box)
    assert (again.lower, again.upper, again.mode) == (tensor_map.lower, tensor_map.upper, tensor_map.mode)
    assert (again.swizzle, again.element, again.steps) == (tensor_map.swizzle, tensor_map.element, tensor_map.steps)


@given(st.binary(min_size=128, max_size=128))
def test_other_bytes_are_no_map(data):
    assert decode(data) is None


REPLACED = [
    # field, number, ordinal, what the map then has (PTX ISA 9.7.9, tensormap.replace)
    ("global_address", 0x1230, 0, ("address", 0x1230)),
    ("rank", 1, 0, ("extents", (64, 1 << 32))),
    ("box_dim", 16, 1, ("box", (64, 16, 2))),
    ("global_dim", 5, 2, ("extents", (64, 1 << 32, 5))),
    ("global_dim", 0, 0, ("extents", (1 << 32, 1 << 32, 8))),
    ("global_stride", 8192, 1, ("strides", (128, 8192))),
    ("element_stride", 3, 0, ("element_strides", (3, 2, 1))),
    ("elemtype", 7, 0, ("element", "f32")),
    ("elemtype", 14, 0, ("element", "b4x16_p64")),
    ("interleave_layout", 2, 0, ("interleave", 32)),
    ("swizzle_mode", 2, 0, ("swizzle", 64)),
    ("swizzle_atomicity", 3, 0, ("atomicity", "64B")),
    ("fill_mode", 1, 0, ("fill", "nan")),
]


@pytest.mark.parametrize(("field", "value", "ordinal", "expected"), REPLACED)
def test_a_field_is_replaced(field, value, ordinal, expected):
    name, wanted = expected
    assert getattr(replaced(MAP, field, value, ordinal), name) == wanted


@pytest.mark.parametrize(
    ("field", "value", "ordinal"),
    [("global_address", 8, 0), ("rank", 5, 0), ("box_dim", 257, 0), ("box_dim", 1, 3), ("global_stride", 24, 0)],
)
def test_a_wrong_field_is_said(field, value, ordinal):
    with pytest.raises(DiagnosticError, match=r"simulator\.tensor-map-field"):
        replaced(MAP, field, value, ordinal)


def test_a_higher_rank_begins_with_extents_of_one():
    assert replaced(MAP, "rank", 3).extents == (64, 1 << 32, 8, 1)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [("swizzle_atomicity", 1, ""), ("swizzle_mode", 1, "wider than its swizzle"), ("fill_mode", 1, "")],
)
def test_fields_that_do_not_go_together(field, value, words):
    assert problem_of(MAP) == ""
    found = problem_of(replaced(MAP, field, value))
    assert (words in found) if words else found == ""
