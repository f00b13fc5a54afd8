"""Tensor maps in im2col mode: the driver's documented requirements, written down a second time, and what is encoded."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row import types
from nvbackend.runtime import tensor_map
from nvbackend.runtime.arguments.arrays import DeviceArray, row_major_strides
from nvbackend.signature import Im2col, Parameter, TensorMap

SHAPES = {3: (2, 9, 64), 4: (2, 9, 7, 64), 5: (2, 5, 6, 7, 64)}


def array(shape: tuple[int, ...]) -> DeviceArray:
    return DeviceArray(0x7F0000000000, shape, row_major_strides(shape, 2), "float16", 2)


def found(parameter: TensorMap, shape: tuple[int, ...]) -> list[str]:
    broken = [
        *tensor_map.check_tensor_map("a", parameter),
        *(tensor_map.check_array("a", parameter, array(shape)) if len(parameter.box) == 2 else ()),
    ]
    return [diagnostic.rule_id.removeprefix("tensor-map.") for diagnostic in broken]


def im2col(rank: int, lower: int, upper: int, box: tuple[int, ...] = (64, 16), swizzle: int = 32) -> TensorMap:
    space = rank - 2
    return TensorMap(types.f16, box, swizzle, Im2col(rank, (lower,) * space, (upper,) * space))


def test_rank_and_bytes_are_those_of_the_array_and_of_a_copy() -> None:
    parameter = im2col(5, -1, -1)
    assert parameter.rank == 5
    assert parameter.bytes == 64 * 16 * 2
    assert TensorMap(types.f16, (8, 64)).rank == 2


@given(
    st.sampled_from(sorted(SHAPES)),
    st.one_of(st.integers(-20, 20), st.integers(-40000, 40000), st.sampled_from([-129, -128, 127, 128, -17, -16])),
    st.integers(-20, 20),
    st.integers(0, 1100),
    st.sampled_from([0, 8, 16, 20, 64, 256, 264]),
    st.sampled_from([0, 32, 64, 128]),
)
def test_whatever_passes_is_what_the_documentation_allows(
    rank: int, lower: int, upper: int, pixels: int, channels: int, swizzle: int
) -> None:
    low, high = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}[rank]
    documented = (
        low <= lower <= high
        and low <= upper <= high
        and all(extent + upper - lower > 0 for extent in SHAPES[rank][1:-1])
        and 1 <= pixels <= 1024
        and 1 <= channels <= 256
        and channels * 2 % 16 == 0
        and (swizzle == 0 or channels * 2 <= swizzle)
    )
    try:
        passes = not found(im2col(rank, lower, upper, (pixels, channels), swizzle), SHAPES[rank])
    except DiagnosticError:
        passes = False
    assert passes == documented


@pytest.mark.parametrize(
    ("walk", "box", "swizzle", "rule"),
    [
        (Im2col(2, (), ()), (64, 16), 32, "im2col-rank"),
        (Im2col(6, (0,) * 4, (0,) * 4), (64, 16), 32, "im2col-rank"),
        (Im2col(4, (0,), (0, 0)), (64, 16), 32, "im2col-corners"),
        (Im2col(4, (0, 0), (0,), "w"), (64, 32), 64, "im2col-corners"),
        (Im2col(4, (0,), (0,), "h"), (64, 32), 64, "im2col-wide"),
        (Im2col(4, (0,), (0,), "w"), (64, 16), 32, "im2col-wide"),
        (Im2col(4, (0,), (0,), "w128"), (64, 32), 64, "im2col-wide"),
    ],
)
def test_what_can_not_be_is_told_by_its_rule(walk: Im2col, box: tuple[int, ...], swizzle: int, rule: str) -> None:
    told = [
        one.rule_id.removeprefix("tensor-map.")
        for one in tensor_map.check_tensor_map("a", TensorMap(types.f16, box, swizzle, walk))
    ]
    assert told == [rule]


@pytest.mark.parametrize("wide", [None, "w", "w128"])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_each_corner_goes_up_to_its_own_limit(rank: int, wide: str | None) -> None:
    """cuTensorMapEncodeIm2col: [-2^15, 2^15-1] for rank 3, [-2^7, 2^7-1] for 4, [-2^4, 2^4-1] for 5; wide as for 3."""
    bits = 15 if wide else {3: 15, 4: 7, 5: 4}[rank]
    count = 1 if wide else rank - 2
    for place in range(2 * count):
        for corner, legal in ((-(2**bits) - 1, False), (-(2**bits), True), (2**bits - 1, True), (2**bits, False)):
            corners = [0] * 2 * count
            corners[place] = corner
            walk = Im2col(rank, tuple(corners[:count]), tuple(corners[count:]), wide)
            told = [*tensor_map.check_tensor_map("a", TensorMap(types.f16, (128, 32), 64, walk))]
            assert [one.rule_id for one in told] == ([] if legal else ["tensor-map.im2col-corners"])
            assert all(f"{-(2**bits)} to {2**bits - 1}" in one.message for one in told)


@pytest.mark.parametrize(
    ("wide", "box", "rules"),
    [
        (None, (0, 32), ["box"]),
        (None, (1, 32), []),
        (None, (1024, 32), []),
        (None, (1025, 32), ["box"]),
        (None, (64, 0), ["box"]),
        (None, (64, 256), []),
        (None, (64, 264), ["box"]),
        ("w", (1024, 32), []),
        ("w", (1025, 32), ["box"]),
        ("w128", (127, 32), ["im2col-wide"]),
        ("w128", (128, 32), []),
        ("w128", (129, 32), ["im2col-wide"]),
    ],
)
def test_pixels_and_channels_at_their_edges(wide: str | None, box: tuple[int, int], rules: list[str]) -> None:
    """cuTensorMapEncodeIm2col: 1 to 1024 pixels, 1 to 256 channels; in mode W128 it is always 128 pixels."""
    walk = Im2col(4, (0,) * (1 if wide else 2), (0,) * (1 if wide else 2), wide)
    try:
        told = [*tensor_map.check_tensor_map("a", TensorMap(types.f16, box, 64 if wide else 0, walk))]
    except DiagnosticError as error:
        told = [*error.diagnostics]
    assert [one.rule_id.removeprefix("tensor-map.") for one in told] == rules


def test_no_pixel_between_the_corners() -> None:
    assert found(im2col(4, 2, -5), SHAPES[4]) == ["im2col-area"]
    assert found(im2col(4, 2, -4), SHAPES[4]) == []


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_a_walk_along_w_asks_nothing_of_the_other_dimensions(rank: int) -> None:
    """Its corners are of W alone, whose extent is 64 here; all other extents are too small for them."""
    shape = (2, *(1, 1, 64)[5 - rank :], 32)
    for upper, expected in ((-60, []), (-61, []), (-62, ["im2col-area"])):
        walk = TensorMap(types.f16, (64, 32), 64, Im2col(rank, (2,), (upper,), "w"))
        assert found(walk, shape) == expected


def test_another_rank_of_the_array() -> None:
    assert found(im2col(4, 0, 0), SHAPES[5]) == ["rank"]


class _View:
    """What cuda.core makes a description of."""

    as_tensor_map = None

    @classmethod
    def from_cuda_array_interface(cls, description: object, stream_ptr: int) -> _View:
        return cls()


@pytest.mark.parametrize("wide", [None, "w128"])
def test_what_is_encoded(wide: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The helpers of cuda.core get corners outermost first, then channels and pixels, in that order."""
    import cuda.core._tensor_map as enums

    calls: list[tuple[object, ...]] = []

    class Descriptor:
        @staticmethod
        def _from_im2col(_: object, *given: object, **options: object) -> None:
            calls.append((*given, options["swizzle"].name))  # type: ignore[attr-defined]

        @staticmethod
        def _from_im2col_wide(_: object, *given: object, mode: object, **options: object) -> None:
            calls.append((*given, mode.name, options["swizzle"].name))  # type: ignore[attr-defined]

    monkeypatch.setattr("cuda.core.utils.StridedMemoryView", _View)
    monkeypatch.setattr(enums, "TensorMapDescriptor", Descriptor)
    corners = ((-1, -2), (-3, -4)) if wide is None else ((-2,), (-4,))
    parameter = TensorMap(types.f16, (128, 32), 64, Im2col(4, *corners, wide))
    tensor_map.encode("a", tensor_map.plan(parameter, array((2, 16, 16, 64))))
    expected = (
        ((-1, -2), (-3, -4), 32, 128, "SWIZZLE_64B") if wide is None else (-2, -4, 32, 128, "W128", "SWIZZLE_64B")
    )
    assert calls == [expected]


def test_a_map_takes_no_other_box_for_one() -> None:
    with pytest.raises(DiagnosticError, match="must have 2, pixels and channels") as caught:
        TensorMap(types.f16, (4, 8, 16), 32, Im2col(4, (0, 0), (0, 0)))
    assert [one.rule_id for one in caught.value.diagnostics] == ["tensor-map.box-rank"]


@pytest.mark.parametrize("corner", [(0.5, 0), 0, "00"])
def test_a_corner_is_a_tuple_of_integers(corner: Any) -> None:
    assert Im2col(4, [0, 0], (0, 0)) == Im2col(4, (0, 0), (0, 0))
    with pytest.raises(DiagnosticError, match=r"call\.argument.*Im2col: lower.* must be "):
        Im2col(4, corner, (0, 0))


def test_a_kernel_that_loads_pixels_compiles() -> None:
    parameter = TensorMap(types.f16, (32, 16), 0, Im2col(4, (-1, -1), (-1, -1)))
    k = nvb.KernelBuilder("use", "sm_90a", threads=32, parameters=[Parameter("a", parameter)])
    (pixels,) = k.arguments
    full = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    tile = k.shared(types.f16, 32 * 16, align=128)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=parameter.bytes)
        k.tma.load_box(tile, pixels, [0, -1, -1, 0], full, mode="im2col", offsets=[1, 2])
    k.mbarrier.wait(full, 0)
    compiled = k.compile()
    assert compiled.cubin
    assert "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier" in compiled.ptx


@pytest.mark.parametrize(
    ("stride", "wide", "legal"),
    [
        ((1, 1), None, True),
        ((8, 8), None, True),
        ((0, 1), None, False),
        ((1, 9), None, False),
        ((2,), None, False),
        ((2,), "w", True),
        ((2, 2), "w", False),
    ],
)
def test_strides_are_from_one_to_eight(stride: tuple[int, ...], wide: str | None, legal: bool) -> None:
    """cuTensorMapEncodeIm2col: each entry in elementStrides is at most 8 and not zero."""
    corners = (0,) * (1 if wide else 2)
    walk = Im2col(4, corners, corners, wide, stride)
    told = tensor_map.check_tensor_map("a", TensorMap(types.f16, (64, 32), 64, walk))
    assert [one.rule_id for one in told] == ([] if legal else ["tensor-map.im2col-stride"])


def test_the_driver_gets_strides_outermost_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.core._tensor_map")
    import cuda.core._tensor_map as enums

    strides: list[object] = []

    class Descriptor:
        @staticmethod
        def _from_im2col(*_: object, element_strides: object = None, **_options: object) -> None:
            strides.append(element_strides)

    monkeypatch.setattr("cuda.core.utils.StridedMemoryView", _View)
    monkeypatch.setattr(enums, "TensorMapDescriptor", Descriptor)
    for stride in (None, (2, 3)):
        parameter = TensorMap(types.f16, (64, 32), 64, Im2col(4, (-1, -1), (-1, -1), stride=stride))
        tensor_map.encode("a", tensor_map.plan(parameter, array((2, 16, 16, 64))))
    assert strides == [None, (1, 2, 3, 1)]


def test_a_convolution_has_corners_and_steps() -> None:
    """Of extent R, padding p, stride s and dilation d there are (W + 2 p - d (R - 1) - 1) // s + 1 outputs."""
    for extent, padding, stride, dilation, width in itertools.product(
        (1, 2, 3, 5), (0, 1, 2), (1, 2, 3), (1, 2), (9, 12)
    ):
        walk = Im2col.of_convolution((1, extent), (0, padding), (1, stride), (1, dilation))
        outputs = (width + 2 * padding - dilation * (extent - 1) - 1) // stride + 1
        assert walk.walked((2, 4, width, 64)) == (4, outputs)
        assert (walk.lower, walk.upper) == ((0, -padding), (0, padding - dilation * (extent - 1)))
    assert Im2col.of_convolution((3, 3, 3)) == Im2col(5, (0, 0, 0), (-2, -2, -2))


@pytest.mark.parametrize(
    "wrong", [((0, 1),), ((3, 3), (1,)), ((3, 3), (1, 1), (0, 1)), ((3,), (1,), (1,), (0,)), ((),)]
)
def test_what_is_no_convolution_is_refused(wrong: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(DiagnosticError, match=r"tensor-map\.convolution"):
        Im2col.of_convolution(*wrong)
