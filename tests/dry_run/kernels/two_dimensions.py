"""CTAs of rows and columns of threads, and clusters of rows and columns of CTAs."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32
from tests.dry_run.kernels.parts import COUNT, OUT, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "threads by hand"


def _turned(*counts):
    def launch(tiles):
        x = small(tiles, 32, 32 * tiles, kind=np.float32)
        return Launch(1, (x, Out(x.reshape(32, tiles, 32).transpose(1, 2, 0).copy()), tiles))

    return lambda: [launch(tiles) for tiles in counts]


@scene(
    STYLE,
    _turned(1, 2, 5),
    why="A thread reads what threads of other rows wrote; a row of threads is a warp.",
    no_barrier=Mistake("race", "The tile is read with no barrier after it is written."),
    no_second_barrier=Mistake("race", "The next tile is written while other warps still read this one."),
    barrier_of_a_warp=Mistake("race", "A row of threads waits for itself where all have to."),
)
@nvb.kernel("sm_80", threads=(32, 8))
def turned_tiles(k, x: OUT, y: OUT, tiles: COUNT, *, mistake=None):
    """y[tile] is the transpose of the tile of 32 x 32 elements of x."""
    wrong, column, row = named(mistake), k.thread_id(), k.thread_id("y")
    tile = k.shared(f32, 32 * 33, name="tile")
    with k.range(tiles) as number:
        for step in range(4):
            tile[(row + 8 * step) * 33 + column] = x[((row + 8 * step) * tiles + number) * 32 + column]
        if wrong("barrier_of_a_warp"):
            k.warp.sync()
        elif not wrong("no_barrier"):
            k.barrier.sync()
        for step in range(4):
            y[number * 1024 + (row + 8 * step) * 32 + column] = tile[column * 33 + row + 8 * step]
        if not wrong("no_second_barrier"):
            k.barrier.sync()


def _crossed(*counts):
    def launch(rounds):
        x = small(rounds, rounds, 2, 2, 64, kind=np.float32)
        return Launch((2, 2), (x, Out(x[:, :, ::-1] + 2 * x[:, ::-1]), rounds))

    return lambda: [launch(rounds) for rounds in counts]


@scene(
    STYLE,
    _crossed(1, 2, 3),
    why="Ranks go along x first: the neighbour along y has a rank that differs in the second bit.",
    no_barrier=Mistake("cluster", "What the neighbours wrote is read with no barrier of the cluster between."),
    barrier_of_the_cta=Mistake("cluster", "A barrier of the CTA is where one of the cluster has to be."),
    ends_early=Mistake("cluster", "After the last round, a CTA ends while its neighbours read."),
)
@nvb.kernel("sm_90a", threads=(8, 8), cluster=(2, 2))
def neighbours_of_both_axes(k, x: OUT, y: OUT, rounds: COUNT, *, mistake=None):
    """y = x of the neighbour along x, and twice that of the neighbour along y."""
    wrong, thread = named(mistake), k.thread_id("linear")
    column, row = k.cluster.rank("x"), k.cluster.rank("y")
    own = k.shared(f32, 64, name="own")
    beside = k.cluster.map_shared_rank(own, row * 2 + (1 - column))
    below = k.cluster.map_shared_rank(own, (1 - row) * 2 + column)
    with k.range(rounds) as number:
        place = (number * 4 + k.cluster.rank()) * 64 + thread
        own[thread] = x[place]
        if wrong("barrier_of_the_cta"):
            k.barrier.sync()
        elif not wrong("no_barrier"):
            k.cluster.sync()
        y[place] = beside[thread] + below[thread] * 2.0
        if wrong("ends_early"):
            with k.if_(number + 1 < rounds):
                k.cluster.sync()
        else:
            k.cluster.sync()
