"""`nvbackend decode` and `nvbackend encode`, against words written by shifts as the PTX ISA's tables have them."""

from __future__ import annotations

import json
import random
import shlex

import pytest

from nvbackend.cli import main

Printed = pytest.CaptureFixture[str]
SEED = 20_261_123
WGMMA_MODES = {"NONE": 0, "B128": 1, "B64": 2, "B32": 3}
UMMA_MODES = {"NONE": 0, "B128_ATOM32": 1, "B128": 2, "B64": 4, "B32": 6}
"""PTX ISA 9.7.15.5.1.2.2 and 9.7.16.4.1: the codes of the swizzle."""
F8F6F4 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}

MAP = "global_address=4096 element=f16 global_dim=128,64 global_stride=256"


def wgmma(chooser: random.Random) -> tuple[str, int]:
    start, leading, stride = (chooser.randrange(1 << 14) for _ in range(3))
    base, mode = chooser.randrange(8), chooser.choice(list(WGMMA_MODES))
    word = start | leading << 16 | stride << 32 | base << 49 | WGMMA_MODES[mode] << 62
    given = f"start_address={start * 16} leading_byte_offset={leading * 16} stride_byte_offset={hex(stride * 16)}"
    return f"wgmma-desc {given} base_offset={base} swizzle={mode}", word


def umma(chooser: random.Random) -> tuple[str, int]:
    start, leading, stride = (chooser.randrange(1 << 14) for _ in range(3))
    absolute, mode = chooser.randrange(2), chooser.choice(list(UMMA_MODES))
    word = start | leading << 16 | stride << 32 | 1 << 46 | absolute << 52 | UMMA_MODES[mode] << 61
    given = f"start_address={start * 16} leading_byte_offset={leading * 16} stride_byte_offset={stride * 16}"
    return f"umma-desc {given} leading_is_address={absolute} swizzle={mode}", word


def dense(chooser: random.Random) -> tuple[str, int]:
    m, n, d = chooser.choice((64, 128, 256)), chooser.randrange(8, 257, 8), chooser.choice(("f16", "f32"))
    a, b = (chooser.choice(list(F8F6F4)) for _ in range(2))
    negated, shift = chooser.randrange(2), chooser.randrange(4)
    word = {"f16": 0, "f32": 1}[d] << 4 | F8F6F4[a] << 7 | F8F6F4[b] << 10 | negated << 14
    word |= n // 8 << 17 | m // 16 << 24 | shift << 30
    given = f"m={m} n={n} a={a} b={b} d={d} negate_b={negated} max_shift={(0, 8, 16, 32)[shift]}"
    return f"idesc --kind f8f6f4 {given}", word


def scaled(chooser: random.Random) -> tuple[str, int]:
    scale, places = chooser.choice(("ue4m3", "ue8m0")), [chooser.choice((0, 2)) for _ in range(2)]
    word = places[1] << 4 | 1 << 7 | 1 << 10 | 16 << 17 | ("ue4m3", "ue8m0").index(scale) << 23 | 1 << 27
    word |= places[0] << 29
    given = f"m=128 n=128 a=e2m1 b=e2m1 d=f32 scale={scale} scale_a_id={places[0]} scale_b_id={places[1]}"
    return f"idesc --kind mxf4nvf4 {given}", word


def tileiras(chooser: random.Random) -> tuple[str, int]:
    start, leading, stride = chooser.randrange(1 << 14), chooser.randrange(1 << 16), chooser.randrange(1 << 16)
    mode = chooser.choice(list(WGMMA_MODES))
    word = start | leading << 14 | stride << 30 | WGMMA_MODES[mode] << 52
    return f"tileiras-desc start_addr={start} lbo={leading} sbo={stride} swizzle_mode={mode}", word


def control(chooser: random.Random) -> tuple[str, int]:
    kinds = ("f16", "tf32", "i8", "f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4")
    group, vector, kind = chooser.randrange(1, 4), chooser.randrange(3), chooser.randrange(7)
    given = f"cta_group={group} scale_vec_size={vector} mma_kind={kinds[kind]} block_scale=yes"
    return f"tcgen05-control {given}", group | vector << 2 | 1 << 5 | kind << 6


def tensor_map(chooser: random.Random) -> tuple[str, int]:
    """The bits that ptxas changes for tensormap.replace, written down a second time."""
    elements = {"u8": 0, "f16": 6, "f32": 7, "bf16": 10, "tf32": 7 | 1 << 9}
    name, mode, rows = chooser.choice(list(elements)), chooser.randrange(4), chooser.randrange(1, 256)
    address, stride = chooser.randrange(1 << 40) << 4, chooser.randrange(4, 1 << 36) * 16
    columns = 32 if name in ("f32", "tf32") else 16
    columns = columns if mode == 3 else 16 // (4 if columns == 32 else 2 if name != "u8" else 1)
    word = address | 1 << 68 | elements[name] << 71 | mode << 77 | (stride >> 4 & 0xFFFFFFFF) << 96
    word |= stride >> 36 << 224 | 4095 << 256 | (1 << 32) - 1 << 288 | columns - 1 << 440 | rows - 1 << 448
    given = f"global_address={address} element={name} global_dim=4096,{1 << 32} global_stride={stride}"
    return f"tensor-map {given} box_dim={columns},{rows} swizzle={(0, 32, 64, 128)[mode]}", word


def printed(capsys: Printed, *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("maker", [wgmma, umma, dense, scaled, tileiras, control, tensor_map])
def test_a_word_is_what_the_tables_say_and_reads_back(maker, capsys: Printed) -> None:
    """The last line of `decode` is the command that writes the word again."""
    chooser = random.Random(SEED)
    for _ in range(12):
        given, word = maker(chooser)
        assert int(printed(capsys, "encode", *given.split()), 16) == word
        name, *options = given.split()
        kind = options[:2] if options[0] == "--kind" else []
        *_, again = printed(capsys, "decode", name, *kind, hex(word)).splitlines()
        assert int(printed(capsys, *shlex.split(again)[1:]), 16) == word


@pytest.mark.parametrize(
    ("word", "given"),
    [
        (0, ["valid=no"]),
        (1, ["valid=yes"]),
        (3, ["valid=yes", "collector_a=USE"]),
        (5, ["valid=yes", "collector_a=FILL_USE"]),
        (4, ["ashift=yes"]),
    ],
)
def test_the_collector_word(word: int, given: list[str], capsys: Printed) -> None:
    assert int(printed(capsys, "encode", "collector", *given), 16) == word
    assert f"{word >> 1}  " in printed(capsys, "decode", "collector", str(word))


def test_what_is_printed(capsys: Printed) -> None:
    assert printed(capsys, "decode", "wgmma-desc", "0x4000004000010040").splitlines()[2:] == [
        "BITS   FIELD                CODE  VALUE  MEANING",
        "0-13   start_address        64    0x400  byte address of the tile's first element",
        "16-29  leading_byte_offset  1     16     LBO in bytes",
        "32-45  stride_byte_offset   64    1024   SBO in bytes",
        "49-51  base_offset          0     0      bits 7-9 of the address where the swizzle pattern starts",
        "62-63  swizzle              1     B128   0 none, 1 128 B, 2 64 B, 3 32 B",
        "",
        "nvbackend encode wgmma-desc start_address=1024 leading_byte_offset=16 stride_byte_offset=1024 swizzle=B128",
    ]


def test_a_map_from_memory(capsys: Printed) -> None:
    """By words of 64, 32 and 8 bits, lowest first, as a debugger prints memory; `other` is what no field has."""
    word = int(printed(capsys, "encode", "tensor-map", *MAP.split(), "box_dim=64,8", "swizzle=128"), 16) | 3 << 65
    whole = printed(capsys, "decode", "tensor-map", hex(word))
    for size in (64, 32, 8):
        pieces = [hex(word >> place & (1 << size) - 1) for place in range(0, 1024, size)]
        assert printed(capsys, "decode", "tensor-map", *pieces) == whole
    assert "65-66    other" in whole
    assert "box_dim[1]             7     8  " in whole
    assert "box_dim[2]" not in whole


def test_a_map_that_no_copy_can_use_says_so(capsys: Printed) -> None:
    assert "tensor-map.swizzle: tensor map word: swizzle=32 with box rows of 64 bytes" in printed(
        capsys, "decode", "tensor-map", hex(6 << 71 | 1 << 77 | 31 << 440)
    )


def test_json_has_the_fields(capsys: Printed) -> None:
    found = json.loads(printed(capsys, "decode", "idesc", "--kind", "f16", "0x08410490", "--json"))
    assert found == {
        "format": "idesc",
        "word": "0x8410490",
        "fields": {"kind": "f16", "m": 128, "n": 256, "a": "bf16", "b": "bf16", "d": "f32", "transpose_b": "yes"},
    }


@pytest.mark.parametrize(
    ("command", "rule", "said"),
    [
        ("decode wgma-desc 0", "cli.word", "did you mean wgmma-desc? Otherwise use one of"),
        ("decode idesc 0", "cli.word", "add --kind f16 | tf32"),
        ("decode idesc --kind f17 0", "cli.word", "did you mean f16? Otherwise use one of"),
        ("decode collector --kind f16 0", "cli.word", "leave --kind out"),
        ("decode tcgen05-idesc 1", "cli.word", "did you mean idesc? Otherwise use one of"),
        ("decode wgmma-desc abc", "cli.word", "as 1024 or 0x400"),
        ("decode wgmma-desc 0x4000", "descriptor.reserved-bits", "14"),
        ("decode umma-desc 0x4000004000010040", "descriptor.range", "version = 0"),
        ("encode wgmma-desc start=1", "cli.word", "use one of start_address"),
        ("encode wgmma-desc start_address", "cli.word", "FIELD=VALUE"),
        ("encode wgmma-desc start_address=1 start_address=1", "cli.word", "once"),
        ("encode wgmma-desc start_address=0", "cli.word", "leading_byte_offset=..."),
        ("encode wgmma-desc start_address=0 leading_byte_offset=8 stride_byte_offset=0", "descriptor.alignment", "16"),
        ("encode wgmma-desc swizzle=128B", "cli.word", "use one of NONE"),
        ("decode tensor-map 1 2 3", "cli.word", "3 numbers do not make 1024 bits"),
        (f"decode tensor-map {1 << 64}{' 0' * 15}", "cli.word", "not a number of 64 bits"),
        (f"decode tensor-map {15 << 71}", "tensor-map.word", "element type 15"),
        (f"encode tensor-map {MAP} box_dim=64,300", "descriptor.range", "box_dim[1] = 300"),
        (f"encode tensor-map {MAP} box_dim=64,x", "cli.word", "'x' is not a number"),
        (f"encode tensor-map {MAP} box_dim=128,8 swizzle=128", "tensor-map.swizzle", "256 bytes"),
        (f"encode tensor-map {MAP} box_dim=4,8", "tensor-map.box-bytes", "8 bytes"),
        ("encode idesc --kind f16 a=half", "cli.word", "a=bf16"),
        ("encode idesc --kind f16 sparse=maybe", "cli.word", "sparse=yes"),
        ("encode idesc --kind f16 kind=f16", "cli.word", "no field 'kind'"),
        ("encode idesc --kind f16 m=128 n=64 a=e4m3 b=f16 d=f32", "tcgen05.types", "e4m3"),
    ],
)
def test_what_has_no_meaning_is_refused(command: str, rule: str, said: str, capsys: Printed) -> None:
    assert main(command.split()) == 2
    error = capsys.readouterr().err
    assert f"error[{rule}]" in error
    assert said in error


def test_json_of_a_word(capsys: Printed) -> None:
    given = ["wgmma-desc", "start_address=0x400", "leading_byte_offset=16", "stride_byte_offset=1024", "swizzle=B128"]
    assert main(["encode", *given]) == 0
    word = capsys.readouterr().out.strip()
    assert main(["encode", *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"format": "wgmma-desc", "word": word}
