"""The kernels of this folder are for the verifier alone, and most of them are parts that would wait for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest

from nvbackend.dry_run.runs import Judged


@pytest.fixture(scope="package", autouse=True)
def without_a_dry_run() -> Iterator[None]:
    """Nothing is said but what the verifier says."""
    with mock.patch("nvbackend.builder.kernel.kernel.dry_run", return_value=Judged([])):
        yield
