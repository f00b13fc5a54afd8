"""Which known name is meant by a wrong one: a misspelling of it, or what other languages call an element type."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

from nvbackend.diagnostics.classes.late_pattern import late_pattern

_LETTERS_OF_A_SLIP = 5
"""A slip of a letter is one in so many letters of a name: names that are shorter have one."""
_MOST_SLIPS = 2
_MOST_ASKED = 3
_NAMES = {"half": "f16", "float": "f32", "double": "f64", "int": "s32", "bool": "pred"}
_OTHER_SPELLING = late_pattern(r"(float|bfloat|int|uint|f|bf|s|i|u)(8|16|32|64)$")
_LETTER = {"float": "f", "bfloat": "bf", "int": "s", "uint": "u", "i": "s"}
_FLOATS = ("f16", "f32", "f64", "bf16")
_ARGUMENTS = {
    **dict.fromkeys(("dtype", "type"), "element"),
    **dict.fromkeys(("arch", "chip", "gpu"), "target"),
    **dict.fromkeys(("block", "block_dim", "num_warps", "warps"), "threads"),
    **dict.fromkeys(("readonly", "read_only"), "const"),
    "divisible_by": "multiple_of",
    "shape": "box",
    "noalias": "restrict",
    "depth": "stages",
    "opt_level": "optimize",
}
"""Arguments as CUDA, Triton, NumPy and CUTLASS call them, and what is meant where a call has that."""
_UNKNOWN = "got an unexpected keyword argument"
_WITHOUT_NAME = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


def misspelt(name: str, known: Iterable[str]) -> list[str]:
    """The names of `known` that differ from `name` by a slip or two, nearest first; none for a name that is another's.

    Such a name is a guess: `sin` is as near to `sign` as to `son`. Messages ask whether it is meant. Of a single letter
    nothing is left after a slip.
    """
    most = min(_MOST_SLIPS, max(1, len(name) // _LETTERS_OF_A_SLIP)) if len(name) > 1 else 0
    slips = {other: _slips(name.lower(), other.lower(), most) for other in known}
    return sorted((other for other, number in slips.items() if number <= most), key=lambda other: (slips[other], other))


def one_of(name: str, known: Iterable[str]) -> str:
    """The fix for a name that is not known: asks whether one that it may be a slip of is meant, and lists all."""
    names = [*known]
    near = misspelt(name, names)[:_MOST_ASKED]
    asked = f"did you mean {' or '.join(near)}? Otherwise " if near else ""
    return f"{asked}use one of {', '.join(names)}" if len(names) > 1 else f"use {names[0]}"


def unknown_argument(name: str, known: Iterable[str]) -> str:
    """What a call says of an argument that it does not have, and which of `known` may be meant."""
    return f"{_UNKNOWN} {asked(name, [*known])}"


def with_unknown(error: TypeError, names: Iterable[str], signature: inspect.Signature) -> str:
    """What Python says of a call, with every name given that the function does not take."""
    taken = signature.parameters
    if any(each.kind is each.VAR_KEYWORD for each in taken.values()):
        return str(error)
    written = [*names]
    left = [name for name, each in taken.items() if name not in written and each.kind not in _WITHOUT_NAME]
    parts = [asked(name, left) for name in written if name not in taken]
    if str(error).startswith(_UNKNOWN) and parts:
        return f"{_UNKNOWN} {'; '.join(parts)}"
    return "; ".join([str(error), *(f"it takes no {part}" for part in parts)])


def asked(name: str, known: Sequence[str]) -> str:
    """A name that is not one of `known`, with a question about the one that may be meant."""
    near = misspelt(name, known) or _alike(name, known) or _of_others(name, known)
    return f"{name!r}: is {near[0]!r} meant?" if near else repr(name)


def _alike(name: str, known: Sequence[str]) -> list[str]:
    """The names of `known` that begin like `name`, or have all its words or some of them alone."""
    words = set(name.split("_"))
    begun = [other for other in known if len(min(name, other, key=len)) >= _MOST_ASKED and _begins(name, other)]
    return begun or [other for other in known if words < set(other.split("_")) or words > set(other.split("_"))]


def _begins(name: str, other: str) -> bool:
    return name.startswith(other) or other.startswith(name)


def _of_others(name: str, known: Sequence[str]) -> list[str]:
    return [_ARGUMENTS[name]] if _ARGUMENTS.get(name) in known else []


def _slips(a: str, b: str, most: int) -> int:
    """The letters to change, add, drop or swap with the next one to make `b` of `a`; more than `most` if it is more."""
    if abs(len(a) - len(b)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(b) + 1))
    for row, letter in enumerate(a, 1):
        new = [row]
        for column, other in enumerate(b, 1):
            best = min(last[column] + 1, new[-1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == b[column - 2] and a[row - 2] == other:
                best = min(best, before[column - 2] + 1)
            new.append(best)
        before, last = last, new
    return last[-1]


def element_name(other: str) -> str | None:
    """The element type that NumPy, PyTorch, C or Python calls `other`, as `nvb.f32`; None where nothing is meant."""
    if other in _NAMES:
        return f"nvb.{_NAMES[other]}"
    match = _OTHER_SPELLING.match(other)
    if match is None:
        return None
    name = f"{_LETTER.get(match[1], match[1])}{match[2]}"
    return f"nvb.{name}" if name[0] in "su" or name in _FLOATS else None
