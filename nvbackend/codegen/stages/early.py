"""LLVM's library, which another thread loads while the first kernel of a process is built."""

from __future__ import annotations

import contextlib
import os
import sys
from threading import Thread


def load_early() -> None:
    """Have LLVM's library loaded by a thread of its own, if this process has not loaded it yet."""
    if "llvmlite.binding" not in sys.modules:
        with contextlib.suppress(RuntimeError):  # no more threads: it is loaded where it is needed
            Thread(target=_load, name="nvbackend library").start()


def _load() -> None:
    """Load it by a call of the system, in which other threads go on: ctypes itself keeps them waiting."""
    with contextlib.suppress(Exception):  # it comes again where the library is needed
        import ctypes

        import llvmlite
        from llvmlite.utils import get_library_name

        path = os.path.join(os.path.dirname(llvmlite.__file__), "binding", get_library_name())
        ctypes.CDLL(None).dlopen(os.fsencode(path), os.RTLD_NOW | os.RTLD_LOCAL)
