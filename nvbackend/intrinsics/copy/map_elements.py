"""The element types of tensor maps: their codes, which types of arrays they take, and the driver's names."""

from __future__ import annotations

ELEMENT_TYPES = (
    *("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz"),
    *("b4x16", "b4x16_p64", "b6x16_p32"),
)
"""The element types of a map, each at its code. PTX ISA 9.7.9 (tensormap.replace, validity of new_val)."""
PACKED_TYPES = 3
"""So many of them, the last ones, are packed."""
ELEMENT_TYPE_OF: dict[str, str] = {
    **{name: name for name in ELEMENT_TYPES[:-PACKED_TYPES] if "." not in name},
    **dict.fromkeys(("e4m3", "e5m2", "e2m1", "ue8m0", "ue4m3", "b1", "s4", "u4", "s8"), "u8"),
    "s16": "u16",
}
"""What an array of each element type is to a map: TMA moves bits, so other and packed types ride in unsigned ones."""
DRIVER_TYPES = {
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "tf32": "TFLOAT32",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
    "u8": "UINT8",
    "u16": "UINT16",
    "s32": "INT32",
    "u32": "UINT32",
    "s64": "INT64",
    "u64": "UINT64",
}
"""The element types of arrays and what follows CU_TENSOR_MAP_DATA_TYPE_ in the driver API's names for them."""
