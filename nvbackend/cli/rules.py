"""What a command line can get wrong."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

USAGE = Rule(
    id="cli.usage",
    message="{problem}",
    fix="{usage}",
    why="There is nothing that could be done with it.",
    reference="nvbackend --help",
)
UNKNOWN_FAMILY = Rule(
    id="cli.family",
    message="{given!r} is not a family of instructions",
    fix="use one of {known}{nearest}",
    why="An empty list would look as if the family had no rows.",
    reference="nvbackend catalogue --help",
)
UNKNOWN_SPELLING = Rule(
    id="cli.spelling",
    message="{given!r} is not the spelling of an instruction that nvbackend knows",
    fix="{nearest}",
    why="The catalogue holds what the PTX ISA documents and ptxas accepts, with all qualifiers in its order.",
    reference="nvbackend catalogue",
)
