"""Names that a program gives to values, arrays and parameters: LLVM keeps them, and people read them."""

from __future__ import annotations

import re

from nvbackend.diagnostics import Diagnostic, Rule, raise_all

LONGEST = 256
"""Characters of a name. LLVM cuts at 1024, after which two names may be one; a suffix makes them longer."""

NAME = Rule(
    id="value.name",
    message="{shown} is not a name: it has {problem}",
    fix="use at most {longest} printable characters",
    why="LLVM would cut it, or end in the middle of it, and not read the module.",
    reference="LLVM Language Reference, identifiers; LLVM Value.cpp (names of local values)",
)
_SHOWN = 40
PREDEFINED = frozenset({"WARP_SZ"})
"""Names that PTX reserves (PTX ISA 4.4)."""
_PTX_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+")


def name_fault(given: object) -> Diagnostic | None:
    """What is wrong with a name, None where nothing is."""
    if not isinstance(given, str):
        raise TypeError("names are text")  # the boundary knows which argument of the call it is
    if len(given) <= LONGEST and given.isprintable():
        return None
    if len(given) > LONGEST:
        problem = f"{len(given)} characters"
    else:
        problem = f"the character {next(one for one in given if not one.isprintable())!a}"
    shown = ascii(given if len(given) <= _SHOWN else given[:_SHOWN] + "...")
    return NAME.diagnose(shown=shown, problem=problem, longest=LONGEST)


def check_name(given: object) -> None:
    """Raises value.name unless `given` is a name."""
    if (fault := name_fault(given)) is not None:
        raise_all([fault])


def is_ptx_name(text: str) -> bool:
    """Whether PTX takes it for the name of a function (PTX ISA 4.4)."""
    return _PTX_NAME.fullmatch(text) is not None and text not in PREDEFINED


def suggested_kernel_name(given: object) -> str:
    """A valid kernel name that resembles the given one."""
    return "k" + re.sub(r"[^\w$]", "_", str(given), flags=re.ASCII)
