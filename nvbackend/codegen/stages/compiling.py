"""A kernel from LLVM IR text to PTX and cubin, stage by stage, each through the cache."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import field, replace
from typing import Any, TypeVar

from nvbackend.codegen.cache import Cache, cache_key, pack, unpack
from nvbackend.codegen.compiled import CompiledKernel
from nvbackend.codegen.cubin import Cubin, is_cubin
from nvbackend.codegen.llvm import CODE_GENERATOR_LEVEL, OPTIMISE, PRINT, TUNING, compiling_ir, llvm_version
from nvbackend.codegen.looking.dump import Dump
from nvbackend.codegen.looking.log import log_compiled
from nvbackend.codegen.ptxas import Assembly, check_request, interpret, running_ptxas
from nvbackend.codegen.stages.steps import last
from nvbackend.codegen.stages.unrolling import not_unrolled
from nvbackend.codegen.toolchain import Tool, find_ptxas, locate
from nvbackend.codegen.user_lines import at_user_lines
from nvbackend.diagnostics import DiagnosticError, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.target.target import Target, dotted
from nvbackend.signature import Signature

ASSEMBLE = "assemble"
"""The stage after those of `nvbackend.codegen.llvm`."""
_Kept = TypeVar("_Kept")


@user_facing
def compile_kernel(
    ir_text: str,
    signature: Signature,
    machine: MachineFunction,
    target: Target,
    *,
    cache: Cache | None = None,
    optimize: int = 3,
    assemble: bool | None = True,
    tool: Tool | None = None,
    ptxas_level: int = 3,
    register_limit: int | None = None,
    isolated: bool = False,
) -> CompiledKernel:
    """Compile `ir_text`, which holds the kernel `signature` selected as `machine`, for `target`.

    `cache` None uses the user's cache (Cache.disabled() none); `optimize` is LLVM's level and `ptxas_level` that of
    ptxas, which is `tool` or the one found; `assemble` False stops at PTX, and None assembles where a ptxas is found.
    With `isolated` LLVM runs in a process of its own, which it ends where it cannot compile IR of others.
    The environment's NVBACKEND_DUMP names a folder that gets every form, NVBACKEND_LOG a file that gets a line. Raises
    dump.write, log.write, and what `compile_ir` and `nvbackend.codegen.ptxas.assemble` raise.
    """
    options: dict[str, Any] = {"optimize": optimize, "assemble": assemble, "tool": tool, "ptxas_level": ptxas_level}
    options["isolated"] = isolated
    return last(compiling(ir_text, signature, machine, target, cache=cache, register_limit=register_limit, **options))


def compiling(
    ir_text: str,
    signature: Signature,
    machine: MachineFunction,
    target: Target,
    *,
    cache: Cache | None = None,
    optimize: int = 3,
    assemble: bool | None = True,
    tool: Tool | None = None,
    ptxas_level: int = 3,
    register_limit: int | None = None,
    isolated: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> Generator[str, None, CompiledKernel]:
    """`compile_kernel` in steps, which give the stage that comes next: OPTIMISE, PRINT, PRINTED, ASSEMBLE.

    What is in the cache has no stages. With ASSEMBLE, ptxas runs already; closed then, it is ended. `meanwhile` is
    called where the next step would wait for it. Whatever may end the process comes after PRINT.
    """
    if isinstance(cache, type):
        raise TypeError("the boundary names the argument")  # its methods would take a key for the cache
    stages = _Stages(signature.name, target, Cache.default() if cache is None else cache)
    dump = Dump(signature.name, target.name, ir_text)
    dump.write(machine_txt=str(machine) if dump.is_wanted else "", kernel_ll=ir_text)
    ptx, optimized_ir = yield from stages.print_ptx(ir_text, optimize, isolated=isolated)
    dump.write(kernel_opt_ll=optimized_ir, kernel_ptx=ptx)
    cubin = None
    if assemble or (assemble is None and (tool or locate("ptxas"))):
        try:
            cubin = yield from stages.assemble(ptx, tool or find_ptxas(), ptxas_level, register_limit, meanwhile)
        except DiagnosticError as error:
            raise DiagnosticError(at_user_lines(error.diagnostics, ptx, machine)) from None
        dump.write_cubin(cubin.data)
        cubin = replace(cubin, diagnostics=at_user_lines(cubin.diagnostics, ptx, machine))
    kernel = CompiledKernel(
        signature=signature,
        target=target,
        machine=machine,
        ir=ir_text,
        optimized_ir=optimized_ir,
        ptx=ptx,
        cubin=cubin,
        diagnostics=(*not_unrolled(optimized_ir), *(cubin.diagnostics if cubin else ())),
        timings=stages.timings,
        cached=tuple(stages.cached),
    )
    log_compiled(kernel)
    return kernel


@dataclass
class _Stages:
    """The stages of one compile, each looked up in the cache first, with their times."""

    kernel: str
    target: Target
    cache: Cache
    timings: dict[str, float] = field(default_factory=dict)
    cached: list[str] = field(default_factory=list)

    def print_ptx(self, ir_text: str, optimize: int, *, isolated: bool) -> Generator[str, None, tuple[str, str]]:
        """The PTX and the optimised IR, made where they are not in the cache."""
        start = time.perf_counter()
        key = self._key(
            "llvm",
            ir=ir_text,
            target=self.target.name,
            ptx_version=self.target.ptx_attribute,
            optimize=optimize,
            code_generator=CODE_GENERATOR_LEVEL,
            llvm=llvm_version(),
            **TUNING,
        )
        kept = self._kept(key, self._printed)
        if kept is not None:
            self.timings |= {OPTIMISE: 0.0, PRINT: time.perf_counter() - start}
            self.cached += [OPTIMISE, PRINT]
            return kept
        if isolated:
            from nvbackend.codegen.isolated import compile_ir_isolated

            yield PRINT
            result = compile_ir_isolated(ir_text, self.target, optimize=optimize)
        else:
            result = yield from compiling_ir(ir_text, self.target, optimize=optimize)
        self.timings |= result.timings
        self.cache.put(key, pack({"ptx": result.ptx.encode(), "ir": result.optimized_ir.encode()}))
        return result.ptx, result.optimized_ir

    def assemble(
        self,
        ptx: str,
        tool: Tool,
        level: int,
        register_limit: int | None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Generator[str, None, Cubin]:
        """The cubin. The log of ptxas is kept with it, so that its warnings are repeated.

        Its time leaves out what the caller does while ptxas runs.
        """
        start = time.perf_counter()
        check_request(level, register_limit, argument="ptxas_level")
        key = self._key(
            "ptxas",
            ptx=ptx,
            target=self.target.name,
            tool=tool.identity or tool.release,
            level=level,
            register_limit=register_limit,
        )
        assembly = self._kept(key, self._assembled)
        if assembly is not None:
            self.cached.append(ASSEMBLE)
        else:
            steps = running_ptxas(
                ptx, self.target, tool, opt_level=level, register_limit=register_limit, meanwhile=meanwhile
            )
            with contextlib.closing(steps):
                next(steps)
                started = time.perf_counter()
                yield ASSEMBLE
                start += time.perf_counter() - started
                assembly = last(steps)
            self.cache.put(key, pack({"cubin": assembly.data, "log": assembly.log.encode()}))
        cubin = interpret(assembly, ptx, tool, register_limit=register_limit)
        self.timings[ASSEMBLE] = time.perf_counter() - start
        return cubin

    def _key(self, stage: str, **inputs: str | int | bool | None) -> str:
        """The key of a stage's output. A cache that keeps nothing has none: no text is looked through for it."""
        return "" if self.cache.directory is None else cache_key(stage, **inputs)

    def _kept(self, key: str, read: Callable[[Mapping[str, bytes]], _Kept | None]) -> _Kept | None:
        """What the cache holds under `key`, None for anything that is not the stage's output."""
        entry = self.cache.get(key)
        try:
            return None if entry is None else read(unpack(entry))
        except (ValueError, KeyError):
            return None

    def _printed(self, parts: Mapping[str, bytes]) -> tuple[str, str] | None:
        """PTX and optimised IR, if they are of this kernel for this target."""
        ptx, ir = parts["ptx"].decode(), parts["ir"].decode()
        version = dotted(self.target.ptx_version)
        is_its_own = f".version {version}\n.target {self.target.name}\n" in ptx and f".entry {self.kernel}(" in ptx
        return (ptx, ir) if is_its_own and f"@{self.kernel}(" in ir else None

    def _assembled(self, parts: Mapping[str, bytes]) -> Assembly | None:
        """Cubin and log, if they are of this kernel for this target."""
        cubin, log = parts["cubin"], parts["log"].decode()
        is_its_own = is_cubin(cubin) and f".text.{self.kernel}\0".encode() in cubin
        compiled = f"Compiling entry function '{self.kernel}' for '{self.target.name}'" in log
        return Assembly(cubin, log) if is_its_own and compiled else None
