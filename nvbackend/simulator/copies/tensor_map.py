"""The tensor map as the copy engine reads it: its fields, and the 128 bytes that hold them in the simulator's memory.

The driver's encoding is opaque; this one is the simulator's own. So a map can be a parameter, be copied by ordinary
loads and stores, and be changed by tensormap.replace, all by its address.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any, Final

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.copies.elements import BY_NAME, CODES, Element
from nvbackend.simulator.copies.rules import MAP_FIELD
from nvbackend.simulator.copies.swizzle import ATOMICITIES, SPANS, has_swizzle

MAP_BYTES: Final = 128
MAX_RANK: Final = 5
MODES: Final = ("tile", "im2col", "im2col::w", "im2col::w::128")
INTERLEAVES: Final = (0, 16, 32)
FILLS: Final = ("zero", "nan")
_MAGIC: Final = b"nvbsimTM"
_LAYOUT: Final = struct.Struct("<8sQ8B5Q4Q5B5H6h")
"""Magic; address; rank, element, interleave, swizzle, atomicity, fill, mode, 0; extents; strides; element strides;
box; lower and upper corners. Extents reach 2^32, so they take 64 bits each."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map; every tuple has the innermost dimension first.

    `extents` are in elements, `strides` in bytes (one fewer than extents). In tile mode `box` has an extent for each
    dimension; in the im2col modes it is (channels, pixels), and `lower` and `upper` are the corners along W, H, D (W
    alone for im2col::w). `swizzle` and `interleave` are in bytes, 0 for none. PTX ISA 5.5.
    """

    address: int
    element: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: int = 0
    atomicity: str = "16B"
    interleave: int = 0
    fill: str = "zero"
    mode: str = "tile"
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.extents)

    @property
    def kind(self) -> Element:
        """What its element type says of bytes."""
        return BY_NAME[self.element]

    @property
    def steps(self) -> tuple[int, ...]:
        """The traversal stride of each dimension, 1 where none is given."""
        return self.element_strides or (1,) * self.rank

    @property
    def pixels(self) -> int:
        """The pixels of an im2col copy."""
        return 128 if self.mode == "im2col::w::128" else self.box[1]

    def encode(self) -> bytes:
        """The 128 bytes."""
        return _LAYOUT.pack(
            _MAGIC,
            self.address,
            self.rank,
            CODES.index(self.kind),
            INTERLEAVES.index(self.interleave),
            SPANS.index(self.swizzle),
            ATOMICITIES.index(self.atomicity),
            FILLS.index(self.fill),
            MODES.index(self.mode),
            0,
            *_padded(self.extents, MAX_RANK),
            *_padded(self.strides, MAX_RANK - 1),
            *_padded(self.steps, MAX_RANK),
            *_padded(self.box, MAX_RANK),
            *_padded(self.lower, 3),
            *_padded(self.upper, 3),
        ).ljust(MAP_BYTES, b"\0")


def _padded(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    return (*values, *(0,) * (count - len(values)))[:count]


def blank(data: bytes) -> TensorMap | None:
    """The map of one dimension that zeros are to tensormap.replace, None where there is anything else.

    Compilers write zeros, and then every field.
    """
    return None if any(data) else TensorMap(0, CODES[0].name, (1,), (), (1,))


def decode(data: bytes) -> TensorMap | None:
    """The map that 128 bytes hold, None where they hold none."""
    if len(data) < MAP_BYTES or not data.startswith(_MAGIC):
        return None
    fields = _LAYOUT.unpack_from(data)
    address, (rank, element, interleave, swizzle, atomicity, fill, mode, _) = fields[1], fields[2:10]
    extents, strides, steps, box = fields[10:15], fields[15:19], fields[19:24], fields[24:29]
    lower, upper = fields[29:32], fields[32:35]
    walks = MODES[mode] != "tile"
    corners = 0 if not walks else rank - 2 if MODES[mode] == "im2col" else 1
    return TensorMap(
        address=address,
        element=CODES[element].name,
        extents=extents[:rank],
        strides=strides[: rank - 1],
        box=box[: 2 if walks else rank],
        element_strides=steps[:rank],
        swizzle=SPANS[swizzle],
        atomicity=ATOMICITIES[atomicity],
        interleave=INTERLEAVES[interleave],
        fill=FILLS[fill],
        mode=MODES[mode],
        lower=lower[:corners],
        upper=upper[:corners],
    )


_NUMBERED: Final = {
    # field of tensormap.replace: what it is here, and the values by their numbers
    "elemtype": ("element", tuple(element.name for element in CODES)),
    "interleave_layout": ("interleave", INTERLEAVES),
    "swizzle_mode": ("swizzle", SPANS),
    "swizzle_atomicity": ("atomicity", ATOMICITIES),
    "fill_mode": ("fill", FILLS),
}
_LISTS: Final = {
    # field of tensormap.replace: what it is here, and its least and greatest value
    "box_dim": ("box", 1, 256),
    "global_dim": ("extents", 1, 1 << 32),
    "global_stride": ("strides", 0, (1 << 40) - 16),
    "element_stride": ("element_strides", 1, 8),
}


def replaced(tensor_map: TensorMap, field: str, value: int, ordinal: int = 0) -> TensorMap:
    """`tensor_map` with one field changed, as tensormap.replace numbers fields and values.

    Raises simulator.tensor-map-field.
    """
    if field == "global_address":
        _must(value % 16 == 0, field, value, None, "it is not a multiple of 16", "an address that is")
        return replace(tensor_map, address=value)
    if field == "rank":
        _must(0 <= value < MAX_RANK, field, value, None, "the rank less one is 0 to 4", "the rank less one")
        return _with_rank(tensor_map, value + 1)
    if field in _NUMBERED:
        name, values = _NUMBERED[field]
        _must(0 <= value < len(values), field, value, None, f"there are {len(values)} of them", "the number of one")
        changed: dict[str, Any] = {name: values[value]}
        return replace(tensor_map, **changed)
    name, least, most = _LISTS[field]
    held = getattr(tensor_map, "steps" if field == "element_stride" else name)
    _must(ordinal < len(held), field, value, ordinal, f"the map has {len(held)}", "a dimension of the map")
    if field == "global_dim" and value == 0:
        value = 1 << 32
    _must(least <= value <= most, field, value, ordinal, f"it is not in {least} to {most}", "a value in that range")
    if field == "global_stride":
        _must(value % 16 == 0, field, value, ordinal, "it is not a multiple of 16", "a stride that is")
    changed = {name: (*held[:ordinal], value, *held[ordinal + 1 :])}
    return replace(tensor_map, **changed)


def _with_rank(tensor_map: TensorMap, rank: int) -> TensorMap:
    """Another rank: dimensions are cut off, or come with extent 1 until they are set."""
    return replace(
        tensor_map,
        extents=(*tensor_map.extents, *(1,) * MAX_RANK)[:rank],
        strides=(*tensor_map.strides, *(16,) * MAX_RANK)[: rank - 1],
        box=(*tensor_map.box, *(1,) * MAX_RANK)[:rank] if tensor_map.mode == "tile" else tensor_map.box,
        element_strides=(*tensor_map.steps, *(1,) * MAX_RANK)[:rank],
    )


def _must(holds: bool, field: str, value: int, ordinal: int | None, problem: str, needs: str) -> None:
    if not holds:
        shown = "" if ordinal is None else f" {ordinal}"
        MAP_FIELD.fail(field=field, value=value, ordinal=shown, problem=problem, needs=needs)


def problem_of(tensor_map: TensorMap) -> str:
    """Why no copy can use the map, empty where nothing is wrong: what the driver's encoder would have refused."""
    kind = tensor_map.kind
    row = tensor_map.box[0] * kind.bits // 8
    pattern = f"swizzle {tensor_map.swizzle} with atoms of {tensor_map.atomicity}"
    problems = (
        (tensor_map.address % 16 != 0, f"its address {tensor_map.address:#x} is not a multiple of 16"),
        (any(stride % 16 for stride in tensor_map.strides), f"strides {tensor_map.strides} are not multiples of 16"),
        (tensor_map.interleave == 0 and row % 16 != 0, f"a row of its box takes {row} bytes, not a multiple of 16"),
        (not has_swizzle(tensor_map.swizzle, tensor_map.atomicity), f"{pattern} does not exist"),
        (
            0 < tensor_map.swizzle < tensor_map.box[0] // kind.count * kind.shared_pitch and tensor_map.interleave == 0,
            f"a row of its box is wider than its swizzle of {tensor_map.swizzle} bytes",
        ),
        (tensor_map.interleave == 32 and tensor_map.swizzle != 32, "interleave 32B needs swizzle 32"),
        (tensor_map.interleave != 0 and tensor_map.rank < 3, "an interleaved map has three dimensions or more"),
        (kind.oob_nan is None and tensor_map.fill == "nan", f"{kind.name} has no NaN to fill with"),
    )
    return next((text for wrong, text in problems if wrong), "")
