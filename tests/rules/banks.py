"""Bank conflicts, and pictures of who holds what."""

from __future__ import annotations

from nvbackend.layout import Layout, bank_conflicts, pictures
from tests.rules.example import program


@program("banks.access")
def twelve_bytes_a_thread():
    bank_conflicts(Layout(32, 3), element_bits=32, access_bytes=12)  # breaks
    bank_conflicts(Layout(32, 4), element_bits=32, access_bytes=16)  # keeps


@program("banks.alignment")
def vectors_between_their_places():
    bank_conflicts(Layout(32, 3), element_bits=32, access_bytes=8)  # breaks
    bank_conflicts(Layout(32, 2), element_bits=32, access_bytes=8)  # keeps


@program("banks.lanes")
def half_a_warp():
    addresses = [4 * thread for thread in range(16)]
    bank_conflicts(addresses)  # breaks
    bank_conflicts([*addresses, *[None] * 16])  # keeps


@program("banks.vector")
def values_that_lie_apart():
    bank_conflicts(Layout((32, 2), (1, 32)), element_bits=32, access_bytes=8)  # breaks
    bank_conflicts(Layout((32, 2), (2, 1)), element_bits=32, access_bytes=8)  # keeps


@program("picture.tile")
def a_tile_too_small():
    accumulator = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    pictures.thread_values(accumulator, (8, 8))  # breaks
    pictures.thread_values(accumulator, (16, 8))  # keeps
