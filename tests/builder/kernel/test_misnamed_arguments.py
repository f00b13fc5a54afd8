"""Arguments that a call does not have: each is refused, and asks for the one that is probably meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import bf16, f16, f32, i32
from nvbackend.layout import Layout


@nvb.kernel("sm_90a", threads=32)
def copied(k: nvb.KernelBuilder, out: nvb.Pointer[f32], n: i32, *, tile: int = 4) -> None:
    out[0] = 1.0


TILE = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
ATOM = nvb.wgmma.mma_async("m64n128k16", f16, f16, f32)


def inside(write: Callable[[nvb.KernelBuilder], object], target: str = "sm_90a") -> Any:
    @nvb.kernel(target, threads=128)
    def kernel(k: nvb.KernelBuilder) -> None:
        write(k)

    return kernel.build()


def first_of(k: nvb.KernelBuilder, index: object) -> object:
    with k.tcgen05.tmem(128) as columns:
        return columns[index]


def global_tiles(k: nvb.KernelBuilder) -> tuple[Any, ...]:
    mma = k.tiled_mma(ATOM)
    return mma.accumulator(), k.shared_tile(mma.smem_a(64)), k.tensor(k.shared(f16, 64), Layout((8, 8)))


def write_first_of(k: nvb.KernelBuilder) -> None:
    with k.tcgen05.tmem(128) as columns:
        columns[0] = 1.0


MEANT: list[tuple[Callable[[], object], str, str]] = [
    (lambda: copied.compile(optimise=3), "optimise", "optimize"),
    (lambda: copied.compile(opt_level=3), "opt_level", "optimize"),
    (lambda: copied.compile(registers_limit=3), "registers_limit", "register_limit"),
    (lambda: copied.compile(debugs=False), "debugs", "debug"),
    (lambda: copied.compile(tyle=3), "tyle", "tile"),
    (lambda: copied.build(tiles=3), "tiles", "tile"),
    (lambda: copied.with_(tiles=3), "tiles", "tile"),
    (lambda: copied.build().compile(optimise=3), "optimise", "optimize"),
    (lambda: copied.build().compile(register=3), "register", "register_limit"),
    (lambda: nvb.kernel("sm_90a", thread=32), "thread", "threads"),
    (lambda: nvb.kernel("sm_90a", num_warps=4), "num_warps", "threads"),
    (lambda: nvb.kernel("sm_90a", block=128), "block", "threads"),
    (lambda: nvb.kernel(arch="sm_90a", threads=32), "arch", "target"),
    (lambda: nvb.kernel("sm_90a", threads=32, clusters=2), "clusters", "cluster"),
    (lambda: nvb.kernel("sm_90a", threads=32, registers=128), "registers", "max_registers"),
    (lambda: nvb.TensorMap(f32, (8, 8), swizzel=128), "swizzel", "swizzle"),
    (lambda: nvb.TensorMap(f32, shape=(8, 8)), "shape", "box"),
    (lambda: nvb.TensorMap(dtype=f32, box=(8, 8)), "dtype", "element"),
    (lambda: nvb.Pointer(f32, alignment=4), "alignment", "align"),
    (lambda: nvb.Pointer(f32, readonly=True), "readonly", "const"),
    (lambda: nvb.Pointer(f32, noalias=True), "noalias", "restrict"),
    (lambda: nvb.Scalar(i32, multiple=4), "multiple", "multiple_of"),
    (lambda: nvb.Scalar(i32, divisible_by=4), "divisible_by", "multiple_of"),
    (lambda: nvb.Scalar(i32, min=4), "min", "minimum"),
    (lambda: i32(max=4), "max", "maximum"),
    (lambda: nvb.runtime.load(copied.compile(), devices="simulator"), "devices", "device"),
    (lambda: nvb.tune({"a": copied}, prepare=lambda *_: None, key=1, optimise=3), "optimise", "optimize"),
    (lambda: inside(lambda k: k.tiled_mma(ATOM, tiles=(64, 128))), "tiles", "tile"),
    (lambda: inside(lambda k: k.tiled_mma(ATOM, warpgroup=(1, 1))), "warpgroup", "warpgroups"),
]


@pytest.mark.parametrize(("call", "name", "meant"), MEANT)
def test_an_argument_that_is_meant(call: Callable[[], object], name: str, meant: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        call()
    (found,) = caught.value.diagnostics
    assert f"{name!r}: is {meant!r} meant?" in found.message


def test_an_argument_that_nothing_is_like() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.Pointer(f32, volatile=True)
    assert caught.value.diagnostics[0].message.endswith("unexpected keyword argument 'volatile'")


def test_all_arguments_that_are_not_known() -> None:
    with pytest.raises(
        nvb.DiagnosticError, match=r"'alignment': is 'align' meant\?; 'volatile'; 'cons': is 'const' meant\?"
    ):
        nvb.Pointer(f32, alignment=4, volatile=True, cons=True)


def test_an_argument_that_is_given_is_not_meant() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.Pointer(f32, align=16, aligned=16)
    assert "meant" not in caught.value.diagnostics[0].message


OTHERS: list[tuple[Callable[[], object], str, str, str]] = [
    (
        lambda: inside(lambda k: k.tiled_mma(nvb.wgmma.mma_async("m64n128k16", f16, bf16, f32))),
        "wgmma.types",
        "not f16 x bf16",
        "use A/B of type f16 and D of type f16/f32, or A/B of type bf16 and D of type f32",
    ),
    (
        lambda: inside(lambda k: k.tiled_mma(nvb.wgmma.mma_async("m64n128k16", bf16, nvb.s8, f32))),
        "wgmma.types",
        "not bf16 x s8",
        "use A/B of type bf16 and D of type f32, or A/B of type s8/u8 and D of type s32",
    ),
    (
        lambda: inside(lambda k: first_of(k, 0), "sm_100a"),
        "tile.attribute",
        "128 columns of tensor memory",
        ".columns(",
    ),
    (lambda: inside(lambda k: first_of(k, slice(0, 64)), "sm_100a"), "tile.attribute", "in brackets", "k.tcgen05.ld("),
    (lambda: inside(write_first_of, "sm_100a"), "tile.attribute", "in brackets", "k.tcgen05.st"),
    (
        lambda: inside(lambda k: k.tiled_mma(ATOM, tile=(64, 128, 16))),  # type: ignore[arg-type]
        "call.argument",
        "tile=(64, 128, 16) has 3 extents",
        "tile=(64, 128);",
    ),
    (
        lambda: nvb.KernelBuilder(
            "a", "sm_90a", threads=32, parameters=[nvb.Parameter(name, i32) for name in ("x", "y", "x")]
        ),
        "kernel.parameter",
        "'x' of kernel a has the name of another one: parameters 0 and 2 are both called so",
        "a name of its own",
    ),
    (
        lambda: nvb.runtime.load(copied.compile(), device="simulator").launch(3, grid=1),
        "call.argument",
        "multiple values for argument 'grid'",
        "launch(grid, x, y)",
    ),
    (
        lambda: nvb.runtime.load(copied.compile(), device="simulator").launch(3, factor=2.0),
        "call.argument",
        "unexpected keyword argument 'factor'",
        "kernel.compile(name=value)",
    ),
    (lambda: nvb.kernel("sm_80"), "call.argument", "'threads'", 'nvb.kernel("sm_80", threads=128)'),  # type: ignore[call-overload]
    (
        lambda: inside(lambda k: k.tma.load(k.shared_tile(TILE), k.shared(f16, 8), (0, 0), k.mbarrier.array(1, 1))),  # type: ignore[arg-type]
        "call.argument",
        "source must be TensorMapParameter",
        "nvb.TensorMap(element, box=(rows, columns))",
    ),
    (
        lambda: inside(lambda k: k.tiled_mma(ATOM).accumulate(*global_tiles(k))),
        "call.argument",
        "b must be SharedTile",
        "k.shared_tile(mma.smem_a(columns)), of B smem_b",
    ),
    (
        lambda: nvb.TensorMap(f16, (64, 64), swizzle=nvb.SwizzleMode.B64),  # type: ignore[arg-type]
        "call.argument",
        "(a SwizzleMode)",
        "swizzle=128, 64, 32",
    ),
]


@pytest.mark.parametrize(("call", "rule", "says", "fix"), OTHERS)
def test_what_is_refused_where_it_is_written(call: Callable[[], object], rule: str, says: str, fix: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        call()
    (found,) = caught.value.diagnostics
    assert found.rule_id == rule
    assert says in found.message
    assert fix in found.fix
    assert found.location is not None
    assert found.location.file == __file__
