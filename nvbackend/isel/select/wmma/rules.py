"""The rules of what wmma may be: their texts. The gates that ask them are in `select`."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

TARGET = Rule(
    id="wmma.target",
    message="{target} has no {instruction}",
    fix="use {alternative}, or compile for {targets}",
    why="LLVM ends the process where it cannot select the instruction, and ptxas refuses it.",
    reference="PTX ISA 9.7.14.4.3 to 9.7.14.4.5 (Target ISA Notes); ptxas 13.5",
)
PTX_VERSION = Rule(
    id="wmma.ptx-version",
    message="{instruction} needs PTX {needed} or later; {target} is compiled with PTX {given}",
    fix="leave the PTX version of the target out, or give {needed} or later",
    why="LLVM ends the process, or ptxas refuses the instruction.",
    reference="PTX ISA 9.7.14.4.3 to 9.7.14.4.5 (PTX ISA Notes: .aligned is PTX 6.3)",
)
TYPES = Rule(
    id="wmma.types",
    message="wmma.mma does not multiply {a} x {b} + {c} -> {d}",
    fix="use {instead}",
    why="No ptxas takes the combination, and LLVM takes the unknown intrinsic for an external function.",
    reference="PTX ISA 9.7.14.4.5",
)
SHAPE = Rule(
    id="wmma.shape",
    message="wmma.mma {a} has no shape {given}{remark}",
    fix="use {legal}",
    why="LLVM takes the unknown intrinsic for an external function, and ptxas refuses most of the others.",
    reference="PTX ISA 9.7.14.2; ptxas 13.5",
)
_LAYOUT = Rule(
    id="wmma.layout",
    message="{instruction} takes layout {legal}, not {given}",
    fix="use {legal}: store the matrix so that the K elements of a row of A, or of a column of B, follow one another",
    why="LLVM and ptxas know no other spelling; elements smaller than a byte are read along K only.",
    reference="PTX ISA 9.7.14.4.3, 9.7.14.4.5",
)
SATFINITE = Rule(
    id="wmma.satfinite",
    message="wmma.mma {a} has no .satfinite",
    fix="leave satfinite out; multiplicands of {legal} have it",
    why="LLVM prints it for f16, where PTX dropped it in 6.5, and ptxas refuses it.",
    reference="PTX ISA 9.7.14.4.5; ptxas 13.5",
)
ROUNDING = Rule(
    id="wmma.rounding",
    message="wmma.mma {a} has no rounding {given!r}",
    fix="{instead}",
    why="Other types round as the tensor core does; LLVM takes the unknown intrinsic for an external function.",
    reference="PTX ISA 9.7.14.4.5 (.rnd)",
)
POPC = Rule(
    id="wmma.popc",
    message="{problem}",
    fix="{instead}",
    why="b1 counts the ones of a bit operation in place of multiplying; the operation is part of the name.",
    reference="PTX ISA 9.7.14.4.5 (single-bit wmma)",
)
FRAGMENT = Rule(
    id="wmma.fragment",
    message="wmma.{operation} does not move a fragment {given!r}",
    fix="use {legal}",
    why="The instruction does not exist: A, B and C are loaded, D is stored.",
    reference="PTX ISA 9.7.14.4.3, 9.7.14.4.4",
)
FRAGMENT_TYPE = Rule(
    id="wmma.fragment-type",
    message="wmma has no fragment {fragment} of {shape} {element}",
    fix="use {legal}",
    why="LLVM takes the unknown intrinsic for an external function; no wmma.mma takes such a fragment.",
    reference="PTX ISA 9.7.14.4.1; ptxas 13.5",
)
SPACE = Rule(
    id="wmma.space",
    message="wmma.{operation} does not reach the state space {given!r}",
    fix="use {legal}, or None for a generic address",
    why="ptxas refuses other state spaces; the shared memory of other CTAs is not reached.",
    reference="PTX ISA 9.7.14.4.3, 9.7.14.4.4 (.ss)",
)
