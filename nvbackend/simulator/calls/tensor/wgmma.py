"""wgmma: the asynchronous product of a warpgroup, its fence and its groups. PTX ISA 9.7.15."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Instruction, Operand, Vector
from nvbackend.simulator.calls.copies import groups
from nvbackend.simulator.calls.in_common import in_common
from nvbackend.simulator.calls.tensor.mma import fragment_reader, register_type
from nvbackend.simulator.calls.tensor.sparse_codes import check_codes
from nvbackend.simulator.calls.together import warpgroups
from nvbackend.simulator.events import Addresses, Bits, By, Pending, Threads
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.in_flight import Flights, written_in_flight
from nvbackend.simulator.machine.lanes import WARP, WARPGROUP, Lanes
from nvbackend.simulator.machine.wave import Reader, Step, Wave, Writer
from nvbackend.simulator.memory import windows
from nvbackend.simulator.sync.groups import WgmmaGroups
from nvbackend.simulator.sync.swizzles import Swizzles
from nvbackend.simulator.tensor import descriptors, wgmma
from nvbackend.simulator.tensor.wgmma import M, Wgmma


def compile(instruction: Instruction, place: Compiling) -> Step:
    """wgmma.fence, .mma_async, .commit_group, .wait_group."""
    action = instruction.parts[1]
    if action == "fence":
        return _fence(place)
    if action == "commit_group":
        return groups.commit(WgmmaGroups)
    if action == "wait_group":
        return groups.wait(place, WgmmaGroups, place.immediate(instruction.operands[0]))
    return _mma(instruction, place) if action == "mma_async" else place.unknown(f".{action}")


def _fence(place: Compiling) -> Step:
    def step(wave: Wave, lanes: Lanes) -> None:
        by = place.by(lanes)
        for observer in wave.observers:
            observer.fence(by, "wgmma")

    return step


@dataclass(frozen=True, slots=True)
class _Form:
    """What one wgmma.mma_async says: `a` is read when it completes, from registers, or None: then by a descriptor.

    `a_slots` and `d_slots` are where those registers are in the wave.
    """

    found: Wgmma
    a: Reader | None
    d: Reader
    write: Writer
    metadata: Reader | None
    selector: int
    signs: tuple[bool, bool]
    k_major: tuple[bool, bool]
    a_slots: tuple[int, ...]
    d_slots: tuple[int, ...]


class _Last:
    """The last wgmma of each warpgroup: they complete in order."""

    def __init__(self, _: Wave) -> None:
        self.of: dict[int, _Operation] = {}


def _mma(instruction: Instruction, place: Compiling) -> Step:
    found = wgmma.find(instruction.parts)
    if found is None:
        place.unknown("this form")
    d, a, b, *rest = instruction.operands
    metadata, selector = None, 0
    if found.sparse:
        metadata, selector = place.read(rest[0], "b32"), place.immediate(rest[1])
        rest = rest[2:]
    scale, *immediates = rest
    numbers = [place.immediate(one) for one in immediates]
    from_registers = isinstance(a, Vector)
    transposed = (numbers[2:] if found.scales else numbers) if found.transposes else []
    wanted = 2 * found.scales + (2 - from_registers) * found.transposes
    if len(numbers) != wanted:
        place.unknown(f"{len(numbers)} immediates, where it has {wanted}")
    of_a, of_b = (0, 0) if not transposed else (0, transposed[0]) if from_registers else tuple(transposed)
    form = _Form(
        found,
        fragment_reader(place, a, found.a) if from_registers else None,
        fragment_reader(place, d, found.d),
        place.writes(d, register_type(found.d)),
        metadata,
        selector,
        (numbers[0] < 0, numbers[1] < 0) if found.scales else (False, False),
        (not of_a, not of_b),
        _slots(place, a) if from_registers else (),
        _slots(place, d),
    )
    written = frozenset(form.d_slots)
    a_word = None if from_registers else place.read(a, "b64")
    b_word, scale_d = place.read(b, "b64"), _scale(place, scale)

    def issue(wave: Wave, lanes: Lanes) -> None:
        words = [
            None if word is None else in_common(place, wave, lanes, word(wave, lanes), name, WARPGROUP)[::WARPGROUP]
            for name, word in (("a-desc", a_word), ("b-desc", b_word))
        ]
        adds = scale_d(wave, lanes)[::WARPGROUP]
        firsts = lanes.threads[::WARPGROUP]
        last = wave.part(_Last).of
        before = tuple(dict.fromkeys(last[one] for one in firsts.tolist() if one in last and not last[one].done))
        operation = _Operation(place.site, lanes.threads, "wgmma", wave, form, words[0], words[1], adds, after=before)
        last.update(dict.fromkeys(firsts.tolist(), operation))
        wave.part(WgmmaGroups).add(operation, lanes.threads)
        if wave.observers:
            wave.part(Flights).start(operation, written)
        wave.start(operation)

    return warpgroups(place, issue)


def _slots(place: Compiling, operand: Operand) -> tuple[int, ...]:
    """The slots of a vector of registers."""
    found = [place.symbols.register(one) for one in place.elements(operand)]
    return tuple(one[0] for one in found if one is not None)


def _scale(place: Compiling, operand: Operand) -> Reader:
    """Scale-D: a predicate; written as an integer it is not 0."""
    return place.read(operand, "pred")


@dataclass(eq=False)
class _Operation(Pending):
    """The wgmma of the warpgroups that came to it together. Operands are read and D is written when it completes."""

    wave: Wave
    form: _Form
    a_words: NDArray[np.uint64] | None
    b_words: NDArray[np.uint64] | None
    adds: NDArray[np.bool_]
    fragment: list[Bits] = field(init=False)
    """The arrays of A's registers when it was issued."""

    def __post_init__(self) -> None:
        """Remember the registers of A as they are now."""
        self.fragment = [self.wave.registers[slot] for slot in self.form.a_slots]

    def complete(self) -> None:
        """Multiply, for those that add to D and for those that do not. Raises wgmma.write-in-flight."""
        self._check_fragment()
        for adds in (True, False):
            chosen = np.flatnonzero(self.adds == adds)
            if len(chosen):
                self._multiply(chosen, adds=adds)

    def _check_fragment(self) -> None:
        """The registers of A are what they were when it was issued; another value there is a write since."""
        for number, (slot, before) in enumerate(zip(self.form.a_slots, self.fragment, strict=True)):
            now = self.wave.registers[slot]
            if now is before or np.array_equal(now[self.threads], before[self.threads]):
                continue
            lane = int(np.flatnonzero(now[self.threads] != before[self.threads])[0])
            written_in_flight(self.wave, self, int(self.threads[lane]), f"register {number} of A")

    def _multiply(self, chosen: NDArray[np.int64], *, adds: bool) -> None:
        form, found, wave = self.form, self.form.found, self.wave
        threads = self.threads.reshape(-1, WARPGROUP)[chosen].ravel()
        lanes = Lanes(threads, full=len(threads) == wave.size)
        firsts = threads[::WARPGROUP]
        of_a, of_b = form.k_major
        if form.a is None:
            assert self.a_words is not None
            own = WARP * np.arange(WARPGROUP // WARP)
            a = self._matrices(firsts, self.a_words[chosen], M, found.row_bytes("a"), k_major=of_a, warps=own)
        else:
            a = found.a.matrix(form.a(wave, lanes))
        assert self.b_words is not None
        one = np.zeros(1, np.int64)
        b = self._matrices(firsts, self.b_words[chosen], found.n, found.row_bytes("b"), k_major=of_b, warps=one)
        extras: dict[str, Any] = {"signs": form.signs}
        if form.metadata is not None:
            words = form.metadata(wave, lanes)
            by = By(self.site, threads, operation=self, proxy="async")
            check_codes(wave, by, found.codes(words, form.selector), found.bits)
            extras |= {"metadata": words, "selector": form.selector}
        before = form.d(wave, lanes) if adds else None
        form.write(wave, lanes, found.call(a, b, before, **extras))

    def _matrices(
        self, firsts: Threads, words: NDArray[np.uint64], rows: int, size: int, *, k_major: bool, warps: Threads
    ) -> Bits:
        """The operand of each warpgroup by its descriptor: codes of shape (warpgroups, rows, K).

        `warps` are the threads of a warpgroup that read it, each its part of the rows: every warp reads its own of A.
        """
        bits = self.form.found.bits
        read = {word: descriptors.of_wgmma(word) for word in set(words.tolist())}
        chunks = {word: one.chunks(rows, size, k_major=k_major, bits=bits) for word, one in read.items()}
        ranks = self.wave.rank(firsts).astype(np.uint64) << np.uint64(windows.RANK_SHIFT)
        addresses: Addresses = np.stack([chunks[word] for word in words.tolist()]) | ranks[:, None, None]
        readers = np.repeat(firsts[:, None] + warps, addresses[0].size // len(warps))
        by = By(self.site, readers, operation=self, proxy="async")
        data = self.wave.read(by, "shared::cta", addresses, descriptors.CHUNK)
        for word, each, first in zip(words.tolist(), addresses, firsts, strict=True):
            one = By(self.site, np.array([first]), operation=self, proxy="async")
            self.wave.part(Swizzles).check(one, "shared::cta", each, read[word].swizzle, read[word].base)
        found = [
            read[word].matrix(each, k_major=k_major, bits=bits) for word, each in zip(words.tolist(), data, strict=True)
        ]
        return np.stack(found)
