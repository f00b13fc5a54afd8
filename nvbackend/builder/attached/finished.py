"""From attached functions to kernels: the module's text with their bounds, and what must hold before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from llvmlite import ir

from nvbackend.builder.attached.annotations import annotated
from nvbackend.builder.attached.arguments import PARAMETERS
from nvbackend.builder.attached.clusters import stops_without_cluster
from nvbackend.builder.attached.core import Owned, Verified
from nvbackend.builder.attached.debug_places import KIND, LINES, unprintable_kinds
from nvbackend.builder.attached.selectable import may_be_refused
from nvbackend.builder.kernel.kernel import FinishedKernel, with_kernel_line
from nvbackend.builder.kernel.owners import LOCAL, builder_of, related
from nvbackend.builder.lower.text import text_of_module
from nvbackend.diagnostics import Diagnostic, Rule, raise_all
from nvbackend.signature import Signature

KERNEL = "ptx_kernel"
NOT_A_KERNEL = Rule(
    id="attach.kernel",
    message="function {function} cannot be launched: {problem}",
    fix="{advice}",
    why="Only a kernel is launched; other functions are compiled with the kernels that call them.",
    reference="docs/embedding.md, Kernels of your own module; LLVM NVPTX, Marking functions as kernels",
)
DEBUG_KIND = Rule(
    id="attach.debug-kind",
    message="the module of {function} has debug information of kind {kind}, with which ptxas does not optimise",
    fix='make its DICompileUnit with "{fact}": ir.DIToken("{lines}"), which has the lines too',
    why="For other kinds LLVM writes `.target ..., debug`, and ptxas refuses that text unless it optimises nothing.",
    reference="docs/embedding.md, Lines of your own language; PTX ISA 11.1.2 (.target)",
)
UNVERIFIED = Rule(
    id="attach.unverified",
    message="function {function} {problem}, and its module is to be compiled",
    fix="call k.verify() of its builder when its last block ends, and k.finish() after that",
    why="What fails silently on the hardware is only found by verify: the code may hang or compute other numbers.",
    reference="docs/embedding.md, Kernels of your own module",
)


def text_of(function: ir.Function) -> str:
    """The function as LLVM reads it: another text is another function."""
    return str(function)


def finished_kernel(k: Owned, verified: Verified | None) -> FinishedKernel:
    """`AttachedBuilder.finish`."""
    function = k.function
    _check_kernel(function)
    if len(k.core.parameters) != len(function.args):
        problem = f"it takes {len(function.args)} argument(s), and no parameters were given"
        PARAMETERS.fail(function=k.name, problem=problem, advice="attach with parameters=[nvb.Parameter(...), ...]")
    for kind in unprintable_kinds(k.function.module):
        DEBUG_KIND.fail(function=k.name, kind=kind, fact=KIND, lines=LINES)
    raise_all(list(_unverified(k)))
    assert verified is not None
    timings = {"verify": verified.seconds}
    suppressed = tuple(k.core.allowances.suppressed)
    finished = FinishedKernel(
        signature_of(k), k.target, verified.machine, module_text(k), verified.warnings, timings, suppressed
    )
    return replace(finished, unknown=verified.unknown, isolated=may_be_refused(function.module))


def _check_kernel(function: ir.Function) -> None:
    """Raises attach.kernel for a function that cannot be launched."""
    returned = function.function_type.return_type
    if function.calling_convention != KERNEL:
        advice = f'write function.calling_convention = "{KERNEL}"'
        NOT_A_KERNEL.fail(function=function.name, problem="it is not marked as a kernel", advice=advice)
    if not isinstance(returned, ir.VoidType):
        advice = "return nothing; write the result to memory"
        NOT_A_KERNEL.fail(function=function.name, problem=f"it returns {returned}", advice=advice)
    if function.linkage in LOCAL:
        advice = "leave the linkage of a kernel external"
        NOT_A_KERNEL.fail(function=function.name, problem=f"its linkage is {function.linkage}", advice=advice)


def signature_of(k: Owned) -> Signature:
    """What the kernel takes, with the shared memory of the functions that it calls."""
    callees = [builder_of(function) for function, _ in related(k.function)]  # nothing calls a kernel
    most = max([k.memory.end, *(callee.memory.end for callee in callees if callee is not None)])
    return Signature(k.name, k.core.parameters, replace(k.core.bounds, dynamic_shared_bytes=most))


def attached_in(module: ir.Module) -> Iterator[Owned]:
    """The attached builders of the functions of a module, in their order."""
    for function in module.functions:
        k = builder_of(function)
        if k is not None and k.core.attached is not None:
            yield cast("Owned", k)


def _unverified(k: Owned) -> Iterator[Diagnostic]:
    for other in attached_in(k.function.module):
        known = other.core.verified
        if known is None:
            yield UNVERIFIED.diagnose(at=other.core.attached, function=other.name, problem="was not verified")
        elif known.text != text_of(other.function):
            problem = "has changed since it was verified"
            yield UNVERIFIED.diagnose(at=other.core.attached, function=other.name, problem=problem)


def module_text(k: Owned) -> str:
    """The text of the whole module, with the bounds and parameters of each attached kernel that has them."""
    text = text_of_module(k.function.module)
    for other in attached_in(k.function.module):
        is_kernel = other.function.calling_convention == KERNEL
        if is_kernel and len(other.core.parameters) == len(other.function.args):
            signature, in_asm = signature_of(other), other.core.in_asm
            clustered = stops_without_cluster(other)
            text = with_kernel_line(text, other.function, signature, bounded=not in_asm, clustered=clustered)
            text = annotated(text, other.function, signature, clustered=clustered) if in_asm else text
    return text
