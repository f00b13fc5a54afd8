"""A kernel from LLVM IR text to PTX and cubin, through the cache, with the report of what was built."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from nvbackend.codegen.cache import Cache, cache_key, pack, unpack
from nvbackend.codegen.isolated import compile_ir_isolated
from nvbackend.codegen.llvm import CODE_GENERATOR_LEVEL, OPTIMISE, PRINT, TUNING, LlvmResult, compile_ir, llvm_version
from nvbackend.codegen.looking import roofline
from nvbackend.codegen.looking.dump import Dump
from nvbackend.codegen.looking.log import log_compiled
from nvbackend.codegen.looking.occupancy import occupancy, register_limit
from nvbackend.codegen.looking.page import page
from nvbackend.codegen.looking.page import summary as page_summary
from nvbackend.codegen.looking.work import work_by_loop
from nvbackend.codegen.pickled import loaded
from nvbackend.codegen.ptxas import (
    Assembly,
    Cubin,
    assemble,
    check_request,
    interpret,
    is_cubin,
    last,
    running_ptxas,
)
from nvbackend.codegen.sass import disassemble
from nvbackend.codegen.saved.c_header import c_header
from nvbackend.codegen.saved.written import save
from nvbackend.codegen.toolchain import Tool, find_ptxas, locate
from nvbackend.codegen.unrolling import not_unrolled
from nvbackend.codegen.user_lines import at_user_lines
from nvbackend.diagnostics import Diagnostic, DiagnosticError, user_facing
from nvbackend.diagnostics.announce import Suppressed
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.isel.machine.assertions import Assertion
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.target.target import Target, dotted
from nvbackend.launch_calls import NotLoaded
from nvbackend.signature import Shape, Signature

ASSEMBLE = "assemble"
"""The stage after those of `nvbackend.codegen.llvm`."""
PACKED_MACHINE = "_packed_machine"
"""Where a kernel from a cache has its machine form as bytes, until it is asked for."""


@user_facing
@dataclass(frozen=True)
class CompiledKernel(NotLoaded):
    """A kernel that was built: what it takes, what was selected, and every form down to the cubin.

    `ir` is the IR before optimisation, `optimized_ir` the one that `ptx` was printed from; `cubin` is None where it
    was not assembled. `diagnostics` are warnings, `suppressed` what the kernel allows, `unknown` what was not judged of
    a function that the builder was attached to. `timings` holds seconds by
    stage, and `cached` the stages whose result came from the cache, in their order; neither says anything about the
    kernel, so both stay out of comparisons.
    """

    signature: Signature
    target: Target
    machine: MachineFunction = field(compare=False, repr=False)
    ir: str = field(repr=False)
    optimized_ir: str = field(repr=False)
    ptx: str = field(repr=False)
    cubin: Cubin | None
    diagnostics: tuple[Diagnostic, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)
    cached: tuple[str, ...] = field(default=(), compare=False)
    suppressed: tuple[Suppressed, ...] = ()
    unknown: tuple[str, ...] = ()

    if not TYPE_CHECKING:  # it would make a type checker accept every name

        def __getattr__(self, name: str) -> Any:
            packed = vars(self).get(PACKED_MACHINE) if name == "machine" else None
            if packed is None:
                return super().__getattr__(name)
            object.__setattr__(self, name, loaded(packed))
            return self.machine

    def _stage(self) -> tuple[str, int, bool]:
        return self.name, self.signature.bounds.threads, True

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.signature.name

    @property
    def selected(self) -> dict[str, int]:
        """How many instructions of each opcode were selected, in the order of their first appearance."""
        return dict(Counter(instr.opcode for instr in self.machine.instructions() if instr.row is not None))

    def __repr__(self) -> str:
        registers = "" if self.cubin is None else f", {self.cubin.kernel(self.name).registers} registers"
        warnings = f", {len(self.diagnostics)} warning(s)" if self.diagnostics else ""
        return f"<compiled kernel: {self.machine!r}, {self.signature.bounds.threads} threads{registers}{warnings}>"

    def again(self) -> CompiledKernel:
        """The same kernel as the result of a second compile: no stage takes time, all come from a cache."""
        return replace(self, timings=dict.fromkeys(self.timings, 0.0), cached=tuple(self.timings))

    def sass(self, *, tool: Tool | None = None) -> str:
        """The SASS of the cubin, which is assembled first if it is not there yet.

        Raises sass.missing, sass.failed, and what `nvbackend.codegen.ptxas.assemble` raises.
        """
        cubin = self.cubin or assemble(self.ptx, self.target)
        return disassemble(cubin.data, tool=tool)

    @property
    def assertions(self) -> tuple[Assertion, ...]:
        """The places where it ends its launch itself, by the numbers that it records."""
        return tuple(self.machine.assertions)

    def save(self, path: str | os.PathLike[str], *others: CompiledKernel) -> None:
        """Write it to one file, which `nvb.load_compiled` reads: cubin, PTX, signature, text of the machine form.

        `others` are the same kernel for other targets: a loader takes what suits its device. The file is a zip of JSON
        and bytes with a checksum, the same for the same kernel. Raises saved.together, saved.file.
        """
        save(path, (self, *others), {"llvm": llvm_version()})

    def c_header(self) -> str:
        """A header of C99 with the cubin (the PTX where it was not assembled), and functions that load and launch it.

        NAME_load, NAME_launch and NAME_unload call the CUDA driver API alone. The launcher's arguments have the types
        of the parameters; tensor maps are encoded from addresses and shapes at each launch. CUDA 12 or later.
        """
        return c_header(self)

    def html(self) -> str:
        """One page of HTML without requests: Python, machine form, PTX and SASS side by side, with linked lines."""
        return page(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the resources, and the report folded away."""
        report = escape(self.report())
        return f"<b>{escape(repr(self))}</b>\n{page_summary(self)}<details><pre>{report}</pre></details>\n"

    def report(self) -> str:
        """What was built, as a plain text table; its last section, the times, differs from run to run."""
        return "\n".join((self.summary(), *_section("time", _times(self))))

    def figures(self) -> dict[str, Any]:
        """The numbers of `report` as JSON has them; those of the cubin are left out where it was not assembled."""
        bounds = self.signature.bounds
        works = work_by_loop(self)
        numbers: dict[str, Any] = {
            "threads": bounds.threads,
            "cluster": bounds.cluster,
            "selected": self.selected,
            "dynamic_shared_bytes": bounds.dynamic_shared_bytes,
            "warnings": [diagnostic.rule_id for diagnostic in self.diagnostics],
            "work": [each.data() for each in works],
            "roofline": [asdict(each) for each in roofline.rooflines(self.target, works)],
        }
        if self.cubin is not None:
            used = asdict(self.cubin.kernel(self.name))
            numbers |= {name: value for name, value in used.items() if name != "kernel"}
            numbers["register_limit"] = register_limit(bounds)
            room = occupancy(self.target, bounds, self.cubin.kernel(self.name))
            numbers["occupancy"] = None if room is None else asdict(room)
        return numbers

    def summary(self) -> str:
        """What was built, as `report` without the times: the same for the same kernel."""
        bounds = self.signature.bounds
        target = f"{self.target.name} (PTX {dotted(self.target.ptx_version)})"
        cluster = f", cluster {_extents(bounds.cluster, bounds.cluster_shape)}" if bounds.cluster > 1 else ""
        lines = [f"kernel {self.name} for {target}, {_extents(bounds.threads, bounds.shape)} threads{cluster}"]
        lines += _section("selected", ((opcode, f"{count:>6}") for opcode, count in self.selected.items()))
        lines += _section("resources", _resources(self))
        lines += _section("size", _sizes(self))
        lines += ["  work of a CTA, and its roofline where no byte stays in a cache"]
        lines += [f"    {line}" for line in roofline.lines(self.target, work_by_loop(self))]
        lines += [f"  {len(self.diagnostics) or 'no'} warning{'' if len(self.diagnostics) == 1 else 's'}"]
        lines += [f"    {line}" for diagnostic in self.diagnostics for line in str(diagnostic).splitlines()]
        lines += [f"  {len(self.suppressed)} suppressed"] * bool(self.suppressed)
        lines += [f"    {each}" for each in self.suppressed]
        lines += ["  not judged"] * bool(self.unknown)
        lines += [f"    {each}" for each in self.unknown]
        return "\n".join(lines)


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
) -> Generator[None, None, CompiledKernel]:
    """`compile_kernel` in steps: after the first, ptxas runs where it must. Closed then, it is ended."""
    stages = _Stages(signature.name, target, Cache.default() if cache is None else cache)
    dump = Dump(signature.name, target.name, ir_text)
    dump.write(machine_txt=str(machine) if dump.is_wanted else "", kernel_ll=ir_text)
    ptx, optimized_ir = stages.print_ptx(ir_text, optimize, compile_ir_isolated if isolated else compile_ir)
    dump.write(kernel_opt_ll=optimized_ir, kernel_ptx=ptx)
    cubin = None
    if assemble or (assemble is None and (tool or locate("ptxas"))):
        try:
            cubin = yield from stages.assemble(ptx, tool or find_ptxas(), ptxas_level, register_limit)
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


@functools.cache
def compile_options() -> tuple[str, ...]:
    """The names of the options of compile_kernel."""
    parameters = inspect.signature(compile_kernel).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)


def check_options(names: Iterable[str]) -> None:
    """Raises call.argument for an option that a kernel's `compile` does not have."""
    options = compile_options()
    for name in names:
        if name not in options:
            shown = ", ".join(f"{option}=..." for option in options)
            ARGUMENT.fail(
                call="compile",
                problem=f"got an unexpected keyword argument {name!r}",
                advice=f"call it as compile({shown}), with those that are wanted",
            )


@dataclass
class _Stages:
    """The stages of one compile, each looked up in the cache first, with their times."""

    kernel: str
    target: Target
    cache: Cache
    timings: dict[str, float] = field(default_factory=dict)
    cached: list[str] = field(default_factory=list)

    def print_ptx(self, ir_text: str, optimize: int, compile_: Callable[..., LlvmResult]) -> tuple[str, str]:
        """The PTX and the optimised IR, made by `compile_` where they are not in the cache."""
        start = time.perf_counter()
        key = cache_key(
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
        result = compile_(ir_text, self.target, optimize=optimize)
        self.timings |= result.timings
        self.cache.put(key, pack({"ptx": result.ptx.encode(), "ir": result.optimized_ir.encode()}))
        return result.ptx, result.optimized_ir

    def assemble(self, ptx: str, tool: Tool, level: int, register_limit: int | None) -> Generator[None, None, Cubin]:
        """The cubin. The log of ptxas is kept with it, so that its warnings are repeated.

        Its time leaves out what the caller does while ptxas runs.
        """
        start = time.perf_counter()
        check_request(level, register_limit)
        key = cache_key(
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
            steps = running_ptxas(ptx, self.target, tool, opt_level=level, register_limit=register_limit)
            with contextlib.closing(steps):
                next(steps)
                started = time.perf_counter()
                yield
                start += time.perf_counter() - started
                assembly = last(steps)
            self.cache.put(key, pack({"cubin": assembly.data, "log": assembly.log.encode()}))
        cubin = interpret(assembly, ptx, tool, register_limit=register_limit)
        self.timings[ASSEMBLE] = time.perf_counter() - start
        return cubin

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


_Kept = TypeVar("_Kept")
_Row = tuple[str, str]


def _section(title: str, rows: Iterator[_Row]) -> list[str]:
    pairs = list(rows)
    width = max((len(name) for name, _ in pairs), default=0)
    return [f"  {title}", *(f"    {name:<{width}}  {value}" for name, value in pairs)]


def _resources(kernel: CompiledKernel) -> Iterator[_Row]:
    dynamic = f"{kernel.signature.bounds.dynamic_shared_bytes} bytes dynamic"
    if kernel.cubin is None:
        yield "registers", "not assembled"
        yield "shared memory", dynamic
        return
    used = kernel.cubin.kernel(kernel.name)
    yield "registers", f"{used.registers} a thread, of {register_limit(kernel.signature.bounds)}"
    yield "barriers", f"{used.barriers}"
    yield "shared memory", f"{used.shared_bytes} bytes static, {dynamic}"
    yield "local memory", f"{used.stack_bytes} bytes a thread"
    room = occupancy(kernel.target, kernel.signature.bounds, used)
    if room is not None:
        yield "occupancy", str(room)
    yield "spills", f"{used.spill_stores_bytes} bytes stored, {used.spill_loads_bytes} bytes loaded"


def _sizes(kernel: CompiledKernel) -> Iterator[_Row]:
    yield "PTX", f"{len(kernel.ptx.encode())} bytes"
    if kernel.cubin is not None:
        release = ".".join(map(str, kernel.cubin.ptxas_version))
        yield "cubin", f"{len(kernel.cubin.data)} bytes (ptxas {release})"


def _times(kernel: CompiledKernel) -> Iterator[_Row]:
    for stage, seconds in kernel.timings.items():
        yield stage, f"{seconds * 1000:8.1f} ms{', cached' if stage in kernel.cached else ''}"
    yield "together", f"{sum(kernel.timings.values()) * 1000:8.1f} ms"


def _extents(count: int, shape: Shape) -> str:
    """So many, and along which axes where those are several."""
    return f"{count}" if shape == (count, 1, 1) else f"{count} ({' x '.join(map(str, shape))})"
