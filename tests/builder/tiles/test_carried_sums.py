"""Sums of earlier tiles: where the program does not say which tiles came before, each tile begins anew."""

from __future__ import annotations

import contextlib
import math

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, s8, s32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.values import carried
from nvbackend.builder.values.carried import carried_sums
from nvbackend.signature import Parameter, Pointer, Scalar
from samples.gemm.wide import Wide

pytestmark = pytest.mark.filterwarnings("ignore:.*accumulator.carried-by-grid")
DRAWN, DEALT = "accumulator.carried", "accumulator.carried-by-grid"
KINDS = ("wgmma", "mma", "wmma", "sums")


def builder(threads=256):
    k = KernelBuilder(
        "k",
        "sm_90a",
        threads=threads,
        parameters=[
            Parameter("out", Pointer(f32)),
            Parameter("count", Scalar(i32)),
            Parameter("counter", Pointer(i32)),
        ],
    )
    return k, *k.arguments


class Wgmma:
    """Sums in the accumulator of a tiled wgmma."""

    def __init__(self, k):
        self.k, self.mma = k, k.tiled_mma(nvb.wgmma.mma_async("m64n16k16", f16, f16, f32))
        self.a, self.b = (k.shared_tile(layout(64)) for layout in (self.mma.smem_a, self.mma.smem_b))

    def make(self):
        self.acc = self.mma.accumulator()

    def clear(self):
        self.acc.clear()

    def multiply(self, **options):
        with self.k.wgmma.group():
            self.mma.accumulate(self.acc, self.a, self.b, **options)

    def read(self):
        return self.acc.values()


class Sums(Wgmma):
    """Sums of scaled products, each of which begins anew."""

    def make(self):
        super().make()
        self.sums = self.mma.accumulator("sums")
        self.clear()

    def clear(self):
        self.sums.fill(0.0)

    def multiply(self):
        self.acc.clear()
        super().multiply()
        scaled = zip(self.sums.values(), self.acc.values(), strict=True)
        self.sums.set([self.k.math.fma(x, 0.5, total) for total, x in scaled])

    def read(self):
        return self.sums.values()


class Warp:
    """Sums in the registers of mma.sync."""

    def __init__(self, k):
        self.mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), tile=(16, 16))

    def make(self):
        self.acc, self.a, self.b = self.mma.accumulator(), self.mma.fragment_a(16), self.mma.fragment_b(16)

    def clear(self):
        self.acc.clear()

    def multiply(self):
        self.mma.gemm(self.acc, self.a, self.b)

    def read(self):
        return self.acc.registers()


class OldWarp:
    """Sums in the registers of wmma."""

    def __init__(self, k):
        self.k = k
        tile = k.shared(f16, 256, align=32)
        self.parts = [k.wmma.load(name, "m16n16k16", f16, tile) for name in "ab"]

    def make(self):
        self.acc = self.k.wmma.accumulator("m16n16k16", f32)
        self.zeros = self.k.wmma.accumulator("m16n16k16", f32)

    def clear(self):
        self.acc.set(self.zeros)

    def multiply(self):
        self.acc.set(self.k.wmma.mma(*self.parts, self.acc))

    def read(self):
        return self.acc.values()


OF = {"wgmma": Wgmma, "mma": Warp, "wmma": OldWarp, "sums": Sums}


@contextlib.contextmanager
def drawn(k, counter, count):
    tiles = k.dynamic_tiles(counter, count, 1)
    k.mbarrier.ready()
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232):
        yield tiles.take


@contextlib.contextmanager
def dealt(k, _, count):
    with k.if_(k.warpgroup_id() == 0):
        yield lambda: k.range(k.block_id(), count, k.block_count())


@contextlib.contextmanager
def dealt_by_hand(k, _, count):
    @contextlib.contextmanager
    def tiles():
        tile = k.var(k.block_id(), i32)
        with k.loop():
            k.break_if(tile >= count)
            yield tile
            tile.set(tile + k.block_count() * 2)

    with k.if_(k.warpgroup_id() == 0):
        yield tiles


@contextlib.contextmanager
def in_order(k, _, count):
    with k.if_(k.warpgroup_id() == 0):
        yield lambda: k.range(count)


def found(tiles_of, kind, body):
    """The rules that a kernel breaks whose tiles are `body(k, own, out, tiles)`."""
    k, out, count, counter = builder()
    own = OF[kind](k)
    with tiles_of(k, counter, count) as tiles:
        own.make()
        body(k, own, out, tiles)
    try:
        every = k.finish(check=False).diagnostics
    except nvb.DiagnosticError as error:
        every = error.diagnostics
    return [(each.rule_id, each.severity) for each in every if each.rule_id.startswith("accumulator.")]


def stored(k, out, values):
    for place, value in enumerate(values):
        out[k.thread_id() + 256 * place] = value


def never(k, own, out, tiles):
    own.clear()
    with tiles():
        own.multiply()
        stored(k, out, own.read())


def in_a_loop_over_k(k, own, out, tiles):
    with tiles():
        with k.range(out[0].to(i32)):
            own.multiply()
        stored(k, out, own.read())


WRONG = (never, in_a_loop_over_k)


@pytest.mark.parametrize("body", WRONG)
@pytest.mark.parametrize("kind", KINDS)
def test_tiles_that_are_drawn_begin_anew(kind, body):
    assert found(drawn, kind, body) == [(DRAWN, nvb.Severity.ERROR)]


@pytest.mark.parametrize("tiles_of", [dealt, dealt_by_hand])
@pytest.mark.parametrize("kind", KINDS)
def test_tiles_that_are_dealt_over_the_grid_begin_anew(kind, tiles_of):
    assert found(tiles_of, kind, never) == [(DEALT, nvb.Severity.WARNING)]


def clears(k, own, out, tiles):
    with tiles():
        own.clear()
        own.multiply()
        stored(k, out, own.read())


def clears_after_it(k, own, out, tiles):
    with tiles():
        own.multiply()
        stored(k, out, own.read())
        own.clear()


def clears_where_it_multiplies(k, own, out, tiles):
    with tiles(), k.if_(out[0] > 1):
        own.clear()
        own.multiply()
        stored(k, out, own.read())


def clears_when_it_stores(k, own, out, tiles):
    with tiles():
        own.multiply()
        with k.if_(out[0] > 1):
            stored(k, out, own.read())
            own.clear()


def reads_after_all(k, own, out, tiles):
    with tiles():
        own.multiply()
    stored(k, out, own.read())


def reads_the_last(k, own, out, tiles):
    with tiles():
        own.multiply()
        with k.if_(out[0] > 1):
            stored(k, out, own.read())


def multiplies_before(k, own, out, tiles):
    own.multiply()
    with tiles():
        stored(k, out, own.read())


RIGHT = (
    clears,
    clears_after_it,
    clears_where_it_multiplies,
    clears_when_it_stores,
    reads_after_all,
    reads_the_last,
    multiplies_before,
)


@pytest.mark.parametrize("body", RIGHT)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tiles_of", [drawn, dealt, dealt_by_hand])
def test_right_kernels_draw_nothing(kind, tiles_of, body):
    assert found(tiles_of, kind, body) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_running_sum_in_an_order_that_the_kernel_says_is_right(kind):
    assert found(in_order, kind, never) == []


def test_a_predicate_may_let_each_tile_begin():
    def body(k, own, out, tiles):
        with tiles():
            with k.range(out[0].to(i32)) as step:
                own.multiply(accumulate=step != 0)
            stored(k, out, own.read())

    def always(k, own, out, tiles):
        own.multiply()
        with tiles():
            own.multiply(accumulate=True)
            stored(k, out, own.read())

    assert found(drawn, "wgmma", body) == []
    assert found(drawn, "wgmma", always) == [(DRAWN, nvb.Severity.ERROR)]


def test_a_piece_of_stream_k_may_begin_by_a_predicate():
    k, memory, count, flags = builder(128)
    own = Wgmma(k)
    own.make()
    share = k.stream_k(count, 8)
    sums = share.partial_sums(memory, flags)
    with share.pieces() as piece:
        with k.range(piece.first, piece.end) as step:
            own.multiply(accumulate=step != piece.first)
        with sums.whole(own.acc, piece):
            stored(k, memory, own.read())
    assert [each.rule_id for each in k.finish(check=False).diagnostics if "clear" in each.rule_id] == []


def test_pieces_of_stream_k_begin_anew_in_the_registers_of_a_warp():
    k, memory, count, flags = builder(32)
    own = Warp(k)
    own.make()
    share = k.stream_k(count, 8)
    sums = share.partial_sums(memory, flags)
    with share.pieces() as piece:
        own.multiply()
        with pytest.raises(nvb.DiagnosticError, match=r"shares\.not-cleared"):
            sums.whole(own.acc, piece).__enter__()


@pytest.mark.parametrize("way", ["product", "fma"])
def test_what_is_rescaled_may_begin_by_a_factor_of_zero(way):
    """As the sums of online softmax, whose first maximum is above -inf."""

    def body(k, own, out, tiles):
        most = k.var(-math.inf)
        with tiles():
            factor = k.math.exp2(most - out[0])
            rescaled = (lambda x: x * factor) if way == "product" else lambda x: k.math.fma(x, factor, out[1])
            own.acc.set([rescaled(value) for value in own.read()])
            own.multiply()
            stored(k, out, own.read())

    assert found(drawn, "wgmma", body) == []


def test_a_running_sum_may_be_allowed():
    def body(k, own, out, tiles):
        with k.allow(DRAWN, reason="one CTA runs, so the tiles come in their order"):
            never(k, own, out, tiles)

    assert found(drawn, "wgmma", body) == []


@pytest.mark.parametrize("clears", [False, True])
def test_tiles_taken_over_from_the_launch_begin_anew(clears):
    parameters = [Parameter("out", Pointer(f32)), Parameter("count", Scalar(i32))]
    k = KernelBuilder("k", "sm_100a", threads=128, parameters=parameters)
    own = Warp(k)
    answer, barrier = k.shared(u64, 2, align=16), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    own.make()
    with k.loop():
        if clears:
            own.clear()
        own.multiply()
        stored(k, k.arguments[0], own.read())
        with k.one_thread():
            k.launch_control.try_cancel(answer, barrier)
        got, _ = k.launch_control.canceled_cluster(answer)
        k.break_if(~got)
    wrong = [] if clears else [DRAWN]
    assert [each.rule_id for each in carried_sums(k.core)] == wrong


def test_what_many_registers_come_of_is_looked_at_once(monkeypatch):
    """An instruction gives 128 sums, of which each may come of all 128 of the one before."""
    looked = 0
    terms = carried._terms

    def counted(value):
        nonlocal looked
        looked += 1
        assert looked < 10_000
        return terms(value)

    monkeypatch.setattr(carried, "_terms", counted)
    wide = Wide(columns=256, consumers=2, cluster=1, stages=3, parts=4, operand=s8, result=s32, tail=1)
    assert not wide.kernel.build(check=False).diagnostics
    assert looked > 100
