"""Rules for the remarks of ptxas, and what a user can do about each.

ptxas calls most of them "info" although a serialised WGMMA pipeline costs most of the tensor core's speed.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule, Severity
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.classes.late_pattern import late_pattern

_SERIALISED = (
    "ptxas then waits after every wgmma.mma_async, so that the tensor core idles while the next one is prepared; the "
    "result stays right, and most of the speed is lost."
)
_REFERENCE = "ptxas 13.5"
_MOST_SHOWN = 160
"""Characters of a line of PTX, of which a message shows a longer one without its middle."""


def _remark(name: str, fix: str, why: str = _SERIALISED, severity: Severity = Severity.WARNING) -> Rule:
    return Rule(f"ptxas.{name}", "{text}{place}", fix, why, _REFERENCE, severity)


SETMAXNREG_IGNORED = _remark(
    "setmaxnreg-ignored",
    "fix the registers that a thread starts with: say how many CTAs an SM must hold, as in "
    "@nvb.kernel(..., min_ctas=1); and keep calls out of the kernel",
    "The warps keep the registers they started with: the producer holds what the consumers were to get.",
)
WGMMA_EXTERN_CALL = _remark("wgmma-extern-call", "keep functions of other modules out of a kernel that uses wgmma")
WGMMA_ACROSS_CALL = _remark(
    "wgmma-across-call",
    "move the call before the wgmma fence or after the wait, or inline the function that is called",
)
WGMMA_REGISTERS = _remark(
    "wgmma-registers",
    "leave the accumulators room: a smaller N or M tile a warpgroup, more warpgroups, fewer values alive across the "
    "main loop, or setmaxnreg; and do not assign to an accumulator between its mma and its wait, for that makes a copy",
)
WGMMA_INPUT_DEFINED = _remark(
    "wgmma-input-defined",
    "write the registers of A before the wgmma fence, and not again until wait_group says that the mma has read them",
)
WGMMA_ACCUMULATOR_READ = _remark(
    "wgmma-accumulator-read", "read the accumulator after the wait_group that drains its group, not before"
)
WGMMA_ACCUMULATOR_DEFINED = _remark(
    "wgmma-accumulator-defined",
    "assign to the accumulator after wait_group and before the next fence; to start from zero use scale-D 0 in the "
    "first mma instead of writing zeros",
)
WGMMA_ILL_FORMED = _remark(
    "wgmma-ill-formed", "give every stage its fence, mma_async, commit_group and wait_group on the same path, in order"
)
WGMMA_WAIT_INJECTED = _remark(
    "wgmma-wait-injected",
    "end the groups by a wait_group of your own before the accumulator is used or the kernel ends",
    "The program uses an accumulator that is in flight; ptxas repairs it here, but not where it cannot see the use.",
)
WGMMA_WAIT_DIVERGENT = _remark(
    "wgmma-wait-divergent",
    "put wait_group into the loop, before the accumulator is used, so that ptxas need not add one on a path that only "
    "some threads take",
)
WGMMA_ARRIVE_DIVERGENT = _remark(
    "wgmma-arrive-divergent",
    "put a fence before the first mma_async on every path that leads to it, and let no condition that differs between "
    "threads of the warpgroup be between fence and wait",
)
REGISTERS_INSUFFICIENT = _remark(
    "registers-insufficient",
    "allow more registers a thread: fewer threads a CTA, fewer minimum CTAs an SM, a higher limit, a smaller N",
    "The accumulators and operands of one instruction must all be in registers at once.",
    Severity.ERROR,
)
REGISTER_ALLOCATION = _remark(
    "register-allocation",
    "allow more registers a thread: fewer threads a CTA, fewer minimum CTAs an SM, a higher register limit",
    "ptxas found no assignment of registers within the limit.",
    Severity.ERROR,
)
WARNING = _remark(
    "warning", "see the PTX ISA about the directive or instruction it names", "ptxas changed or ignored it."
)
ERROR = _remark(
    "error",
    "nvbackend's own instructions are checked before ptxas sees them: look at PTX or asm of your own, or report it",
    "ptxas refuses the PTX, so there is no cubin.",
    Severity.ERROR,
)
UNRESOLVED = _remark(
    "unresolved",
    "define the function in the module: LLVM calls a library for some operations that the hardware does not have",
    "A kernel is compiled whole; nothing is linked to it afterwards.",
    Severity.ERROR,
)
SPILLS = Rule(
    "ptxas.spills",
    "{kernel} spills registers: {stores} bytes are stored to local memory and {loads} bytes loaded, at {registers} "
    "registers per thread",
    "keep fewer values alive: a smaller tile per warpgroup, more warpgroups, fewer unrolled stages; or allow more "
    "registers: {how}",
    "Each spilled register goes to memory and back, most often inside the main loop.",
    _REFERENCE,
    Severity.WARNING,
)

RULE_OF_CODE: dict[str, Rule] = {
    "C7508": SETMAXNREG_IGNORED,
    "C7509": WGMMA_EXTERN_CALL,
    "C7510": WGMMA_ACROSS_CALL,
    "C7511": WGMMA_REGISTERS,
    "C7512": WGMMA_REGISTERS,
    "C7513": WGMMA_INPUT_DEFINED,
    "C7514": WGMMA_ACCUMULATOR_READ,
    "C7515": WGMMA_ACCUMULATOR_DEFINED,
    "C7516": WGMMA_ILL_FORMED,
    "C7517": WGMMA_WAIT_INJECTED,
    "C7518": WGMMA_WAIT_DIVERGENT,
    "C7519": WGMMA_ARRIVE_DIVERGENT,
    "C7600": REGISTER_ALLOCATION,
    "C7602": REGISTERS_INSUFFICIENT,
}

_LINE = late_pattern(
    r"^ptxas (?:(?P<file>\S.*?), line (?P<line>\d+); )?(?P<level>error|warning|info|fatal)\s*: "
    r"(?:\((?P<code>C\d+)\) )?(?P<text>.*)$"
)
_LINE_IN_TEXT = late_pattern(r" (?:in|around|at) line (\d+)")
_ABORTED = "Ptx assembly aborted"
_LOSS = "Potential Performance Loss"


@dataclass(frozen=True, slots=True)
class Message:
    """One line of ptxas: its level, its code where it has one, its text, and the PTX line it is about (0 for none)."""

    level: str
    code: str
    text: str
    line: int


def messages(log: str) -> Iterator[Message]:
    """The messages in the output of ptxas."""
    for text in log.splitlines():
        match = _LINE.match(text)
        if match is not None:
            inside = _LINE_IN_TEXT.search(match["text"])
            line = match["line"] or (inside[1] if inside else 0)
            yield Message(match["level"], match["code"] or "", match["text"].strip(), int(line))


def rule_of(message: Message) -> Rule | None:
    """The rule that `message` is about; None for a message that only informs."""
    coded = RULE_OF_CODE.get(message.code)
    if coded is not None:
        return coded
    if message.level in ("error", "fatal"):
        return None if message.text.startswith(_ABORTED) else _error_rule(message)
    return WARNING if message.level == "warning" or message.text.startswith(_LOSS) else None


def _error_rule(message: Message) -> Rule:
    return UNRESOLVED if message.text.startswith("Unresolved extern") else ERROR


def diagnose(log: str, ptx: str) -> list[Diagnostic]:
    """A diagnostic for each message of `log` that a user should see, quoting the line of `ptx`, in ptxas's order."""
    lines = ptx.splitlines()
    diagnostics: list[Diagnostic] = []
    for message in messages(log):
        rule = rule_of(message)
        if rule is not None:
            place = _quoted(message, lines)
            diagnostics.append(
                rule.diagnose(text=_sentence(message), place=place, code=message.code, line=message.line)
            )
    return diagnostics


def _sentence(message: Message) -> str:
    text = " ".join(message.text.split()).removeprefix(_LOSS + ": ").removesuffix(" in line 0")
    return f"{text} [{message.code}]" if message.code else text


def _quoted(message: Message, lines: list[str]) -> str:
    if not 0 < message.line <= len(lines):
        return ""
    return f" (PTX line {message.line}: {_shortened(lines[message.line - 1].strip())})"


def _shortened(line: str) -> str:
    return line if len(line) <= _MOST_SHOWN else f"{line[: _MOST_SHOWN // 2]} ... {line[-_MOST_SHOWN // 4 :]}"
