"""Calls that would go wrong without a word: memory that is not there, stages left early, tiles nobody works on."""

from __future__ import annotations

import contextlib
import re

import pytest

import nvbackend as nvb
from nvbackend import Major, SwizzleMode, f16, f32, i32, u8
from nvbackend.builder.core.memory import SHARED_BASE_ALIGNMENT
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.isel.target.shared_memory import static_limit
from nvbackend.isel.target.target import dotted
from nvbackend.signature import Parameter, Scalar, TensorMap
from tests.support.ptxas import assemble, witnessed

A = TensorMap(f16, box=(64, 64))
TILE = nvb.SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
HOPPER_LIMIT = 232448  # bytes: CUDA C++ Programming Guide, compute capability 9.0


def builder(threads=384, target="sm_90a"):
    parameters = [Parameter("a", A), Parameter("n", Scalar(i32))]
    return KernelBuilder("kernel", target, threads=threads, parameters=parameters)


def rule_of(call):
    with pytest.raises(nvb.DiagnosticError) as caught:
        call()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__
    return diagnostic.rule_id


# -- shared memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", witnessed(), ids=str)
def test_ptxas_takes_as_much_static_memory_as_the_builder(target):
    """Of the chips that ptxas 13 does not know, ptxas 12.9 says it: 48 KB also for sm_101a."""
    text = ".version {}\n.target {}\n.address_size 64\n.visible .entry k() {{\n.shared .b8 x[{}];\n"
    text += ".reg .b32 r;\nmov.u32 r, x;\nst.shared.b32 [r], r;\nret;\n}}\n"
    limit, version = static_limit(target), dotted(target.ptx_version)
    assert assemble(text.format(version, target, limit), target.name)[0]
    assert not assemble(text.format(version, target, limit + 16), target.name)[0]


def test_static_memory_is_counted_with_its_gaps():
    k = builder(target="sm_90")
    k.shared_static(u8, 40 * 1024)
    k.shared_static(u8, 4, align=4)
    k.shared_static(u8, 7 * 1024, align=1024)
    assert rule_of(lambda: k.shared_static(u8, 1)) == "shared.static-size"


def test_static_and_dynamic_memory_are_what_a_cta_has_together():
    k = builder()
    k.shared(u8, HOPPER_LIMIT - 1024)
    k.shared_static(u8, 1024)
    assert rule_of(lambda: k.shared_static(u8, 1)) == "shared.size"
    k = builder()
    k.shared_static(u8, 1)
    assert rule_of(lambda: k.shared(u8, HOPPER_LIMIT - 1023)) == "shared.size"
    k.shared(u8, HOPPER_LIMIT - 1024)


def test_dynamic_memory_is_aligned_as_its_base_is():
    k = builder()
    k.shared(u8, 1, align=1024)
    assert rule_of(lambda: k.shared(u8, 1, align=2048)) == "shared.alignment"
    k.shared_static(u8, 1, align=2048)
    pattern = nvb.layout.composition(nvb.layout.Swizzle(3, 4, 3), nvb.layout.Layout((64, 64), (64, 1)))
    with pytest.raises(nvb.DiagnosticError, match="its swizzle is 1024 elements long, and 1024 f16 are 2048 bytes"):
        k.pipeline(2, copies="cp.async", a=(f16, pattern))
    assert f"align {SHARED_BASE_ALIGNMENT}" in k.finish().ir


@pytest.mark.parametrize("sizes", [(1,), (5, 3), (4096, 100 * 1024)])
def test_dynamic_memory_is_one_array_without_a_size(sizes):
    """PTX ISA 5.1.7: `.extern .shared` without a size is what the launch gives, and all of it begins at one address."""
    k = builder()
    for size in sizes:
        k.shared(u8, size)[k.thread_id() % size] = 1
    text = k.finish().compile(assemble=False).ptx
    assert re.findall(r"^\.extern \.shared \.align 1024 \.b8 (\w+)\[\];$", text, re.M) == ["kernel__dynamic_shared"]
    assert text.count(".extern") == 1


# -- stages ---------------------------------------------------------------------------------------------------------

RELEASE = "mbarrier.arrive"


def in_drain(leave, *, loop_inside=False):
    k = builder()
    n = k.arguments[1]
    ring = k.pipeline(2, 2, a=TILE)
    k.mbarrier.ready()
    with k.producer(40), k.range(n), ring.fill() as stage:
        k.tma.load(stage.a, k.arguments[0], (0, 0), stage.full)
    with k.consumers(232), k.range(n) as i, ring.drain():
        if loop_inside:
            with k.range(4):
                leave(k, i)
            k.barrier.sync(1, 256)
        else:
            leave(k, i)
    return k.finish()


LEAVE = {
    "break_if": lambda k, i: k.break_if(i == 3),
    "continue_if": lambda k, i: k.continue_if(i == 3),
    "return_if": lambda k, i: k.return_if(i == 3),
}


@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE)
def test_a_stage_is_not_left_early(leave):
    assert rule_of(lambda: in_drain(leave)) == "pipeline.left"


@pytest.mark.parametrize("name", ["break_", "continue_", "return_"])
def test_a_branch_inside_does_not_help(name):
    def leave(k, i):
        with k.if_(i == 3):
            getattr(k, name)()

    assert rule_of(lambda: in_drain(leave)) == "pipeline.left"


@pytest.mark.parametrize(("name", "part"), [("break_if", "for.end"), ("continue_if", "for.next")])
def test_a_loop_inside_of_a_stage_is_left_as_ever(name, part):
    """The jump stays inside the stage: what follows its target gives the stage back."""
    finished = in_drain(LEAVE[name], loop_inside=True)
    assert finished.diagnostics == ()
    (left,) = (block for block in finished.machine.blocks.values() if any("stay" in name for name in block.successors))
    (target,) = (name for name in left.successors if "stay" not in name)
    assert target.startswith(part)
    inner_end = finished.machine.blocks[target.replace("next", "end")]
    assert RELEASE in [instruction.opcode for instruction in inner_end.instructions]


def test_a_return_leaves_the_stage_from_a_loop_inside():
    assert rule_of(lambda: in_drain(LEAVE["return_if"], loop_inside=True)) == "pipeline.left"


def test_a_producer_does_not_leave_its_stage():
    k = builder()
    ring = k.pipeline(2, 2, a=TILE)
    k.mbarrier.ready()

    def broken():
        with k.producer(40), k.loop(), ring.fill():
            k.break_if(k.arguments[1] == 0)

    assert rule_of(broken) == "pipeline.left"


@pytest.mark.parametrize(("group", "rule"), [(0, "pipeline.group"), (-2, "pipeline.group"), (True, "call.argument")])
def test_tiles_are_walked_in_groups_of_some_rows(group, rule):
    k = builder()
    assert rule_of(lambda: k.grouped(k.block_id(), 8, 8, group)) == rule


# -- warpgroups -----------------------------------------------------------------------------------------------------


STEPS = ["wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"] * 4
"""A tile of 64 columns, in steps of 16."""


def multiply(warpgroups, number):
    k = builder()
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=warpgroups)
    a, b = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    with k.producer(40):
        pass
    with k.consumers(232) as warpgroup:
        acc = mma.accumulator()
        with k.wgmma.group():
            mma.accumulate(acc, a, b, number(warpgroup))
    return [one.row.ptx for one in k.machine.instructions() if one.opcode.startswith("wgmma.mma_async")]


@pytest.mark.parametrize("number", [2, -1, 7])
def test_a_warpgroup_that_the_tile_does_not_have(number):
    assert rule_of(lambda: multiply((2, 1), lambda _: number)) == "mma.warpgroup"
    assert rule_of(lambda: multiply((1, 1), lambda _: number)) == "mma.warpgroup"


@pytest.mark.parametrize("warpgroups", [(4, 1), (2, 2), (1, 3)])
def test_parts_of_a_tile_that_no_warpgroup_has(warpgroups):
    assert rule_of(lambda: multiply(warpgroups, lambda warpgroup: warpgroup)) == "mma.warpgroups-there"


@pytest.mark.parametrize("warpgroups", [(2, 1), (1, 2), (1, 1)])
def test_as_many_parts_as_warpgroups(warpgroups):
    assert multiply(warpgroups, lambda warpgroup: warpgroup) == STEPS


def test_a_number_of_the_users_own_may_be_any():
    assert multiply((4, 1), lambda warpgroup: warpgroup * 2 + 1) == STEPS
    assert multiply((4, 1), lambda _: 3) == STEPS


def test_a_pointer_that_is_there_already_takes_no_instruction():
    """Of global memory without an offset it is the kernel's own argument, in a cluster too."""
    for cluster in (1, 2):
        k = KernelBuilder("k", "sm_90a", threads=128, cluster=cluster, parameters=[Parameter("x", nvb.Pointer(f32))])
        (x,) = k.arguments
        before = str(k.llvm.function)
        assert x.pointer() is k.llvm.function.args[0]
        assert str(k.llvm.function) == before
        (x + 1).pointer()
        assert "ptrtoint" not in str(k.llvm.function)


def test_another_cta_needs_a_cluster():
    """The same words, and the same advice, for each call that is about another CTA."""
    said = []
    for call in (
        lambda k, at: k.shared_address(at.bytes, f32, 4, window="cluster"),
        lambda k, at: k.cluster.map_to_peer(at, k.arguments[1]),
    ):
        k = builder()
        with pytest.raises(nvb.DiagnosticError, match=r"cluster\.no-peer.*in clusters of 1\n") as caught:
            call(k, k.shared(f32, 32))
        said.append(caught.value.diagnostics[0].fix)
    assert said[0] == said[1]
    assert "cluster=2" in said[0]


@pytest.mark.parametrize("inside", [True, False])
def test_a_return_leaves_the_stages_of_its_own_function(inside):
    """It goes on after the call: a stage around the call is not left."""

    @nvb.function
    def served(k, i: i32):
        with ring.drain() if inside else contextlib.nullcontext():
            returned(k, i)

    def returned(k, i):
        with k.if_(i == 3):
            k.return_()

    k = builder()
    ring, n = k.pipeline(2, 2, a=TILE), k.arguments[1]

    def program():
        k.mbarrier.ready()
        with k.producer(40), k.range(n), ring.fill() as stage:
            k.tma.load(stage.a, k.arguments[0], (0, 0), stage.full)
        with k.consumers(232), k.range(n) as i:
            if inside:
                served(k, i)
            else:
                with ring.drain():
                    served(k, i)
                    k.barrier.sync(1, 256)
        return k.finish()

    if inside:
        assert rule_of(program) == "pipeline.left"
    else:
        assert program().diagnostics == ()
