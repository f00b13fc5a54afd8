"""The page about linking: its blocks run in their order; those that need a driver or a framework run on the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvbackend.codegen.lto.libraries import is_there
from tests.meta.test_guide import BLOCK, run
from tests.meta.test_tiled_guide import PRINTED
from tests.support.process import ROOT

BLOCKS = BLOCK.findall((ROOT / "docs" / "linking.md").read_text(encoding="utf-8"))
NEED = ("from numba", "from cuda", "import torch", "import jax", "import cupy", "ptx_of_lto_ir")


def test_what_needs_nothing_runs(tmp_path: Path) -> None:
    blocks = [block for block in BLOCKS if not any(need in block for need in NEED)]
    assert blocks
    code = "\n".join(blocks)
    done = run(tmp_path, code)
    assert done.stderr == ""
    assert done.stdout.splitlines() == PRINTED.findall(code)


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("needed", NEED)
def test_each_way_of_linking_runs(tmp_path: Path, needed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # JAX would take three quarters of the GPU's memory, which other tests need too.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for name in needed.split()[1:]:
        pytest.importorskip(name)
    if needed == "ptx_of_lto_ir" and not is_there():
        pytest.skip("needs nvJitLink: pip install nvidia-nvjitlink")
    blocks = [block for block in BLOCKS if needed in block]
    if not blocks:
        pytest.skip("the page has none")
    done = run(tmp_path, "\n".join([*(block for block in BLOCKS if not any(need in block for need in NEED)), *blocks]))
    assert done.returncode == 0, done.stderr
