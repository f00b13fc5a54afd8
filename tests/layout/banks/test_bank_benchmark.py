"""The benchmark that compares bank conflicts with the hardware's counter: its kernels, and how it reads counts."""

from __future__ import annotations

import re

import pytest

from benchmarks import bank_conflicts as benchmark

EVERY = list(benchmark.patterns())
HEAD = '"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'


def printed(off: str = "") -> str:
    """What `ncu --csv` prints where the hardware counts what is expected, and one more for the pattern `off`."""
    lines = ["==PROF== Connected to process 1", "", HEAD]
    for place, pattern in enumerate(EVERY):
        more = pattern.name == off
        metrics = {
            benchmark.WAVEFRONTS: pattern.access.wavefronts + more,
            benchmark.CONFLICTS: pattern.access.conflicts + more,
        }
        for metric, value in metrics.items():
            lines.append(f'"{place}","1","bank_{pattern.name}(u64, u64)","Command line","{metric}","","{value:,}"')
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("pattern", EVERY[::4], ids=lambda pattern: pattern.name)
def test_a_kernel_has_one_load_of_the_width_asked_for(pattern: benchmark.Pattern) -> None:
    text = benchmark.build(pattern).compile(assemble=None).ptx
    found = re.findall(r"^\s*((?:ld\.shared|ldmatrix\.)\S*)", text, re.MULTILINE)
    width = {4: "ld.shared.b32", 8: "ld.shared.v2.b32", 16: "ld.shared.v4.b32"}[pattern.access.bytes]
    assert found == ["ldmatrix.sync.aligned.m8n8.x4.shared.b16" if pattern.matrix else width]


def test_addresses_are_in_the_memory_that_is_there() -> None:
    ends = [address + one.access.bytes for one in EVERY for address in one.access.addresses if address is not None]
    assert max(ends) <= benchmark.SHARED_BYTES
    assert len({one.name for one in EVERY}) == len(EVERY)
    assert sum(one.judged for one in EVERY) >= 10


def test_counts_that_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.compare(EVERY, benchmark.counted(printed()))
    assert "differs" not in capsys.readouterr().out


def test_counts_that_differ_or_are_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert not benchmark.compare(EVERY, benchmark.counted(printed("words_8")))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "differs" in line)
    assert line.split() == ["words_8", "8", "9", "7", "8", "differs"]
    assert not benchmark.compare(EVERY, benchmark.counted(""))
    assert benchmark.compare(EVERY, benchmark.counted(printed("pairs1_bytes8")))
