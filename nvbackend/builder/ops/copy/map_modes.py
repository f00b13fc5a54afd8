"""Which mode a tensor map is for: boxes of a tensor, or pixels of a convolution."""

from __future__ import annotations

from nvbackend.builder.core.parameters import TensorMapParameter
from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.row import Row

MAP_MODE = Rule(
    id="tma.map-mode",
    message="{name} is a map {made}, and {instruction} in mode {mode} takes one {wanted}",
    fix="copy in the map's own mode, k.tma.load_box(..., mode={own!r}), or declare it as TensorMap(..., "
    "im2col={im2col})",
    why=("The map has another meaning in the other mode: the copy stops the kernel, or moves other elements."),
    reference="PTX ISA 5.5.3 to 5.5.5 (tiled, im2col and im2col::w modes), 9.7.9 (cp.async.bulk.tensor)",
)

_WIDE_OF_MODE = {"im2col::w": "w", "im2col::w::128": "w128"}
_MODES = {None: "im2col"} | {wide: mode for mode, wide in _WIDE_OF_MODE.items()}


def check_mode(tensor_map: TensorMapParameter, row: Row) -> None:
    """Raises tma.map-mode where the map was declared for another mode than `row` has."""
    mode, walk = str(row.axes["mode"]), tensor_map.type.im2col
    made = _kind(walk is not None, None if walk is None else walk.wide)
    wanted = _kind(mode.startswith("im2col"), _WIDE_OF_MODE.get(mode))
    if made != wanted:
        im2col = "Im2col(rank, lower, upper, wide)" if mode.startswith("im2col") else None
        own = "tile" if walk is None else _MODES[walk.wide]
        MAP_MODE.fail(
            name=tensor_map.name, made=made, instruction=row.opcode, mode=mode, wanted=wanted, im2col=im2col, own=own
        )


def _kind(im2col: bool, wide: str | None) -> str:
    return f"of pixels along W ({wide!r})" if wide else "of pixels" if im2col else "of boxes"
