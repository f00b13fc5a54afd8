"""Rules on device functions: how one is declared, and how it is called."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_GUIDE = "docs/guide.md, Device functions"

DECLARATION = Rule(
    id="function.declaration",
    message="function {function}: {problem}",
    fix="{advice}",
    why="A device function has typed parameters and results, as a kernel has typed parameters.",
    reference=_GUIDE,
)
CALL = Rule(
    id="function.call",
    message="{call} is called wrongly: {problem}",
    fix="{advice}",
    why="The function would work on other values than it was written for.",
    reference=_GUIDE,
)
ARGUMENT = Rule(
    id="function.argument",
    message="{name} of function {function} is {wanted}, and the call passes {given}",
    fix="{advice}",
    why="The function would read other bits than its author wrote it for, or another memory.",
    reference=_GUIDE + "; PTX ISA 5.1 (state spaces)",
)
RESULT = Rule(
    id="function.result",
    message="function {function} returns {given}, and it is declared to return {wanted}",
    fix="{advice}",
    why="The caller would use a value that the function never gave.",
    reference=_GUIDE,
)
RECURSION = Rule(
    id="function.recursion",
    message="function {function} calls itself: {cycle}",
    fix="write the recursion as a loop, or as a Python helper without @nvb.function where its depth is known when the "
    "kernel is built",
    why="Building it would not end, and a GPU's stack has no room that is known to be enough.",
    reference=_GUIDE + "; PTX ISA 9.7.12 (call)",
)
INSTRUCTION = Rule(
    id="function.instruction",
    message="{what} cannot be in {function}, a called function: {because}",
    fix="{advice}",
    why=("A call passes registers by a fixed convention, and has no access to what a kernel has only once."),
    reference=_GUIDE + "; PTX ISA 7.1 (function declarations and definitions)",
)
THREADS = Rule(
    id="function.threads",
    message="function {function} depends on the threads of its callers, which are not given: {problem}",
    fix="say how many threads a CTA of its callers has: compile(threads=256), or threads=(32, 8)",
    why="A function for any caller cannot know the shape of the CTA, and would compute other indices in another one.",
    reference=_GUIDE + "; PTX ISA 10 (%tid, %ntid)",
)
NUMBA = Rule(
    id="function.numba",
    message="function {function} cannot be called from numba: {problem}",
    fix="{advice}",
    why="numba would pass other bits than the function reads.",
    reference="numba-cuda, Calling foreign functions (declare_device)",
)
DIFFERS = Rule(
    id="function.differs",
    message="function {function} was built twice and is not the same: {first}, then {second}",
    fix="make its body depend on its parameters and constants alone, or declare it with inline=True",
    why="The called function would not be the one that was judged at the call.",
    reference=_GUIDE,
)
ESCAPE = Rule(
    id="function.escape",
    message="{value}, made inside the called function {function}, is used outside of it",
    fix="return it, or declare the function with inline=True",
    why="The registers of a called function are gone when it returns.",
    reference=_GUIDE,
)
FOREIGN = Rule(
    id="function.foreign",
    message="foreign function {function}: {problem}",
    fix="{advice}",
    why=(
        "The PTX of another compiler is linked as it is: a call by another signature passes other bits, "
        "and no analysis sees what the text does beyond its declared effects."
    ),
    reference="docs/linking.md, Functions of other compilers; PTX ISA 7.1 (function declarations and definitions)",
)
FOREIGN_EFFECTS = Rule(
    id="function.foreign-effects",
    message="foreign function {function}: {instruction} {does}, and effects={given!r} says otherwise",
    fix="write effects={wanted!r}",
    why="LLVM moves, merges and drops calls by their effects, and the analyses rely on them.",
    reference="docs/linking.md, Functions of other compilers; LLVM Language Reference, Inline Asm",
)
