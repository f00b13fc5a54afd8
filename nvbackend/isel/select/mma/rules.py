"""The rules of what mma.sync may be: their texts. The gates that ask them are in `select`."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

TYPES = Rule(
    id="mma.types",
    message="mma does not multiply {a} x {b}",
    fix="use {legal}",
    why="ptxas refuses the types; ones that it took would be read with the wrong width.",
    reference="PTX ISA 9.7.14.2 (matrix data types); ptxas 13.5",
)
KIND = Rule(
    id="mma.kind",
    message="mma {a} x {b} takes {legal}; given: {kind}",
    fix="use {arguments}",
    why="The kind says how wide an element is in its register, so ptxas refuses another one, or does not look at it.",
    reference="PTX ISA 9.7.14.5.14; ptxas 13.5",
)
SPARSITY = Rule(
    id="mma.sparsity",
    message="mma {product} takes {legal}; given: {sparsity}",
    fix="use {legal}",
    why="ptxas knows no such instruction.",
    reference="PTX ISA 9.7.14.6.3; ptxas 13.5",
)
OPERATION = Rule(
    id="mma.operation",
    message="mma {product} needs {legal} as its operation, and has {operation}",
    fix="use {legal}",
    why="Single bits are combined by a bit operation and their ones counted; numbers are multiplied.",
    reference="PTX ISA 9.7.14.5.14 (.bitOp.popc)",
)
EXTENT = Rule(
    id="mma.extent",
    message="mma {product} has no shape {shape}",
    fix="use {legal}, and several instructions for a larger tile",
    why="ptxas knows no such shape.",
    reference="PTX ISA 9.7.14.1 (matrix shapes); ptxas 13.5",
)
ACCUMULATORS = Rule(
    id="mma.accumulators",
    message="mma {product} has {legal}, not D of type {d} and C of type {c}",
    fix="use {legal}",
    why="ptxas refuses the types.",
    reference="PTX ISA 9.7.14.2 (matrix data types); ptxas 13.5",
)
LAYOUTS = Rule(
    id="mma.layouts",
    message="mma {product} multiplies A and B as {legal}, not as {a_layout} and {b_layout}",
    fix="use {legal}, and load the operand transposed where it lies the other way (ldmatrix with .trans)",
    why="Only m8n8k4 of f16 has the choice: the fragments of the other shapes are those of one layout.",
    reference="PTX ISA 9.7.14.5.14 (.alayout, .blayout)",
)
SCALE = Rule(
    id="mma.scale",
    message="mma {product} takes {legal}; given: {given}",
    fix="use {legal}",
    why="The kind says how many elements share a scale factor and how it is written; ptxas refuses the rest.",
    reference="PTX ISA 9.7.14.3 (block scaling); ptxas 13.5",
)
SATFINITE = Rule(
    id="mma.satfinite",
    message="mma {product} has no .satfinite",
    fix="leave satfinite out: only integers of 8 and 4 bits have it",
    why="ptxas refuses the modifier.",
    reference="PTX ISA 9.7.14.5.14 (.satfinite)",
)
TARGET = Rule(
    id="mma.target",
    message="{target} has no mma {product}",
    fix="compile for {targets}, or use types that {target} multiplies",
    why="LLVM ends the process on what it cannot select, and ptxas refuses the instruction.",
    reference="PTX ISA 9.7.14.5.14, 9.7.14.6.3 (Target ISA Notes); ptxas 13.5",
)
PTX_VERSION = Rule(
    id="mma.ptx-version",
    message="mma {product} needs PTX {needed} or later; {target} is compiled with PTX {given}",
    fix="leave the PTX version of the target out, or give {needed} or later",
    why="LLVM ends the process on what it cannot select, and ptxas refuses the instruction.",
    reference="PTX ISA 9.7.14.5.14, 9.7.14.6.3 (PTX ISA Notes); ptxas 13.5",
)
IMMEDIATE = Rule(
    id="mma.immediate",
    message="the {name} of mma {product} is {legal}, not {given}",
    fix="use {legal}",
    why="It names the threads or bytes that count: ptxas refuses another one, or the hardware reads what is not meant.",
    reference="PTX ISA 9.7.14.3 (byte-id, thread-id), 9.7.14.6.1 (sparsity selector)",
)
