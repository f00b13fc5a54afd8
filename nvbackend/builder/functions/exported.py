"""A device function as PTX of its own, which compilers of other languages link: the C calling convention."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from nvbackend.builder.core.assumptions import assume_values
from nvbackend.builder.core.core import Core
from nvbackend.builder.functions import c_abi
from nvbackend.builder.functions.body import code_of, return_results
from nvbackend.builder.functions.expanded import Source, expand
from nvbackend.builder.functions.parameters import Kind
from nvbackend.builder.kernel.bounds import checked_bounds, checked_policy
from nvbackend.builder.kernel.kernel import TRIPLE, with_ftz
from nvbackend.builder.kernel.operations import Operations
from nvbackend.builder.lower.text import text_of_module
from nvbackend.builder.ops.groups import of_whole_calls
from nvbackend.builder.scopes.calls import splice
from nvbackend.builder.scopes.function_rules import DECLARATION, THREADS
from nvbackend.builder.scopes.names import has_meaning, is_ptx_name
from nvbackend.builder.values.math_policy import MathPolicy
from nvbackend.builder.values.values import Value
from nvbackend.codegen.saved.c_header import KEYWORDS
from nvbackend.codegen.saved.cuda_names import DECLARED, RESERVED
from nvbackend.diagnostics import Diagnostic, DiagnosticError, raise_all, user_facing
from nvbackend.diagnostics.announce import announce
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.machine.clusters import needs_cluster
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.machine.unknown_threads import judged_of_unknown_threads
from nvbackend.isel.target.target import Target
from nvbackend.isel.verify.verify import verify
from nvbackend.signature import Extents, Pointer, Scalar

if TYPE_CHECKING:
    from collections.abc import Callable

_ANY_SHAPE = 1024, (8, 8, 8)
"""Two shapes of a CTA; what is the same for both depends on neither."""
_C_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@user_facing
@dataclass(frozen=True)
class CompiledFunction:
    """A device function that other compilers link: `ptx` has it as `.visible .func name`, called as C calls.

    `parameters` are the types by name, `results` those of what it returns (None: nothing). `machine` is the machine
    form that was judged, `diagnostics` are the warnings. `unknown` says what of its callers was not known and so was
    not judged.
    """

    name: str
    target: Target
    parameters: Mapping[str, Scalar | Pointer] = field(hash=False)
    results: tuple[ElementType, ...] | None
    machine: MachineFunction = field(compare=False)
    ir: str
    ptx: str
    unknown: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def c_declaration(self) -> str:
        """The declaration in CUDA C++; several results are a struct `name_results` of result0, result1, and so on.

        `_` is appended to parameters whose names are keywords of C or C++.
        """
        return c_abi.declaration(self.name, self.parameters, self.results)

    def c_header(self) -> str:
        """A header of CUDA C++ that declares it, for nvcc and NVRTC; pass `ptx` to nvJitLink or nvlink with the code.

        Values that C has no type for (f16, bf16, 8-bit floats, pairs) are passed as unsigned integers of their bits.
        """
        guard = f"NVBACKEND_{self.name.upper()}_H"
        notes = [
            f"{name}: {_described(kind)}" for name, kind in self.parameters.items() if _described(kind) is not None
        ]
        notes += [f"Not known when it was checked: {each}" for each in self.unknown]
        lines = [
            f"/* Device function {self.name} for {self.target.name}, written by nvbackend, to be linked with its PTX.",
            *(f"   {note}." for note in notes),
        ]
        lines[-1] += " */"
        return "\n".join([*lines, f"#ifndef {guard}", f"#define {guard}", self.c_declaration, "#endif", ""])

    def lto_ir(self) -> bytes:
        """LTO-IR of it, by libNVVM: nvJitLink expands it in callers that are LTO-IR too.

        Line numbers are left out. Raises lto.missing without libNVVM, and lto.dialect for what it does not take.
        """
        from nvbackend.codegen.lto.lto_ir import lto_ir_of

        return lto_ir_of(self.ir, self.target, self.name)

    def numba(self, *, lto: bool = False) -> Callable[..., Any]:
        """The function for numba-cuda's kernels (`@cuda.jit`), typed, with its PTX linked to each that calls it.

        Arrays are passed for pointers: contiguous ones of the declared element type. Several results are a tuple. With
        `lto` its LTO-IR is linked instead, for kernels of `@cuda.jit(lto=True)`. Raises function.numba for types that
        numba does not have, and what `lto_ir` raises.
        """
        from nvbackend.builder.functions.in_numba import declared_in_numba

        return declared_in_numba(self, self.lto_ir() if lto else None)

    def __repr__(self) -> str:
        return f"<compiled function {self.name} for {self.target}>"


def _described(kind: Kind) -> str | None:
    """What the types of C do not say of a parameter."""
    if isinstance(kind, Pointer):
        return f"address of {kind.space} memory, {kind.element}, a multiple of {kind.align} bytes"
    assert isinstance(kind, Scalar)
    element = kind.element
    asserted = f", {kind.asserted}" if kind.asserts else ""
    is_plain = element.is_integer or element.llvm in ("float", "double", "i1")
    return f"{element}{asserted}" if asserted or not is_plain else None


def compile_function(
    source: Source,
    target: Target,
    *,
    name: str,
    threads: Extents | None,
    cluster: Extents,
    debug: bool,
    math: MathPolicy | None,
) -> CompiledFunction:
    """The function of `source`, called `name`, for callers of `threads` threads: of any shape where that is None."""
    from nvbackend.codegen.llvm import compile_ir

    _check_name(source.wanted.function, name)
    policy = checked_policy(math)

    def built(shape: Extents) -> _Built:
        return _Built(source, target, name, shape, cluster, debug=debug, policy=policy)

    made = built(_ANY_SHAPE[0] if threads is None else threads)
    if threads is None:
        _check_any_shape(made, lambda: built(_ANY_SHAPE[1]))
    warnings = made.judge()
    text = made.text()
    wanted = source.wanted
    kinds: dict[str, Any] = dict(wanted.parameters)
    unknown = _unknown(threads, kinds, in_cluster=needs_cluster(made.core.machine))
    ptx = compile_ir(text, target).ptx
    announce(warnings, tuple(made.core.allowances.suppressed))
    return CompiledFunction(name, target, kinds, wanted.results, made.core.machine, text, ptx, unknown, warnings)


def _check_name(function: str, name: str) -> None:
    """function.declaration for a name that C, CUDA or LLVM has for something else."""
    problem = None
    if not _C_NAME.fullmatch(name):
        problem = f"{name!r} is not a name of C"
    elif KEYWORDS.fullmatch(name):
        problem = f"{name!r} is a word of C or C++"
    elif not is_ptx_name(name):
        problem = f"{name!r} is not a name of PTX"
    elif RESERVED.fullmatch(name):
        problem = f"{name!r} begins with two underscores, as only names of compilers do"
    elif DECLARED.fullmatch(name):
        problem = f"CUDA C++ declares {name!r}, and nvcc would call its own"
    elif has_meaning(name) or name == "main":
        problem = f"{name!r} has a meaning in CUDA or LLVM"
    if problem is not None:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "function"
        DECLARATION.fail(function=function, problem=problem, advice=f'compile it under another: name="my_{plain}"')


def _check_any_shape(made: _Built, again: Callable[[], _Built]) -> None:
    """function.threads where the function depends on how many threads the CTA has."""
    try:
        other = again()
    except DiagnosticError as error:
        THREADS.fail(function=made.core.name, problem=error.diagnostics[0].message)
    pairs = zip(made.code, other.code, strict=False)
    difference = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if difference is None and len(made.code) != len(other.code):
        difference = f"{len(made.code)} instructions", f"{len(other.code)}"
    if difference is not None:
        first, second = difference
        THREADS.fail(
            function=made.core.name, problem=f"for 1024 threads it has {first}, for 8 x 8 x 8 threads {second}"
        )


def _unknown(threads: Extents | None, kinds: Mapping[str, Kind], *, in_cluster: bool) -> tuple[str, ...]:
    """What the verifier cannot know of the callers."""
    lines = [
        "which threads call it: barriers, shuffles and elections need all of the threads that they name",
        "which asynchronous copies and mbarrier phases of the caller are pending",
    ]
    if threads is not None:
        lines.append(f"whether the caller's CTA has {threads} threads")
    if in_cluster:
        lines.append(
            "whether the kernel is launched in clusters, if only of one CTA: without, its stores and copies to shared "
            "memory of the cluster end it with an illegal instruction"
        )
    if any(isinstance(kind, Pointer) for kind in kinds.values()):
        lines.append("what the pointers point to: state space, alignment, extent and aliasing")
    if any(isinstance(kind, Scalar) and kind.asserts for kind in kinds.values()):
        lines.append("whether the arguments have the asserted values")
    return tuple(lines)


class _Built:
    """One function in a module of its own."""

    def __init__(
        self,
        source: Source,
        target: Target,
        name: str,
        threads: Extents,
        cluster: Extents,
        *,
        debug: bool,
        policy: MathPolicy,
    ) -> None:
        wanted = source.wanted
        self.module = ir.Module(name)
        self.module.triple = TRIPLE
        stored = [c_abi.stored_type(element) for element in wanted.results or ()]
        returned = ir.VoidType() if not stored else stored[0] if len(stored) == 1 else ir.LiteralStructType(stored)
        kind = ir.FunctionType(returned, [c_abi.passed_type(each) for each in wanted.parameters.values()])
        function = ir.Function(self.module, kind, name)
        function.attributes.add("convergent")
        c_abi.extend_result(function, wanted.results)
        bounds, self._warnings = checked_bounds(target, threads, cluster)
        core = Core(name, target, function, bounds=bounds, cached_storage=True, debug=debug, math=policy)
        self.core = core
        core.is_shaped = not isinstance(threads, int)
        core.machine.attributes.update(attached=True)
        core.execution.start(bounds, entered=False, shaped=core.is_shaped)
        core.start(function.append_basic_block("entry"))
        builder = self._builder = Operations(core)
        pairs = zip(wanted.parameters.items(), function.args, strict=True)
        arguments = {own: _received(builder, own, each, argument) for (own, each), argument in pairs}
        values = expand(builder, source, arguments, apart=True)
        self.code = code_of(function.blocks)
        return_results(core, [c_abi.returned(value) for value in values])
        core.check_blocks()
        core.finished = True
        core.link(everywhere=True)

    def judge(self) -> tuple[Diagnostic, ...]:
        """Every fault of the machine form, raised together; returns the warnings."""
        core = self.core
        of_calls = [*core.peers.faults(), *self._builder.groups.faults()]
        judged = judged_of_unknown_threads(core.machine)
        faults = core.allowances.kept([*self._warnings, *of_calls, *verify(judged)])
        return (*raise_all(of_whole_calls(core, faults)), *core.allowances.unused())

    def text(self) -> str:
        """The module as LLVM reads it."""
        core = self.core
        splice(core.function, core.functions.calls)
        return with_ftz(text_of_module(self.module), core) if core.math.ftz else text_of_module(self.module)


def _received(k: Operations, name: str, kind: Kind, argument: ir.Argument) -> Any:
    argument.name = name
    parameter = c_abi.received(k, kind, argument)
    if isinstance(kind, Scalar) and isinstance(parameter, Value):
        assume_values(k.core, parameter, kind)
    return parameter
