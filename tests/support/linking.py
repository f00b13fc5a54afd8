"""CUDA C++ to PTX by NVRTC, and PTX to a cubin by nvJitLink: neither needs a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import pytest


def needs_linker() -> None:
    """Skip the test where NVRTC or nvJitLink is not installed."""
    pytest.importorskip("cuda.bindings")
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    for library in ("nvrtc", "nvJitLink"):
        try:
            load_nvidia_dynamic_lib(library)
        except DynamicLibNotFoundError:
            pytest.skip(f"needs {library} (pip install nvidia-cuda-nvrtc nvidia-nvjitlink)")


def compiled_cuda(source: str, target: str) -> str:
    """PTX of CUDA C++, with its device functions to be linked."""
    from cuda.bindings import nvrtc

    status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"program.cu", 0, [], [])
    options = [f"--gpu-architecture={target.replace('sm', 'compute')}".encode(), b"--relocatable-device-code=true"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    return text.rstrip(b"\0").decode()


def linked_cubin(target: str, texts: Sequence[str]) -> bytes:
    """A cubin of all PTX texts. Raises RuntimeError with the linker's log."""
    from cuda.bindings import nvjitlink

    handle = nvjitlink.create(1, [f"-arch={target}"])
    try:
        for index, text in enumerate(texts):
            data = text.encode()
            nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), f"part{index}.ptx")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        raise RuntimeError(f"{error}: {log.decode()}") from None
