"""What the page of a kernel draws and decodes. The witnesses are formulas of the PTX ISA, and the report itself."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from nvbackend.codegen.looking.drawn import MOST_CELLS, pictures, words
from tests.support.pages import read

SWIZZLES = {"B32": 32, "B64": 64, "B128": 128}


def multiplied(swizzle: str) -> nvb.CompiledKernel:
    """A product of a warpgroup with accumulators of 64 x 64, and tiles with this swizzle."""
    columns = SWIZZLES[swizzle] // 2

    @nvb.kernel("sm_90a", threads=128)
    def product(k: nvb.KernelBuilder, out: nvb.Pointer[f32]) -> None:
        acc = k.wgmma.accumulator(64)
        tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode[swizzle], f16, 64, columns))
        with k.range(k.thread_id(), 64 * columns, 128) as element:
            tile.address.cast(f16)[element] = 0.0
        k.fence.proxy_async()
        k.barrier.sync()
        with k.wgmma.group():
            k.wgmma.mma_async(acc, tile, tile, nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))  # product
        out[k.thread_id()] = acc.values()[0]

    return product.compile(assemble=False)


@pytest.fixture(scope="module")
def compiled() -> nvb.CompiledKernel:
    return multiplied("B128")


def cells(svg: str) -> list[list[str]]:
    """The lines of each cell with text."""
    found = re.findall(r'<text class="cell".*?</text>', svg, re.S)
    return [[unescape(line) for line in re.findall(r">([^<>\n]+)<", cell)] for cell in found]


@pytest.mark.parametrize(("name", "width"), SWIZZLES.items())
def test_a_swizzle_is_drawn_as_the_isa_has_it(name: str, width: int) -> None:
    """Bits 4 to 6 of an address are changed by bits 7 to 9: as many of them as the width has."""
    machine = multiplied(name).machine
    (svg,) = (picture.svg for title, picture in pictures(machine) if title.startswith(f"swizzle {name}"))
    bytes_ = [16 * unit for unit in range(8 * width // 16)]
    mask = width // 16 - 1
    assert cells(svg) == [[str((at ^ ((at >> 7 & mask) << 4)) // 16)] for at in bytes_]


def test_fragments_are_drawn_in_part_where_they_are_large(compiled: nvb.CompiledKernel) -> None:
    """D of m64n64 has 32 elements a thread; element 4 is 8 columns to the right of element 0, and 2 is 8 rows below."""
    drawn = dict(pictures(compiled.machine))
    svg = drawn["d of wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"].svg
    assert "the first 8 of 32 elements of a thread" in svg
    found = cells(svg)
    assert len(found) == MOST_CELLS == 64 * 16
    for row, column in np.ndindex(64, 16):
        thread = 32 * (row // 16) + 4 * (row % 8) + column % 8 // 2
        element = column % 2 + 2 * (row % 16 // 8) + 4 * (column // 8)
        assert found[row * 16 + column] == [f"T{thread}", f"V{element}"]


def test_words_are_decoded_at_their_lines(compiled: nvb.CompiledKernel) -> None:
    """The offset between groups of 8 rows is 1024 bytes, in units of 16 from bit 32 on; swizzle 1 in bit 62 is B128."""
    a, b = words(compiled.machine)
    assert (a.name, b.name) == ("a_desc", "b_desc")
    assert (a.value >> 32) & 0x3FFF == 1024 // 16 and a.value >> 62 == 1
    assert "stride_byte_offset 1024" in a.fields and a.fields.endswith("swizzle B128")
    text = compiled.html()
    key = next(key for key, line in read(text).columns[0] if line.endswith("# product"))
    assert text.count(f'<tr class="l" data-p="{key}">') == 2
    assert f"<td>{a.value:#018x}</td><td>{a.fields}</td>" in text


def test_the_timeline_of_a_launch_is_in_the_page(compiled: nvb.CompiledKernel) -> None:
    loaded = nvb.runtime.load(compiled, device="simulator", report=True)
    loaded.launch(1, np.zeros(128, np.float32))
    timeline = loaded.report.timeline()
    text = compiled.html(timeline)
    assert timeline.svg in text and text.count("<details>") == 3
    assert "Timeline" not in compiled.html()
    assert {name for name, _ in read(text).attributes} & {"src", "href", "xlink:href", "onload"} == set()
    above = re.sub(r"(?s)<section>.*</section>", "", text)
    assert set(re.findall(r"https?:[^\s\"]+", above)) == {"http://www.w3.org/2000/svg"}
    assert all(place.startswith("#") for place in re.findall(r"url\(([^)]*)", above))


def test_what_is_no_picture_is_refused(compiled: nvb.CompiledKernel) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        compiled.html("timeline.svg")  # type: ignore[arg-type]
    assert [each.rule_id for each in caught.value.diagnostics] == ["call.argument"]


def test_a_line_names_those_that_called_it() -> None:
    def plus(k: nvb.KernelBuilder, x: nvb.Address) -> None:
        x[k.thread_id()] += 1.0  # inner

    @nvb.kernel("sm_80", threads=32)
    def twice(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:
        plus(k, x)  # outer

    text = twice.compile(assemble=False).html()
    python = {line.partition("# ")[2]: key for key, line in read(text).columns[0] if "# " in line}
    outer = plus.__code__.co_firstlineno + 5
    assert re.search(rf'data-p="{python["inner"]}" title="called at test_page_pictures.py:{outer}"', text)
    assert python["outer"] is not None
