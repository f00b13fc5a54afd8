"""What the semantics of a row say and no instruction of its text does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from nvbackend.intrinsics.copy.async_store import stops_without_cluster
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import Scope, ThreadBarrier
from nvbackend.ptx.syntax import Instruction

_Parts = tuple[str, ...]
_ORDERING = frozenset({"atom", "bar", "barrier", "cp", "fence", "griddepcontrol", "ld", "mbarrier", "membar"})
_ATOMIC = frozenset({"atom", "red", "multimem", "ld", "st", "cp"})


def _opcodes(*names: str) -> Callable[[_Parts], bool]:
    return lambda parts: parts[0] in names


def _orders(parts: _Parts) -> bool:
    return parts[0] in _ORDERING or parts[0] in ("multimem", "red", "st", "tcgen05", "tensormap")


def _fences(parts: _Parts) -> bool:
    return parts[0] in ("fence", "membar") or (
        parts[0] in ("wgmma", "tcgen05") and any(part.startswith("fence") for part in parts)
    )


def _issues(parts: _Parts) -> bool:
    return parts[0] in ("cp", "wgmma", "tcgen05", "clusterlaunchcontrol") or "async" in parts


def _commits(parts: _Parts) -> bool:
    return parts[0] in ("cp", "wgmma") and not {"commit_group", "wait_all"}.isdisjoint(parts)


def _awaits(parts: _Parts) -> bool:
    return parts[0] in ("cp", "wgmma", "tcgen05") and any(part.startswith("wait") for part in parts)


def _tracks(parts: _Parts) -> bool:
    return (parts[0] == "cp" and "mbarrier" in parts) or (parts[0] == "tcgen05" and "commit" in parts)


def _uses_mbarrier(parts: _Parts) -> bool:
    return any(part.startswith("mbarrier") for part in parts)


_DOERS: Mapping[str, tuple[str, Callable[[_Parts], bool]]] = {
    "fence": ("a fence", _fences),
    "issues": ("an asynchronous operation", _issues),
    "commits": ("a commit of a group", _commits),
    "awaits": ("a wait for groups", _awaits),
    "tracks": ("an arrival at an mbarrier for what was issued", _tracks),
    "mbarrier": ("an operation on an mbarrier", _uses_mbarrier),
    "tensor_memory": ("an allocation of tensor memory", _opcodes("tcgen05")),
    "tensor_map": ("an instruction on a tensor map", _opcodes("tensormap", "fence", "cp")),
    "multiplies": ("an mma", _opcodes("wgmma", "tcgen05", "mma", "wmma")),
    "budget": ("setmaxnreg", _opcodes("setmaxnreg")),
    "exits": ("an exit", _opcodes("exit", "ret", "trap")),
    "atomic": ("an atomic access", lambda parts: parts[0] in _ATOMIC),
    "in_cluster": ("what stops a kernel without a cluster", stops_without_cluster),
    "acquires": ("what acquires", _orders),
    "releases": ("what releases", _orders),
}
"""By field of the semantics: what the text has then, and which instructions are that."""


def unfounded(row: Row, instructions: Sequence[Instruction]) -> tuple[str, str] | None:
    """A field of the row's semantics and what its text lacks for it."""
    for name, _ in row.semantics.said():
        if name == "barrier":
            missing = _missing_barrier(row, row.semantics.barrier, instructions)
            if missing:
                return name, missing
        elif name in _DOERS:
            what, does = _DOERS[name]
            if not any(does(each.parts) for each in instructions):
                return name, what
    return None


def _missing_barrier(row: Row, said: ThreadBarrier | None, instructions: Sequence[Instruction]) -> str:
    """What the text lacks of the barrier that the row says it is, empty if nothing."""
    if said is None:
        return ""
    barriers = [
        each for each in instructions if each.parts[0] in ("bar", "barrier") and _scope(each.parts) is said.scope
    ]
    if not barriers:
        return f"a barrier of the {said.scope.name}"
    steps = {step for each in barriers for step in _steps(each.parts)}
    for step, is_said in (("arrives", said.arrives), ("waits", said.waits)):
        if is_said and step not in steps:
            return f"a barrier of the {said.scope.name} that {step}"
    if any(_counts(each) for each in barriers) and not row.has_operand("threads"):
        return "an operand 'threads' for how many take part"
    return ""


def _scope(parts: _Parts) -> Scope:
    return Scope.WARP if "warp" in parts else Scope.CLUSTER if "cluster" in parts else Scope.CTA


def _steps(parts: _Parts) -> Iterator[str]:
    if "wait" not in parts:
        yield "arrives"
    if "arrive" not in parts:
        yield "waits"


def _counts(instruction: Instruction) -> bool:
    """Whether a barrier of the CTA is of so many threads as an operand says."""
    parts, count = instruction.parts, len(instruction.operands)
    if _scope(parts) is not Scope.CTA:
        return False
    return count > 3 if "red" in parts else count > 1
