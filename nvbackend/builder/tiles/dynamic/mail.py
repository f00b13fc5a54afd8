"""Mailboxes in shared memory: integers that one thread writes and others read."""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.values.values import Value
from nvbackend.intrinsics.row.types import s32

WORD_BITS = 32


class Mail:
    """Mailboxes of some words (i32) each: those of one place in all mailboxes lie together."""

    def __init__(self, k: FunctionBuilder, mailboxes: int, words: int) -> None:
        memory = k.shared(s32, mailboxes * words, name="mail")
        self._words = [memory + place * mailboxes for place in range(words)]

    def write(self, mailbox: Value, words: Sequence[Value]) -> None:
        """Store the words, i32 or u32."""
        for place, word in zip(self._words, words, strict=True):
            place[mailbox] = word.to(s32)

    def read(self, mailbox: Value) -> list[Value]:
        """The words, each an i32."""
        return [(place + mailbox).load()[0] for place in self._words]
