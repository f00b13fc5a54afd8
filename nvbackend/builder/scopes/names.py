"""Names that a program gives to values, arrays and parameters: LLVM keeps them, and people read them.

What a call makes is named after the Python variable that it is assigned to: "mbarrier full" says more than "mbarrier
mbarrier".
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator

from nvbackend.diagnostics import Diagnostic, Rule, caller_location, raise_all
from nvbackend.diagnostics.classes.late_pattern import late_pattern

LONGEST = 256
"""Characters of a name. LLVM cuts at 1024, after which two names may be one; a suffix makes them longer."""

NAME = Rule(
    id="value.name",
    message="{shown} is not a name: it has {problem}",
    fix="use 1 to {longest} printable characters",
    why="LLVM would cut the name off, or stop in the middle of it and not read the module.",
    reference="LLVM Language Reference, identifiers; LLVM Value.cpp (names of local values)",
)
RESERVED = Rule(
    id="kernel.reserved-name",
    message="a kernel cannot be named {given!r}: CUDA gives that name a meaning",
    fix="choose another name, such as {suggested!r}",
    why="A call of that function, such as k.print makes, would be a call of the kernel.",
    reference="CUDA C++ Programming Guide, Formatted Output; Dynamic Global Memory Allocation; Assertion",
)
_SHOWN = 40
PREDEFINED = frozenset({"WARP_SZ"})
"""Names that PTX reserves (PTX ISA 4.4)."""
_OF_CUDA = late_pattern(r"vprintf|printf|malloc|free|__assertfail|__cuda\w*|__nvvm_reflect(_ocl)?")
_OF_LLVM = late_pattern(r"param\d+|(func_)?retval\d+|\w+_param_\d+|__local_depot\d+")
_PTX_NAME = late_pattern(r"[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+")


def name_fault(name: object) -> Diagnostic | None:
    """What is wrong with a name, None where nothing is."""
    if not isinstance(name, str):
        raise TypeError("names are text")  # the boundary knows which argument of the call it is
    if 0 < len(name) <= LONGEST and name.isprintable():
        return None
    if not name:
        problem = "no characters"
    elif len(name) > LONGEST:
        problem = f"{len(name)} characters"
    else:
        problem = f"the character {next(character for character in name if not character.isprintable())!a}"
    shown = ascii(name if len(name) <= _SHOWN else name[:_SHOWN] + "...")
    return NAME.diagnose(shown=shown, problem=problem, longest=LONGEST)


def check_name(name: object) -> None:
    """Raises value.name unless `name` is a name."""
    if (fault := name_fault(name)) is not None:
        raise_all([fault])


def is_ptx_name(text: str) -> bool:
    """Whether PTX takes it for the name of a function (PTX ISA 4.4)."""
    return _PTX_NAME.fullmatch(text) is not None and text not in PREDEFINED


def has_meaning(name: str) -> bool:
    """Whether a function of this name is another one to CUDA (vprintf) or LLVM, or LLVM names a variable so (param0).

    CUDA C++ Programming Guide, Dynamic Global Memory Allocation, Formatted Output and Assertion; LLVM
    NVPTXAsmPrinter.cpp and NVVMReflect.cpp.
    """
    return any(names.fullmatch(name) for names in (_OF_CUDA, _OF_LLVM))


def check_kernel_meaning(name: str) -> None:
    """Raises kernel.reserved-name for a kernel that is called like a function which CUDA brings or gives a meaning."""
    if _OF_CUDA.fullmatch(name):
        RESERVED.fail(given=name, suggested=f"{name.strip('_')}_kernel")


def suggested_kernel_name(wanted: object) -> str:
    """A valid kernel name that resembles the given one, if that is a text."""
    name = re.sub(r"[^\w$]", "_", wanted if isinstance(wanted, str) else "kernel", flags=re.ASCII)
    return name if is_ptx_name(name) and name[0].isalpha() else f"k{name}"


def name_or(name: str | None, call: str, default: str) -> str:
    """`name`, or that of the variable which the user's line assigns what `call` returns, or else `default`.

    Raises value.name.
    """
    if name is not None:
        check_name(name)
        return name
    location = caller_location()
    return (_assigned(location.source, call) if location else None) or default


@functools.lru_cache(maxsize=1024)
def _assigned(line: str, call: str) -> str | None:
    """The one variable that `line` assigns a call of the method `call` to; None where that is not certain."""
    if f".{call}(" not in line:
        return None
    try:
        statements = ast.parse(f"{line} pass" if line.startswith("with ") else line).body
    except (SyntaxError, ValueError):
        return None
    named = [target.id for target, value in _assignments(statements) if _calls(value, call)]
    return named[0] if len(named) == 1 and line.count(f".{call}(") == 1 and named[0].isascii() else None


def _assignments(statements: Iterable[ast.stmt]) -> Iterator[tuple[ast.Name, ast.AST | None]]:
    """What is assigned to one name each, by `=` or by `with ... as`."""
    for statement in statements:
        pairs: list[tuple[ast.expr | None, ast.AST | None]] = []
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            pairs = [(statement.targets[0], statement.value)]
        elif isinstance(statement, ast.AnnAssign):
            pairs = [(statement.target, statement.value)]
        elif isinstance(statement, ast.With):
            pairs = [(item.optional_vars, item.context_expr) for item in statement.items]
        yield from ((target, value) for target, value in pairs if isinstance(target, ast.Name))


def _calls(value: ast.AST | None, call: str) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == call
