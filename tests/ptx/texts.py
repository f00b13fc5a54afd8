"""PTX texts of several compilers: those in `foreign`, and what LLVM prints for samples and the corpus."""

from __future__ import annotations

import functools
from pathlib import Path

from nvbackend.codegen.cache import Cache
from samples import ampere_gemm, blackwell_gemm, consumer_blackwell_gemm, hopper_gemm, turing_gemm
from tests.corpus.test_corpus import CORPUS

FOREIGN = sorted((Path(__file__).parent / "foreign").glob("*.ptx"))
OWN = [
    *(sample.gemm for sample in (ampere_gemm, blackwell_gemm, consumer_blackwell_gemm, hopper_gemm, turing_gemm)),
    *CORPUS,
]


@functools.cache
def own_text(index: int) -> str:
    """The PTX of one of our own kernels."""
    return OWN[index].compile(cache=Cache.disabled(), assemble=False).ptx
