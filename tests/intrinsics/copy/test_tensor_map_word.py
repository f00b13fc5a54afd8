"""The bits of a tensor map, against the code that ptxas makes of tensormap.replace, which changes them one by one."""

from __future__ import annotations

import functools
import random
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nvbackend.codegen.sass import disassemble
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.copy.map_elements import ELEMENT_TYPES
from nvbackend.intrinsics.copy.tensor_map_word import TensorMapWord
from tests.support.ptxas import ptxas

PLAIN = TensorMapWord(0, "u8", (1,) * 5, (1,) * 5, (0,) * 4)
"""A map whose fields are all zeros."""
CHIPS = ("sm_90a", "sm_100a", "sm_103a", "sm_120a")
RANK, TYPE, PATTERN, PIECES = "rank", "elemtype", "swizzle_mode", "swizzle_atomicity"
LISTS = {"box_dim": (5, 1, 256), "global_dim": (5, 1, 1 << 32), "element_stride": (5, 1, 8)}
"""Lists of the PTX ISA: how many there are, and the least and the greatest of their values."""
STRIDES, MOST = 4, (1 << 40) - 16
INTERLEAVES, SWIZZLES, FILLS = (0, 16, 32), (0, 32, 64, 128, 96), ("zero", "nan")
PROMOTIONS = (0, 64, 128, 256)
ATOMICITIES = ("16B", "32B", "32B_FLIP_8B", "64B")
"""PTX ISA 9.7.9 (tensormap.replace): what the numbers of new_val stand for."""
_INSERT, _SET = "0xb8", "0xd8"
"""LOP3 that inserts: (a & ~b) | (c & b), and (a & ~c) | (b & c)."""
_STORE = re.compile(r"\bSTG\.E(?P<wide>\.64)? desc\[\w+\]\[\w+\.64(?:\+(?P<offset>0x[0-9a-f]+))?\], (?P<value>\w+)")
_LOGIC = re.compile(r"\bLOP3\.LUT (?P<to>\w+), (?P<held>\w+), (?P<bits>0x[0-9a-f]+), (?P<source>\w+), (?P<table>0x..)")


@functools.cache
def code(chip: str, instructions: tuple[str, ...], folder: Path) -> Mapping[str, str]:
    """The SASS of each instruction, assembled in a kernel of its own."""
    kernels = "".join(
        f".visible .entry k{number}_(.param .u64 p, .param .u32 v, .param .u64 w) {{ .reg .b64 %rd<3>; .reg .b32 %r;\n"
        "ld.param.u64 %rd1, [p]; ld.param.u32 %r, [v]; ld.param.u64 %rd2, [w]; cvta.to.global.u64 %rd1, %rd1;\n"
        f"{instruction}\nret; }}\n"
        for number, instruction in enumerate(instructions)
    )
    source, cubin = folder / f"{chip}.ptx", folder / f"{chip}.cubin"
    source.write_text(f".version 9.0\n.target {chip}\n.address_size 64\n{kernels}")
    subprocess.run([ptxas(chip), "-arch", chip, source, "-o", cubin], check=True, capture_output=True)
    sections = re.split(r"\.section\s+\.text\.k(\d+)_", disassemble(cubin.read_bytes()))
    return {instructions[int(number)]: text for number, text in zip(sections[1::2], sections[2::2], strict=True)}


def changed(text: str) -> tuple[int, int]:
    """The bits of the map that some SASS overwrites, and those that it sets by immediates."""
    logic = {match["to"] + match["bits"]: match for match in _LOGIC.finditer(text)}
    over = to_one = 0
    for store in _STORE.finditer(text):
        place = 8 * int(store["offset"] or "0", 16)
        of_this = [match for match in logic.values() if _reaches(logic.values(), match["to"], store["value"])]
        whole = (1 << (64 if store["wide"] else 32)) - 1
        masks = [int(match["bits"], 16) for match in of_this if match["table"] == _INSERT]
        ones = [int(match["bits"], 16) for match in of_this if match["table"] == _SET]
        assert {match["table"] for match in of_this} <= {_INSERT, _SET}, text
        over |= (sum(masks) if of_this else whole) << place
        to_one |= sum(ones) << place
    return over, to_one


def _reaches(logic: Any, source: str, value: str) -> bool:
    """Whether `value` is `source`, or made of it by further logic."""
    return source == value or any(each["held"] == source and each["to"] == value for each in logic)


def spelled(field: str, *operands: object, wide: bool = False) -> str:
    written = ", ".join(map(str, ("[%rd1]", *operands)))
    return f"tensormap.replace.tile.{field}.global.b1024.b{64 if wide else 32} {written};"


def in_place(values: Sequence[Any], value: Any, place: int) -> tuple[Any, ...]:
    return tuple(value if index == place else each for index, each in enumerate(values))


def spans() -> dict[str, int]:
    """Instructions that take a register, and the bits that a map with its least and one with its greatest differ in."""
    found = {
        spelled("global_address", "%rd2", wide=True): replace(PLAIN, global_address=(1 << 64) - 16).encode(),
    }
    for field, (count, _, most) in LISTS.items():
        for place in range(count):
            given = {field: in_place((1,) * count, most, place)}
            found[spelled(field, place, "%r")] = replace(PLAIN, **given).encode()
    for place in range(STRIDES):
        given = {"global_stride": in_place((0,) * STRIDES, MOST, place)}
        found[spelled("global_stride", place, "%rd2", wide=True)] = replace(PLAIN, **given).encode()
    plain = PLAIN.encode()
    return {instruction: word ^ plain for instruction, word in found.items()}


def named(chip: str) -> dict[str, int]:
    """Instructions that take a number, and the bits that a map with what it stands for has set."""
    packed = 3 if chip == "sm_90a" else 0
    found = {spelled(TYPE, n): replace(PLAIN, element=name) for n, name in enumerate(ELEMENT_TYPES[: 16 - packed])}
    found |= {spelled("interleave_layout", n): replace(PLAIN, interleave=b) for n, b in enumerate(INTERLEAVES)}
    swizzles = SWIZZLES if chip == "sm_103a" else SWIZZLES[:-1]
    found |= {spelled(PATTERN, n): replace(PLAIN, swizzle=b) for n, b in enumerate(swizzles)}
    found |= {spelled("fill_mode", n): replace(PLAIN, fill=name) for n, name in enumerate(FILLS)}
    if chip != "sm_90a":
        found |= {spelled(PIECES, n): replace(PLAIN, swizzle_atomicity=name) for n, name in enumerate(ATOMICITIES)}
    return {instruction: word.encode() ^ PLAIN.encode() for instruction, word in found.items()}


@pytest.mark.parametrize("chip", CHIPS)
def test_fields_are_where_tensormap_replace_puts_them(chip: str, tmp_path: Path) -> None:
    """Beside the address it also clears bit 85: the driver's statement about the memory is then no longer true."""
    asked = (*spans(), *named(chip), spelled(RANK, "%r"))
    texts = code(chip, asked, tmp_path)
    for instruction, expected in spans().items():
        also = 1 << 85 | 0xF if "global_address" in instruction else 0
        assert changed(texts[instruction])[0] == expected | also, instruction
        less_one = any(name in instruction for name in LISTS)
        assert bool(re.search(r"-0x1\b|0xffffffff", texts[instruction])) == less_one, instruction
        in_units = "global_stride" in instruction
        assert bool(re.search(r"\bSHF\.R\.U64 \w+, \w+, 0x4,", texts[instruction])) == in_units, instruction
    for instruction, expected in named(chip).items():
        assert changed(texts[instruction])[1] == expected, instruction
    bits, _ = changed(texts[spelled(RANK, "%r")])
    assert bits == 7 << 68
    assert [TensorMapWord.decode(rank << 68).rank for rank in range(5)] == [1, 2, 3, 4, 5]


def chosen(chooser: random.Random) -> TensorMapWord:
    rank = chooser.randrange(1, 6)
    return TensorMapWord(
        chooser.randrange(1 << 60) * 16,
        chooser.choice(ELEMENT_TYPES),
        tuple(chooser.randrange(1, (1 << 32) + 1) for _ in range(rank)),
        tuple(chooser.randrange(1, 257) for _ in range(rank)),
        tuple(chooser.randrange(1 << 36) * 16 for _ in range(rank - 1)),
        chooser.choice(((), tuple(chooser.randrange(1, 9) for _ in range(rank)))),
        chooser.choice(INTERLEAVES),
        chooser.choice(SWIZZLES),
        chooser.choice(ATOMICITIES),
        chooser.choice(FILLS),
        chooser.choice(PROMOTIONS),
        chooser.randrange(1 << 3) << 65 | chooser.randrange(1 << 500) << 512,
    )


def test_a_word_reads_back() -> None:
    chooser = random.Random(20_261_128)
    for _ in range(200):
        word = chosen(chooser)
        again = TensorMapWord.decode(word.encode())
        steps = () if set(word.element_stride) == {1} else word.element_stride
        assert again == replace(word, element_stride=steps)
        assert again.encode() == word.encode()


def test_bits_of_dimensions_that_a_map_does_not_have_are_others() -> None:
    line = TensorMapWord(0x1000, "f32", (64,), (32,))
    assert TensorMapWord.decode(line.encode() | 7 << 288).other == 7 << 288
    assert replace(line, other=7 << 288).encode() == line.encode() | 7 << 288


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"element": "f17"}, "element = 'f17'"),
        ({"swizzle": 48}, "swizzle = 48"),
        ({"interleave": 1}, "interleave = 1"),
        ({"swizzle_atomicity": "8B"}, "swizzle_atomicity = '8B'"),
        ({"fill": "one"}, "fill = 'one'"),
        ({"l2_promotion": 32}, "l2_promotion = 32"),
        ({"box_dim": (1,)}, "box_dim = (1,) of a map with 2 dimensions"),
        ({"element_stride": (1,)}, "element_stride = (1,) of a map"),
        ({"global_stride": ()}, "global_stride = () of a map"),
        ({"global_address": 8}, "global_address = 8"),
        ({"global_stride": (24,)}, "global_stride = 24"),
        ({"global_stride": (1 << 40,)}, "global_stride = 1099511627776"),
        ({"global_dim": (0, 1)}, "global_dim[0] = 0"),
        ({"box_dim": (1, 257)}, "box_dim[1] = 257"),
        ({"element_stride": (9, 1)}, "element_stride[0] = 9"),
        ({"global_dim": (1,) * 6, "global_stride": (0,) * 5, "box_dim": (1,) * 6}, "6 dimensions"),
        ({"global_dim": (), "global_stride": (), "box_dim": ()}, "0 dimensions"),
        ({"other": 16}, "other = 0x10: 4"),
        ({"other": 1 << 1024}, "out of range"),
    ],
)
def test_what_a_map_cannot_hold(change: dict[str, Any], said: str) -> None:
    word = TensorMapWord(0x1000, "f16", (64, 64), (32, 32), (128,))
    with pytest.raises(DiagnosticError, match=re.escape(said)):
        replace(word, **change)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (7 << 68, "8 dimensions"),
        (15 << 71, "element type 15"),
        (6 << 71 | 1 << 80, "element type 6, rounds_to_tf32 = 1"),
        (3 << 75, "interleave 3"),
        (1 << 77 | 1 << 86, "swizzle 5"),
        (1 << 64, "bit 64 is set, as the driver sets it for im2col"),
        (1 << 1024, "does not fit 128 bytes"),
        (-1, "does not fit 128 bytes"),
    ],
)
def test_what_is_no_map(word: int, said: str) -> None:
    with pytest.raises(DiagnosticError, match=said):
        TensorMapWord.decode(word)
