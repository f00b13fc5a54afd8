"""Copies of registers: mov. PTX ISA 9.7.9.3."""

from __future__ import annotations

from nvbackend.simulator.scalar.pure import BYTES, INTEGERS, Pure, Spelling

_TYPES = ("pred", *BYTES, "b128", *INTEGERS, "f16", "bf16", "f16x2", "bf16x2", "f32", "f64")


def _mov(spelling: Spelling) -> Pure:
    kind = spelling.must(*_TYPES)
    return Pure((kind,), (kind,), lambda a: (a.copy(),))


MAKERS = {"mov": _mov}
