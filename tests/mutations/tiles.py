"""Mistakes around tiles that are drawn from a counter."""

from __future__ import annotations

from contextlib import contextmanager

from nvbackend import s32
from tests.mutations.mutation import Mutation


class ReadTheMailBeforeItIsThere(Mutation):
    """read which tile was drawn without waiting for the mail"""

    found_by = ("dry-run.overrun",)

    def mbarrier_wait(self, barrier, parity):
        if not self._dynamic_tiles or not self.is_call("wait", 2):
            self.right.mbarrier.wait(barrier, parity)


class WriteAMailboxThatIsNotRead(Mutation):
    """mail a tile without waiting until the mailbox is free"""

    unseen = ("dynamic_gemm",)
    because = "the dry run draws no third tile, the first that two mailboxes have no place for"

    def mbarrier_wait(self, barrier, parity):
        if not self._dynamic_tiles or not self.is_call("wait", 0):
            self.right.mbarrier.wait(barrier, parity)


class TilesForOneConsumerTooFew(Mutation):
    """draw tiles for one consumer too few"""

    found_by = ("dynamic-tiles.consumers",)

    def dynamic_tiles(self, counter, count, consumers, **options):
        self.change()
        return super().dynamic_tiles(counter, count, consumers - 1, **options)


class CounterOfOneCta(Mutation):
    """draw tiles from a counter in shared memory"""

    found_by = ("dynamic-tiles.counter",)

    def dynamic_tiles(self, counter, count, consumers, **options):
        del counter
        self.change()
        return super().dynamic_tiles(self.shared(s32, 1), count, consumers, **options)


class DrawInALoop(Mutation):
    """draw tiles again in each round of a loop"""

    found_by = ("dynamic-tiles.once",)

    @contextmanager
    def producer(self, registers):
        with super().producer(registers):
            if not self._dynamic_tiles:
                yield
                return
            self.change()
            with self.range(2):
                yield
