"""A sparse A: its metadata in registers, and the matrix with its zeros. PTX ISA 9.7.14.6.1, 9.7.15.6.1, 9.7.16.10.8.

A chunk of a row has four bits: of 2 elements of 32 bits, 4 of 16 or 8 bits, 4 pairs of 4 bits. They hold two indices,
the lower one first, of the two parts of the chunk that are there; one element of 32 bits counts as two parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_CODES = 8
"""Chunks that a register of metadata speaks of."""


def chunk_elements(width: int) -> int:
    """Elements of the full row that a chunk spans, by the bits of one."""
    return {32: 2, 16: 4, 8: 4, 4: 8}[width]


def metadata_codes(words: Array, selector: int, width: int, chunks: int) -> Array:
    """The code of each chunk, (warps, 16, chunks), from a word of each thread.

    The words of chunks / 4 threads of each group count, which `selector` names. Figures of PTX ISA 9.7.14.6.2.
    """
    warps = words.reshape(-1, _CODES, 4)
    count = chunks // 4
    found = np.zeros((len(warps), 16, chunks), np.uint8)
    for part in range(count):
        word = warps[:, :, count * selector + part]
        for place in range(_CODES):
            if width >= 16:
                half, chunk = place // 4, 4 * part + place % 4
            else:
                half, chunk = part % 2, _CODES * (part // 2) + place
            found[:, 8 * half : 8 * half + 8, chunk] = (word >> np.uint32(4 * place)) & np.uint32(0xF)
    return found


def expanded(stored: Array, codes: Array, width: int) -> tuple[Array, Array]:
    """The full matrix of codes (.., rows, 2 K) of a stored one (.., rows, K), and which elements of it are there."""
    *outer, rows, kept = stored.shape
    chunks = codes.shape[-1]
    span = chunk_elements(width)
    first, second = (codes & 3).astype(np.int64), (codes >> 2).astype(np.int64)
    if width == 32:
        places = (first >> 1)[..., None]
    elif width == 4:
        places = np.stack([2 * first, 2 * first + 1, 2 * second, 2 * second + 1], axis=-1)
    else:
        places = np.stack([first, second], axis=-1)
    places = places + span * np.arange(chunks)[:, None]
    places = places.reshape(*outer, rows, kept)
    full = np.zeros((*outer, rows, chunks * span), stored.dtype)
    present = np.zeros(full.shape, bool)
    np.put_along_axis(full, places, stored, axis=-1)
    np.put_along_axis(present, places, np.ones_like(stored, bool), axis=-1)
    return full, present


def of_warpgroup(codes: Array) -> Array:
    """The codes of whole matrices, from those of 16 rows of each of four warps."""
    return codes.reshape(-1, 4 * 16, codes.shape[-1])
