"""Rings of bytes and elements, and rings whose tiles are released apart: their memory, barriers and refusals."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.tiles.stages import OPTIONS, lay_out
from nvbackend.layout import Layout
from tests.support.runtime import assert_refused

TILE = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)


def builder():
    return KernelBuilder("parts", "sm_90a", threads=256)


def counts(k, opcode, operand):
    return [found.operands[operand] for found in k.machine.instructions() if found.opcode == opcode]


def test_each_part_has_barriers_of_its_own():
    k = builder()
    ring = k.pipeline(3, 1, apart=(("a", "b"), "scale"), a=TILE, b=TILE, scale=(f32, 64))
    assert ring.a is ring.b
    assert (ring.a.bytes, ring.scale.bytes) == (2 * 64 * 64 * 2, 256)
    assert len(counts(k, "mbarrier.init", "count")) == 2 * 2 * 3


def test_a_stage_of_elements_begins_where_a_box_may():
    k = builder()
    ring = k.pipeline(2, 1, first=80, second=(f16, 24), third=(f32, Layout(5)))
    assert ring.bytes == 80 + 48 + 20
    k.mbarrier.ready()
    with k.producer(40), k.range(4), ring.fill() as stage:
        assert (stage.first.element, stage.second.element) == (nvb.u8, f16)
        assert (stage.first.align, stage.second.align) == (128, 128)
        assert stage.third.address.align == 32


def test_stages_of_bytes_begin_at_multiples_of_128():
    """Of 160 bytes the second begins at 256, and nothing of it is in the first."""
    written = np.full(128, -1, np.int32)

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, out: nvb.Pointer[nvb.i32]):
        stages = lay_out(k, "raw", (nvb.i32, 40), 2, 16)
        first, second = (stages.at(k.const(index, nvb.i32)) for index in (0, 1))
        for start in (0, 8):
            word = k.lane_id() + start
            first[word], second[word] = word, word + 100
            k.warp.sync()
        out[k.lane_id()] = first[k.lane_id()]
        out[k.lane_id() + 32] = second[k.lane_id()]
        out[k.lane_id() + 64] = (second.bytes - first.bytes).to(nvb.i32)

    nvb.runtime.load(kernel.compile(assemble=False), device="simulator").launch(1, written)
    assert written[:96].tolist() == [*range(32), *range(100, 132), *[256] * 32]


def test_tiles_of_several_kinds_are_announced_together():
    k = builder()
    ring = k.pipeline(2, 1, a=TILE, row=(f32, 128), raw=160)
    k.mbarrier.ready()
    with k.producer(40), ring.fill(), ring.fill(bytes={"raw": 32, "row": 0}):
        pass
    announced = [int(count) for count in counts(k, "mbarrier.arrive.expect_tx", "bytes")]
    assert announced == [8192 + 512 + 160, 8192 + 32]


def test_threads_copy_any_number_of_bytes():
    k = builder()
    assert k.pipeline(2, copies="cp.async", raw=20).bytes == 20


def test_how_many_bytes_come_may_be_known_when_it_runs():
    """What is read is announced, beside the whole of other tiles."""

    @nvb.kernel("sm_90a", threads=256)
    def kernel(k, x: nvb.Pointer(f32, align=16), n: nvb.i32, out: nvb.Pointer[f32]):
        k.assume(n <= 32)
        ring = k.pipeline(2, 1, row=(f32, 128), scale=(f32, 4))
        k.mbarrier.ready()
        with k.if_(k.warpgroup_id() == 0), k.one_thread():
            with k.range(3) as step, ring.fill(bytes={"row": n * 16}) as stage:
                k.bulk.load(stage.row, x + step * 128, n * 16, stage.full)
                k.bulk.load(stage.scale, x + 384 + step * 4, 16, stage.full)
            ring.finish()
        with k.if_(k.warpgroup_id() == 1), k.range(3) as step, ring.drain() as stage:
            at = k.thread_id() % 128
            with k.if_(at < n * 4):
                out[step * 128 + at] = stage.row[at] + stage.scale[at % 4]
            k.barrier.sync(1, 128)

    x, out = np.arange(400, dtype=np.float32), np.zeros((3, 128), np.float32)
    nvb.runtime.load(kernel.compile(assemble=False), device="simulator").launch(1, x, 5, out)
    rows, scales = x[:384].reshape(3, 128), x[384:396].reshape(3, 4)
    expected = np.where(np.arange(128) < 20, rows + np.tile(scales, 32), 0)
    assert np.array_equal(out, expected)


def filled(given):
    def fill(k):
        ring = k.pipeline(2, 1, row=(f32, 128))
        k.mbarrier.ready()
        with k.producer(40), ring.fill(bytes=given):
            pass

    return fill


WRONG = {
    "no bytes": (lambda k: k.pipeline(2, 1, raw=0), "pipeline.bytes", "0 of u8"),
    "fewer than none": (lambda k: k.pipeline(2, 1, raw=-16), "pipeline.bytes", "give 16"),
    "no whole bulk copy": (lambda k: k.pipeline(2, 1, raw=(f32, 33)), "pipeline.bytes", "give 36"),
    "an option": (lambda k: k.pipeline(2, consumer=1, raw=16), "pipeline.bytes", "did you mean consumers=1? As a tile"),
    "a flag": (lambda k: k.pipeline(2, 1, multicst=True, raw=16), "pipeline.bytes", "did you mean multicast=True?"),
    "an option of no name": (
        lambda k: k.pipeline(2, 1, cta_group=2),
        "pipeline.bytes",
        "options are stages, consumers",
    ),
    "a truth value": (lambda k: k.pipeline(2, 1, raw=True), "pipeline.bytes", "True"),
    "too many announced": (filled({"row": 528}), "pipeline.bytes", "at most 512"),
    "no multiple announced": (filled({"row": 20}), "pipeline.bytes", "announce 32"),
    "fewer than none announced": (filled({"row": -16}), "pipeline.bytes", "at most 512"),
    "of another tile": (filled({"column": 16}), "pipeline.bytes", "name one of row"),
    "a name that there is not": (lambda k: k.pipeline(2, 1, apart=["b"], a=16), "pipeline.apart", "there is no b"),
    "a tile in no part": (lambda k: k.pipeline(2, 1, apart=["a"], a=16, b=16), "pipeline.apart", "b is in no part"),
    "no parts": (lambda k: k.pipeline(2, 1, apart=[], a=16), "pipeline.apart", "a is in no part"),
    "a tile in two": (lambda k: k.pipeline(2, 1, apart=["a", ("a",)], a=16), "pipeline.apart", "a is named 2 times"),
    "an empty part": (lambda k: k.pipeline(2, 1, apart=["a", ()], a=16), "pipeline.apart", "a part has no tile"),
    "a call's name": (lambda k: k.pipeline(2, 1, apart=True, finish=16), "pipeline.apart", "finish is a call"),
    "no tile": (lambda k: k.pipeline(2, 1, apart=True), "pipeline.apart", "it has no tile"),
    "not a part": (lambda k: k.pipeline(2, 1, apart=True, a=16).steps, "pipeline.parts", "ring.a.drain()"),
}


def test_the_options_that_are_told_are_those_of_the_call():
    *options, _ = list(inspect.signature(builder().pipeline).parameters)
    assert tuple(options) == OPTIONS


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused(name):
    make, rule, text = WRONG[name]
    assert_refused(lambda: make(builder()), rule, text)


@pytest.mark.parametrize("copies", ["tma", "cp.async"])
@pytest.mark.parametrize("element", [nvb.u8, f32, nvb.e2m1], ids=str)
@pytest.mark.parametrize("count", [-17, 0, 33])
def test_the_least_number_that_a_refusal_gives_is_the_least_that_is_taken(copies, element, count):
    def ring(number):
        return builder().pipeline(2, *([1] if copies == "tma" else []), copies=copies, raw=(element, number))

    unit = 16 if copies == "tma" else 1
    least = next(each for each in range(max(count, 1), 99) if each * element.bits % (8 * unit) == 0)
    assert ring(least).bytes == least * element.bits // 8
    if least != count:
        with pytest.raises(nvb.DiagnosticError, match=rf"give {least}, and announce"):
            ring(count)


def test_threads_announce_no_bytes():
    k = builder()
    ring = k.pipeline(2, 1, copies="cp.async", raw=16)
    k.mbarrier.ready()
    with pytest.raises(nvb.DiagnosticError, match=r"instruction\.variant"), ring.fill(bytes={"raw": 16}):
        pass
