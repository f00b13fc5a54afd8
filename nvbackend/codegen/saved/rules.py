"""What can be wrong with the file of a saved kernel, and with what is saved."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_REFERENCE = "docs/looking.md, Saving and loading"

FILE = Rule(
    id="saved.file",
    message="{path} cannot be {done}: {problem}",
    fix="{advice}",
    why="There is nothing to load, or nowhere to save.",
    reference=_REFERENCE,
)
DAMAGED = Rule(
    id="saved.damaged",
    message="{path} is not a whole file of a saved kernel: {problem}",
    fix="save the kernel again with compiled.save(path), and copy the file as bytes",
    why="A kernel with wrong bits would load, launch and give wrong numbers.",
    reference=_REFERENCE,
)
FORMAT = Rule(
    id="saved.format",
    message="{path} has format {given} of nvbackend {version}; this is nvbackend {own}, which reads format {readable}",
    fix="save the kernel again with this nvbackend, or load it with that one",
    why="A field with another meaning would be read as something else.",
    reference=_REFERENCE,
)
TOGETHER = Rule(
    id="saved.together",
    message="kernel {name} for {target} cannot be in one file with {first} for {first_target}: {problem}",
    fix="{advice}",
    why="A loader chooses among the targets of a file by the device, and then takes the same arguments.",
    reference=_REFERENCE,
)
HOLDS = Rule(
    id="saved.holds",
    message="{path} holds a {held}, not a {wanted}, which {call} reads",
    fix="write {right}({path!r})",
    why="A module is launched by the names of its kernels.",
    reference=_REFERENCE,
)
