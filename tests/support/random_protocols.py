"""Random kernels of many barriers, copies, branches and loops: nothing but a Diagnostic may come of them.

`python -m tests.support.random_protocols <statements> <first seed> <last seed>` builds them and prints what else came.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import nvbackend as nvb
from nvbackend import i32, u32

THREADS = 128
_DEEPEST = 6
_BYTES = 256


class Kernel:
    """One kernel of about as many statements as it is asked for."""

    def __init__(self, seed: int, statements: int) -> None:
        self.random = random.Random(seed)
        self.left = statements
        self.cluster = self.random.choice((1, 2, 4))

    def build(self) -> str:
        """What came of it: "built", or "refused" by diagnostics."""

        def kernel(k: Any, out: nvb.Pointer(u32, 16), a: u32) -> None:
            self._body(k, out, a)

        try:
            nvb.kernel("sm_90a", threads=THREADS, cluster=self.cluster)(kernel).build()
        except nvb.DiagnosticError:
            return "refused"
        return "built"

    def _body(self, k: Any, out: Any, a: Any) -> None:
        self.k, self.out, self.a = k, out, a
        self.buffers = [k.shared(u32, 1024, align=1024, name=f"buffer{index}") for index in range(3)]
        self.barriers = k.mbarrier.array(4, arrivals=1)
        k.mbarrier.ready()
        self.phase, self.stage = k.var(0), k.var(0)
        while self.left > 0:
            self._statement(0)

    def _block(self, depth: int) -> None:
        for _ in range(self.random.randrange(1, 6)):
            if self.left > 0:
                self._statement(depth)

    def _statement(self, depth: int) -> None:
        self.left -= 1
        kind = self.random.randrange(16)
        if kind == 0 and depth < _DEEPEST:
            with self.k.if_(self._condition()):
                self._block(depth + 1)
            if self.random.random() < 0.5:
                with self.k.else_():
                    self._block(depth + 1)
        elif kind == 1 and depth < _DEEPEST:
            with self.k.range(self._one_of(2, 4, self.a.to(i32))):
                self._block(depth + 1)
        else:
            with suppress(nvb.DiagnosticError):  # what a thread alone cannot do is left out
                self.random.choice(_STATEMENTS)(self)

    def _one_of(self, *given: Any) -> Any:
        return self.random.choice(given)

    def _condition(self) -> Any:
        k, thread = self.k, self.k.thread_id()
        makers: list[Callable[[], Any]] = [
            lambda: thread < 32,
            lambda: thread == 0,
            lambda: k.warp_id() == 1,
            lambda: self.a > self.random.randrange(9),
            lambda: k.cluster.rank() == 0,
            lambda: self.phase.value == 0,
        ]
        return self.random.choice(makers)()

    def _place(self) -> Any:
        thread = self.k.thread_id()
        return self.random.choice(self.buffers) + self._one_of(0, 64, thread, self.stage.value * 64)

    def _barrier(self) -> Any:
        return self.barriers + self._one_of(0, 1, 2, self.stage.value)

    def _write(self) -> None:
        self._place()[0] = self.random.randrange(99)

    def _read(self) -> None:
        self.out[self.k.thread_id()] = self._place()[0]

    def _fill(self) -> None:
        barrier = self._barrier()
        with self.k.one_thread():
            self.k.mbarrier.arrive(barrier, expect_tx=_BYTES)
            self.k.bulk.load(self.random.choice(self.buffers), self.out, _BYTES, barrier)

    def _send(self) -> None:
        with self.k.one_thread():
            self.k.bulk.store(self.out, self.random.choice(self.buffers), _BYTES)
            self.k.tma.commit_group()

    def _copy(self) -> None:
        self.k.cp_async.copy(self._place(), self.out, 4)

    def _of_groups(self) -> None:
        k = self.k
        self._one_of(
            k.cp_async.commit_group,
            lambda: k.cp_async.wait_group(self.random.randrange(3)),
            lambda: k.tma.wait_group(self.random.randrange(3), reading=self.random.random() < 0.5),
        )()

    def _of_mbarriers(self) -> None:
        k = self.k
        self._one_of(
            lambda: k.mbarrier.wait(self._barrier(), self._one_of(0, 1, self.phase.value)),
            lambda: k.mbarrier.arrive(self._barrier()),
            lambda: self.phase.set(self.phase.value ^ 1),
            lambda: self.stage.set((self.stage.value + 1) % 4),
        )()

    def _of_clusters(self) -> None:
        k = self.k
        self._one_of(
            k.cluster.sync,
            k.cluster.arrive,
            k.cluster.wait,
            lambda: k.mbarrier.arrive(self._barrier(), rank=self.cluster - 1, when=k.thread_id() == 0),
            lambda: k.async_store.store(
                self._place(), [self.a], self._barrier(), self.random.randrange(self.cluster), element="b32"
            ),
            lambda: k.return_if(self._condition()),
        )()

    def _sync(self) -> None:
        k = self.k
        self._one_of(
            k.barrier.sync,
            k.fence.proxy_async,
            lambda: k.barrier.sync(self.random.randrange(1, 4), threads=self._one_of(64, 128)),
        )()


_STATEMENTS: tuple[Callable[[Kernel], None], ...] = (
    *(Kernel._write, Kernel._write, Kernel._read, Kernel._read, Kernel._fill, Kernel._send, Kernel._copy),
    *(Kernel._of_groups, Kernel._of_mbarriers, Kernel._of_mbarriers, Kernel._of_clusters, Kernel._sync),
)


def main(statements: int, first: int, last: int) -> None:
    """Build the kernels of these seeds and count what came of them; anything but a Diagnostic ends the process."""
    counts = {"built": 0, "refused": 0}
    for seed in range(first, last):
        try:
            counts[Kernel(seed, statements).build()] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed} of {statements} statements") from error
    sys.stdout.write(", ".join(f"{count} {what}" for what, count in counts.items()) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
