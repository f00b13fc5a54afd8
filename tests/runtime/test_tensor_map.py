"""Tensor-map checks against the driver's documented requirements, written down a second time, and what is encoded."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvbackend.diagnostics import Diagnostic, DiagnosticError
from nvbackend.intrinsics.row import types
from nvbackend.runtime import tensor_map
from nvbackend.runtime.arguments.arrays import DeviceArray, row_major_strides
from nvbackend.signature import TensorMap

ADDRESS = 0x7F0000000000
_WIDE = 1 << 40
WITHOUT_MAPS = {"e2m3", "e3m2", "pred", "f16x2", "bf16x2", "f32x2"}
"""Elements of 6 bits have maps with padding alone; of the others an array has the halves, or bits."""


def array(
    shape: tuple[int, ...], dtype: str = "float16", *, strides: tuple[int, ...] | None = None, offset: int = 0
) -> DeviceArray:
    item = numpy.dtype(dtype).itemsize
    return DeviceArray(ADDRESS + offset, shape, strides or row_major_strides(shape, item), dtype, item)


def found(parameter: TensorMap, given_array: DeviceArray) -> list[str]:
    broken = [*tensor_map.check_tensor_map("a", parameter), *tensor_map.check_array("a", parameter, given_array)]
    return [diagnostic.rule_id.removeprefix("tensor-map.") for diagnostic in broken]


def declared(element: types.ElementType, box: tuple[int, ...], swizzle: int) -> tuple[Diagnostic, ...]:
    """What a map is refused by where it is declared."""
    try:
        TensorMap(element, box, swizzle)
    except DiagnosticError as error:
        return error.diagnostics
    return ()


def test_plan_of_a_plain_matrix() -> None:
    plan = tensor_map.plan(TensorMap(types.f16, (128, 64), 128), array((4096, 1024)))
    assert plan == tensor_map.TensorMapPlan(
        ADDRESS, "FLOAT16", 2, (4096, 1024), (2048, 2), (128, 64), swizzle=128, l2_promotion=128
    )
    assert plan.__cuda_array_interface__["typestr"] == "<u2"
    assert tensor_map.plan(TensorMap(types.f16, (8, 64)), array((64, 64))).l2_promotion == 128


def test_numpy_understands_the_interface_of_a_plan() -> None:
    model = numpy.arange(6 * 32, dtype="float32").reshape(6, 32)[::2]
    seen = DeviceArray(model.ctypes.data, model.shape, model.strides, "float32", 4)
    plan = tensor_map.plan(TensorMap(types.f32, (2, 8), 32), seen)

    class Host:
        __array_interface__ = plan.__cuda_array_interface__

    numpy.testing.assert_array_equal(numpy.asarray(Host()).view("float32"), model)


@pytest.mark.parametrize(
    ("element", "dtype", "expected"),
    [
        (types.bf16, "uint16", ("BFLOAT16", 2)),
        (types.tf32, "float32", ("TFLOAT32", 4)),
        (types.e4m3, "uint8", ("UINT8", 1)),
        (types.s8, "int8", ("UINT8", 1)),
        (types.s32, "int32", ("INT32", 4)),
        (types.f64, "float64", ("FLOAT64", 8)),
    ],
    ids=str,
)
def test_element_types(element: types.ElementType, dtype: str, expected: tuple[str, int]) -> None:
    plan = tensor_map.plan(TensorMap(element, (8, 16), 0), array((64, 64), dtype))
    assert (plan.data_type, plan.item_bytes) == expected


def test_data_types_are_cuda_cores_with_the_size_of_the_storage() -> None:
    enums = pytest.importorskip("cuda.core._tensor_map")
    sizes = {"UINT8": 1, "UINT16": 2, "FLOAT16": 2, "BFLOAT16": 2, "FLOAT64": 8, "INT64": 8, "UINT64": 8}
    for element in types.BY_NAME.values():
        if element.name not in WITHOUT_MAPS:
            plan = tensor_map.plan(TensorMap(element, (8, 128), 0), array((64, 128), element.storage))
            assert plan.data_type in enums.TensorMapDataType.__members__
            assert sizes.get(plan.data_type, 4) == numpy.dtype(element.storage).itemsize


@pytest.mark.parametrize("name", sorted(WITHOUT_MAPS))
def test_other_elements_have_no_maps(name: str) -> None:
    """Where the map is declared: neither a copy, a reduction nor the launcher in C comes to see one."""
    with pytest.raises(DiagnosticError, match=f"cannot have elements of {name}") as caught:
        TensorMap(types.BY_NAME[name], (8, 128), 0)
    assert [(one.rule_id, one.location.file) for one in caught.value.diagnostics] == [("tensor-map.element", __file__)]


def test_packed_elements_are_counted_in_bytes() -> None:
    parameter = TensorMap(types.e2m1, (8, 256), 128)
    assert not found(parameter, array((64, 512), "uint8"))
    assert tensor_map.plan(parameter, array((64, 512), "uint8")).box == (8, 128)
    deep = tensor_map.plan(TensorMap(types.e2m1, (3, 5, 8, 256), 128), array((7, 6, 64, 512), "uint8"))
    assert deep.box == (3, 5, 8, 128)
    assert [one.rule_id for one in declared(types.e2m1, (8, 1024), 0)] == ["tensor-map.box"]
    assert [one.rule_id for one in declared(types.e2m1, (8, 24), 0)] == ["tensor-map.box-bytes"]


@pytest.mark.parametrize(
    ("parameter", "given_array", "expected"),
    [
        (TensorMap(types.f16, (8, 64)), array((64,)), ["rank"]),
        (TensorMap(types.f16, (8, 64)), array((2, 64, 64)), ["rank"]),
        (TensorMap(types.f16, (8, 64)), array((0, 64)), ["extent"]),
        (TensorMap(types.f16, (8, 64)), array((0, 64), strides=(0, 0)), ["extent"]),
        (TensorMap(types.f16, (8, 64)), array(((1 << 32) + 1, 64)), ["extent"]),
        (TensorMap(types.f16, (8, 64)), array((64, 64), offset=8), ["address"]),
        (TensorMap(types.f16, (8, 64)), array((64, 64), strides=(2, 128)), ["inner-stride"]),
        (TensorMap(types.f16, (8, 64)), array((64, 60)), ["stride"]),
        (TensorMap(types.f16, (8, 64)), array((64, 64), strides=(-128, 2)), ["stride"]),
        (TensorMap(types.f16, (8, 64)), array((64, 64), strides=(0, 2)), ["stride"]),
        (TensorMap(types.f16, (8, 64)), array((64, 64), strides=(_WIDE, 2)), ["stride"]),
        (TensorMap(types.f16, (8, 64)), array((64, 60), offset=2), ["address", "stride"]),
    ],
    ids=str,
)
def test_each_requirement(parameter: TensorMap, given_array: DeviceArray, expected: list[str]) -> None:
    assert found(parameter, given_array) == expected


@pytest.mark.parametrize(
    ("box", "swizzle", "expected"),
    [
        ((), 0, ["box-rank"]),
        ((1,) * 5 + (8,), 0, ["box-rank"]),
        ((257, 64), 128, ["box"]),
        ((0, 64), 128, ["box"]),
        ((8, 12), 32, ["box-bytes"]),
        ((8, 128), 128, ["swizzle"]),
        ((8, 64), 64, ["swizzle"]),
        ((8, 48), 64, ["swizzle"]),
        ((300, 128), 128, ["box", "swizzle"]),
    ],
    ids=str,
)
def test_each_requirement_of_a_box(box: tuple[int, ...], swizzle: int, expected: list[str]) -> None:
    assert [one.rule_id.removeprefix("tensor-map.") for one in declared(types.f16, box, swizzle)] == expected


@pytest.mark.parametrize("inner", [16, 32, 48, 64, 96, 128, 256])
@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_the_swizzles_that_are_advised_are_those_that_fit(inner: int, swizzle: int) -> None:
    told = declared(types.u8, (8, inner), swizzle)
    assert [one.rule_id for one in told] == ["tensor-map.swizzle"] * (inner > swizzle)
    for one in told:
        fits = [span for span in (0, 32, 64, 128) if span == 0 or inner <= span]
        assert one.values["allowed"] == ", ".join(map(str, fits))
        assert one.values["elements"] == swizzle


@pytest.mark.parametrize(
    ("element", "inner", "unit"),
    [(types.e2m1, 1024, " bytes"), (types.b1, 4096, " bytes"), (types.e4m3, 512, ""), (types.f16, 512, "")],
    ids=str,
)
def test_a_box_says_what_it_is_counted_in(element: types.ElementType, inner: int, unit: str) -> None:
    """The map of types narrower than a byte counts bytes along the innermost dimension, and elements along others."""
    told = [one.message for one in declared(element, (300, inner), 0)]
    assert [one.rpartition("of box ")[2] for one in told] == [
        f"(300, {inner}) is not in 1 to 256",
        f"(300, {inner}) is not in 1 to 256{unit}",
    ]
    assert [one.partition("of dimension")[0] for one in told] == [
        f"tensor map of {element}: extent 300 ",
        f"tensor map of {element}: extent 512 ",
    ]


@pytest.mark.parametrize(
    ("parameter", "given_array"),
    [
        (TensorMap(types.f16, (256, 64), 128), array((1 << 32, 64))),
        (TensorMap(types.f16, (256, 64), 128), array((64, 64), strides=(_WIDE - 16, 2))),
        (TensorMap(types.f16, (8, 256), 0), array((64, 256))),
        (TensorMap(types.f16, (8,), 0), array((3,))),
        (TensorMap(types.u8, (1, 2, 3, 4, 16), 32), array((2, 2, 2, 2, 16), "uint8")),
        (TensorMap(types.f16, (8, 64), 128), array((1, 60), strides=(7, 2))),
    ],
    ids=str,
)
def test_the_edge_that_is_still_allowed(parameter: TensorMap, given_array: DeviceArray) -> None:
    assert not found(parameter, given_array)


def test_stride_of_an_extent_of_one_is_replaced() -> None:
    plan = tensor_map.plan(TensorMap(types.f16, (1, 8, 8), 0), array((1, 5, 1), strides=(2, 16, 999)))
    assert plan.strides == (80, 16, 2)
    assert tensor_map.plan(TensorMap(types.f16, (8, 64), 0), array((1, 60), strides=(7, 2))).strides == (128, 2)


def _documented(box: tuple[int, ...], swizzle: int, given_array: DeviceArray) -> bool:
    """cuTensorMapEncodeTiled's requirements, transcribed from its documentation (interleave none)."""
    strides = given_array.strides[:-1]
    inner = box[-1] * given_array.item_bytes
    return (
        given_array.pointer % 16 == 0
        and 1 <= len(box) <= 5
        and all(0 < extent <= 2**32 for extent in given_array.shape)
        and all(stride % 16 == 0 and 0 < stride < 2**40 for stride in strides)
        and all(0 < extent <= 256 for extent in box)
        and inner % 16 == 0
        and (swizzle == 0 or inner <= swizzle)
    )


@given(
    st.sampled_from([(types.f16, "float16"), (types.f32, "float32"), (types.s8, "int8"), (types.f64, "float64")]),
    st.lists(st.tuples(st.integers(2, 40), st.integers(0, 260)), min_size=1, max_size=5),
    st.sampled_from([0, 32, 64, 128]),
    st.sampled_from([0, 8, 16]),
)
def test_whatever_passes_is_what_the_documentation_allows(
    element: tuple[types.ElementType, str], dimensions: list[tuple[int, int]], swizzle: int, offset: int
) -> None:
    shape, box = zip(*dimensions, strict=True)
    given_array = array(shape, element[1], offset=offset)
    passes = not declared(element[0], box, swizzle) and not found(TensorMap(element[0], box, swizzle), given_array)
    assert passes == _documented(box, swizzle, given_array)


def test_diagnostics_state_the_values() -> None:
    [diagnostic] = tensor_map.check_array("weights", TensorMap(types.f16, (8, 64)), array((64, 60)))
    assert "weights" in diagnostic.message
    assert "stride of 120 bytes" in diagnostic.message
    assert "multiple of 8 elements" in diagnostic.fix


class _Refusing:
    """A view whose description cuda.core does not take."""

    @classmethod
    def from_cuda_array_interface(cls, description: object, stream_ptr: int) -> _Refusing:
        return cls()

    def as_tensor_map(self, **options: object) -> object:
        raise ValueError("a stride it does not like")


@pytest.mark.parametrize(
    ("view", "rule"), [(object, "tensor-map.unavailable"), (_Refusing, "tensor-map.encoding-failed")]
)
def test_what_cuda_core_can_not_do_is_a_diagnostic(view: type, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuda.core.utils.StridedMemoryView", view)
    monkeypatch.setattr("cuda.core.__version__", "0.9")
    with pytest.raises(DiagnosticError) as raised:
        tensor_map.encode("a", tensor_map.plan(TensorMap(types.f16, (8, 64)), array((64, 64))))
    assert [diagnostic.rule_id for diagnostic in raised.value.diagnostics] == [rule]
    assert ("a stride it does not like" in str(raised.value)) == (view is _Refusing)


def test_cache_encodes_once_and_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []

    def encode(name: str, plan: tensor_map.TensorMapPlan) -> object:
        encoded.append(plan.pointer)
        return object()

    monkeypatch.setattr(tensor_map, "encode", encode)
    cache = tensor_map.TensorMapCache()
    parameter = TensorMap(types.f16, (8, 64))
    plans = [
        tensor_map.plan(parameter, array((64, 64), offset=128 * index)) for index in range(tensor_map.CACHED_MAPS + 1)
    ]
    first = cache.get("a", plans[0])
    assert cache.get("a", tensor_map.plan(parameter, array((64, 64)))) is first
    assert len(encoded) == 1
    for plan in plans[1:-1]:
        cache.get("a", plan)
    assert cache.get("a", plans[0]) is first, "used again: not the oldest any more"
    cache.get("a", plans[-1])
    assert cache.get("a", plans[0]) is first
    cache.get("a", plans[1])
    assert encoded.count(plans[1].pointer) == 2, "the oldest went"


@pytest.mark.parametrize(
    ("columns", "box", "dtype", "promotion"),
    [
        (255, 256, "uint8", 128),
        (256, 256, "uint8", 256),
        (512, 240, "uint8", 128),
        (128, 128, "float16", 256),
        (512, 64, "float16", 128),
    ],
)
def test_rows_of_256_bytes_are_fetched_whole(columns: int, box: int, dtype: str, promotion: int) -> None:
    """CUtensorMapL2promotion: bytes that a miss fetches; those past a row of the box or of the array are of no box."""
    element = types.u8 if dtype == "uint8" else types.f16
    planned = tensor_map.plan(
        TensorMap(element, (8, box), 0), array((64, columns), dtype, strides=(1024, element.bits // 8))
    )
    assert planned.l2_promotion == promotion
