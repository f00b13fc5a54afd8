"""Descriptors made from layouts, on a GPU against NumPy: all canonical tiles, and layouts that no atom tiles to.

Each product takes a CTA, all of an instruction are one launch. Which layouts: `tests/support/descriptor_cases.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.intrinsics.row.types import f32, s8, s32
from nvbackend.intrinsics.words.smem_descriptor import Major
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from tests.gpu.test_wgmma_numbers import accumulator
from tests.support.descriptor_cases import CONFIGURATIONS, REGION
from tests.support.descriptor_kernel import THREADS, descriptor_kernel
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES

each_configuration = pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)


def products(configuration, operands):
    """Pairs of (operand, row block, stage): every one of A and of B comes up, with some one of the other."""
    places = [
        [(one, row, stage) for one in given for row in range(one.rests[0]) for stage in range(one.rests[2])]
        for given in operands
    ]
    count = max(map(len, places))
    return [tuple(given[index % len(given)] for given in places) for index in range(count)]


def multiply(configuration, operands):
    """The names of the operand pairs whose product is another than NumPy's."""
    from numba import cuda

    from nvbackend import runtime

    element, steps = configuration.element, configuration.steps
    random, kind = np.random.default_rng(7), element.numpy_dtype()
    memories = [random.integers(-4, 5, (len(given), REGION // kind.itemsize)).astype(kind) for given in operands]
    pairs = products(configuration, operands)
    pieces = np.zeros((len(pairs), 2), np.uint32)
    words = np.zeros((len(pairs), steps, 2), np.uint64)
    expected = []
    for index, pair in enumerate(pairs):
        matrices = []
        for place, (operand, row, stage) in enumerate(pair):
            piece = operands[place].index(operand)
            pieces[index, place] = piece + place * len(operands[0])
            descriptors = operand.descriptors(place * REGION)
            words[index, :, place] = [descriptors(0, row, step, stage) for step in range(steps)]
            matrices.append(operand.matrix(memories[place][piece], row, stage).astype(np.float64))
        expected.append(matrices[0] @ matrices[1].T)
    d = s32 if element is s8 else f32
    transposed = [int(major is Major.MN) for major in configuration.majors]
    request = WgmmaRequest(
        n=configuration.n,
        k=256 // element.bits,
        d=d,
        a=element,
        b=element,
        trans_a=transposed[0],
        trans_b=transposed[1],
    )
    kernel = runtime.load(descriptor_kernel(request, steps, REGION).compile())
    registers = configuration.n // 2
    out = cuda.to_device(np.full(len(pairs) * THREADS * registers, 0x7FC00001, np.uint32))
    images = np.concatenate([memory.reshape(-1).view(np.uint32) for memory in memories])
    kernel.launch(len(pairs), *(cuda.to_device(one.reshape(-1)) for one in (images, pieces, words)), out)
    kernel.synchronize()
    found = out.copy_to_host().reshape(len(pairs), -1)
    return [
        f"{pair[0][0].name} {pair[0][1:]} by {pair[1][0].name} {pair[1][1:]}"
        for pair, registers_of, wanted in zip(pairs, found, expected, strict=True)
        if not np.array_equal(accumulator(registers_of, configuration.n, d), wanted)
    ]


@each_configuration
def test_every_operand_is_what_its_layout_says(configuration):
    """Canonical tiles of all swizzles and orders, padding, interleaved stages, starts inside a row of the pattern."""
    assert multiply(configuration, [configuration.operands(place) for place in range(2)]) == []


@pytest.mark.parametrize("configuration", [one for one in CONFIGURATIONS if all(map(one.shifted, range(2)))], ids=str)
def test_base_offsets_say_where_the_pattern_starts(configuration):
    """Tiles at multiples of 128 bytes, their swizzle counted from their own start."""
    assert multiply(configuration, [configuration.shifted(place) for place in range(2)]) == []
