"""The compile of `nvbackend.codegen.llvm` in a process of its own, for IR that nvbackend did not build."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from nvbackend.codegen.llvm import (
    FOREIGN_TRIPLE,
    INVALID_IR,
    OPTIMIZE_RANGE,
    UNKNOWN_INTRINSIC,
    LlvmResult,
    compile_ir,
)
from nvbackend.diagnostics import DiagnosticError, Location, Rule, user_facing
from nvbackend.diagnostics.classes.brief import cut
from nvbackend.isel.target.target import PTX_VERSION_RANGE, UNKNOWN_TARGET, Target

CANNOT_SELECT = Rule(
    id="llvm.cannot-select",
    message="LLVM has no instruction for {call} on {target} with PTX {ptx_version}: {reason}",
    fix="use what {target} has, or name the target that has it: nvbackend catalogue --target {target} says which",
    why="LLVM ends the process where it cannot select, so an unchecked intrinsic takes the user's program down.",
    reference="LLVM SelectionDAGISel",
)
DIED = Rule(
    id="llvm.died",
    message="LLVM ended its process ({status}) while compiling {call} for {target}: {reason}",
    fix="correct the call, or take the IR apart to find the part that does it, and report it to LLVM",
    why="LLVM meets some invalid input by ending the process instead of reporting an error.",
    reference="LLVM 22.1 SelectionDAGISel (Cannot select) and report_fatal_error in NVPTX",
)

NO_LIBRARY = Rule(
    id="llvm.no-library",
    message="LLVM has no instruction for {function} in {call} on {target}, and no library there to call",
    fix="{advice}define a function that computes it in the module, as libdevice has it, and call that",
    why="On a CPU it is a function of C's library; for NVPTX LLVM knows none, and ends the process.",
    reference="LLVM 22.1 RuntimeLibcalls (NVPTX has none); docs/embedding.md",
)

_FUNCTION = re.compile(r"Cannot select: \w+: \w+ = f(?P<selected>\w+)|no libcall available for f(?P<called>\w+)")
_OF_K_MATH = ("cos", "exp", "exp2", "log", "log10", "log2", "pow", "sin", "tanh")
_OF_C = (*_OF_K_MATH, "acos", "asin", "atan", "atan2", "cosh", "exp10", "sinh", "tan")
"""Functions that LLVM has intrinsics for and NVPTX no instruction, or one for approximations that are asked for."""

_REMOTE_RULES = {
    rule.id: rule
    for rule in (INVALID_IR, FOREIGN_TRIPLE, OPTIMIZE_RANGE, UNKNOWN_INTRINSIC, UNKNOWN_TARGET, PTX_VERSION_RANGE)
}
"""What the compile itself may raise; the other process names one of them with its values."""

_CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from nvbackend.codegen import isolated
isolated.main()
"""
_FINDER = _CHILD.replace("main()", "find_culprit()")
_FATAL = "LLVM ERROR:"


@user_facing
def compile_ir_isolated(ir_text: str, target: Target, *, optimize: int = 3) -> LlvmResult:
    """`compile_ir` in another Python process, so that there is a Diagnostic even if LLVM ends the process.

    Raises what `compile_ir` raises, llvm.cannot-select, llvm.no-library, or llvm.died. Costs a start of Python more.
    """
    request = {"ir": ir_text, "target": target.name, "ptx_version": target.ptx_version, "optimize": optimize}
    done = _run(_CHILD, request)
    if done.returncode != 0:
        _explain_death(done, target, _run(_FINDER, request))
    answer = json.loads(done.stdout)
    if "broken" in answer:
        raise DiagnosticError([_REMOTE_RULES[rule].diagnose(**values) for rule, values in answer["broken"]])
    return LlvmResult(answer["ptx"], answer["optimized_ir"], answer["timings"])


def _run(program: str, request: dict[str, object]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-c", program, json.dumps(sys.path)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _explain_death(
    done: subprocess.CompletedProcess[str], target: Target, finder: subprocess.CompletedProcess[str]
) -> None:
    call, file, line = json.loads(finder.stdout) if finder.returncode == 0 else ("", "", 0)
    named, at = f"{cut(call)!r}" if call else "the module", Location(file, line, "") if file else None
    reason = done.stderr.partition(_FATAL)[2].strip() or done.stderr.strip() or "it said nothing"
    # After its own sentence LLVM may print a stack dump, which holds addresses and no answer.
    reason = reason.partition("\nPLEASE submit")[0].strip()
    match = _FUNCTION.search(reason)
    function = (match["selected"] or match["called"]) if match is not None else ""
    if function in _OF_C:
        advice = f"use k.math.{function} of what nvb.attach gives, for f32, or " if function in _OF_K_MATH else ""
        raise DiagnosticError(
            [NO_LIBRARY.diagnose(at=at, function=function, call=named, target=target.name, advice=advice)]
        )
    if "Cannot select" in reason:
        version = ".".join(map(str, target.ptx_version))
        raise DiagnosticError(
            [CANNOT_SELECT.diagnose(at=at, call=named, target=target.name, ptx_version=version, reason=reason)]
        )
    status = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
    raise DiagnosticError([DIED.diagnose(at=at, call=named, target=target.name, status=status, reason=reason)])


def main() -> None:
    """The other process: a request on standard input, the result or the broken rules on standard output."""
    request = json.loads(sys.stdin.read())
    answer: dict[str, object]
    try:
        target = Target.parse(request["target"], tuple(request["ptx_version"]))
        result = compile_ir(request["ir"], target, optimize=request["optimize"])
    except DiagnosticError as error:
        answer = {"broken": [(diagnostic.rule_id, dict(diagnostic.values)) for diagnostic in error.diagnostics]}
    else:
        answer = {"ptx": result.ptx, "optimized_ir": result.optimized_ir, "timings": dict(result.timings)}
    sys.stdout.write(json.dumps(answer))


def find_culprit() -> None:
    """The other process, after a death: the call that ends it, with its file and line, on standard output."""
    from nvbackend.codegen.looking.culprit import culprit

    request = json.loads(sys.stdin.read())
    target = Target.parse(request["target"], tuple(request["ptx_version"]))
    call, place = culprit(request["ir"], target) or ("", None)
    sys.stdout.write(json.dumps([call, place.file if place else "", place.line if place else 0]))
