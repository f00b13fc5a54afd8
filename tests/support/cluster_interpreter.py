"""The LLVM IR of a cluster's CTAs, executed thread by thread: mbarriers, TMA's boxes, barriers, peers, products.

Threads go on and copies arrive in a random order, so that a kernel that relies on luck is found. What an mbarrier, a
box and a swizzle do is written down from the PTX ISA (9.7.13.15, 5.5), and never taken from the package.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nvbackend.intrinsics.row.row import Row
from tests.support import products
from tests.support.cta_interpreter import _SHARED, _SPACE, MOST_SHARED_BYTES, Collective, Recorded, _next, _Thread
from tests.support.warp_interpreter import LANES, read

_PEER_BITS = 24
"""A mapped address has the rank of its CTA, plus 1, above these bits; one of the own window has nothing there."""
_MAPS = 1 << 40


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory, the box that is copied, outermost dimension first, and its swizzle in bytes."""

    array: np.ndarray
    box: tuple[int, ...]
    swizzle: int


@dataclass
class Mbarrier:
    """Phases: as many arrivals as it was made for, and as many bytes as were announced."""

    count: int
    pending: int
    bytes: int = 0
    phase: int = 0

    def arrive(self) -> None:
        assert self.pending > 0, "an arrival more than the phase expects"
        self.pending -= 1
        self.settle()

    def settle(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase ^= 1
            self.pending = self.count


@dataclass
class Cta:
    """A CTA of the cluster: its threads, what each of them asks for, its memory and its mbarriers."""

    rank: int
    memory: dict[int, np.ndarray]
    threads: list[Any] = field(default_factory=list)
    asked: list[Collective | None] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)
    mbarriers: dict[int, Mbarrier] = field(default_factory=dict)
    groups: dict[int, list[list[tuple[int, int, int]]]] = field(default_factory=dict)
    tmem: np.ndarray = field(default_factory=lambda: np.full((128, 512), np.nan))


class Cluster:
    """Runs a kernel in a cluster of its CTAs; `memory(rank)` is the shared memory of one afterwards."""

    def __init__(self, k: Recorded, arguments: dict[str, Any], seed: int = 0) -> None:
        self.k, self.random = k, random.Random(seed)
        self.maps: dict[int, TensorMap] = {}
        self.met: dict[int, set[int]] = {}
        """The threads that have waited at each barrier, by its number."""
        starts: dict[str, int] = {}
        arrays: dict[int, np.ndarray] = {}
        for number, (name, one) in enumerate(arguments.items()):
            if isinstance(one, TensorMap):
                starts[name] = _MAPS + number
                self.maps[_MAPS + number] = one
            else:
                starts[name] = number * _SPACE + _SPACE
                arrays[starts[name]] = one.reshape(-1).view(np.uint8)
        self.ctas = []
        self.copies: list[tuple[Cta, Row, dict[str, Any]]] = []
        for rank in range(k.cluster_size):
            one = Cta(rank, {**arrays, _SHARED: np.zeros(MOST_SHARED_BYTES, np.uint8)})
            one.threads = [_Thread(k, thread, starts, one.memory).run() for thread in range(k.threads)]
            one.asked = [next(thread, None) for thread in one.threads]
            one.arrived = [0] * k.threads
            self.ctas.append(one)

    def memory(self, rank: int = 0) -> np.ndarray:
        """The bytes of a CTA's shared memory."""
        return self.ctas[rank].memory[_SHARED]

    def run(self) -> Cluster:
        """Until every thread has ended."""
        places = [(cta, first) for cta in self.ctas for first in range(0, self.k.threads, LANES)]
        slow = self.random.choice(self.ctas)
        while any(one is not None for cta in self.ctas for one in cta.asked):
            self.random.shuffle(places)
            moved = 0
            for cta, first in places:
                if self.random.random() < (0.1 if cta is slow else 0.7):
                    moved += self._warp(cta, first)
            if self.copies and self.random.random() < 0.5:
                self._arrives(self.copies.pop(self.random.randrange(len(self.copies))))
            elif not moved and not sum(self._warp(*place) for place in places):
                assert self.copies, f"a deadlock: {[self._waiting(cta) for cta in self.ctas]}"
                self._arrives(self.copies.pop(self.random.randrange(len(self.copies))))
        while self.copies:
            self._arrives(self.copies.pop())
        return self

    def _waiting(self, cta: Cta) -> dict[str, int]:
        names = [one[0].ptx for one in cta.asked if one is not None]
        return {name: names.count(name) for name in names}

    def _warp(self, cta: Cta, first: int) -> int:
        """Lets the threads of a warp go on as far as they can; how many did."""
        moved = 0
        for thread in range(first, min(first + LANES, self.k.threads)):
            while (one := cta.asked[thread]) is not None:
                answer = self._answer(cta, thread, *one)
                if answer is None:
                    break
                moved += 1
                cta.asked[thread] = _next(cta.threads[thread], answer)
        return moved

    def _answer(self, cta: Cta, thread: int, row: Row, given: dict[str, Any]) -> dict[str, Any] | None:
        """What a thread gets for its instruction; None where it must wait."""
        name = row.opcode
        answer: dict[str, Any] | None = {}
        if name == "mov.u32":
            answer = {"value": [cta.rank if "ctarank" in row.ptx or "ctaid" in row.ptx else len(self.ctas)]}
        elif name in ("shfl.sync.idx", "elect.sync"):
            answer = self._of_warp(cta, thread, row)
        elif name in ("bar.sync", "barrier.cluster.wait"):
            answer = self._barrier(cta, thread, row, given)
        elif name == "barrier.cluster.arrive":
            cta.arrived[thread] += 1
        elif name == "mapa":
            answer = {"mapped": [given["rank"] + 1 << _PEER_BITS | given["address"]]}
        elif name.startswith("mbarrier."):
            answer = self._mbarrier(cta, row, given)
        elif name == "cp.async.bulk":
            self.copies.append((cta, row, given))
        elif name == "cp.async.bulk.tensor":
            self.copies.append((cta, row, given))
            if row.axes["direction"] != "load":
                self._arrives(self.copies.pop())
        elif not name.startswith(("fence", "setmaxnreg", "cp.async.bulk.commit", "cp.async.bulk.wait")):
            answer = self._product(cta, thread, row, given)
        return answer

    def _product(self, cta: Cta, thread: int, row: Row, given: dict[str, Any]) -> dict[str, Any] | None:
        """What a thread gets for an instruction of the tensor cores, or of what brings its results to memory."""
        if row.opcode == "stmatrix":
            return self._stmatrix(cta, thread, row)
        if row.opcode.startswith("cp.async"):
            self._per_thread_copy(cta, thread, row, given)
            return {}
        if row.opcode == "cvt":
            halves = np.array([given["low"], given["high"]], np.uint32).view(np.float32).astype(np.float16)
            return {"packed": [int(halves.view(np.uint32)[0])]}
        if row.opcode.startswith("wgmma."):
            return self._warpgroup(cta, thread, row)
        assert row.opcode.startswith("tcgen05."), row.ptx
        self._tensor_memory(cta, row, given)
        return {}

    def _of_warp(self, cta: Cta, thread: int, row: Row) -> dict[str, Any] | None:
        """Lane 0's value, or whether it is lane 0, once the warp is there together. All lanes are answered at once."""
        first = thread // LANES * LANES
        lanes = cta.asked[first : first + LANES]
        if any(one is None or one[0] is not row for one in lanes):
            return None
        answers = []
        for lane in range(LANES):
            elected = {"leader": [0], "elected": [int(lane == 0)]}
            answers.append(elected if row.opcode == "elect.sync" else {"result": [lanes[0][1]["value"]]})  # type: ignore[index]
        for lane in range(LANES):
            if first + lane != thread:
                cta.asked[first + lane] = _next(cta.threads[first + lane], answers[lane])
        return answers[thread - first]

    def _per_thread_copy(self, cta: Cta, thread: int, row: Row, given: dict[str, Any]) -> None:
        """PTX ISA 9.7.9.25.3: copies arrive when their thread waits for their group, and not before."""
        groups = cta.groups.setdefault(thread, [[]])
        if "commit_group" in row.ptx:
            groups.append([])
        elif "wait_group" in row.ptx:
            while len(groups) - 1 > given["pending"]:
                self._move(cta, groups.pop(0))
        elif row.opcode == "cp.async.mbarrier.arrive":
            assert row.axes["no_increment"], row.ptx
            self.copies.append((cta, row, {**given, "copied": [one for group in groups for one in group]}))
            cta.groups[thread] = [[]]
        else:
            assert {"destination", "source"} == set(given), row.ptx
            groups[-1].append((given["destination"], given["source"], row.axes["size"]))

    def _move(self, cta: Cta, copies: Sequence[tuple[int, int, int]]) -> None:
        for destination, source, size in copies:
            found = np.frombuffer(read(cta.memory, source, size), np.uint8)
            cta.memory[_SHARED][destination : destination + size] = found

    def _stmatrix(self, cta: Cta, thread: int, row: Row) -> dict[str, Any] | None:
        """PTX ISA 9.7.14.5.16: lane r gives the address of row r % 8 of matrix r // 8, its registers pairs of rows."""
        first = thread // LANES * LANES
        lanes = cta.asked[first : first + LANES]
        if any(one is None or one[0] is not row for one in lanes):
            return None
        given = [one[1] for one in lanes if one is not None]
        assert ".trans" not in row.ptx, row.ptx
        for matrix in range(len(given[0]["fragment"])):
            for line in range(8):
                registers = [given[4 * line + pair]["fragment"][matrix] for pair in range(4)]
                place = given[8 * matrix + line]["address"]
                cta.memory[_SHARED][place : place + 16] = np.array(registers, np.uint32).view(np.uint8)
        for place in range(first, first + LANES):
            if place != thread:
                cta.asked[place] = _next(cta.threads[place], {})
        return {}

    def _warpgroup(self, cta: Cta, thread: int, row: Row) -> dict[str, Any] | None:
        """An instruction of the wgmma protocol, done at once when the warpgroup is there together."""
        first = thread // products.WARPGROUP * products.WARPGROUP
        threads = cta.asked[first : first + products.WARPGROUP]
        if any(one is None or one[0] is not row for one in threads):
            return None
        given = [one[1] for one in threads if one is not None]
        if row.opcode == "wgmma.mma_async":
            answers = products.wgmma(row, given, cta.memory[_SHARED])
        else:
            answers = [{output.name: one[output.name] for output in row.outputs} for one in given]
        for place, answer in enumerate(answers):
            if first + place != thread:
                cta.asked[first + place] = _next(cta.threads[first + place], answer)
        return answers[thread - first]

    def _tensor_memory(self, cta: Cta, row: Row, given: dict[str, Any]) -> None:
        """Allocations begin at column 0; products are done at once, and a commit arrives at its mbarrier."""
        if row.opcode == "tcgen05.mma":
            products.tcgen05(row, given, cta.memory[_SHARED], cta.tmem)
        elif row.opcode == "tcgen05.commit":
            for peer in self._reached(cta, given):
                peer.mbarriers[given["barrier"]].arrive()
        elif row.opcode == "tcgen05.alloc":
            cta.memory[_SHARED][given["address"] : given["address"] + 4] = 0

    def _barrier(self, cta: Cta, thread: int, row: Row, given: dict[str, Any]) -> dict[str, Any] | None:
        if row.opcode == "barrier.cluster.wait":
            mine = cta.arrived[thread]
            there = all(each >= mine for one in self.ctas for each in one.arrived)
            return {} if there else None
        number = given.get("id", 0)
        here = [
            place
            for place, one in enumerate(cta.asked)
            if one is not None and one[0].opcode == "bar.sync" and one[1].get("id", 0) == number
        ]
        if len(here) < given.get("threads", self.k.threads):
            return None
        self.met.setdefault(number, set()).update(here)
        for place in here:
            if place != thread:
                cta.asked[place] = _next(cta.threads[place], {})
        return {}

    def _mbarrier(self, cta: Cta, row: Row, given: dict[str, Any]) -> dict[str, Any] | None:
        address = given["barrier"]
        if row.opcode == "mbarrier.init":
            assert address not in cta.mbarriers, "initialised twice"
            cta.mbarriers[address] = Mbarrier(given["count"], given["count"])
            return {}
        if given.get("guard", 1) & 1 == 0:
            return {}
        owner = self._owner(cta, address)
        assert any(each is not None for each in owner.asked), "an arrival at a CTA that has ended"
        one = owner.mbarriers[address & (1 << _PEER_BITS) - 1]
        if "try_wait" in row.opcode:
            return {} if one.phase != given["parity"] else None
        one.bytes += given.get("bytes", 0)
        if "arrive" in row.opcode:
            one.arrive()
        return {}

    def _owner(self, cta: Cta, address: int) -> Cta:
        """The CTA in whose memory a thread of `cta` has this address."""
        return self.ctas[(address >> _PEER_BITS) - 1] if address >> _PEER_BITS else cta

    def _reached(self, cta: Cta, given: dict[str, Any]) -> list[Cta]:
        """The CTAs of a multicast, or the own one."""
        mask = given.get("multicast_mask", 1 << cta.rank)
        assert 0 < mask < 1 << len(self.ctas), "a mask of CTAs that are not there"
        return [each for each in self.ctas if mask >> each.rank & 1]

    def _arrives(self, copy: tuple[Cta, Row, dict[str, Any]]) -> None:
        """Move a box, and complete its bytes on the mbarrier of each CTA that gets it."""
        cta, row, given = copy
        if row.opcode == "cp.async.mbarrier.arrive":
            self._move(cta, given["copied"])
            cta.mbarriers[given["barrier"]].arrive()
            return
        if row.opcode == "cp.async.bulk":
            raw = np.frombuffer(read(cta.memory, given["source"], given["bytes"]), np.uint8).reshape(1, -1)
            self._brought(cta, given, np.array([given["destination"]]), raw)
            return
        one = self.maps[given["tensor_map"]]
        where, indices = _box(one, given["coordinates"])
        if row.axes["direction"] != "load":
            self._stored(cta, one, given["source"], where, indices)
            return
        inside = [index is not None for index in indices]
        values = np.zeros(len(indices), one.array.dtype)
        values[inside] = [one.array[index] for index in indices if index is not None]
        self._brought(
            cta,
            given,
            _swizzled(given["destination"] + where, one.swizzle),
            values.view(np.uint8).reshape(len(indices), -1),
        )

    def _brought(self, cta: Cta, given: dict[str, Any], places: np.ndarray, raw: np.ndarray) -> None:
        """Write what was read to each CTA that gets it, and complete its bytes there."""
        for peer in self._reached(cta, given):
            for place, bytes_of in zip(places, raw, strict=True):
                peer.memory[_SHARED][place : place + len(bytes_of)] = bytes_of
            assert any(each is not None for each in peer.asked), "a copy to a CTA that has ended"
            barrier = peer.mbarriers[given["barrier"]]
            barrier.bytes -= raw.size
            barrier.settle()

    def _stored(
        self, cta: Cta, one: TensorMap, source: int, where: np.ndarray, indices: Sequence[tuple[int, ...] | None]
    ) -> None:
        size = one.array.dtype.itemsize
        for place, index in zip(_swizzled(source + where, one.swizzle), indices, strict=True):
            if index is not None:
                one.array[index] = cta.memory[_SHARED][place : place + size].view(one.array.dtype)[0]


def _box(one: TensorMap, coordinates: Sequence[int]) -> tuple[np.ndarray, list[tuple[int, ...] | None]]:
    """Byte offsets of a box's elements in shared memory, and their indices in the tensor; None outside of it."""
    size = one.array.dtype.itemsize
    begin = [(each + (1 << 31)) % (1 << 32) - (1 << 31) for each in reversed(coordinates)]
    indices: list[tuple[int, ...] | None] = []
    for place in np.ndindex(*one.box):
        index = tuple(int(first + step) for first, step in zip(begin, place, strict=True))
        inside = all(0 <= each < extent for each, extent in zip(index, one.array.shape, strict=True))
        indices.append(index if inside else None)
    return np.arange(math.prod(one.box)) * size, indices


def _swizzled(addresses: np.ndarray, swizzle: int) -> np.ndarray:
    """PTX ISA 5.5.7: the chunk of 16 bytes in its row of 32, 64 or 128 is xored with the row of 128 bytes."""
    chunks = swizzle // 16
    return addresses ^ (addresses >> 7 & max(chunks - 1, 0)) << 4
