"""What vprintf prints, and what a failed assertion says.

vprintf takes C's format and the arguments that a thread has put into its local memory, one after another. CUDA C++
Programming Guide, Formatted Output: arguments are promoted as in C, each at a multiple of its size.
"""

from __future__ import annotations

import re
import sys

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import By, Site
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.rules import ASSERTION

_PIECE = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?P<digits>\.(?:\*|\d+)?)?"
    r"(?P<size>hh|h|ll|l|z|j|t)?(?P<kind>[diouxXeEfFgGaAcsp%])"
)
_LONG = ("l", "ll", "z", "j", "t")
_MOST_LETTERS = 1 << 16


@dataclass(frozen=True, slots=True)
class Printing:
    """A call of vprintf: the slots of its two arguments, the addresses of the format and of the buffer."""

    site: Site
    format: int
    buffer: int

    def run(self, wave: Wave, lanes: Lanes) -> None:
        """Print the text of each thread, in their order."""
        formats, buffers = (_addresses(wave, slot, lanes) for slot in (self.format, self.buffer))
        for thread, text, buffer in zip(lanes.threads.tolist(), formats, buffers, strict=True):
            values = _Values(wave, By(self.site, np.array([thread])), buffer)
            sys.stdout.write(_PIECE.sub(values.shown, values.string(text)))


@dataclass(frozen=True, slots=True)
class Failing:
    """A call of __assertfail: the slot of its first argument, the address of the text."""

    site: Site
    text: int

    def run(self, wave: Wave, lanes: Lanes) -> None:
        """End the launch with the text of the first thread. Raises simulator.assertion."""
        if not lanes.count:
            return
        thread = int(lanes.threads[0])
        (address, *_) = _addresses(wave, self.text, lanes)
        text = _Values(wave, By(self.site, np.array([thread])), 0).string(address)
        ASSERTION.fail(at=self.site.location, thread=wave.thread_name(thread), text=text, line=self.site.line)


def _addresses(wave: Wave, slot: int, lanes: Lanes) -> list[int]:
    rows = np.ascontiguousarray(wave.registers[slot][lanes.index][:, :8])
    found: list[int] = rows.view(np.uint64)[:, 0].tolist()
    return found


class _Values:
    """The arguments of one thread, taken in their order."""

    def __init__(self, wave: Wave, by: By, buffer: int) -> None:
        self._wave = wave
        self._by = by
        self._at = buffer

    def shown(self, piece: re.Match[str]) -> str:
        """The text for a piece of the format."""
        kind = piece["kind"]
        if kind == "%":
            return "%"
        width = str(self._integer(4, signed=True)) if piece["width"] == "*" else piece["width"] or ""
        digits = piece["digits"] or ""
        if digits == ".*":
            digits = f".{max(self._integer(4, signed=True), 0)}"
        start = f"%{piece['flags']}{width}"
        if kind in "eEfFgGaA":
            number = float(self._take(8).view(np.float64)[0])
            return (start + digits + kind) % number if kind not in "aA" else number.hex()
        if kind == "s":
            return (start + digits + "s") % self.string(self._integer(8))
        if kind == "p":
            return (start + "s") % f"{self._integer(8):#x}"
        value = self._integer(8 if piece["size"] in _LONG else 4, signed=kind in "di")
        if kind == "c":
            return (start + "s") % chr(value & 0xFF)
        return (start + digits + ("d" if kind in "diu" else kind)) % value

    def string(self, address: int) -> str:
        """The letters at an address up to the zero byte."""
        allocation = self._wave.memory.allocation(address)
        if allocation is not None and address < allocation.end:
            data = allocation.data[address - allocation.base :].tobytes()
            return data.partition(b"\0")[0].decode("utf-8", "replace")
        letters = bytearray()
        while len(letters) < _MOST_LETTERS and (letter := int(self._read(address + len(letters), 1)[0])):
            letters.append(letter)
        return letters.decode("utf-8", "replace")

    def _integer(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(size).tobytes(), "little", signed=signed)

    def _take(self, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        place = -(-self._at // size) * size
        self._at = place + size
        return self._read(place, size)

    def _read(self, address: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        return np.ascontiguousarray(self._wave.read(self._by, "", np.array([address], np.uint64), size)[0])
