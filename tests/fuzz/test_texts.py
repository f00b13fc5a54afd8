"""Random texts to everything that reads text: it is read, or a Diagnostic says where it goes wrong."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.atoms import atom, known_atoms
from nvbackend.cli.explain import rows_spelled
from nvbackend.intrinsics.row.types import f16, f32
from nvbackend.isel.target.target import target_names
from nvbackend.layout import parse
from nvbackend.ptx import parse as parse_ptx
from nvbackend.ptx import print_module
from tests.support.fuzz import Attempts
from tests.support.random_text import text_like

COUNT = 1500
LONG_COUNT = 40_000
LAYOUTS = (
    *("_8:_1", "(_8,_64):(_64,_1)", "((_8,_2),_4):((_1,_32),_8)", "(8,(4,2)):(1,(8,64))", "_1:_0", "(3,5):(-5,1)"),
    *("Sw<3,4,3> o smem_ptr o (_8,_64):(_64,_1)", "Sw<2,4,3> o smem_ptr[16b](unset) o (_8,_32):(_32,_1)"),
    *("Sw<1,3,3> o 0 o (_8,_16):(_16,_1)", "Sw<0,4,3> o 16 o _8:_1"),
)
SHAPES = ("m64n64k16", "m64n256k16", "m16n8k16", "m16n16k16", "m8n8k4", "m16n8k128")
NAMES = {
    "atoms": (
        "SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, UMMA::Major::K, UMMA::Major::K>",
        "SM90_64x64x16_F16F16F16_SS<GMMA::Major::K, GMMA::Major::K>",
        "sm90_wgmma_m64n128k16_f32_f16_f16",
        "sm90_64x128x16_F16F16F32_SS",
    ),
}
"""Further legal texts."""
PTX = """.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 memory[];
.visible .entry kernel(
	.param .u64 .ptr .global .align 16 kernel_param_0,
	.param .align 64 .b8 kernel_param_1[128]
)
.maxntid 128
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<9>;
	.reg .b64 	%rd<4>;
	ld.param.b64 	%rd1, [kernel_param_0+8];
	mov.u32 	%r1, %tid.x;
	setp.ne.s32 	%p1, %r1, 0f3F800000;
	@!%p1 bra 	$L__BB0_2;
	{ .reg .b32 %r<2>; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2}, %rd1, %rd2, 1, 1, 1, 0, 0; }
$L__BB0_2:
	st.global.v2.b32 	[%rd1], {%r1, -7};
	ret;
}
"""


def spell_target(rng: random.Random, text: str) -> Any:
    version: Any = rng.choice((None, None, (8, 6), (9, 0), (0, 0), (-1, 10**30), (8.5, 1), "8.6", (7,), text))
    return nvb.Target.parse(text, version)


def read_layout(_: random.Random, text: str) -> Any:
    found = parse(text)
    assert str(parse(str(found))) == str(found)
    return found


def read_ptx(_: random.Random, text: str) -> Any:
    printed = print_module(parse_ptx(text))
    assert print_module(parse_ptx(printed)) == printed
    return printed


READERS: dict[str, tuple[Callable[[random.Random, str], Any], Sequence[str]]] = {
    "layouts": (read_layout, LAYOUTS),
    "targets": (spell_target, target_names()),
    "shapes of wgmma": (lambda _, text: nvb.wgmma.mma_async(text, f16, f16, f32), SHAPES),
    "shapes of mma": (lambda _, text: nvb.mma.sync(text, f16, f16, f32), SHAPES),
    "atoms": (lambda _, text: atom(text), tuple(one.name for one in known_atoms()[::40])),
    "ptx": (read_ptx, (PTX,)),
}


def read(name: str, seed: int, count: int) -> Attempts:
    reader, legal = READERS[name]
    attempts = Attempts(random.Random(seed))
    for _ in range(count):
        attempts.attempt(reader, attempts.rng, text_like(attempts.rng, legal))
    return attempts


def number_of(name: str, count: int) -> int:
    """PTX is long, and an unknown atom is compared with all that there are, to find the nearest."""
    return count // {"ptx": 5, "atoms": 100}.get(name, 1)


def assert_kept(attempts: Attempts) -> None:
    assert attempts.failures == {}
    assert attempts.answered > attempts.requests // 50
    assert attempts.requests - attempts.answered > attempts.requests // 10


@pytest.mark.parametrize("name", READERS)
def test_thousands_of_texts(name: str) -> None:
    assert_kept(read(name, 1, number_of(name, COUNT)))


@pytest.mark.exhaustive(seconds=60)
@pytest.mark.parametrize("name", READERS)
def test_many_more_texts(name: str) -> None:
    assert_kept(read(name, 2, number_of(name, LONG_COUNT)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "digits", ["9" * 5000, "3" * 40, "\N{ARABIC-INDIC DIGIT THREE}", "\N{SUPERSCRIPT TWO}", "-1", "0"]
)
def test_each_number_replaced(name: str, digits: str) -> None:
    """Every number of a legal text, one at a time: of thousands of digits, or of digits that are not ASCII's."""
    reader, legal = READERS[name]
    attempts = Attempts(random.Random(1))
    texts = {
        text for one in (*legal[:: max(1, len(legal) // 6)], *NAMES.get(name, ())) for text in with_number(one, digits)
    }
    texts = attempts.rng.sample(sorted(texts), min(len(texts), number_of(name, 400)))
    for text in texts:
        found = attempts.attempt(reader, attempts.rng, text)
        assert found is None or digits.isascii(), text
    assert attempts.failures == {}
    assert attempts.requests >= len(texts) > 1


def with_number(text: str, digits: str) -> list[str]:
    return [text[: found.start()] + digits + text[found.end() :] for found in re.finditer("[0-9]+", text)]


def test_random_spellings() -> None:
    """Few: each is compared with all that there are, to find the nearest."""
    legal = ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "cp.async.ca.shared.global", "@%p1 bar.sync 0;")
    attempts = Attempts(random.Random(1))
    for _ in range(12):
        attempts.attempt(lambda text: [row.ptx for row in rows_spelled(text)], text_like(attempts.rng, legal))
    assert attempts.failures == {}
    assert attempts.requests == 12
