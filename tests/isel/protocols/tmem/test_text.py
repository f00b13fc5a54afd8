"""What is said of a mistake with tensor memory, and which lines it points to: read by hand against the kernel."""

from __future__ import annotations

import linecache

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.intrinsics.row.types import u32
from nvbackend.isel.protocols.tmem.protocol import check_tmem_protocol
from nvbackend.signature import Parameter, Pointer
from tests.support.tmem_kernel import COLUMNS, F16, SHAPE, multiply

LOAD = 'k.tcgen05.ld(tmem + lanes + first, "32x32b", 32)'
ALLOC, MMA, ENDS = "k.tcgen05.alloc(cell, COLUMNS)", "k.tcgen05.mma(F16,", "k.return_()"
FREE = "k.tcgen05.dealloc(tmem, given)"
STILL = (
    "may end here with the 128 columns of tmem still allocated: it is allocated at {ALLOC}, and no dealloc is on the"
)
TEXTS: list[tuple[str, int, str, str, str]] = [
    ("no dealloc", 0, STILL, ALLOC, ""),
    ("dealloc on one path", 0, STILL, ENDS, f"allocated: {ALLOC}"),
    ("return early", 4, STILL, ENDS, f"allocated: {ALLOC}"),
    ("free twice", 0, "tmem is given back a second time", "dealloc(tmem, COLUMNS)", f"given back: {FREE}"),
    ("other columns", 0, "tmem was allocated with 128 columns, and 64 are given back", FREE, ""),
    ("too many columns", 0, "has 640 columns of tensor memory; an SM has 512", "alloc(cell + 1, 512)", ""),
    (
        "relinquish first",
        0,
        "allocated after this CTA",
        ALLOC,
        "no more allocations: k.tcgen05.relinquish_alloc_permit()",
    ),
    (
        "read after dealloc",
        0,
        "ld accesses tmem after it was given back",
        'ld(tmem, "32x32b", 1)',
        f"given back: {FREE}",
    ),
    ("store without wait", 0, "ld accesses columns of tmem that a", LOAD, "columns that a store fills: k.tcgen05.st("),
    ("no commit", 0, "ld reads tmem here, and no tcgen05.commit is after the mma of {MMA}", LOAD, f"it: {MMA}"),
    ("no commit", 4, "the kernel ends here, and no tcgen05.commit is after the mma of {MMA}", MMA, ""),
    ("no wait", 0, "ld reads tmem, which the mma of {MMA} may still", LOAD, f"a commit after it writes: {MMA}"),
    ("no wait", 4, "ld reads tmem, which the mma of another warp may still", LOAD, ""),
    ("no fence after", 4, "ld reads tmem after a wait with no", LOAD, "after the wait: k.mbarrier.wait(done, 0)"),
    ("no fence before", 0, "tmem was read here, and another warp gives it back", LOAD, ""),
    ("accumulate at first", 4, "mma adds to tmem, which nothing has written", MMA, ""),
    ("outside", 0, "columns 112 to 143 leave tmem, which has 128 columns", LOAD, ""),
]


def told(k: KernelBuilder) -> Diagnostic:
    k.return_()
    k.core.link()
    [found] = check_tmem_protocol(k.machine)
    return found


def source(at: Location | None) -> str:
    return linecache.getline(at.file, at.line).strip() if at else "nowhere"


def line(kernel: Diagnostic, start: str) -> str:
    """`line N` of the file that a diagnostic is about, where N is the first line with this text."""
    assert kernel.location is not None
    lines = enumerate(linecache.getlines(multiply.__code__.co_filename), 1)
    return next(f"line {number}" for number, text in lines if start in text)


@pytest.mark.parametrize(("change", "issuer", "text", "at", "note"), TEXTS, ids=[f"{one[0]}-{one[1]}" for one in TEXTS])
def test_a_mistake_is_told_with_its_lines(change: str, issuer: int, text: str, at: str, note: str) -> None:
    found = told(multiply(change, issuer=issuer, threads=128 if issuer == 0 else 192))
    for name, start in (("ALLOC", ALLOC), ("MMA", MMA)):
        text = text.replace(f"{{{name}}}", line(found, start))
    assert text in found.message
    assert at in source(found.location)
    notes = [f"{said.replace(': here', '')}: {source(place)}" for said, place in found.notes]
    assert len(notes) == bool(note)
    assert note in "".join(notes)


def test_of_several_mma_the_last_one_is_named() -> None:
    """One commit is for all of them, and one wait; so is what is missing."""
    for commits, at in ((True, "load ="), (False, "load =")):
        parameters = [Parameter("out", Pointer(u32))]
        k = KernelBuilder("kernel", "sm_100a", threads=160, parameters=parameters)
        done = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.tcgen05.tmem(COLUMNS) as tmem:
            with k.one_thread(0):
                k.tcgen05.mma(F16, tmem, 0, 0, SHAPE, accumulate=False)
                k.tcgen05.mma(F16, tmem, 0, 0, SHAPE, accumulate=True)  # the last one
                if commits:
                    k.tcgen05.commit(done)
            with k.if_(k.warp_id() < 4):
                load = k.tcgen05.ld(tmem, "32x32b", 1)
                k.tcgen05.wait_ld(load)
                k.arguments[0][0] = load.values[0]
        found = told(k)
        assert at in source(found.location)
        [(_, place)] = found.notes
        assert source(place).endswith("# the last one")
        assert f"the mma of line {place.line if place else 0}" in found.message


@pytest.mark.parametrize("issuer", [0, 4])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("return early", "accumulate at first"),
        ("relinquish first", "no fence before"),
        ("accumulate at first", "other columns"),
        ("accumulate at first", "outside"),
        ("outside", "free twice"),
        ("no wait", "free twice"),
        ("other columns", "read after dealloc"),
    ],
)
def test_mistakes_are_told_in_the_order_of_the_text(first: str, second: str, issuer: int) -> None:
    lines = []
    for changes in ((first,), (second,), (second, first)):
        k = multiply(*changes, issuer=issuer, threads=160)
        k.return_()
        k.core.link()
        lines.append([one.location and one.location.line for one in check_tmem_protocol(k.machine)])
    assert lines[2] == lines[0] + lines[1]
