"""Counters and flags in memory, which the simulator compares with 0 before and after each launch.

A counter that is not 0 skips tiles, and a flag that is up lets a CTA add sums that are not there. On a GPU nobody sees
either. After the launch, what is not 0 says that some CTA has left early.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.isel.machine.zeros import COUNTER, ZEROS, Zeros
from nvbackend.runtime.rules import LEFT_OVER, NOT_ZERO, ONE_COUNTER

_WORD = 4
_LEFT = {
    True: "let every CTA of the grid come to tiles.draw() and tiles.take(): none returns before, whatever its number",
    False: "let every CTA of the grid come to share.pieces(), in the same order: none returns before",
}


class Zeroed:
    """The numbers of one kernel's arguments that are 0 between launches."""

    def __init__(self, kernel: str, names: Sequence[str], compiled: object) -> None:
        self._kernel, self._names = kernel, names
        self._zeros = [each for each in zeros_of(compiled) if each.kernel == kernel]

    def before(self, arguments: Sequence[Any], ctas: int) -> Iterator[Diagnostic]:
        """launch.not-zero and launch.one-counter for the arguments of a launch."""
        yield from self._others(NOT_ZERO, arguments, ctas)
        counters: dict[int, Zeros] = {}
        for zeros in self._zeros:
            address = int(arguments[zeros.place].__array_interface__["data"][0]) + zeros.first
            first = counters.setdefault(address, zeros) if zeros.what == COUNTER else zeros
            if first is not zeros:
                names = [self._names[each.place] for each in (first, zeros)]
                yield ONE_COUNTER.diagnose(kernel=self._kernel, first=names[0], second=names[1])

    def after(self, arguments: Sequence[Any], ctas: int) -> Iterator[Diagnostic]:
        """launch.left-over for what a launch has left."""
        return self._others(LEFT_OVER, arguments, ctas)

    def _others(self, rule: Rule, arguments: Sequence[Any], ctas: int) -> Iterator[Diagnostic]:
        for zeros in self._zeros:
            data = arguments[zeros.place].reshape(-1).view("u1")[zeros.first :]
            count = min(zeros.words + zeros.of_each_cta * ctas, data.size // _WORD)
            words = data[: count * _WORD].copy().view("i4")
            if words.any():
                number = int(words.nonzero()[0][0])
                yield rule.diagnose(
                    kernel=self._kernel,
                    name=self._names[zeros.place],
                    value=int(words[number]),
                    byte=zeros.first + number * _WORD,
                    what=zeros.what,
                    advice=_LEFT[zeros.what == COUNTER],
                )


def zeros_of(compiled: object) -> list[Zeros]:
    """Those that the IR of a compiled kernel notes."""
    text = str(getattr(compiled, "ir", ""))
    listed = re.search(rf"^!{re.escape(ZEROS)} = !\{{(.*)\}}$", text, re.MULTILINE) if ZEROS in text else None
    nodes = re.findall(r"!\d+", listed[1]) if listed else []
    texts = [re.search(rf"^{node} = !\{{(.*)\}}$", text, re.MULTILINE) for node in nodes]
    parts = [re.findall(r'!"([^"]*)"', match[1]) for match in texts if match]
    return [
        Zeros(kernel, int(place), int(first), int(words), int(each), what)
        for kernel, place, first, words, each, what in parts
    ]
