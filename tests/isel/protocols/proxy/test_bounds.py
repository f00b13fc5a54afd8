"""What is said once, and what is said of kernels with more accesses than are followed."""

from __future__ import annotations

from nvbackend import u32
from nvbackend.diagnostics import Diagnostic
from tests.support.proxy_program import Program

MANY = 40


def _stored(p: Program, *numbers: int) -> list[Diagnostic]:
    """What is said where so many buffers are written, and those of these numbers stored without a fence."""
    buffers = [p.k.shared(u32, 128, align=16, name=f"buffer{number}") for number in range(MANY)]
    for buffer in buffers:
        buffer[p.k.thread_id()] = 1
    p.k.barrier.sync()
    with p.k.one_thread():
        for number in numbers:
            p.k.bulk.store(p.pointer, buffers[number], 512)
        p.k.tma.commit_group()
        p.k.tma.wait_group()
    return p.found()


def test_the_newest_accesses_are_followed() -> None:
    """All of them are mistakes: of the last is spoken, of the first not any more."""
    found = _stored(Program(), *range(MANY))
    assert {one.rule_id for one in found} == {"proxy.missing-fence"}
    assert any(f"buffer{MANY - 1}" in str(one) for one in found)
    assert not any("buffer0" in str(one) for one in found)


def test_a_second_read_of_the_same_write_is_the_same_mistake() -> None:
    assert [one.rule_id for one in _stored(Program(), MANY - 1, MANY - 1)] == ["proxy.missing-fence"]
