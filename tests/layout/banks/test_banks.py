"""Bank conflicts, against the rule of the programming guide written down a second time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvbackend import DiagnosticError, Major, SwizzleMode, f16
from nvbackend.layout import Layout, SmemPtr, composition, gmma_atom, parse
from nvbackend.layout.algebra.swizzle import ComposedLayout
from nvbackend.layout.banks.conflicts import BankAccess, bank_conflicts, ldmatrix_conflicts

SIZES = (1, 2, 4, 8, 16)


def counted(addresses: list[int | None], size: int) -> int:
    """Threads together: 32 of up to 4 bytes, 16 of 8, 8 of 16; of each bank the different words that they touch."""
    together = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[size]
    found = 0
    for first in range(0, len(addresses), together):
        active = [each for each in addresses[first : first + together] if each is not None]
        touched = {each + byte for each in active for byte in range(size)}
        words = np.unique(np.array(sorted(touched), np.int64) >> 2)
        found += int(np.bincount(words & 31, minlength=32).max())
    return found


@st.composite
def accesses(draw: st.DrawFn) -> tuple[list[int | None], int]:
    """Aligned addresses: anywhere, or few and close together, so that words are shared."""
    size = draw(st.sampled_from(SIZES))
    most = draw(st.sampled_from((4, 40, 4000)))
    one = st.one_of(st.integers(0, most).map(lambda number: number * size), st.none())
    return draw(st.lists(one, min_size=32, max_size=32)), size


@given(accesses())
def test_any_addresses(access: tuple[list[int | None], int]) -> None:
    addresses, size = access
    assert bank_conflicts(addresses, access_bytes=size).wavefronts == counted(addresses, size)


@given(accesses())
def test_the_schedule_serves_everyone_once_and_a_bank_one_word_at_a_time(access: tuple[list[int | None], int]) -> None:
    addresses, size = access
    found = bank_conflicts(addresses, access_bytes=size)
    served = []
    for wavefront in found.schedule():
        for bank, (word, threads) in wavefront.words.items():
            assert word % 32 == bank
            assert {thread * size // 128 for thread in threads} == {wavefront.phase} or size < 4
            served += [(thread, word) for thread in threads]
    wanted = {
        (thread, (address + byte) // 4)
        for thread, address in enumerate(addresses)
        if address is not None
        for byte in range(size)
    }
    assert sorted(served) == sorted(wanted)
    phases = {wavefront.phase for wavefront in found.schedule()}
    assert found.conflicts == found.wavefronts - len(phases)


@pytest.mark.parametrize(
    ("stride", "wavefronts"),
    [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (32, 32), (33, 1), (36, 4), (64, 32)],
)
def test_strides_of_words(stride: int, wavefronts: int) -> None:
    """As many as the stride and 32 have in common."""
    assert bank_conflicts(Layout(32, stride), 32, 4).wavefronts == wavefronts


@pytest.mark.parametrize(("size", "wavefronts"), [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4)])
def test_neighbours_never_conflict(size: int, wavefronts: int) -> None:
    found = bank_conflicts(Layout(32, 1), 8 * size, size)
    assert (found.wavefronts, found.conflicts) == (wavefronts, 0)


@pytest.mark.parametrize("mode", [SwizzleMode.B32, SwizzleMode.B64, SwizzleMode.B128])
def test_a_swizzle_takes_the_conflicts_out_of_ldmatrix(mode: SwizzleMode) -> None:
    """Eight rows of a swizzled atom, 16 bytes of each: what the swizzles are made for."""
    atom = gmma_atom(Major.K, mode, f16)
    columns = mode.bytes // 2
    plain = ldmatrix_conflicts(atom.layout_b(None, 0), 16, 1)
    for chunk in range(0, columns, 8):
        rows = [2 * atom(row, chunk) for row in range(8)]
        assert ldmatrix_conflicts(rows, count=1).wavefronts == 1
    assert plain.wavefronts == mode.bytes // 16


def test_a_composed_layout_is_swizzled() -> None:
    column = composition(gmma_atom(Major.K, SwizzleMode.B128, f16), Layout(8, 1))
    assert ldmatrix_conflicts(column, 16, 1).wavefronts == 1
    assert ldmatrix_conflicts(parse("(8):(64)"), 16, 1).wavefronts == 8
    unset = ComposedLayout(column.swizzle, SmemPtr(), column.layout_b)
    assert ldmatrix_conflicts(unset, 16, 1).addresses == ldmatrix_conflicts(column, 16, 1).addresses


def test_a_padded_row_has_no_conflicts() -> None:
    assert [ldmatrix_conflicts(Layout(32, stride), 16, 4).wavefronts for stride in (64, 72)] == [32, 4]


def test_every_element_of_a_thread_may_be_said() -> None:
    vectors = bank_conflicts(Layout((32, 8), (8, 1)), 16, 16)
    assert vectors == BankAccess(tuple(range(0, 512, 16)), 16, "(_32,_8):(_8,_1)")


def test_bytes_of_one_word_are_read_together() -> None:
    assert bank_conflicts(Layout(32, 1), 8, 1).wavefronts == bank_conflicts(Layout(32, 0), 8, 1).wavefronts == 1


@pytest.mark.parametrize(
    ("call", "rule", "words"),
    [
        (lambda: bank_conflicts(Layout(32), 32, 12), "banks.access", "12 bytes a thread"),
        (lambda: ldmatrix_conflicts(Layout(24, 8), 16, 3), "banks.access", "3 matrices"),
        (lambda: bank_conflicts(Layout(32), 0), "call.argument", "element_bits: an element has 0 bits"),
        (lambda: ldmatrix_conflicts(Layout(8), 0, 1), "call.argument", "an element has 0 bits"),
        (lambda: bank_conflicts(Layout(31), 32), "banks.lanes", "31 addresses were given for 32 threads"),
        (lambda: bank_conflicts([0] * 33), "banks.lanes", "33 addresses were given for 32 threads"),
        (lambda: bank_conflicts(Layout(32, 1), 16, 4), "banks.alignment", "thread 1 accesses 4 bytes at 2,"),
        (lambda: bank_conflicts(Layout(32, 1), 4, 1), "banks.alignment", "at 0.5,"),
        (lambda: bank_conflicts(Layout((32, 2), (1, 32)), 32, 8), "banks.vector", "the elements 0, 32 of 32 bits"),
        (lambda: bank_conflicts(Layout((32, 2), (2, 1)), 32, 16), "banks.vector", "in one access of 16 bytes"),
        (
            lambda: bank_conflicts(ComposedLayout(parse("Sw<3,4,3> o 0 o _1:_0").swizzle, SmemPtr(16), Layout(32)), 8),
            "layout-algebra.element-width",
            "16 bits and not 8",
        ),
    ],
)
def test_what_can_not_be_counted(call, rule: str, words: str) -> None:
    with pytest.raises(DiagnosticError) as error:
        call()
    (found,) = error.value.diagnostics
    assert found.rule_id == rule
    assert words in found.message
    assert found.location is not None and found.location.file == __file__
