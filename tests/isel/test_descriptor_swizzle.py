"""The swizzle of a descriptor against that of the copies which fill what it reads."""

from __future__ import annotations

import inspect

import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, Swizzle, f16, f32, i32, u32
from nvbackend.builder.kernel import KernelBuilder
from nvbackend.builder.tile import SharedTile
from nvbackend.signature import Parameter, Scalar, TensorMap

REQUEST = nvb.wgmma("m64n64k16", f16, f16, f32, a_in_registers=True)
NARROW, WIDE, PLAIN = ((f16, (64, 32), 64), (f16, (64, 32), 128), (f16, (64, 32), 0))


class Scene:
    """Room for a tile of 64 x 32, maps of three swizzles that fill it, and an mma that reads it as B."""

    def __init__(self):
        maps = [Parameter(name, TensorMap(*facts)) for name, facts in zip("nwp", (NARROW, WIDE, PLAIN), strict=True)]
        self.k = KernelBuilder("kernel", "sm_90a", threads=128, parameters=[*maps, Parameter("turns", Scalar(i32))])
        self.narrow, self.wide, self.plain, self.turns = self.k.arguments
        self.memory = self.k.shared(f16, 64 * 32, align=1024, name="memory")
        self.a = self.k.fragment([self.k.const(0, u32)] * 4, f16)
        self.acc = self.k.accumulator(64)
        self.full = self.k.mbarriers(1, arrivals=1, name="full")
        self.k.barriers_ready()

    def tile(self, swizzle, memory=None):
        return SharedTile(memory or self.memory, SmemLayout(Major.K, swizzle, f16, 64, 32))

    def fill(self, *maps, memory=None):
        with self.k.one_thread():
            self.k.mbarrier_arrive_expect_tx(self.full, 64 * 32 * 2 * len(maps))
            for one in maps:
                self.k.tma_load_box(memory or self.memory, one, (0, 0), self.full)
        self.k.mbarrier_wait(self.full, 0)


def same_swizzle(s):
    s.fill(s.narrow)
    with s.k.wgmma():
        s.k.wgmma_mma_async(s.acc, s.a, s.tile(Swizzle.B64), REQUEST)


def one_of_two_copies(s):
    s.fill(s.wide, s.narrow)
    with s.k.wgmma():
        s.k.wgmma_mma_async(s.acc, s.a, s.tile(Swizzle.B64), REQUEST)


def laid_out_in_global_memory(s):
    s.fill(s.plain)
    with s.k.wgmma():
        s.k.wgmma_mma_async(s.acc, s.a, s.tile(Swizzle.B64), REQUEST)


def rearranged_by_ordinary_code(s):
    s.fill(s.narrow)
    s.k.fence_proxy_async()
    s.k.barrier()
    with s.k.wgmma():
        s.k.wgmma_mma_async(s.acc, s.a, s.tile(Swizzle.B32), REQUEST)


def another_allocation(s):
    other = s.k.shared(f16, 64 * 32, align=1024, name="other")
    s.fill(s.narrow, memory=other)
    with s.k.wgmma():
        s.k.wgmma_mma_async(s.acc, s.a, s.tile(Swizzle.B32), REQUEST)


def filled_at_a_place_that_is_not_known_too(s):
    s.fill(s.narrow)
    s.fill(s.wide, memory=s.k.shared_address(s.turns.to(u32), f16, align=1024))
    with s.k.wgmma():
        s.k.wgmma_mma_async(s.acc, s.a, s.tile(Swizzle.B32), REQUEST)


def narrower(s):
    s.fill(s.narrow)
    with s.k.wgmma():
        s.k.wgmma_mma_async(s.acc, s.a, s.tile(Swizzle.B32), REQUEST)  # broken


def none_in_the_descriptor(s):
    s.fill(s.narrow)
    with s.k.wgmma():
        s.k.wgmma_mma_async(s.acc, s.a, s.tile(Swizzle.NONE), REQUEST)  # broken
        s.k.wgmma_mma_async(s.acc, s.a, s.tile(Swizzle.NONE), REQUEST, b_at=(0, 16))


def filled_in_a_loop(s):
    with s.k.range(s.turns):
        s.fill(s.narrow)
        with s.k.wgmma():
            s.k.wgmma_mma_async(s.acc, s.a, s.tile(Swizzle.B64), REQUEST)
    with s.k.wgmma():
        s.k.wgmma_mma_async(s.acc, s.a, s.tile(Swizzle.B32), REQUEST)  # broken


KEPT = [
    *(same_swizzle, one_of_two_copies, laid_out_in_global_memory, rearranged_by_ordinary_code, another_allocation),
    filled_at_a_place_that_is_not_known_too,
]
BROKEN = [narrower, none_in_the_descriptor, filled_in_a_loop]


def found(program):
    """Lines and messages of descriptor.swizzle."""
    scene = Scene()
    try:
        program(scene)
        diagnostics = scene.k.finish().diagnostics
    except nvb.DiagnosticError as error:
        diagnostics = error.diagnostics
    return [one for one in diagnostics if one.rule_id == "descriptor.swizzle"]


@pytest.mark.parametrize("program", KEPT, ids=lambda one: one.__name__)
def test_what_may_be_right_raises_no_alarm(program):
    assert found(program) == []


@pytest.mark.parametrize("program", BROKEN, ids=lambda one: one.__name__)
def test_another_swizzle_is_found_at_its_line(program):
    lines, first = inspect.getsourcelines(program)
    wanted = [number for number, line in enumerate(lines, first) if "# broken" in line]
    diagnostics = found(program)
    assert [one.location.line for one in diagnostics] == wanted
    assert all("swizzle of 64 bytes" in one.message for one in diagnostics)
