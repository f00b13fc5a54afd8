"""LLVM IR text to PTX text, by LLVM's NVPTX target through llvmlite.

LLVM ends the whole process where it cannot select an instruction. What nvbackend builds cannot get there: its
selector gates every instruction by the target before any IR is written. For IR from elsewhere there is
`nvbackend.codegen.isolated.compile_ir_isolated`, which does the same work in a process of its own.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from types import MappingProxyType
from typing import Any

from nvbackend.codegen.mixed_halves import fenced, has_both
from nvbackend.codegen.stages.accumulators import held
from nvbackend.codegen.stages.clamps import parted
from nvbackend.codegen.stages.inlined import with_callers
from nvbackend.codegen.stages.long_chains import cut
from nvbackend.codegen.stages.short_integers import in_words
from nvbackend.codegen.stages.signed_zeros import signs_kept
from nvbackend.codegen.stages.steps import last
from nvbackend.codegen.stages.truth_values import apart_from_truth
from nvbackend.diagnostics import DiagnosticError, Rule, record, user_facing
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.classes.late_pattern import late_pattern
from nvbackend.isel.target.target import Target

TRIPLE = "nvptx64-nvidia-cuda"

TUNING: Mapping[str, bool] = MappingProxyType(
    {
        # Loops unroll only where metadata asks for it: a main loop around asynchronous tensor-core groups is written
        # with its depth in mind, and ptxas unrolls by itself what is left.
        "loop_unrolling": False,
        # Fragments are laid out register by register; vectors would only be built and taken apart around the asm.
        "loop_interleaving": False,
        "loop_vectorization": False,
        "slp_vectorization": False,
    }
)
"""LLVM's pipeline options at every optimisation level."""

PARSE = "parse"
OPTIMISE = "optimise"
PRINT = "print"
"""The stages, as timings name them; verifying counts as parsing."""
PRINTED = "printed"
"""What comes next is Python's alone."""

CODE_GENERATOR_LEVEL = 3
"""NVPTX's own passes always run: without them every accumulator is copied around every instruction."""

INVALID_IR = Rule(
    id="llvm.invalid-ir",
    message="LLVM does not accept the IR: {reason}{quoted}",
    fix="correct the IR; where it is nvbackend that built it, report a bug of nvbackend",
    why="IR that is not valid has no meaning, and compiling it may end the process.",
    reference="LLVM Language Reference",
)
FOREIGN_TRIPLE = Rule(
    id="llvm.foreign-triple",
    message="the IR is for {triple}, not for {expected}",
    fix="leave the triple out, or set it to {expected}",
    why="IR made for another machine has its sizes, alignments and calls in it.",
    reference="LLVM language reference (target triple); NVPTX usage guide",
)
UNKNOWN_INTRINSIC = Rule(
    id="llvm.unknown-intrinsic",
    message="LLVM {llvm} has no intrinsic {name}: it would be an external function in the PTX",
    fix="check the name against LLVM's IntrinsicsNVVM.td, overload suffix included, or use inline asm",
    why="LLVM takes a name that it does not know for an ordinary function, and only linking the kernel would fail.",
    reference="LLVM IntrinsicsNVVM.td",
)
OPTIMIZE_RANGE = Rule(
    id="llvm.optimize",
    message="optimize={given!r} is not one of LLVM's levels",
    fix="use 0, 1, 2 or 3",
    why="LLVM's levels go from 0 (nothing but the code generator's own passes) to 3.",
    reference="LLVM 22.1 PassBuilder (OptimizationLevel)",
)

_PARSE_ERROR = late_pattern(r"<string>:(?P<line>\d+):(?P<column>\d+): error: (?P<reason>[^\n]*)")
_SYMBOL = late_pattern(
    r'^(?P<head>(?:define|declare) [^@\n]*)?@(?P<name>"[\w.$]*[^\w.$"][^"]*"|[\w.$]*-[\w.$-]*)(?P<rest>.*)',
    re.MULTILINE | re.ASCII,
)
"""A line that declares or defines a symbol whose name PTX cannot spell."""
_LOCAL = frozenset({"internal", "private"})
"""What LLVM gives another name."""
_EXTERNAL_INTRINSIC = late_pattern(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?(llvm\.[\w.$]+)", re.MULTILINE)


@record
@dataclass(frozen=True, slots=True)
class LlvmResult:
    """PTX, the IR it was printed from, and the seconds that parse (with verify), optimise and print took."""

    ptx: str
    optimized_ir: str
    timings: Mapping[str, float] = field(compare=False)

    __repr__ = short_repr


@user_facing
def compile_ir(ir_text: str, target: Target, *, optimize: int = 3) -> LlvmResult:
    """Parse, verify and optimise `ir_text`, and print PTX for exactly `target`.

    The same text gives the same PTX, byte for byte. `optimize` is LLVM's level 0 to 3. Raises llvm.invalid-ir,
    llvm.foreign-triple, llvm.unknown-intrinsic, llvm.optimize, or target.unknown for a target that is not nvbackend's.
    """
    return last(compiling_ir(ir_text, target, optimize=optimize))


def compiling_ir(ir_text: str, target: Target, *, optimize: int = 3) -> Generator[str, None, LlvmResult]:
    """`compile_ir` in steps: OPTIMISE is given before LLVM's passes run, PRINT before its code generator does, PRINTED
    after that.

    The passes are one call of LLVM, and the code generator is another, in which other threads go on.
    """
    if type(optimize) is not int or optimize not in range(4):
        OPTIMIZE_RANGE.fail(given=optimize)
    import llvmlite.binding as llvm

    machine = _target_machine(target)
    start = time.perf_counter()
    # A context of its own: named types of other modules in it would rename this one's. Both are closed here, the module
    # first: the garbage collector may take them the other way round, and LLVM would read freed memory.
    with llvm.create_context() as context, _parsed(ir_text, context) as module:
        _refuse_foreign(module.triple)
        module.triple = TRIPLE
        module.data_layout = str(machine.target_data)
        _verify(module)
        with _passes(machine, optimize) as (passes, builder):
            timings = {PARSE: time.perf_counter() - start}
            yield OPTIMISE
            start = time.perf_counter()
            passes.run(module, builder)
        timings[OPTIMISE] = time.perf_counter() - start
        yield PRINT
        start = time.perf_counter()
        from_passes = str(module)
        _refuse_symbols(from_passes)
        optimized_ir = _rewritten(from_passes)
        with module if optimized_ir == from_passes else _parse(optimized_ir, context) as chosen:
            printed = str(machine.emit_assembly(chosen))
            timings[PRINT] = time.perf_counter() - start
            yield PRINTED
            start = time.perf_counter()
            ptx = with_callers(_safe(printed), ir_text, target.ptx_version)
        timings[PRINT] += time.perf_counter() - start
    _refuse_unknown_intrinsics(ptx)
    return LlvmResult(ptx, optimized_ir, timings)


@user_facing
def llvm_version() -> str:
    """The versions of llvmlite and of the LLVM in it, as one text."""
    import llvmlite.binding as llvm
    from llvmlite import __version__

    return f"llvmlite {__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


def _rewritten(optimized_ir: str) -> str:
    """The IR, with what LLVM's code generator or ptxas would take wrongly, or long for, in other words."""
    return cut(apart_from_truth(signs_kept(optimized_ir)))


def _safe(ptx: str) -> str:
    """The PTX, without forms that a ptxas takes wrongly in silence."""
    return parted(in_words(ptx))


@functools.cache
def _nvptx() -> Any:
    """LLVM's NVPTX target, registered on first use."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE)


def _target_machine(target: Target) -> Any:
    # LLVM compiles for its default CPU when it does not know a name, so only names from our own table get there.
    known = Target.parse(target.name, target.ptx_version)
    return _nvptx().create_target_machine(cpu=known.name, features=known.ptx_attribute, opt=CODE_GENERATOR_LEVEL)


def _parse(ir_text: str, context: Any) -> Any:
    import llvmlite.binding as llvm

    try:
        return llvm.parse_assembly(ir_text, context)
    except RuntimeError as error:
        raise _invalid(str(error), ir_text) from None


def _parsed(ir_text: str, context: Any) -> Any:
    """The module of `ir_text`, in a form that LLVM compiles."""
    import llvmlite.binding as llvm

    ir_text = held(ir_text)
    if has_both(ir_text):
        with llvm.create_context() as own, _parse(ir_text, own) as module:
            _verify(module)
            ir_text = fenced(str(module))
    return _parse(ir_text, context)


def _refuse_foreign(triple: str) -> None:
    if triple and not triple.startswith(("nvptx", "unknown")):
        FOREIGN_TRIPLE.fail(triple=triple, expected=TRIPLE)


def _verify(module: Any) -> None:
    try:
        module.verify()
    except RuntimeError as error:
        raise _invalid(str(error), "") from None


def _refuse_symbols(ir_text: str) -> None:
    """Raises llvm.invalid-ir for names of functions and variables at which LLVM's code generator ends the process."""
    for symbol in _SYMBOL.finditer(ir_text):
        name, words = symbol["name"], (symbol["head"] or symbol["rest"]).split()
        is_unused = words[0] == "declare" and ir_text.count(f"@{name}") == 1
        if _LOCAL.isdisjoint(words) and not is_unused:
            reason = f"the name @{name} has characters that a symbol of PTX has not"
            raise DiagnosticError([INVALID_IR.diagnose(reason=reason, quoted="")])


def _invalid(text: str, ir_text: str) -> DiagnosticError:
    """The diagnostic of LLVM's `text`: its sentence, and the line of the IR that it points at."""
    match = _PARSE_ERROR.search(text)
    if match is None:
        # The verifier quotes the instruction itself.
        return DiagnosticError([INVALID_IR.diagnose(reason=text.strip(), quoted="")])
    number = int(match["line"])
    lines = ir_text.splitlines()
    line = lines[number - 1].strip() if number <= len(lines) else ""
    quoted = f" (line {number}, column {match['column']}: {line})"
    return DiagnosticError([INVALID_IR.diagnose(reason=match["reason"], quoted=quoted)])


@contextmanager
def _passes(machine: Any, level: int) -> Iterator[tuple[Any, Any]]:
    """The pass manager of an optimisation level, and the builder that it runs with."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=level)
    for name, value in TUNING.items():
        setattr(options, name, value)
    with options, llvm.create_pass_builder(machine, options) as builder:
        passes = builder.getModulePassManager()
        try:
            yield passes, builder
        finally:
            _close(passes)


def _close(passes: Any) -> None:
    """Free a pass manager, 50 to 110 KiB a compile: the class inherits llvmlite 0.50's empty `_dispose` first."""
    from llvmlite.binding.ffi import ObjectRef
    from llvmlite.binding.newpassmanagers import NewPassManager

    if type(passes)._dispose is ObjectRef._dispose:
        NewPassManager._dispose(passes)
        passes.detach()
    passes.close()


def _refuse_unknown_intrinsics(ptx: str) -> None:
    names = sorted(set(_EXTERNAL_INTRINSIC.findall(ptx))) if ".extern .func" in ptx else []
    if names:
        raise DiagnosticError([UNKNOWN_INTRINSIC.diagnose(name=name, llvm=_llvm_release()) for name in names])


def _llvm_release() -> str:
    import llvmlite.binding as llvm

    return ".".join(map(str, llvm.llvm_version_info[:2]))
