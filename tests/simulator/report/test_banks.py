"""Passes over the banks and sectors, against a transcription thread by thread, and against the layout room's model."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.layout.banks.conflicts import bank_conflicts, ldmatrix_conflicts
from nvbackend.simulator.report.banks import Cost, sectors, wavefronts

SIZES = (1, 2, 4, 8, 16)


def counted(threads: list[int], offsets: list[int], size: int) -> tuple[int, int]:
    """Passes and phases of one warp's access: in each phase as many as the fullest bank has different words."""
    lanes_of_a_phase = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[size]
    phases: dict[int, list[set[int]]] = {}
    for thread, offset in zip(threads, offsets, strict=True):
        banks = phases.setdefault(thread % 32 // lanes_of_a_phase, [set() for _ in range(32)])
        for byte in range(offset, offset + size):
            banks[byte // 4 % 32].add(byte // 4)
    return sum(max(map(len, banks)) for banks in phases.values()), len(phases)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(12))
def test_any_addresses(size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    threads = np.sort(random.choice(96, random.integers(1, 97), replace=False))
    offsets = random.integers(0, 4096 // size, len(threads)) * size
    found = wavefronts(threads, offsets, size)
    parts = [
        counted(threads[mine].tolist(), offsets[mine].tolist(), size)
        for warp in np.unique(threads // 32)
        for mine in [threads // 32 == warp]
    ]
    assert found == Cost(len(parts), sum(taken for taken, _ in parts), sum(least for _, least in parts))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stride", [0, 1, 2, 3, 8, 17, 32, 33])
def test_the_layout_rooms_model_agrees(size: int, stride: int) -> None:
    offsets = np.arange(32) * stride * size
    model = bank_conflicts(offsets.tolist(), access_bytes=size)
    found = wavefronts(np.arange(32), offsets, size)
    assert (found.taken, found.taken - found.least) == (model.wavefronts, model.conflicts)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("pitch", [16, 32, 64, 80, 128, 144, 256])
def test_the_layout_rooms_model_of_ldmatrix_agrees(count: int, pitch: int) -> None:
    rows = np.arange(8 * count) * pitch
    model = ldmatrix_conflicts(rows.tolist(), count=count)
    found = wavefronts(np.arange(8 * count), rows, 16)
    assert (found.taken, found.taken - found.least) == (model.wavefronts, model.conflicts)


@pytest.mark.parametrize("size", [*SIZES, 32])
@pytest.mark.parametrize("seed", range(12))
def test_sectors_of_any_addresses(size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    threads = np.sort(random.choice(96, random.integers(1, 97), replace=False))
    addresses = 0x7000_0000_0000 + random.integers(0, 2048 // size, len(threads)) * size
    taken = least = 0
    for warp in np.unique(threads // 32):
        mine = addresses[threads // 32 == warp].tolist()
        touched = {byte for address in mine for byte in range(address, address + size)}
        taken += len({byte // 32 for byte in touched})
        least += -(-len(touched) // 32)
    assert sectors(threads, addresses, size) == Cost(len(np.unique(threads // 32)), taken, least)


def test_sectors_of_arrays_far_apart() -> None:
    addresses = np.array([0x7A00_0000_0000, 0x7BFF_FFFF_FFE0, 0x7A00_0000_0004])
    assert sectors(np.array([0, 1, 40]), addresses, 4) == Cost(2, 3, 2)
