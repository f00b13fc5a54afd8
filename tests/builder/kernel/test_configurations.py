"""One definition for several configurations: bounds and types of parameters that depend on constants of the build."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, i32, runtime
from tests.support.compiled_again import Runs

BUILT: list[int] = []


@nvb.kernel(
    "sm_90a",
    threads=lambda warps, rows: (32, warps) if rows > 8 else 32 * warps,
    cluster=lambda ctas: ctas,
    min_ctas=lambda warps: 2 if warps < 8 else None,
    max_registers=lambda warps: 64 if warps < 8 else None,
)
def copied(
    k,
    source: Annotated[nvb.TensorMap, lambda rows: nvb.TensorMap(f16, box=(rows, 64), swizzle=0)],
    out: nvb.Pointer[i32],
    *,
    warps: int = 4,
    ctas: int = 1,
    rows: int = 8,
):
    out[k.block_id() * k.threads + k.thread_id("linear")] = source.type.box[0] + k.warp_id() * 100


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("rows", [8, 16])
def test_bounds_and_boxes_follow_the_constants(warps, ctas, rows) -> None:
    finished = copied.build(warps=warps, ctas=ctas, rows=rows)
    bounds = finished.signature.bounds
    assert bounds.shape == ((32, warps, 1) if rows > 8 else (32 * warps, 1, 1))
    assert (bounds.cluster, bounds.min_ctas) == (ctas, 2 if warps < 8 else None)
    assert finished.signature.parameters[0].type == nvb.TensorMap(f16, box=(rows, 64), swizzle=0)
    assert ("maxnreg" in finished.ir) == (warps < 8)


def test_a_configuration_is_launched() -> None:
    for warps in (2, 3):
        out = np.zeros(32 * warps, np.int32)
        loaded = runtime.load(copied.compile(warps=warps, rows=16, assemble=False), device="simulator")
        loaded.launch(1, np.zeros((16, 64), np.float16), out)
        assert np.array_equal(out, 16 + np.arange(32 * warps) // 32 * 100)


def test_with_sets_constants_and_the_name() -> None:
    wide = copied.with_(warps=8, rows=32, name="wide")
    assert (wide.build().signature.bounds.threads, wide.build().signature.name) == (256, "wide")
    assert wide.build(warps=2).signature.bounds.threads == 64
    assert wide.with_(rows=8).parameters()[0].type.box == (8, 64)
    assert copied.build().signature.bounds.threads == 128
    assert ".entry wide" in wide.compile(assemble=False).ptx


def test_every_configuration_is_compiled_once() -> None:
    @nvb.kernel("sm_80", threads=lambda warps: 32 * warps)
    def counted(k, out: nvb.Pointer[i32], *, warps=1):
        out[k.thread_id()] = warps

    first = [counted.compile(assemble=False, warps=warps).ptx for warps in (1, 2)]
    again = [counted.compile(assemble=False, warps=warps) for warps in (1, 2, 1)]
    assert [one.ptx for one in again] == [*first, first[0]]
    assert all("build" not in one.timings or one.timings["build"] == 0 for one in again)
    assert counted.with_(warps=2).compile(assemble=False).ptx == first[1]


def test_a_constant_without_a_default_is_needed() -> None:
    @nvb.kernel("sm_80", threads=lambda warps: 32 * warps)
    def needs(k, out: nvb.Pointer[i32], *, warps):
        out[k.thread_id()] = warps

    for build in (needs.build, needs.compile):
        with pytest.raises(nvb.DiagnosticError, match="warps"):
            build()
    assert needs.build(warps=2).signature.bounds.threads == 64
    assert needs.with_(warps=3).build().signature.bounds.threads == 96


def test_what_is_no_constant_is_refused() -> None:
    @nvb.kernel("sm_80", threads=lambda wrap: 32 * wrap)
    def wrong(k, *, warps=1):
        k.barrier.sync()

    with pytest.raises(nvb.DiagnosticError, match="threads depends on 'wrap'"):
        wrong.build()
    with pytest.raises(nvb.DiagnosticError, match="no build-time constant 'wrap'"):
        copied.with_(wrap=1)
    with pytest.raises(nvb.DiagnosticError, match="threads = 1056"):
        copied.build(warps=33)


@pytest.mark.parametrize("bound", [max, min])
def test_a_bound_whose_parameters_have_no_names_is_to_be_wrapped(bound: Any) -> None:
    """Python says nothing of the parameters of these functions; the fix names the constants that there are."""

    @nvb.kernel("sm_80", threads=bound)
    def kernel(k, x: nvb.Pointer(nvb.f32), *, rows: int = 4, columns: int = 8):  # type: ignore[valid-type]
        x[0] = float(rows + columns)

    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build()
    [found] = caught.value.diagnostics
    assert found.rule_id == "kernel.function"
    assert "whose parameters have no names" in found.message
    assert found.fix == "wrap it in a lambda that names constants of the build: rows, columns"


def test_a_configuration_that_is_made_again_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `with_` is a definition of its own, and what one of them has compiled they all have."""

    runs = Runs(monkeypatch)

    @nvb.kernel("sm_80", threads=lambda warps: 32 * warps)
    def kernel(k: Any, out: nvb.Pointer[nvb.f32], *, warps: int = 1, value: float = 1.0) -> None:
        out[k.thread_id()] = value

    options: Any = {"assemble": False, "cache": nvb.Cache(Path("/dev/null/nothing"))}
    made = [kernel.with_(warps=2, value=3.0).compile(**options) for _ in range(2)]
    assert made[0].ptx == made[1].ptx
    assert made[0].signature.bounds.threads == 64
    assert runs.count == 1
    others = [
        kernel.with_(value=3.0),
        kernel.with_(warps=2),
        kernel.with_(warps=2, value=3),
        kernel.with_(warps=2, value=3.0, name="other"),
        kernel.with_(warps=2).with_(value=3.0),  # the first once more
    ]
    texts = {other.compile(**options).ptx for other in others} | {kernel.compile(warps=4, **options).ptx}
    assert runs.count == 1 + 5
    assert len(texts) == 6 - 1, "an integer makes the same code as the float"
