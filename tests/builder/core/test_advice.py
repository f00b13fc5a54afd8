"""Advice in the words of the program, that works when it is followed: one test a mistake, with its correction."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import Major, Pointer, Swizzle, TensorMap, f16, f32, f64, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import Layout
from nvbackend.signature import Parameter, Scalar
from nvbackend.tiled.copy_atom import universal_copy


def builder(cluster=1):
    types = {"m": Pointer[i32], "h": Pointer[f16], "d": Pointer[f64], "a": TensorMap(f16, box=(64, 64), swizzle=128)}
    parameters = [Parameter(name, kind) for name, kind in types.items()] + [Parameter("n", Scalar(i32))]
    return KernelBuilder("k", "sm_90a", threads=128, cluster=cluster, parameters=parameters)


def said(call, cluster=1):
    k = builder(cluster)
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(k, *k.arguments)
    (found,) = caught.value.diagnostics
    assert found.location is not None
    assert found.location.file == __file__
    return found


@pytest.mark.parametrize("call", ["thread_id", "block_id", "block_count"])
def test_an_axis_that_there_is_not(call) -> None:
    assert "'w' is not an axis; x, y and z are" in said(lambda k, *_: getattr(k, call)("w")).message


def test_values_that_are_shuffled_have_32_bits() -> None:
    narrow = said(lambda k, m, h, d, a, n: k.warp.shuffle(h[0], "idx", 0))
    assert "32 bits, and this f16 has 16" in narrow.message
    assert ".to(f32)" in narrow.fix
    assert "halves" in said(lambda k, m, h, d, a, n: k.warp.shuffle(d[0], "idx", 0)).fix
    k = builder()
    h = k.arguments[1]
    h[0] = k.warp.shuffle(h[0].to(f32), "idx", 0).to(f16)
    k.finish()


def test_a_rank_without_a_cluster_asks_for_one() -> None:
    found = said(lambda k, m, h, d, a, n: k.cluster.map_shared_rank(k.shared(f32, 4), 1), cluster=1)
    assert "cluster=2" in (found.fix or "")


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (lambda x: x**2, "multiply, x * x"),
        (abs, "k.select(x < 0, -x, x)"),
        (round, "rounds towards zero"),
        (len, "a parameter of its own"),
        (range, "with k.range(n) as i"),
    ],
)
def test_what_python_cannot_do_with_a_value(use, advice) -> None:
    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, out: Pointer[i32], n: i32):
        out[0] = use(n)

    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "value.number"
    assert advice in (found.fix or "")


def test_a_negative_sleep_is_not_a_long_one() -> None:
    assert "several times" in (said(lambda k, m, h, d, a, n: k.nanosleep(2_000_000)).fix or "")
    assert "count from 0" in (said(lambda k, m, h, d, a, n: k.nanosleep(-1)).fix or "")


def test_global_memory_is_not_in_a_peer() -> None:
    found = said(lambda k, m, h, d, a, n: k.cluster.map_shared_rank(m, 0), cluster=2)
    assert "which is not an address of shared memory" in found.message
    assert "global address of s32" in found.message


def test_a_box_goes_to_the_address_of_a_tile() -> None:
    layout = nvb.SmemLayout(Major.K, Swizzle.B128, f16, 64, 64)

    def load(k, place):
        tile, full = k.shared_tile(layout), k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=layout.bytes)
            k.tma.load_box(place(tile), k.arguments[3], (0, 0), full)
        k.mbarrier.wait(full, 0)

    assert "tile.address" in said(lambda k, *_: load(k, lambda tile: tile.at(0, 0))).fix
    k = builder()
    load(k, lambda tile: tile.address)
    k.finish()


@pytest.mark.parametrize("use", ["x[0] = 1.0", "x[0]", "k.var(x)[0]"])
def test_a_scalar_is_not_memory(use) -> None:
    scope = {"nvb": nvb}
    text = f"def kernel(k, x: nvb.f32):\n    {use}\n"
    exec(compile(text, __file__, "exec"), scope)
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.kernel("sm_90a", threads=32)(scope["kernel"]).build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "value.type"
    assert "nvb.Pointer(nvb.f32)" in found.fix


@nvb.kernel("sm_90a", threads=32)
def scaled(k, x: Pointer[f32], *, factor=2.0, optimize=1.0):
    x[0] = x[0] * factor + optimize


def test_constants_are_given_by_name_or_together() -> None:
    named, together = scaled.build(factor=3.0), scaled.build(constants={"factor": 3.0})
    assert named.ir == together.ir != scaled.build().ir
    wanted = scaled.compile(constants={"factor": 3.0}, assemble=False).ptx
    assert scaled.compile(factor=3.0, assemble=False).ptx == wanted
    assert scaled.compile(assemble=False).ptx != wanted


def test_an_option_is_not_taken_for_a_constant_of_its_name() -> None:
    plain = scaled.compile(optimize=3, assemble=False).ptx
    assert scaled.compile(assemble=False).ptx == plain
    assert scaled.compile(constants={"optimize": 5.0}, assemble=False).ptx != plain


@pytest.mark.parametrize("call", [scaled.build, scaled.compile])
def test_a_constant_is_given_once(call) -> None:
    with pytest.raises(nvb.DiagnosticError, match="'factor' is given twice"):
        call(factor=3.0, constants={"factor": 4.0})


def test_a_copy_of_an_unknown_stride_is_told_of_the_promise() -> None:
    def copy(k, m, h, d, a, n, **promise):
        part = k.tensor(h, Layout(((8, 1), 8), ((1, 0), n)), **promise)
        registers = k.register_tensor(f16, ((8, 1), 8))
        k.copy(universal_copy(f16, 128), part, registers)

    assert "multiple_of=8" in said(copy).fix
    k = builder()
    copy(k, *k.arguments, multiple_of=8)
    k.finish()
