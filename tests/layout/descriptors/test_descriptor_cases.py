"""What `tests/gpu/test_descriptors.py` multiplies on a GPU, read here by the hardware's address formulas."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import ElementType, Major, SmemDescriptor, f16, f32
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from tests.support.descriptor_cases import CONFIGURATIONS, REGION, Operand
from tests.support.descriptor_kernel import descriptor_kernel
from tests.support.smem_addresses import address

SAMPLE = 5
"""One row of so many is read: they all lie at the same strides."""
OPERANDS = {
    (configuration.element, major, rows, configuration.steps): (configuration, place)
    for configuration in CONFIGURATIONS
    for place, (rows, major) in enumerate(zip((64, configuration.n), configuration.majors, strict=True))
}


def read(operand: Operand, memory: np.ndarray, rows: int, word: int, region: int) -> np.ndarray:
    """Some rows that an instruction finds by a descriptor, in shared memory with `memory` at `region`."""
    found, bits = SmemDescriptor.decode(word), operand.element.bits
    mode, k_major = found.swizzle.name, operand.major is Major.K
    fields = (found.start_address, found.leading_byte_offset, found.stride_byte_offset, found.base_offset)
    places = [
        [address(k_major, mode, bits, (row, column), *fields) for column in range(256 // bits)]
        for row in range(0, rows, SAMPLE)
    ]
    return memory[(np.array(places) - region) * 8 // bits]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("given", OPERANDS, ids=lambda given: "-".join(map(str, given)))
def test_the_cases_are_what_the_formulas_read(given: tuple[ElementType, Major, int, int]) -> None:
    configuration, place = OPERANDS[given]
    element, _, rows, steps = given
    random, k, region = np.random.default_rng(0), 256 // element.bits, 3 * 1024
    operands = configuration.operands(place) + configuration.shifted(place)
    assert len({operand.name for operand in operands}) == len(operands) > 4
    for operand in operands:
        blocks, along_k, stages = operand.rests
        assert along_k == steps
        memory = random.integers(0, 1 << 30, REGION * 8 // element.bits)
        expected = operand.matrix(memory, blocks - 1, stages - 1)
        word = operand.descriptors(region)(0, blocks - 1, steps - 1, stages - 1)
        found = read(operand, memory, rows, word, region)
        assert np.array_equal(found, expected[::SAMPLE, -k:]), operand.name


def test_the_kernel_builds() -> None:
    request = WgmmaRequest(n=8, k=16, d=f32, a=f16, b=f16)
    assert descriptor_kernel(request, 4, REGION).compile().ptx.count("wgmma.mma_async") == 4
