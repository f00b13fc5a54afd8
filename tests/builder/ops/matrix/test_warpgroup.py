"""The WGMMA protocol as a user writes it: what is legal passes, and each mistake is reported at its line."""

from __future__ import annotations

import inspect

import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.isel.select.shapes import SHAPE_TEXT
from nvbackend.signature import Parameter, Pointer

INSTRUCTION = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
OTHER_SHAPE = nvb.wgmma.mma_async("m64n32k16", f16, f16, f32)


class Scene:
    """A kernel with two accumulators and an operand tile, on which a body writes its protocol."""

    def __init__(self):
        parameters = [Parameter("out", Pointer(f32)), Parameter("n", nvb.Scalar(nvb.i32))]
        self.k = KernelBuilder("scene", "sm_90a", threads=128, parameters=parameters)
        self.out, self.n = self.k.arguments
        self.tile = self.k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))
        self.acc = self.k.wgmma.accumulator(64, name="acc")
        self.other = self.k.wgmma.accumulator(64, name="other")

    def mma(self, accumulator=None, instruction=INSTRUCTION):
        self.k.wgmma.mma_async(accumulator or self.acc, self.tile, self.tile, instruction)

    def read(self, accumulator=None):
        self.out[0] = (accumulator or self.acc)[0]


def straight_line(s):
    with s.k.wgmma.group():
        s.mma()
        s.mma()
    s.read()


def software_pipeline(s):
    with s.k.range(s.n), s.k.wgmma.group(in_flight=1):
        s.mma()
    s.k.wgmma.wait_group(0, drains=[s.acc])
    s.read()


def two_accumulators_in_turn(s):
    with s.k.range(s.n):
        with s.k.wgmma.group(in_flight=1):
            s.mma(s.acc)
        with s.k.wgmma.group(in_flight=1):
            s.mma(s.other)
        s.read(s.acc)
    s.k.wgmma.wait_group(0, drains=[s.acc, s.other])
    s.read(s.other)


def single_operations(s):
    s.k.wgmma.fence()
    s.mma()
    s.k.wgmma.commit_group()
    s.k.wgmma.wait_group(0, drains=[s.acc])
    s.acc.set([value * 2.0 for value in s.acc.values()])
    s.k.wgmma.fence()
    s.mma()
    s.k.wgmma.commit_group()
    s.k.wgmma.wait_group()
    s.read()


def branch_that_waits_on_both_sides(s):
    with s.k.wgmma.group(in_flight=1):
        s.mma()
    with s.k.if_(s.n > 3):
        s.k.wgmma.wait_group(0)
    with s.k.else_():
        s.k.wgmma.wait_group(0)
    s.read()


@pytest.mark.parametrize(
    "body",
    [straight_line, software_pipeline, two_accumulators_in_turn, single_operations, branch_that_waits_on_both_sides],
)
def test_a_legal_protocol_passes_and_assembles_without_a_warning(body):
    scene = Scene()
    body(scene)
    compiled = scene.k.compile()
    assert compiled.diagnostics == ()
    assert compiled.cubin is not None


def read_in_flight(s):
    with s.k.wgmma.group(in_flight=1):
        s.mma()
    s.read()  # here


def read_in_flight_in_a_loop(s):
    with s.k.range(s.n), s.k.wgmma.group(in_flight=1):
        s.mma()
        s.k.wgmma.commit_group()
        s.read()  # here
        s.mma()
    s.k.wgmma.wait_group(0)


def wait_on_one_side_only(s):
    with s.k.wgmma.group(in_flight=1):
        s.mma()
    with s.k.if_(s.n > 3):
        s.k.wgmma.wait_group(0)
    s.read()  # here


def wait_leaves_the_group(s):
    with s.k.wgmma.group(in_flight=1):
        s.mma()
    with s.k.wgmma.group(in_flight=2):
        s.mma(s.other)
    s.k.wgmma.wait_group(1, drains=[s.other])  # here


def write_in_flight(s):
    with s.k.wgmma.group(in_flight=1):
        s.mma()
    s.acc.fill(0.0)  # here
    s.k.wgmma.wait_group(0)


def no_fence(s):
    s.acc.fill(1.0)
    s.mma()  # here
    s.k.wgmma.commit_group()
    s.k.wgmma.wait_group(0)


def no_commit(s):
    s.k.wgmma.fence()
    s.mma()
    s.k.wgmma.wait_group(0)  # here


def no_wait(s):
    s.k.wgmma.fence()
    s.mma()
    s.k.wgmma.commit_group()


def shape_changes(s):
    s.k.wgmma.fence()
    s.mma()
    narrow = s.k.wgmma.accumulator(32, name="narrow")
    narrow.block = s.acc.block
    s.mma(narrow, OTHER_SHAPE)  # here
    s.k.wgmma.commit_group()
    s.k.wgmma.wait_group(0)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (read_in_flight, "wgmma.read-in-flight"),
        (read_in_flight_in_a_loop, "wgmma.read-in-flight"),
        (wait_on_one_side_only, "wgmma.read-in-flight"),
        (wait_leaves_the_group, "wgmma.wait-leaves-group"),
        (write_in_flight, "wgmma.write-in-flight"),
        (no_fence, "wgmma.missing-fence"),
        (no_commit, "wgmma.missing-commit"),
        (no_wait, "wgmma.missing-wait"),
        (shape_changes, "wgmma.shape-change"),
    ],
)
def test_a_broken_protocol_is_told_at_its_line(body, rule):
    scene = Scene()
    body(scene)
    with pytest.raises(nvb.DiagnosticError) as caught:
        scene.k.finish()
    found = [one for one in caught.value.diagnostics if one.rule_id == rule]
    assert found, str(caught.value)
    lines, first = inspect.getsourcelines(body)
    marked = [first + index for index, line in enumerate(lines) if "# here" in line]
    here = {one.location.line for one in found} | {
        place.line for one in found for _, place in one.notes if place is not None
    }
    # The read and the mma are made by Scene's methods: their line is the innermost outside of nvbackend.
    methods = {line for method in (Scene.read, Scene.mma) for line in span(method)}
    assert here & (set(marked) | methods)


def span(method):
    lines, first = inspect.getsourcelines(method)
    return range(first, first + len(lines))


def test_a_needless_fence_is_a_warning():
    scene = Scene()
    scene.k.wgmma.fence()
    scene.mma()
    scene.k.wgmma.fence()
    scene.mma()
    scene.k.wgmma.commit_group()
    scene.k.wgmma.wait_group(0)
    assert [one.rule_id for one in scene.k.finish().diagnostics] == ["wgmma.needless-fence"]


def test_the_group_arithmetic_is_shown():
    scene = Scene()
    for accumulator in (scene.other, scene.other, scene.acc):
        with scene.k.wgmma.group(in_flight=1):
            scene.mma(accumulator)
    scene.read()
    with pytest.raises(nvb.DiagnosticError, match="wait_group 1 leaves group 3, which wrote acc, in flight"):
        scene.k.finish()


def test_no_read_can_move_above_the_wait():
    """Each accumulator register goes into the wait and comes out of it as another value, which the read then uses."""
    scene = Scene()
    straight_line(scene)
    text = scene.k.finish().ir
    wait = next(line for line in text.splitlines() if "wgmma.wait_group" in line)
    assert wait.count("=f") == scene.acc.registers + scene.other.registers
    assert '"=f,' in wait and ",0,1,2," in wait


def test_a_wait_count_out_of_range_is_refused():
    scene = Scene()
    with pytest.raises(nvb.DiagnosticError, match=r"wgmma\.wait-range"):
        scene.k.wgmma.wait_group(8)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (("m64n20k16", f16, f16, f32), "wgmma.n-step"),
        (("m64n264k16", f16, f16, f32), "wgmma.n-range"),
        (("m64n64k8", f16, f16, f32), "wgmma.k"),
        (("m128n64k16", f16, f16, f32), "wgmma.m"),
        (("m64n64k16", f16, nvb.bf16, f32), "wgmma.types"),
    ],
)
def test_an_illegal_instruction_is_refused_at_the_call(given, rule):
    scene = Scene()
    with pytest.raises(nvb.DiagnosticError) as caught:
        scene.k.tiled_mma(nvb.wgmma.mma_async(*given))
    assert rule in [one.rule_id for one in caught.value.diagnostics]
    assert all(one.location.file == __file__ for one in caught.value.diagnostics)


def test_a_shape_that_is_no_name_is_refused():
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.wgmma.mma_async("64x64x16", f16, f16, f32)
    assert caught.value.diagnostics[0].rule is SHAPE_TEXT


@pytest.mark.parametrize(("target", "says"), [("sm_90", "sm_90a"), ("sm_80", "mma.sync"), ("sm_100a", "tcgen05")])
def test_other_targets_are_told_what_to_use(target, says):
    k = KernelBuilder("target", target, threads=128)
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.tiled_mma(INSTRUCTION)
    assert caught.value.diagnostics[0].rule_id == "wgmma.target"
    assert target in caught.value.diagnostics[0].message and says in caught.value.diagnostics[0].fix


def test_tiles_of_different_k_are_refused():
    scene = Scene()
    mma = scene.k.tiled_mma(INSTRUCTION)
    wide = scene.k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 128))
    with pytest.raises(nvb.DiagnosticError, match=r"mma\.tile"):
        mma.accumulate(mma.accumulator(), scene.tile, wide)


def test_operands_in_registers_become_four_registers_of_the_asm():
    scene = Scene()
    instruction = nvb.wgmma.mma_async("m64n8k16", f16, f16, f32, a_in_registers=True)
    acc = scene.k.wgmma.accumulator(8)
    fragment = scene.k.wgmma.fragment([scene.k.const(index, nvb.u32) for index in range(4)], f16)
    with scene.k.wgmma.group():
        scene.k.wgmma.mma_async(acc, fragment, scene.tile.rows_from(0, 8), instruction)
    scene.read(acc)
    ptx = scene.k.finish().compile(assemble=False).ptx
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16") == 1
