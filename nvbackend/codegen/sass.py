"""A cubin as SASS text, by nvdisasm or cuobjdump."""

from __future__ import annotations

import re
from collections import Counter

from nvbackend.codegen.toolchain import Tool, find_disassembler
from nvbackend.diagnostics import Rule, user_facing

FAILED = Rule(
    id="sass.failed",
    message="{tool} {release} cannot disassemble the cubin: {said}",
    fix="take a disassembler of the release of the ptxas that made the cubin, or a newer one",
    why="A disassembler knows no chip that is younger than itself.",
    reference="CUDA Binary Utilities (nvdisasm, cuobjdump)",
)

_INSTRUCTION = re.compile(
    r"^\s*(?:/\*[0-9a-f]{4,}\*/\s+)?\{?\s*(?:@!?U?PT?\d*\s+)?(?P<opcode>[A-Z][A-Z0-9_]*)(?P<modifiers>(?:\.\w+)*)[^;]*;",
)


@user_facing
def disassemble(cubin: bytes, *, tool: Tool | None = None, lines: bool = False) -> str:
    """The SASS of every kernel of `cubin`, with comments of source lines and their callers if `lines`, by nvdisasm.

    Raises sass.missing without a disassembler, or sass.failed.
    """
    tool = tool or find_disassembler()
    arguments = ["-sass"] if tool.path.name.startswith("cuobjdump") else ["--print-code"]
    if lines and not tool.path.name.startswith("cuobjdump"):
        arguments.append("--print-line-info-inline")
    with tool.directory("kernel.cubin", cubin) as directory:
        done = tool.run([*arguments, "kernel.cubin"], directory)
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip() or f"exit status {done.returncode}"
        FAILED.fail(tool=tool.path.name, release=tool.release, said=said)
    return done.stdout


@user_facing
def count_instructions(sass: str) -> dict[str, int]:
    """How often each opcode occurs in `sass`, without its modifiers (HGMMA, STG, ...), the most frequent first.

    NOP, and the branch to itself after every kernel's end, are padding and counted like the rest.
    """
    counts = Counter(match["opcode"] for line in sass.splitlines() if (match := _INSTRUCTION.match(line)))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
