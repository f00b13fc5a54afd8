"""libNVVM and nvJitLink, by ctypes: both work without a GPU, and neither is loaded before its first use.

Sources: libNVVM API (nvvm.h), nvJitLink API (nvJitLink.h) of CUDA 13.5.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nvbackend.codegen.lto.rules import MISSING
from nvbackend.codegen.toolchain import STANDARD_DIRECTORIES, wheel_folders

LTO_IR = 3
"""NVJITLINK_INPUT_LTOIR"""
_NVVM = ("nvvm/lib64/libnvvm.so*", "lib/libnvvm.so*")
_NVJITLINK = ("lib/libnvJitLink.so*", "lib64/libnvJitLink.so*")
"""In the folder of a toolkit or of a wheel."""
_OF_CUDA_12 = ("cuda_nvcc", "nvjitlink")
"""The folders of its wheels."""
_RELEASES = ("13_0", "12_0")


class LibraryError(Exception):
    """What a library said where it refused its input."""


def nvvm_compiled(text: str, options: Sequence[str]) -> bytes:
    """What libNVVM makes of a module. Raises lto.missing, and LibraryError with its log."""
    library = _loaded("libNVVM", _NVVM)
    program = ctypes.c_void_p()
    data = text.encode()
    _nvvm_checked(library.nvvmCreateProgram(ctypes.byref(program)))
    try:
        _nvvm_checked(library.nvvmAddModuleToProgram(program, data, ctypes.c_size_t(len(data)), b"module"))
        spelled = _strings(options)
        failed = library.nvvmVerifyProgram(program, len(options), spelled)
        failed = failed or library.nvvmCompileProgram(program, len(options), spelled)
        if failed:
            log = _bytes(library.nvvmGetProgramLogSize, library.nvvmGetProgramLog, program)
            raise LibraryError(_text(log) or f"error {failed}")
        return _bytes(library.nvvmGetCompiledResultSize, library.nvvmGetCompiledResult, program)
    finally:
        library.nvvmDestroyProgram(ctypes.byref(program))


def nvvm_ir_version() -> tuple[int, int]:
    """The version of NVVM IR that libNVVM reads, as a module states it. Raises lto.missing."""
    numbers = [ctypes.c_int() for _ in range(4)]
    _nvvm_checked(_loaded("libNVVM", _NVVM).nvvmIRVersion(*map(ctypes.byref, numbers)))
    return numbers[0].value, numbers[1].value


def linked(parts: Sequence[bytes], options: Sequence[str], *, ptx: bool = False) -> bytes:
    """The cubin, or the PTX text, of LTO-IR that nvJitLink has linked. Raises lto.missing, and LibraryError."""
    library = _loaded("nvJitLink", _NVJITLINK)
    handle = ctypes.c_void_p()
    spelled = [*options, "-lto", *(["-ptx"] if ptx else [])]
    if _call(library, "Create")(ctypes.byref(handle), len(spelled), _strings(spelled)):
        raise LibraryError(f"it does not take the options {' '.join(spelled)}")
    try:
        failed = 0
        for number, part in enumerate(parts):
            size = ctypes.c_size_t(len(part))
            failed = failed or _call(library, "AddData")(handle, LTO_IR, part, size, f"part{number}".encode())
        failed = failed or _call(library, "Complete")(handle)
        if failed:
            log = _bytes(_call(library, "GetErrorLogSize"), _call(library, "GetErrorLog"), handle)
            raise LibraryError(_text(log) or f"error {failed}")
        form = "Ptx" if ptx else "Cubin"
        return _bytes(_call(library, f"GetLinked{form}Size"), _call(library, f"GetLinked{form}"), handle)
    finally:
        _call(library, "Destroy")(ctypes.byref(handle))


def is_there() -> bool:
    """Whether both libraries are installed."""
    return all(next(_places(patterns), None) is not None for patterns in (_NVVM, _NVJITLINK))


def _loaded(name: str, patterns: Sequence[str]) -> Any:
    for path in _places(patterns):
        return _library(str(path))
    searched = ", ".join(["the installed NVIDIA wheels", *(str(folder.parent) for folder in STANDARD_DIRECTORIES)])
    return MISSING.fail(library=name, places=searched)


@functools.cache
def _library(path: str) -> Any:
    return ctypes.CDLL(path)


def _places(patterns: Sequence[str]) -> Iterator[Path]:
    """The files that match, those of wheels first."""
    wheels = (folder for folders in wheel_folders(*_OF_CUDA_12) for folder in folders)
    for folder in (*wheels, *(directory.parent for directory in STANDARD_DIRECTORIES)):
        for pattern in patterns:
            yield from sorted(folder.glob(pattern))


def _call(library: Any, name: str) -> Callable[..., int]:
    """A call of nvJitLink, whose symbols carry a release."""
    for release in _RELEASES:
        call: Callable[..., int] | None = getattr(library, f"__nvJitLink{name}_{release}", None)
        if call is not None:
            return call
    raise LibraryError(f"it has no nvJitLink{name} of CUDA {_RELEASES[-1].partition('_')[0]} or later")


def _nvvm_checked(status: int) -> None:
    if status:
        raise LibraryError(f"error {status}")


def _strings(texts: Sequence[str]) -> Any:
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


def _bytes(size_of: Callable[..., int], give: Callable[..., int], handle: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    if size_of(handle, ctypes.byref(size)) or not size.value:
        return b""
    buffer = ctypes.create_string_buffer(size.value)
    return buffer.raw if not give(handle, buffer) else b""


def _text(log: bytes) -> str:
    """A log as one sentence."""
    return re.sub(r"\s+", " ", log.decode(errors="replace").replace("\0", " ")).strip()
