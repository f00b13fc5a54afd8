"""Which bits of a tensor map each argument of the driver's encoders decides, measured on a machine with a GPU.

Each argument is changed alone, from one map in tile mode and one of im2col, and the bits are printed that differ from
the map before it and that no field of `nvbackend.TensorMapWord` has, or that do not read back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import nvbackend as nvb

ADDRESS = 0x7F00_0000_0000
IM2COL_BIT = 1 << 64
"""Set in maps for im2col copies, which `nvbackend.TensorMapWord` does not read."""
TILE: dict[str, Any] = {
    "data_type": "FLOAT16",
    "address": ADDRESS,
    "shape": (64, 56, 48, 8),
    "strides": (128, 7168, 344064),
    "box": (64, 4, 2, 1),
    "steps": (1, 1, 1, 1),
    "interleave": "NONE",
    "swizzle": "128B",
    "l2_promotion": "NONE",
    "fill": "NONE",
}
IM2COL: dict[str, Any] = {name: value for name, value in TILE.items() if name != "box"}
IM2COL |= {"lower": (0, 0), "upper": (0, 0), "channels": 64, "pixels": 16}
CHANGES: dict[str, tuple[Any, ...]] = {
    "address": (ADDRESS + 4096,),
    "strides": ((256, 14336, 688128),),
    "shape": ((64, 56, 48, 9), (63, 55, 47, 7)),
    "l2_promotion": ("L2_64B", "L2_128B", "L2_256B"),
    "fill": ("NAN_REQUEST_ZERO_FMA",),
    "data_type": ("BFLOAT16", "UINT16"),
    "swizzle": ("NONE",),
    "steps": ((1, 2, 3, 1),),
    "box": ((32, 3, 1, 2),),
    "lower": ((1, 0), (-1, 0), (0, 1), (0, -1), (-128, -127)),
    "upper": ((1, 0), (-1, 0), (0, 1), (0, -1), (127, 126)),
    "channels": (32, 8),
    "pixels": (17, 256, 1024),
}


def encoded(driver: Any, given: Mapping[str, Any]) -> int:
    """The map that the driver makes of these arguments, as one number of 1024 bits."""
    sizes, words = driver.cuuint64_t, driver.cuuint32_t
    start = (
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{given['data_type']}"),
        len(given["shape"]),
        given["address"],
        [sizes(extent) for extent in given["shape"]],
        [sizes(stride) for stride in given["strides"]],
    )
    end = (
        [words(step) for step in given["steps"]],
        getattr(driver.CUtensorMapInterleave, f"CU_TENSOR_MAP_INTERLEAVE_{given['interleave']}"),
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{given['swizzle']}"),
        getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{given['l2_promotion']}"),
        getattr(driver.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{given['fill']}"),
    )
    if "box" in given:
        status, made = driver.cuTensorMapEncodeTiled(*start, [words(extent) for extent in given["box"]], *end)
    else:
        walk = (list(given["lower"]), list(given["upper"]), given["channels"], given["pixels"])
        status, made = driver.cuTensorMapEncodeIm2col(*start, *walk, *end)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{status}: {given}")
    return sum(int(part) << 64 * place for place, part in enumerate(made.opaque))


def ranges(bits: int) -> str:
    """The places of the bits that are set, such as `81-82, 85`."""
    found: list[list[int]] = []
    for place in range(bits.bit_length()):
        if bits >> place & 1:
            if found and found[-1][1] == place - 1:
                found[-1][1] = place
            else:
                found.append([place, place])
    return ", ".join(f"{low}-{high}" if high > low else str(low) for low, high in found) or "none"


def unnamed(word: int) -> int:
    """The bits of a map that no field of `nvbackend.TensorMapWord` has."""
    return nvb.TensorMapWord.decode(word & ~IM2COL_BIT).other | word & IM2COL_BIT


def lines(driver: Any) -> Iterator[str]:
    """The report."""
    for title, base in (("tile", TILE), ("im2col", IM2COL)):
        plain = encoded(driver, base)
        yield f"{title}: {plain.to_bytes(128, 'little').hex(' ', 8)}"
        yield f"  bits that no field has: {ranges(unnamed(plain))}"
        for name, values in CHANGES.items():
            for value in values if name in base else ():
                word = encoded(driver, {**base, name: value})
                changed = f"set {ranges(word & ~plain)}; cleared {ranges(plain & ~word)}"
                yield f"  {name} = {value}: {changed}; unnamed {ranges(unnamed(word) ^ unnamed(plain))}"


def main() -> None:
    """Print the report."""
    from cuda.bindings import driver
    from cuda.core import Device

    Device().set_current()
    for line in lines(driver):
        print(line)


if __name__ == "__main__":
    main()
