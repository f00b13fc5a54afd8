"""A stand-in for the few names of PyTorch that an operator uses, for programs of rules where PyTorch is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock


def _custom_op(name: str, run: Any, **options: Any) -> SimpleNamespace:
    return SimpleNamespace(
        name=name, run=run, register_fake=lambda function: None, register_autograd=lambda *a, **b: None
    )


@contextmanager
def stub_torch(*, capturing: bool = False) -> Iterator[None]:
    """Inside, `torch` is the stand-in, whose current stream is captured or not."""
    cuda = SimpleNamespace(
        device=lambda index: nullcontext(),
        current_device=lambda: 0,
        current_stream=lambda: SimpleNamespace(cuda_stream=0),
        is_current_stream_capturing=lambda: capturing,
    )
    library = SimpleNamespace(custom_op=_custom_op)
    torch = SimpleNamespace(cuda=cuda, library=library, Tensor=SimpleNamespace)
    with mock.patch.dict(sys.modules, {"torch": torch, "torch.library": library}):
        yield
