"""Each kernel of the corpus is verified without a word, and ptxas takes it without one."""

from __future__ import annotations

import types

import pytest

import nvbackend as nvb
from tests.corpus import attention, clusters, copies, given_back, mailboxes, rings, shared, tensor_memory

THEMES = (rings, mailboxes, attention, shared, copies, clusters, given_back, tensor_memory)
LEAST = 25


def kernels(module: types.ModuleType) -> list[nvb.KernelDefinition]:
    return [one for one in vars(module).values() if isinstance(one, nvb.KernelDefinition)]


CORPUS = [kernel for module in THEMES for kernel in kernels(module)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", CORPUS, ids=lambda kernel: kernel.__name__)
def test_nothing_is_said_about_a_right_kernel(kernel):
    finished = kernel.build()
    assert list(map(str, finished.diagnostics)) == []
    compiled = finished.compile(cache=nvb.Cache.disabled())
    assert list(map(str, compiled.diagnostics)) == []
    assert compiled.cubin


def test_the_corpus_is_there():
    assert len(CORPUS) >= LEAST
    assert len({kernel.__name__ for kernel in CORPUS}) == len(CORPUS)
