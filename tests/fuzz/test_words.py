"""Random words to everything that decodes them: its fields make that word again, or a Diagnostic refuses it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.intrinsics.words.tcgen05_control import Tcgen05Collector, Tcgen05Ctrl
from nvbackend.intrinsics.words.tcgen05_descriptor import FORMS
from tests.support.fuzz import Arguments, Attempts

COUNT = 4000
LONG_COUNT = 200_000
KINDS = (*FORMS, "", "f99", None)
ODD: tuple[Any, ...] = (-1, 1 << 64, 1 << 32, -(1 << 63), 10**400, 10**5000, True, 1.5, float("nan"), None, "1", b"")


def instruction(rng: random.Random, word: Any) -> int:
    kind: Any = rng.choice(KINDS)
    return nvb.InstructionDescriptor.decode(word, kind).encode()


CODECS: dict[str, tuple[int, Callable[[random.Random, Any], int]]] = {
    "shared memory": (64, lambda _, word: nvb.SmemDescriptor.decode(word).encode()),
    "the seed's descriptor": (64, lambda _, word: nvb.tileiras.TileirasDescriptor.decode(word).encode()),
    "shared memory for tcgen05": (64, lambda _, word: nvb.Tcgen05SmemDescriptor.decode(word).encode()),
    "the instruction's descriptor": (32, instruction),
    "the seed's control": (32, lambda _, word: Tcgen05Ctrl.decode(word).encode()),
    "the seed's collector": (32, lambda _, word: Tcgen05Collector.decode(word).encode()),
}


def word_of(rng: random.Random, bits: int) -> Any:
    """A word of few bits, of many, or what is none."""
    draw = rng.random()
    if draw < 0.05:
        return rng.choice(ODD)
    word = rng.getrandbits(bits)
    for _ in range(rng.randrange(5)):
        word &= rng.getrandbits(bits)
    if draw < 0.5:  # the parts that are legal most often
        word &= 0xC00E_3FFF_3FFF_3FFF if bits == 64 else 0x1FFF_FFFB
        word |= (1 << 46) if bits == 64 and rng.random() < 0.5 else 0
    return word


def run(name: str, seed: int, count: int) -> Attempts:
    bits, again = CODECS[name]
    attempts = Attempts(random.Random(seed))
    for _ in range(count):
        word = word_of(attempts.rng, bits)
        found = attempts.attempt(again, attempts.rng, word)
        if found is not None and found != word:
            attempts.failures[f"{word:#x}"] = f"comes back as {found:#x}"
    return attempts


@pytest.mark.parametrize("name", CODECS)
def test_thousands_of_words(name: str) -> None:
    attempts = run(name, 1, COUNT)
    assert attempts.failures == {}
    assert attempts.answered > COUNT // 100
    assert attempts.answered < COUNT


@pytest.mark.exhaustive(seconds=20)
@pytest.mark.parametrize("name", CODECS)
def test_many_more_words(name: str) -> None:
    attempts = run(name, 2, LONG_COUNT)
    assert attempts.failures == {}
    assert attempts.answered > LONG_COUNT // 100


@pytest.mark.parametrize(
    "record",
    [nvb.SmemDescriptor, nvb.tileiras.TileirasDescriptor, nvb.Tcgen05SmemDescriptor, nvb.InstructionDescriptor],
)
def test_records_of_random_fields(record: Any) -> None:
    """What a record of any fields encodes to decodes to the record."""
    attempts = Attempts(random.Random(3))
    arguments = Arguments(attempts.rng, junk=0.05)
    for _ in range(COUNT // 4):
        positional, named = arguments.call(record)
        made = attempts.attempt(record, *positional, **named)
        word = None if made is None else attempts.attempt(made.encode)
        if word is not None:
            options = (made.kind,) if record is nvb.InstructionDescriptor else ()
            again = attempts.attempt(record.decode, word, *options)
            assert again is not None and again.encode() == word
    assert attempts.failures == {}
    assert attempts.requests >= COUNT // 4
