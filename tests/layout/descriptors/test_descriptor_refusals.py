"""Layouts that no descriptor says: the rule, the reason, and the user's line. And the words of tcgen05."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from nvbackend import (
    DiagnosticError,
    ElementType,
    Major,
    SmemDescriptor,
    SwizzleMode,
    Tcgen05SmemDescriptor,
    Tcgen05Swizzle,
    e2m1,
    e2m3,
    f16,
    i32,
    s8,
    tf32,
)
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import (
    ComposedLayout,
    Layout,
    SmemPtr,
    Swizzle,
    desc_layout,
    gmma_atom,
    make_gmma_desc,
    make_umma_desc,
    smem_desc,
    tile_to_shape,
    tiled_divide,
)
from nvbackend.signature import Parameter, Scalar
from tests.support.said import said

K_ATOM = gmma_atom(Major.K, SwizzleMode.B128, f16)
MN_ATOM = gmma_atom(Major.MN, SwizzleMode.B128, f16)
PLAIN = Layout(((8, 8), (8, 2)), ((8, 64), (1, 512)))
"""64 x 16, K-major without swizzle, as a descriptor can say it."""
TRANSPOSED = Layout(((8, 8), (8, 2)), ((1, 64), (8, 512)))
"""The same MN-major."""


def in_bytes(layout: Layout, bits: int = 3) -> ComposedLayout:
    return ComposedLayout(Swizzle(bits, 4, 3), SmemPtr(16), layout)


def from_element(offset: int, bits: int = 3) -> ComposedLayout:
    return ComposedLayout(Swizzle(bits, 3, 3), offset, Layout((64, 16), (8 << bits, 1)))


REFUSED: dict[str, tuple[Callable[[], Any], list[str], str]] = {
    "the other way round": (
        lambda: make_gmma_desc(Major.K, TRANSPOSED, f16),
        ["descriptor.contiguous"],
        "of 8 neighbours along K, none lie side by side",
    ),
    "and says so": (
        lambda: make_gmma_desc(Major.K, TRANSPOSED, f16),
        ["descriptor.contiguous"],
        "neighbours along M or N are: it may be meant the other way round",
    ),
    "four neighbours of eight": (
        lambda: make_gmma_desc(Major.K, Layout((64, (4, 4)), (4, (1, 256))), f16),
        ["descriptor.contiguous"],
        "the first 4 lie side by side",
    ),
    "rows that start inside 16 bytes": (
        lambda: make_gmma_desc(Major.K, Layout((64, 16), (20, 1)), f16),
        ["descriptor.contiguous"],
        "elements lie 20 elements apart",
    ),
    "a start inside 16 bytes": (
        lambda: make_gmma_desc(Major.K, from_element(4), f16),
        ["descriptor.contiguous"],
        "it begins at element 4, inside 16 bytes",
    ),
    "an operand that starts inside 16 bytes": (
        lambda: smem_desc(Major.K, Layout(((64, 16), 2), ((64, 1), 4)), f16),
        ["descriptor.core-matrix"],
        "the rows of a core matrix lie 128 bytes apart, with no swizzle 16",
    ),
    "a step of half a chunk": (
        lambda: smem_desc(Major.K, Layout((((8, 8), (8, 2)), 2), (((8, 64), (1, 512)), 4)), f16),
        ["descriptor.contiguous"],
        "operands lie 4 elements apart",
    ),
    "a pitch that wants another swizzle": (
        lambda: make_gmma_desc(Major.K, in_bytes(Layout((64, 16), (64, 1)), bits=2), f16),
        ["descriptor.core-matrix"],
        "or make it one with 128 B swizzle",
    ),
    "a pitch that no swizzle has": (
        lambda: make_gmma_desc(Major.K, in_bytes(Layout((64, 16), (72, 1))), f16),
        ["descriptor.core-matrix"],
        "the rows of a core matrix lie 144 bytes apart, with 128 B swizzle 128",
    ),
    "both strides wrong, told together": (
        lambda: make_gmma_desc(Major.MN, in_bytes(Layout(((8, 8, 2), (8, 2)), ((1, 16, 4096), (128, 1024)))), f16),
        ["descriptor.core-matrix", "descriptor.core-matrix"],
        "the chunks of a row lie 32 bytes apart",
    ),
    "core matrices at two strides": (
        lambda: make_gmma_desc(Major.K, Layout(((8, 4, 2), (8, 2)), ((8, 64, 4096), (1, 2048))), f16),
        ["descriptor.stride"],
        "core matrices do not lie at one stride",
    ),
    "rows of a core matrix at two strides": (
        lambda: make_gmma_desc(Major.K, Layout(((4, 16), (8, 2)), ((8, 64), (1, 2048))), f16),
        ["descriptor.stride"],
        "the rows of a core matrix do not lie at one stride",
    ),
    "a whole tile": (
        lambda: make_gmma_desc(Major.K, tile_to_shape(K_ATOM, (128, 64)), f16),
        ["descriptor.extent"],
        "64 columns, and one instruction reads 16 or 32 of K",
    ),
    "half a core matrix": (
        lambda: make_gmma_desc(Major.K, Layout((12, (8, 2)), (8, (1, 512))), f16),
        ["descriptor.extent"],
        "12 rows are not a whole number of 8",
    ),
    "a panel and a half": (
        lambda: make_gmma_desc(Major.MN, in_bytes(Layout((96, 16), (1, 64))), f16),
        ["descriptor.extent"],
        "96 rows are not a whole number of 64",
    ),
    "K beyond a row of 32 bytes": (
        lambda: make_gmma_desc(Major.K, in_bytes(Layout((64, (16, 2)), (16, (1, 1024))), bits=1), f16),
        ["descriptor.extent"],
        "32 columns leave the 16 in a row of the swizzle pattern",
    ),
    "three modes": (
        lambda: make_gmma_desc(Major.K, tile_to_shape(K_ATOM, (128, 64, 3)), f16),
        ["descriptor.extent"],
        "it has 3 modes",
    ),
    "a swizzle of other bits": (
        lambda: make_gmma_desc(Major.K, ComposedLayout(Swizzle(3, 4, 4), SmemPtr(16), PLAIN), f16),
        ["descriptor.swizzle-mode"],
        "the hardware knows Sw<0,4,3>, Sw<1,4,3>, Sw<2,4,3>, Sw<3,4,3> for K-major operands",
    ),
    "tcgen05's swizzle in wgmma": (
        lambda: make_gmma_desc(Major.MN, ComposedLayout(Swizzle(2, 5, 2), SmemPtr(16), TRANSPOSED), f16),
        ["descriptor.swizzle-mode"],
        "swizzles its bytes by Sw<2,5,2>",
    ),
    "tcgen05's swizzle K-major": (
        lambda: make_umma_desc(Major.K, ComposedLayout(Swizzle(2, 5, 2), SmemPtr(16), PLAIN), f16),
        ["descriptor.swizzle-mode"],
        "K-major",
    ),
    "a swizzle inside bytes": (
        lambda: make_gmma_desc(Major.K, ComposedLayout(Swizzle(1, 0, 3), 0, Layout((64, 64), (64, 1))), e2m1),
        ["layout.element"],
        "4 bits",
    ),
    "elements of another width": (
        lambda: make_gmma_desc(Major.K, ComposedLayout(Swizzle(3, 4, 3), SmemPtr(16), PLAIN), s8),
        ["descriptor.element"],
        "its strides count elements of 16 bits",
    ),
    "bytes MN-major": (lambda: make_gmma_desc(Major.MN, TRANSPOSED, s8), ["layout.major"], "MN-major"),
    "6 bits": (lambda: make_umma_desc(Major.K, PLAIN, e2m3), ["descriptor.element"], "elements of 6 bits"),
    "4 bits MN-major": (lambda: make_umma_desc(Major.MN, TRANSPOSED, e2m1), ["descriptor.element"], "K-major only"),
    "a pattern's second row": (
        lambda: make_gmma_desc(Major.K, from_element(64), f16),
        ["descriptor.pattern"],
        "128 bytes after the start of a pattern of 128 B swizzle starts in the middle of it",
    ),
    "a row's last chunk": (
        lambda: make_gmma_desc(Major.K, from_element(56), f16),
        ["descriptor.pattern"],
        "leaves its row of 128 bytes after 16 of 32",
    ),
    "one operand of several inside a pattern": (
        lambda: smem_desc(Major.K, in_bytes(Layout(((8, 16), 4), ((64, 1), 64))), f16),
        ["descriptor.pattern"],
        "starts in the middle of it",
    ),
    "a tile inside a pattern": (
        lambda: make_gmma_desc(Major.K, in_bytes(Layout((64, 16), (64, 1))), f16, address=512),
        ["layout.alignment"],
        "512, which is not a multiple of 1024",
    ),
    "a base offset that is none": (
        lambda: make_gmma_desc(Major.K, from_element(0), f16, address=64),
        ["layout.alignment"],
        "64, which is not a multiple of 128",
    ),
    "offsets that do not fit": (
        lambda: make_gmma_desc(Major.K, Layout(((8, 8), (8, 2)), ((8, 1 << 17), (1, 1 << 18))), f16),
        ["descriptor.range", "descriptor.range"],
        "262144",
    ),
    "backwards": (
        lambda: make_gmma_desc(Major.K, Layout(((8, 8), (8, 2)), ((8, -64), (1, 512))), f16),
        ["descriptor.range"],
        "-128",
    ),
    "an address that does not fit": (
        lambda: make_gmma_desc(Major.K, PLAIN, f16, address=1 << 18),
        ["descriptor.range"],
        "start_address",
    ),
    "an offset that is an address": (
        lambda: desc_layout(Major.K, Tcgen05SmemDescriptor(0, 16, 128, leading_is_address=True), f16, (64, 16)),
        ["descriptor.leading-address"],
        "0x10",
    ),
    "tcgen05's code K-major": (
        lambda: desc_layout(
            Major.K, Tcgen05SmemDescriptor(0, 16, 128, swizzle=Tcgen05Swizzle.B128_ATOM32), f16, (64, 16)
        ),
        ["descriptor.swizzle-mode"],
        "K-major",
    ),
    "no matrix": (
        lambda: desc_layout(Major.K, SmemDescriptor(0, 16, 128), f16, (64, 24)),
        ["descriptor.extent"],
        "64 x 24 elements",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_descriptor_says_is_refused(name: str) -> None:
    operation, rules, reason = REFUSED[name]
    with pytest.raises(DiagnosticError) as caught:
        operation()
    found = caught.value.diagnostics
    assert [one.rule_id for one in found] == rules
    assert reason in said(*caught.value.diagnostics)
    assert {one.location.file for one in found} == {__file__}


def test_strides_that_nobody_knows_make_no_descriptor() -> None:
    k = KernelBuilder("descriptor", "sm_90a", threads=32, parameters=[Parameter("pitch", Scalar(i32))])
    layout = Layout(((8, 8), (8, 2)), ((8, k.arguments[0]), (1, 512)))
    with pytest.raises(DiagnosticError) as caught:
        make_gmma_desc(Major.K, layout, f16)
    assert [one.rule_id for one in caught.value.diagnostics] == ["layout-algebra.run-time"]


def test_broadcast_rows_are_read_like_any_others() -> None:
    """SBO 0: the same eight rows again and again."""
    found = make_gmma_desc(Major.K, Layout(((8, 8), (8, 2)), ((8, 0), (1, 64))), f16)
    assert found == SmemDescriptor(0, 128, 0)


UMMA = [(Major.K, mode, element) for mode, element in itertools.product(SwizzleMode, (e2m1, s8, f16, tf32))] + [
    (Major.MN, mode, element) for mode, element in itertools.product(SwizzleMode, (s8, f16))
]


@pytest.mark.parametrize(("major", "mode", "element"), UMMA, ids=str)
def test_the_words_of_tcgen05(major: Major, mode: SwizzleMode, element: ElementType) -> None:
    """Fields where the PTX ISA puts them: bits 0-13, 16-29, 32-45, version 1 at 46-47, swizzle at 61-63."""
    k, chunk, wide = 256 // element.bits, 128 // element.bits, mode.bytes // 16
    rows, columns = (128, max(k, wide * chunk)) if major is Major.K else (2 * wide * chunk, 2 * k)
    tile = tile_to_shape(gmma_atom(major, mode, element), (rows, columns), "left" if major is Major.K else "right")
    fragment = smem_desc(major, tiled_divide(tile, (rows, k)), element, address=0x4000, kind=Tcgen05SmemDescriptor)
    panel = (rows if major is Major.K else columns) * wide * 16
    core = 8 * 16 * wide
    offsets = {
        (Major.K, False): (panel, 128),
        (Major.K, True): (16, core),
        (Major.MN, False): (128, panel),
        (Major.MN, True): (panel, core),
    }
    lbo, sbo = offsets[major, wide > 1]
    swizzle = {1: 0, 2: 6, 4: 4, 8: 2}[wide]
    assert fragment(0) == 0x400 | lbo // 16 << 16 | sbo // 16 << 32 | 1 << 46 | swizzle << 61
    descriptor = Tcgen05SmemDescriptor.decode(fragment(0))
    origin, layout = desc_layout(major, descriptor, element, (rows, k))
    plain = tile.in_elements()
    for place in itertools.product(range(0, rows, 7), range(k)):
        assert layout(*place) + (origin - 0x4000) * 8 // element.bits == plain(*place)
    assert str(fragment).startswith("UMMA::DescriptorIterator o (_1,_1,")


def test_the_swizzle_of_32_byte_atoms() -> None:
    """tf32 MN-major, 32 elements (128 bytes) a row: bits 5-6 of the address change by bits 7-8."""
    rows, k = 64, 8
    inner = Layout(((32, 2), (4, 2)), ((1, 32 * 8), (32, 128)))
    descriptor = make_umma_desc(Major.MN, ComposedLayout(Swizzle(2, 5, 2), SmemPtr(32), inner), tf32, address=0x800)
    assert descriptor == Tcgen05SmemDescriptor(0x800, 1024, 512, swizzle=Tcgen05Swizzle.B128_ATOM32)
    origin, layout = desc_layout(Major.MN, descriptor, tf32, (rows, k))
    for row, column in itertools.product(range(rows), range(k)):
        byte = row % 32 * 4 + row // 32 * 1024 + column % 4 * 128 + column // 4 * 512
        assert origin + 4 * layout(row, column) == 0x800 + (byte ^ byte >> 2 & 0x60)
