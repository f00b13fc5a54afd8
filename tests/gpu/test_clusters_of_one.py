"""The instructions that stop a kernel without a cluster, in kernels of one CTA a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.clusters_of_one import LANES, SENDS, send
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words

pytestmark = ON_DEVICES


@pytest.mark.parametrize("opcode", SENDS)
def test_a_cta_writes_to_itself(opcode: str) -> None:
    found = words(lambda k, _, out: send(k, opcode, out), np.zeros(1, np.uint32), LANES)
    assert np.array_equal(found, 3 * np.arange(LANES))
