"""A ring of tiles that all threads fill by cp.async and read together, some steps later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.blocks import with_block
from nvbackend.builder.tiles import pipeline_rules
from nvbackend.builder.tiles.fragment_copies import inside_of
from nvbackend.builder.tiles.tensor import Inside, Tensor, make_tensor
from nvbackend.builder.tiles.tiled_copy import copy_part
from nvbackend.builder.values.values import Operand, Value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.types import ElementType, s32
from nvbackend.layout import AnyLayout, ComposedLayout, cosize
from nvbackend.tiled import TiledCopy

CopyStage = Mapping[str, Tensor]
"""The tiles of a stage by their names."""
Fetch = Callable[[Value, CopyStage], None]
"""Starts the copies of a step, given its number, into a stage."""


@user_facing
class CopyRing:
    """`stages` of shared memory, each with a tile of every name, made by `k.copy_ring`.

    All threads of the CTA fill a stage with cp.async and read it together. While they read one, the copies of the next
    `stages` - 1 steps are in flight. There is no producer: for TMA use `k.pipeline`.
    """

    def __init__(self, k: FunctionBuilder, stages: int, tiles: Mapping[str, tuple[ElementType, AnyLayout]]) -> None:
        if stages < 2:
            because = "The tiles that are read and those that are filled would be the same."
            pipeline_rules.RING.fail(stages=stages, needed=2, because=because)
        if not tiles:
            pipeline_rules.RING_TILES.fail(given="none", taken="no name")
        self._k = k
        self.stages = stages
        self._layouts = dict(tiles)
        self._counts = {name: _count(layout) for name, (_, layout) in tiles.items()}
        self._memory = {
            name: k.shared(element, stages * self._counts[name], align=_period(element, layout), name=name)
            for name, (element, layout) in tiles.items()
        }

    def __repr__(self) -> str:
        return f"<ring of {self.stages} stages of {', '.join(self._layouts)}>"

    @with_block
    def drain(self, steps: Operand, fetch: Fetch) -> Iterator[tuple[Value, CopyStage]]:
        """Run the block for each of `steps` steps with its number and its stage. All threads of the CTA execute it.

        `fetch(step, stage)` starts this thread's copies of a step, by `k.cp_async.copy` or `k.copy`; it is called only
        for steps that exist. After the block nothing is pending, but the stages must not be written again before a
        `k.barrier.sync()`.
        """
        k, ahead = self._k, self.stages - 1
        for first in range(ahead):
            self._fill(k.const(first, s32), steps, fetch)
        with k.range(steps) as step:
            k.cp_async.wait_group(ahead - 1)
            k.barrier.sync()  # all have their part of this step's tiles, and are done with those that are filled next
            self._fill(step + ahead, steps, fetch)
            yield step, self.stage(step)

    def stage(self, step: Value) -> CopyStage:
        """The tiles that a step has."""
        k, found = self._k, {}
        for name, (element, layout) in self._layouts.items():
            size = element.bytes_for(self._counts[name])
            found[name] = make_tensor(k, self._memory[name].steps(step % self.stages, size), layout)
        return found

    def _fill(self, step: Value, steps: Operand, fetch: Fetch) -> None:
        """Start the copies of a step as one group, an empty one past the last step: waits count groups."""
        with self._k.if_(step < steps):
            fetch(step, self.stage(step))
        self._k.cp_async.commit_group()


def _count(layout: AnyLayout) -> int:
    return layout.reach() if isinstance(layout, ComposedLayout) else cosize(layout)


def _period(element: ElementType, layout: AnyLayout) -> int:
    """The alignment of a stage in bytes: the period of its swizzle, or what the widest copies need."""
    least = 128
    if not isinstance(layout, ComposedLayout):
        return least
    swizzle = layout.in_elements().swizzle
    return max(least, element.bytes_for(1 << swizzle.base + swizzle.bits + abs(swizzle.shift)))


def copy_tile(
    k: FunctionBuilder, copy: TiledCopy, source: Tensor, destination: Tensor, where: Inside | None = None
) -> None:
    """Copy a whole tile; all threads of `copy` take part, each copies its share."""
    mine = copy.get_slice(k.thread_id())
    parts = source.partition(mine.partition_S), destination.partition(mine.partition_D)
    copy_part(k, copy, *parts, where=None if where is None else inside_of(where, mine.partition_S))
