"""LTO-IR from LLVM IR, and PTX from LTO-IR."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from nvbackend.codegen.lto.dialect import DATA_LAYOUT, UnsupportedError, module_for_nvvm
from nvbackend.codegen.lto.libraries import LibraryError, linked, nvvm_compiled, nvvm_ir_version
from nvbackend.codegen.lto.rules import DIALECT, INPUT
from nvbackend.diagnostics import user_facing, with_article
from nvbackend.diagnostics.classes.brief import cut
from nvbackend.isel.target.target import Target

MAGIC = b"\xedCN\x7f"
"""What LTO-IR begins with."""
_MODERN = 100
"""The first compute capability whose IR is that of today's LLVM."""
_EXTERNAL = re.compile(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?([\w.$]+)", re.MULTILINE)
_OF_THE_DEVICE = frozenset({"vprintf", "__assertfail"})
"""What every linker of CUDA knows."""
_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_KEEPER = "nvbackend_keeps"
_VERSION = re.compile(r"^\.version \d+\.\d+", re.MULTILINE)


def lto_ir_of(ir_text: str, target: Target, name: str) -> bytes:
    """LTO-IR of a module of device functions. Raises lto.missing, lto.dialect."""
    arch = f"-arch={target.name.replace('sm_', 'compute_')}"
    version = nvvm_ir_version()
    try:
        module = module_for_nvvm(_printed(ir_text), version, typed=target.number < _MODERN)
        # The PTX of the same module shows what LTO-IR would hide: an intrinsic that libNVVM takes for a function.
        ptx = nvvm_compiled(module, [arch]).decode(errors="replace")
    except (UnsupportedError, LibraryError) as error:
        _refuse(name, target, str(error))
    unknown = sorted(set(_EXTERNAL.findall(ptx)) - _OF_THE_DEVICE)
    if unknown:
        _refuse(name, target, f"it has no {unknown[0]}")
    return nvvm_compiled(module, [arch, "-gen-lto"])


def _refuse(name: str, target: Target, problem: str) -> NoReturn:
    advice = "link the PTX instead, which has all of its instructions"
    if target.number < _MODERN:
        advice += "; or compile for sm_100 or later, where libNVVM reads today's LLVM IR"
    DIALECT.fail(name=name, target=target, problem=cut(problem), advice=advice)


def _printed(ir_text: str) -> str:
    """The module as LLVM prints it."""
    import llvmlite.binding as llvm

    with llvm.create_context() as context, llvm.parse_assembly(ir_text, context) as module:
        return str(module)


@user_facing
def ptx_of_lto_ir(data: bytes, name: str, target: str | Target) -> str:
    """PTX of the device function `name` in LTO-IR that nvcc, NVRTC or numba wrote, for `nvb.extern_function`.

    nvJitLink optimises it for exactly `target`; what the function calls must be in the LTO-IR too. Raises lto.missing,
    and lto.input where the bytes are not LTO-IR, are for another chip, or lack the function.
    """
    chosen = Target.parse(target)
    check_lto_ir(data, name, chosen)
    arch = chosen.name.replace("sm_", "compute_")
    keeper = _keeper(name, typed=chosen.number < _MODERN)
    version = nvvm_ir_version()
    stated = f"!nvvmir.version = !{{!1}}\n!1 = !{{i32 {version[0]}, i32 {version[1]}}}\n"
    try:
        kept = nvvm_compiled(keeper + stated, [f"-arch={arch}", "-gen-lto"])
        text = linked([data, kept], [f"-arch={chosen.name}"], ptx=True).decode().replace("\0", "")
    except LibraryError as error:
        _refuse_input(chosen, str(error), f"compile the LTO-IR for {arch} or an earlier chip, by CUDA 13.5 or before")
    if re.search(rf"^\.extern \.func\s+(?:\([^)]*\)\s*)?{re.escape(name)}\b", text, re.MULTILINE):
        _refuse_input(chosen, f"it has no function {name}", 'give the name as in PTX: declare it extern "C"')
    major, minor = chosen.ptx_version
    return _VERSION.sub(f".version {major}.{minor}", text, count=1)


def check_lto_ir(data: Any, name: str, target: Target) -> None:
    """Raises lto.input for what is not LTO-IR, or not a name."""
    if not isinstance(data, bytes) or not data.startswith(MAGIC):
        problem = f"its first bytes are {data[:4]!r}, not {MAGIC!r}"
        if not isinstance(data, bytes):
            problem = f"it is {with_article(type(data).__name__)}, not bytes"
        _refuse_input(target, problem, "pass the bytes of nvcc -dlto -ltoir, or NVRTC's getLTOIR")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        _refuse_input(target, f"{name!r} is not the name of a function", "give the name as in PTX")


def _refuse_input(target: Target, problem: str, advice: str) -> NoReturn:
    INPUT.fail(target=target, problem=cut(problem), advice=advice)


def _keeper(name: str, *, typed: bool) -> str:
    """A kernel that takes the function's address, without which nvJitLink leaves it out."""
    function, pointer, byte = ("void ()*", "i64*", "i8*") if typed else ("ptr", "ptr", "ptr")
    kernel = f"void ({pointer})* @{_KEEPER}" if typed else f"ptr @{_KEEPER}"
    used = f"i8* bitcast ({kernel} to i8*)" if typed else kernel
    return f"""target datalayout = "{DATA_LAYOUT}"
target triple = "nvptx64-nvidia-cuda"
declare void @{name}()
define void @{_KEEPER}({pointer} %out) {{
  %number = ptrtoint {function} @{name} to i64
  store i64 %number, {pointer} %out
  ret void
}}
@llvm.used = appending global [1 x {byte}] [{used}], section "llvm.metadata"
!nvvm.annotations = !{{!0}}
!0 = !{{{kernel}, !"kernel", i32 1}}
"""
