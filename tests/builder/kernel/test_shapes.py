"""Shapes of CTAs and clusters: what a launch is bound to, what ptxas takes, and what the analyses know of indices."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import i32
from nvbackend.builder.kernel.dry_run import subject_of
from nvbackend.builder.lower.lowering import lower
from nvbackend.builder.thread_tables.tables import Cta
from nvbackend.builder.value_tracking.execution import Evaluator
from nvbackend.diagnostics import Diagnostic
from nvbackend.dry_run.seam import DONE, Launch, Outcome, Step
from nvbackend.dry_run.subject import compiled, run
from nvbackend.intrinsics.sync import special_registers
from nvbackend.runtime.launch import check_grid
from tests.support.ptxas import assemble
from tests.support.tables import array

SHAPES = [((64, 1, 1), (4, 1, 1)), ((4, 8, 2), (2, 2, 1)), ((1, 32, 1), (1, 3, 2)), ((3, 4, 8), (2, 1, 2))]


def places(extents: tuple[int, int, int]) -> list[tuple[int, ...]]:
    """All indices (x, y, z), x first."""
    return [place[::-1] for place in itertools.product(*(range(extent) for extent in reversed(extents)))]


def builder(threads: Any, cluster: Any = 1, **more: Any) -> nvb.KernelBuilder:
    return nvb.KernelBuilder("k", "sm_90a", threads=threads, cluster=cluster, **more)


@pytest.mark.parametrize(
    ("given", "shape"), [(64, (64, 1, 1)), ((64,), (64, 1, 1)), ((8, 8), (8, 8, 1)), ([2, 4, 8], (2, 4, 8))]
)
def test_extents_that_are_left_out_are_one(given, shape) -> None:
    bounds = builder(given).signature.bounds
    assert (bounds.threads, bounds.shape) == (64, shape)


@pytest.mark.parametrize(("threads", "cluster"), SHAPES)
def test_the_ptx_requires_the_shapes(threads, cluster) -> None:
    k = builder(threads, cluster)
    ptx = k.compile(assemble=False).ptx
    assert f".reqnctapercluster {', '.join(map(str, cluster))}" in ptx
    flat = threads[1:] == (1, 1)
    assert (f".maxntid {threads[0]}" if flat else f".reqntid {', '.join(map(str, threads))}") in ptx
    taken, said = assemble(ptx, "sm_90a")
    assert taken, said


@pytest.mark.parametrize("threads", [(1024,), (1, 1024), (1, 16, 64), (2, 8, 64), (1, 32, 32)])
def test_the_largest_ctas_are_those_of_the_guide(threads) -> None:
    """CUDA C++ Programming Guide: 1024 threads together, 1024 along x and y, 64 along z; ptxas takes more."""
    assert builder(threads).threads == math.prod(threads)


@pytest.mark.parametrize(
    "threads",
    [(), (1, 2, 3, 4), (32, 0), (32, -1), (32, 1.0), (32, True), (33, 1), (1025,), (2, 1024), (1, 1, 96), (32, 33, 1)],
)
def test_what_is_no_shape_is_refused(threads) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        builder(threads)
    assert [one.rule_id for one in caught.value.diagnostics] == ["kernel.bounds"]


def test_the_ctas_of_a_cluster_are_counted_over_all_axes() -> None:
    assert builder(32, (2, 2, 2)).cluster_size == 8
    with pytest.raises(nvb.DiagnosticError, match="not 18"):
        builder(32, (3, 3, 2))


@pytest.mark.parametrize(("threads", "cluster"), SHAPES)
def test_the_evaluator_knows_every_index(threads, cluster) -> None:
    function = ir.Function(ir.Module("m"), ir.FunctionType(ir.VoidType(), []), "k")
    llvm = ir.IRBuilder(function.append_basic_block())
    evaluator = Evaluator(Cta(math.prod(threads), math.prod(cluster), threads, cluster))
    of_threads, of_ctas = places(threads), places(cluster)
    for axis, letter in enumerate("xyz"):
        wanted = {
            "tid": [[place[axis] for place in of_threads]] * len(of_ctas),
            "ntid": [[threads[axis]] * len(of_threads)] * len(of_ctas),
            "cluster_ctaid": [[place[axis]] * len(of_threads) for place in of_ctas],
            "cluster_nctaid": [[cluster[axis]] * len(of_threads)] * len(of_ctas),
        }
        for name, table in wanted.items():
            value = lower(llvm, special_registers.special_register(f"{name}.{letter}"), {}, "v")["value"][0]
            known = evaluator.known(value)
            assert known.is_whole
            assert np.array_equal(
                np.broadcast_to(array(known.numbers), (1, len(of_ctas), len(of_threads)))[0], table
            ), name


class _Stores:
    """Protocols that note the addresses of stores to shared memory."""

    def __init__(self) -> None:
        self.stores: dict[tuple[int, int], list[int]] = {}

    def execute(self, step: Step) -> Outcome:
        if step.instr.opcode == "st.shared":
            address = step.value("address")
            for lane in range(32):
                number = address if isinstance(address, int) else address.numbers[lane]
                self.stores.setdefault((step.cta, step.warps[0] * 32 + lane), []).append(number & 0xFFFFFF)
        return DONE

    def ended(self, cta: int, warp: int) -> None: ...

    def met(self, cta: int, warp: int) -> None: ...

    def left_out(self) -> None: ...

    def deadlock(self, waiting: Any) -> None:
        raise AssertionError(waiting)

    def finish(self, *, whole: bool = True) -> list[Diagnostic]:
        return []


@pytest.mark.parametrize(("threads", "cluster"), SHAPES)
@pytest.mark.parametrize("place", [0, 2])
def test_the_dry_run_executes_every_index(threads, cluster, place) -> None:
    """Of the cluster at `place` along each axis, the last one of the grid."""
    k = builder(threads, cluster)
    words = k.shared(i32, 4096)
    names = [
        f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid") for axis in "xyz"
    ]
    names += [f"{name}.{axis}" for name in ("cluster_ctaid", "cluster_nctaid") for axis in "xyz"]
    names += ["cluster_ctarank", "cluster_nctarank"]
    for name in names:
        words[k.special_register(name)] = 0
    k.finish(check=False)
    subject, seen = subject_of(k.core, k.signature), _Stores()
    code = compiled(subject)
    size = k.cluster_size
    launch = Launch(
        k.target, k.threads, size, size, code.shared, bounds=subject.bounds, grid=place + 1, first=place, row=place
    )
    run(code, launch, lambda _: seen, {})
    assert len(seen.stores) == size * k.threads
    for (rank, inner), (number, thread) in itertools.product(enumerate(places(cluster)), enumerate(places(threads))):
        ctas = [place * extent + own for extent, own in zip(cluster, inner, strict=True)]
        counts = [(place + 1) * extent for extent in cluster]
        wanted = [*thread, *threads, *ctas, *counts, *[place] * 3, *[place + 1] * 3, *inner, *cluster, rank, size]
        found = [(one - code.shared.start) // 4 for one in seen.stores[rank, number]]
        assert found == wanted


@pytest.mark.parametrize(
    ("given", "fact"), [({"threads": (64, 0)}, "threads along y"), ({"cluster": (-1, 2)}, "cluster along x")]
)
def test_an_extent_is_at_least_one(given, fact) -> None:
    with pytest.raises(nvb.DiagnosticError) as raised:
        nvb.KernelBuilder("k", "sm_90a", **{"threads": 64, **given})
    (fault,) = raised.value.diagnostics
    assert fact in fault.message
    assert "at least 1" in fault.message


def test_a_grid_is_whole_clusters_along_each_axis() -> None:
    signature = builder(32, (2, 3)).signature
    assert not list(check_grid(signature, (4, 6, 5)))
    (fault,) = check_grid(signature, (4, 7))
    assert "y = 7" in fault.message
    assert "3 CTAs along y" in fault.message
    assert len(list(check_grid(signature, 3))) == 2


def test_a_barrier_that_a_row_of_threads_leaves_out_is_refused() -> None:
    """Rows of 8 threads are parts of warps, rows of 32 are whole ones: these may arrive alone, by their count."""
    for width, rule in ((8, ["convergence.barrier"]), (32, [])):
        k = builder((width, 128 // width))
        with k.if_(k.thread_id("y") == 0):
            k.barrier.sync(1, 32)
        try:
            k.finish()
        except nvb.DiagnosticError as error:
            found = sorted({one.rule_id for one in error.diagnostics})
        else:
            found = []
        assert bool(found) == bool(rule), (width, found)


def test_functions_of_one_module_agree_on_their_shape() -> None:
    def attached(*threads: Any) -> None:
        module = ir.Module("m")
        inner = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "inner")
        inner.linkage = "internal"
        outer = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "outer")
        builders = [ir.IRBuilder(function.append_basic_block()) for function in (inner, outer)]
        first, second = (nvb.attach(b, "sm_90a", threads=t) for b, t in zip(builders, threads, strict=True))
        builders[1].call(inner, [])
        for one in builders:
            one.ret_void()
        first.verify()
        second.verify()

    attached((8, 8), (8, 8))
    attached(64, 64)
    with pytest.raises(nvb.DiagnosticError, match="of shape"):
        attached((8, 8), (16, 4))
