"""The GEMMs of wmma and mma.sync without a GPU: machine forms, what ptxas makes of them, who holds which element."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

import nvbackend as nvb
from nvbackend.codegen.sass import count_instructions
from nvbackend.intrinsics import fragments_mma
from samples import ada_gemm, ampere_gemm, consumer_blackwell_gemm, program, turing_gemm, warp_tiles
from tests.support.process import ROOT

SAMPLES = {
    "turing_gemm": (turing_gemm, {"HMMA", "LDSM", "STS", "LDG"}),
    "ampere_gemm": (ampere_gemm, {"HMMA", "LDSM", "LDGSTS"}),
    "ada_gemm": (ada_gemm, {"QMMA", "LDSM", "LDGSTS"}),
    "consumer_blackwell_gemm": (consumer_blackwell_gemm, {"QMMA", "LDSM", "LDGSTS"}),
}
LANES = range(32)


@pytest.fixture(scope="module", params=SAMPLES)
def sample(request):
    module, opcodes = SAMPLES[request.param]
    return request.param, module.gemm.compile(cache=nvb.Cache.disabled()), opcodes


def test_machine_form(sample, golden):
    name, compiled, _ = sample
    golden.check(f"{name}.machine.txt", str(compiled.machine))


def test_nothing_to_warn_of(sample):
    _, compiled, _ = sample
    assert compiled.diagnostics == ()
    resources = compiled.cubin.kernel("gemm")
    assert resources.spill_stores_bytes == resources.spill_loads_bytes == resources.stack_bytes == 0


def test_the_chip_multiplies(sample):
    _, compiled, opcodes = sample
    assert opcodes <= set(count_instructions(compiled.sass()))


def run_sample(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **options)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_program_shows_what_it_built(name):
    done = run_sample(str(ROOT / "samples" / f"{name}.py"), "256", "128", "128", "--show", "ptx")
    assert done.returncode == 0, done.stderr
    assert ".visible .entry gemm" in done.stdout
    assert "no warnings" in done.stdout


def test_it_runs_as_a_module_too_and_takes_whole_tiles_only():
    done = run_sample("-m", "samples.ampere_gemm", "256", "100", "64", cwd=ROOT)
    assert done.returncode == 2
    assert "N = 100: the kernel multiplies whole tiles, of 128 along N" in done.stderr


# -- which thread holds what, with numbers in place of the builder's values --------------------------------------------


@dataclass(frozen=True)
class Place:
    """An address that is a number."""

    number: int

    def byte_offset(self, step, *, align=None):
        assert align is None or step % align == 0
        return Place(self.number + step)


@dataclass
class Thread:
    """As much of a builder as the fragments need, for one thread: ldmatrix returns the address that it was given."""

    warp: int
    lane: int

    def lane_id(self):
        return self.lane

    def warp_id(self):
        return self.warp

    def ldmatrix(self, address, count):
        return [(address.number, matrix) for matrix in range(count)]


UNSWIZZLED = {
    warp_tiles.TILE(row, byte): (row, byte)
    for row in range(warp_tiles.ROWS)
    for byte in range(0, warp_tiles.PITCH, warp_tiles.CHUNK)
}


def held(load, warp, byte):
    """[lane][fragment][register] = (row, byte) of the first byte that ldmatrix leaves there (PTX ISA 9.7.14.5.15)."""
    given = [load(Thread(warp, lane), Place(0), byte) for lane in LANES]
    result = []
    for lane in LANES:
        fragments = []
        for index, fragment in enumerate(given[lane]):
            registers = []
            for register, (_, matrix) in enumerate(fragment):
                row, column = UNSWIZZLED[given[8 * matrix + lane // 4][index][register][0]]
                registers.append((row, column + lane % 4 * 4))
            fragments.append(registers)
        result.append(fragments)
    return result


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("warp", [0, 3, 6])
@pytest.mark.parametrize("byte", [0, 96])
def test_ldmatrix_gives_each_thread_its_fragments(bits, warp, byte):
    shape = (16, 8, 8 * warp_tiles.STEP // bits)
    along, across = divmod(warp, warp_tiles.WARPS_N)
    found_a, found_b = (held(load, warp, byte) for load in (warp_tiles.load_a, warp_tiles.load_b))
    each_register = 32 // bits
    for lane, fragment, register in itertools.product(LANES, range(4), range(4)):
        row, k = fragments_mma.a_position(shape, bits, lane, register * each_register)
        first = along * warp_tiles.WARP_M + fragment * 16
        assert found_a[lane][fragment][register] == (first + row, byte + k * bits // 8)
    for lane, fragment, register in itertools.product(LANES, range(4), range(2)):
        k, column = fragments_mma.b_position(shape, bits, lane, register * each_register)
        first = across * warp_tiles.WARP_N + fragment * 8
        assert found_b[lane][fragment][register] == (first + column, byte + k * bits // 8)


def test_eight_rows_of_a_matrix_meet_all_banks():
    for first, byte in itertools.product(range(0, warp_tiles.ROWS, 8), range(0, warp_tiles.PITCH, warp_tiles.CHUNK)):
        places = [warp_tiles.TILE(first + row, byte) for row in range(8)]
        assert len({place % 128 // 16 for place in places}) == 8


# -- the numbers that the programs compare by ------------------------------------------------------------------------


def test_the_programs_decode_what_they_make():
    import ml_dtypes
    import numpy as np

    codes, values = program.e4m3_matrix(np.random.default_rng(1), 64, 64)
    assert np.array_equal(values, codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32))
    assert np.abs(values).min() == 1 / 16 and np.abs(values).max() == 15 / 8
    (codes, factors), values = consumer_blackwell_gemm.scaled_matrix(np.random.default_rng(1), 8, 64)
    scales = factors.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    assert np.array_equal(values, codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.repeat(scales, 32, 1))
