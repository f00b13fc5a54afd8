"""Mailboxes in shared memory: integers that one thread writes and others read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nvbackend.builder.core.memory import Address
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.values.values import Operand, Value
from nvbackend.intrinsics.row.types import s32

WORD_BITS = 32
_VECTOR = 4
"""Words of one access."""


class Mail:
    """Mailboxes of some words (i32) each, read and written by vectors."""

    def __init__(self, k: FunctionBuilder, mailboxes: int, words: int) -> None:
        self._words = words
        self._row = words if words < _VECTOR - 1 else -(-words // _VECTOR) * _VECTOR
        self._memory = k.shared(s32, mailboxes * self._row, name="mail")

    def _accesses(self, mailbox: Value) -> Iterator[tuple[int, Address]]:
        """Where each access begins among the words, and its address."""
        for at in range(0, self._row, _VECTOR):
            yield at, self._memory + (mailbox * self._row + at)

    def write(self, mailbox: Value, words: Sequence[Value]) -> None:
        """Store the words, i32 or u32."""
        whole: list[Operand] = [*(word.to(s32) for word in words), *[0] * (self._row - self._words)]
        for at, address in self._accesses(mailbox):
            address.store(*whole[at : at + _VECTOR])

    def read(self, mailbox: Value) -> list[Value]:
        """The words, each an i32."""
        count = min(_VECTOR, self._row)
        return [word for _, address in self._accesses(mailbox) for word in address.load(count)][: self._words]
