"""What the things of a kernel are called in its diagnostics: as the user's variables, and never by a default twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32
from nvbackend.builder.scopes.names import _assigned, name_fault


def said(body: Callable[[nvb.KernelBuilder], None]) -> str:
    k = nvb.KernelBuilder("named", "sm_90a", threads=128)
    body(k)
    with pytest.raises(DiagnosticError) as raised:
        k.finish()
    (found,) = raised.value.diagnostics
    return found.message


def test_a_barrier_is_called_as_its_variable() -> None:
    def waits(k: nvb.KernelBuilder) -> None:
        arrived = k.mbarrier.array(1, 128)
        k.mbarrier.ready()
        k.mbarrier.wait(arrived, 0)

    assert "mbarrier arrived, and nothing in the kernel arrives" in said(waits)


@pytest.mark.parametrize(("count", "called"), [(1, "the mbarrier,"), (2, "mbarrier[0],")])
def test_a_barrier_without_a_name_is_not_called_mbarrier_mbarrier(count: int, called: str) -> None:
    def waits(k: nvb.KernelBuilder) -> None:
        barriers = [k.mbarrier.array(count, 128)]
        k.mbarrier.ready()
        k.mbarrier.wait(barriers[0], 0)

    assert f"a phase of {called} and nothing" in said(waits)


def test_shared_memory_is_called_as_its_variable() -> None:
    def races(k: nvb.KernelBuilder) -> None:
        buffer = k.shared(f32, 128)
        buffer[k.thread_id()] = 1.0
        buffer[127 - k.thread_id()].to(f32)

    assert "reads shared memory buffer with no barrier" in said(races)


def test_shared_memory_without_a_name_is_shared_memory() -> None:
    def races(k: nvb.KernelBuilder) -> None:
        buffers = [k.shared(f32, 128)]
        buffers[0][k.thread_id()] = 1.0
        buffers[0][127 - k.thread_id()].to(f32)

    assert "reads shared memory with no barrier" in said(races)


def test_a_variable_is_called_as_such_without_a_number() -> None:
    def waits(k: nvb.KernelBuilder) -> None:
        done = k.mbarrier.array(1, 128)
        k.mbarrier.ready()
        for _ in range(2):
            phase = k.var(0)
        with k.range(8):
            k.mbarrier.arrive(done)
            k.mbarrier.wait(done, phase)

    assert "waits for parity phase of mbarrier done" in said(waits)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("full = k.mbarrier.array(2, arrivals=1)", "full"),
        ("full: Address = self.k.mbarrier.array(2,", None),
        ("full: Address = self.k.mbarrier.array(2, 1)", "full"),
        ("with k.mbarrier.array(1, 1) as full:", "full"),
        ("full, empty = k.mbarrier.array(1, 1), k.mbarrier.array(1, 1)", None),
        ("full = k.mbarrier.array(1, 1); empty = k.mbarrier.array(1, 1)", None),
        ("tile = k.shared(u8, 64); full = k.mbarrier.array(1, 1)", "full"),
        ("with k.range(4) as i, k.mbarrier.array(1, 1) as full:", "full"),
        ("full = k.mbarrier.array(2, 1) + 1", None),
        ("full = [k.mbarrier.array(1, 1)]", None),
        ("wait(k.mbarrier.array(1, 1))", None),
        ("voll\u00e4 = k.mbarrier.array(1, 1)", None),
        ("", None),
    ],
)
def test_a_name_is_taken_from_one_certain_assignment(line: str, name: str | None) -> None:
    assert _assigned(line, "array") == name


@pytest.mark.parametrize("shown", [40, 41])
def test_a_name_has_256_characters_that_print(shown: int) -> None:
    assert name_fault("n" * 256) is None
    longer, odd = name_fault("n" * 257), name_fault("m" * (shown - 1) + "\0")
    assert longer is not None and odd is not None
    assert "257 characters" in longer.message
    assert f"'{'n' * 40}...'" in longer.message
    assert ("'" + "m" * (shown - 1) + "\\x00'" in odd.message) is (shown <= 40)
    assert (f"'{'m' * 40}...'" in odd.message) is (shown > 40)
