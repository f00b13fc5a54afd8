"""The hand-written kernels of the GPU tests assemble, on machines without a GPU too."""

from __future__ import annotations

import pytest

from tests.support.hand_ptx import KERNELS, assembled


@pytest.mark.parametrize("name", [*KERNELS])
def test_ptxas_takes_the_kernel(name: str) -> None:
    data = assembled(KERNELS[name]).data
    assert data is not None
    assert name.encode() in data
