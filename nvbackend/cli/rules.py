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
SIMULATE = Rule(
    id="cli.simulate",
    message="{problem}",
    fix="{fix}",
    why="There is nothing that could be run.",
    reference="nvbackend simulate --help",
)
LINT = Rule(
    id="cli.lint",
    message="{problem}",
    fix="{fix}",
    why="There is no text whose instructions could be looked up.",
    reference="nvbackend lint --help",
)
LINE = Rule(
    id="cli.line",
    message="{problem}",
    fix="{fix}",
    why="No row of the catalogue has this spelling, so there is nothing to explain.",
    reference="nvbackend explain --help",
)
UNKNOWN_FAMILY = Rule(
    id="cli.family",
    message="{given!r} is not a family of {kind}",
    fix="use one of {known}{nearest}",
    why="An empty list would look as if the family had no members.",
    reference="nvbackend catalogue --help",
)
OWN_ROWS = Rule(
    id="cli.own-rows",
    message="no {what} come from {source}: {problem}",
    fix="name a module that Python can import, and in it a function of no arguments that gives nvb.{kind} objects: "
    "--{what} package.module:function",
    why="A list that lacks them would look complete.",
    reference="nvbackend catalogue --help; docs/guide.md, Rows of your own; docs/guide.md, Rules of your own",
)
UNKNOWN_SPELLING = Rule(
    id="cli.spelling",
    message="{given!r} is not {kind} that nvbackend knows",
    fix="use {nearest}",
    why="The catalogue holds what the PTX ISA documents and ptxas accepts, with all qualifiers in its order.",
    reference="nvbackend catalogue; nvbackend catalogue --all-rules",
)
DRAW = Rule(
    id="cli.draw",
    message="{problem}",
    fix="draw a layout as it is, or with one of --tile 16x8 (threads and values), --banks 16, --memory 16 and "
    "--banks 32 --access 4; an instruction with --operand d; an MMA atom with --operand C, --atoms 2x2x1 and --by warp",
    why="The picture would show something else than was meant.",
    reference="nvbackend draw --help",
)
OPERAND = Rule(
    id="cli.operand",
    message="the threads that execute {spelling} do not hold a fragment of {operand}",
    fix="{has}",
    why="Descriptors and addresses are not shared out among threads.",
    reference="nvbackend explain",
)
OUTPUT = Rule(
    id="cli.output",
    message="{file} cannot be written: {problem}",
    fix="give a file in a directory that exists and may be written to",
    why="What was made would be lost.",
    reference="nvbackend build --help; nvbackend draw --help; nvbackend simulate --help",
)
WORD = Rule(
    id="cli.word",
    message="{problem}",
    fix="{fix}",
    why="Another word than the one that was meant would be printed.",
    reference="nvbackend decode --help; nvbackend encode --help",
)
BUILD = Rule(
    id="cli.build",
    message="{problem}",
    fix="{fix}",
    why="There is no kernel that could be built.",
    reference="nvbackend build --help; docs/looking.md",
)
