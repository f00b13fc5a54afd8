"""NVBACKEND_DUMP=DIR: every form of each kernel that a program compiles, in folders of DIR. Results do not change."""

from __future__ import annotations

from pathlib import Path

from nvbackend.codegen.cache import sha256
from nvbackend.codegen.looking.asked import DUMP, asked
from nvbackend.diagnostics import DiagnosticError, Rule

_DIGITS = 8

WRITE = Rule(
    id="dump.write",
    message=f"{DUMP}={{folder}}: {{problem}}",
    fix="name a folder that can be written to, or unset the variable",
    why="The forms that were asked for would be missing.",
    reference="docs/looking.md, Every kernel of a program",
)


class Dump:
    """The folder of one compile, NAME-TARGET-HASH of its IR. Nothing is written where the variable is not set."""

    def __init__(self, name: str, target: str, ir: str) -> None:
        chosen = asked(DUMP)
        self.is_wanted = bool(chosen)
        digest = sha256(ir.encode()).hexdigest()[:_DIGITS] if chosen else ""
        self._folder = Path(chosen) / f"{name}-{target}-{digest}"

    def write(self, **forms: str | bytes) -> None:
        """Write each form to a file of its name, whose underscores are dots. Raises dump.write."""
        if not self.is_wanted:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, content in forms.items():
                data = content if isinstance(content, bytes) else content.encode()
                (self._folder / name.replace("_", ".")).write_bytes(data)
        except (OSError, ValueError) as error:
            WRITE.fail(folder=asked(DUMP), problem=getattr(error, "strerror", None) or error)

    def write_cubin(self, cubin: bytes) -> None:
        """The cubin, and its SASS where a disassembler is found."""
        if not self.is_wanted:
            return
        from nvbackend.codegen.sass import disassemble

        try:
            sass = disassemble(cubin, lines=True)
        except DiagnosticError as error:
            sass = f"{error}\n"
        self.write(kernel_cubin=cubin, kernel_sass=sass)
