"""Streams of any library as CUDA handles."""

from __future__ import annotations

from typing import Any

from nvbackend.diagnostics import with_article
from nvbackend.runtime.arguments.arrays import describe
from nvbackend.runtime.rules import STREAM

_LEGACY_DEFAULT = 1
"""CU_STREAM_LEGACY, another name of handle 0 unless a process is compiled for per-thread default streams."""
CU_STREAM_PER_THREAD = 2
"""The default stream of a thread: the last handle that is not an address."""
_FIRST_ADDRESS, _NO_ADDRESS = 4096, 1 << 64
"""Other handles are addresses, which the driver follows; none is in the first page of memory."""


def stream_handle(stream: Any) -> int:
    """The CUDA handle of `stream`: None (the default stream), an integer, or an object of any library.

    Taken: objects with `__cuda_stream__` (numba, cuda.core, CuPy), PyTorch's `cuda_stream`, CuPy's `ptr`.
    Raises launch.stream for anything else, and for an integer that can be no handle: it ends the process.
    """
    if stream is None:
        return 0
    if type(stream) is int and (0 <= stream <= CU_STREAM_PER_THREAD or _FIRST_ADDRESS <= stream < _NO_ADDRESS):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # A method by the protocol; cuda.core had it as a property before.
        _, handle = protocol() if callable(protocol) else protocol
        return int(handle)
    handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", None))
    if not isinstance(handle, int):
        STREAM.fail(given=stream if type(stream) is int else with_article(describe(stream)))
    return handle


def same_stream(first: int, second: int) -> bool:
    """Whether two handles name one stream."""
    return _plain(first) == _plain(second)


def _plain(handle: int) -> int:
    return 0 if handle == _LEGACY_DEFAULT else handle
