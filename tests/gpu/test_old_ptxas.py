"""A of a wgmma in registers, assembled by every ptxas of this machine that may lose them: equal to NumPy's product."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from nvbackend import Major, SmemLayout, SwizzleMode, Target, bf16, e4m3, f16, f32, s8, s32, tf32
from nvbackend.codegen.old_ptxas import RS_WGMMA_FIXED
from nvbackend.codegen.toolchain import STANDARD_DIRECTORIES, Tool, wheel_directories
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from tests.gpu.test_wgmma_numbers import fragments, product, random_matrix, run

pytestmark = pytest.mark.gpu((9, 0))

PTX_OF_12 = (0, 1, 2, 3, 4, 5, 5, 6, 7, 8)
"""The minor version of PTX 8 that each ptxas of CUDA 12 reads (PTX ISA 13, release notes)."""


def old_tools() -> list[Tool]:
    """The toolkit's, those of CUDA 12's wheels, and the one that Triton brings along."""
    triton = importlib.util.find_spec("triton")
    places = [*STANDARD_DIRECTORIES, *wheel_directories()]
    if triton is not None and triton.origin is not None:
        places.append(Path(triton.origin).parent / "backends" / "nvidia" / "bin")
    tools = {place / "ptxas": Tool.at(place / "ptxas") for place in places if (place / "ptxas").exists()}
    return [tool for tool in tools.values() if (12, 0, 0) <= tool.version < RS_WGMMA_FIXED]


def target_of(tool: Tool) -> Target:
    """Hopper, in PTX that `tool` reads."""
    major, minor, _ = tool.version
    return Target.parse("sm_90a") if major > 12 else Target.parse("sm_90a", (8, PTX_OF_12[minor]))


@pytest.mark.parametrize("n", [8, 64, 256])
@pytest.mark.parametrize(
    ("element", "d"), [(f16, f32), (f16, f16), (bf16, f32), (tf32, f32), (e4m3, f32), (s8, s32)], ids=str
)
def test_a_in_registers(element, d, n):
    tools = old_tools()
    if not tools:
        pytest.skip("no ptxas from 12.0 on and below 13.3 is installed")
    k = 256 // element.bits
    columns = 4 * k
    request = WgmmaRequest(n=n, k=k, d=d, a=element, b=element, a_in_registers=True)
    a, b = random_matrix(element, 64, columns, n), random_matrix(element, n, columns, n + 1)
    layout = SmemLayout(Major.K, SwizzleMode.B128, element, n, columns)
    for tool in tools:
        found = run(
            request,
            None,
            layout,
            fragments(a[0].view(np.uint8), 32),
            layout.arrange(b[0]),
            tool=tool,
            target=target_of(tool),
        )
        assert np.array_equal(found, product(a[1], b[1], d)), tool
