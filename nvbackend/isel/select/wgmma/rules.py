"""The rules of what wgmma may be: their texts. The gates that ask them are in `select`."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

TARGET = Rule(
    id="wgmma.target",
    message="{target} has no wgmma",
    fix="{instead}",
    why="LLVM passes the asm on as it is, and ptxas refuses it.",
    reference="PTX ISA 9.7.15.5.2 (Target ISA Notes)",
)
PTX_VERSION = Rule(
    id="wgmma.ptx-version",
    message="{what} needs PTX {needed} or later; {target} is compiled with PTX {given}",
    fix="leave the PTX version of the target out, or give {needed} or later",
    why="ptxas refuses the instruction.",
    reference="PTX ISA 9.7.15.5.2 and 9.7.15.6.3 (PTX ISA Notes); ptxas 13.5",
)
FOUR_BIT = Rule(
    id="wgmma.four-bit",
    message="WGMMA has no s4/u4 multiplicands ({product})",
    fix="widen them to {wider} (k={k}, D of type {d}), or use mma.sync, which emulates 4-bit integers on sm_90",
    why="One document lists them; no ptxas takes them.",
    reference="PTX ISA 9.7.15.3; ptxas 13.5",
)
TYPES = Rule(
    id="wgmma.types",
    message="WGMMA {expects}, not {product}",
    fix="{instead}",
    why="ptxas refuses the combination; one that it took would be read with the wrong width.",
    reference="PTX ISA 9.7.15.3; ptxas 13.5",
)
M_EXTENT = Rule(
    id="wgmma.m",
    message="WGMMA M is {legal}, not {m}",
    fix="use m={legal} for each warpgroup, and more warpgroups or more instructions for more rows",
    why="The four warps of the warpgroup hold 16 rows each.",
    reference="PTX ISA 9.7.15.2",
)
N_STEP = Rule(
    id="wgmma.n-step",
    message="WGMMA N must be a multiple of {step}, not {n}",
    fix="use n={nearest}",
    why="The instruction writes D in blocks of eight columns; no other N has an encoding.",
    reference="PTX ISA 9.7.15.2; ptxas 13.5",
)
N_RANGE = Rule(
    id="wgmma.n-range",
    message="WGMMA N is {lowest} to {highest}, not {n}",
    fix="use n={nearest}, and several instructions for a wider tile",
    why="No other N has an encoding.",
    reference="PTX ISA 9.7.15.2",
)
N_INTEGER = Rule(
    id="wgmma.n-integer",
    message="WGMMA {a} x {b} has no N of {n}: above 32, integer and b1 multiplicands take every second N only",
    fix="use n={nearest}",
    why="ptxas refuses the shape, though one document lists it.",
    reference="PTX ISA 9.7.15.2; ptxas 13.5",
)
K_EXTENT = Rule(
    id="wgmma.k",
    message="WGMMA K must be {legal} for {dense} {a} x {b}, not {k}",
    fix="use k={legal} in each instruction, and one instruction for each {legal} columns of A",
    why="An instruction reads 256 bits of each stored row of A; ptxas knows no shape with another K.",
    reference="PTX ISA 9.7.15.2; ptxas 13.5",
)
SPARSE = Rule(
    id="wgmma.sparse",
    message="WGMMA {a} x {b} has no sparse form",
    fix="use the dense instruction, or A and B of one of the types {legal}",
    why="ptxas knows no shape for it.",
    reference="PTX ISA 9.7.15.6.3; ptxas 13.5",
)
SELECTOR = Rule(
    id="wgmma.selector",
    message="the sparsity selector of {dense} wgmma {a} x {b} is {legal}, not {selector}",
    fix="use selector {legal}",
    why="It names the threads whose metadata counts: with another one ptxas stops, or metadata is not read.",
    reference="PTX ISA 9.7.15.6.3; ptxas 13.5",
)
POPC = Rule(
    id="wgmma.popc",
    message="WGMMA {a} x {b} has no .{popc}.popc, only .{legal}.popc",
    fix="use .{legal}.popc: popc(a ^ b) is popc(a) + popc(b) - 2 * popc(a & b); "
    "or use mma.sync, which emulates .xor.popc on sm_90",
    why="One document lists .xor.popc; no ptxas takes it for wgmma.",
    reference="PTX ISA 9.7.15.5.2; ptxas 13.5",
)
SATFINITE = Rule(
    id="wgmma.satfinite",
    message="WGMMA {product} has no .satfinite",
    fix="leave satfinite out; only A/B of type {legal} have it",
    why="ptxas refuses the modifier.",
    reference="PTX ISA 9.7.15.5.2; ptxas 13.5",
)
NEGATE = Rule(
    id="wgmma.negate",
    message="WGMMA {a} x {b} cannot negate an operand",
    fix="negate the values where they are made, or the accumulator where it is read",
    why="The instruction has no place for the sign, and would add where it should subtract.",
    reference="PTX ISA 9.7.15.5.2 (imm-scale-a, imm-scale-b)",
)
TRANSPOSE = Rule(
    id="wgmma.transpose",
    message="{reason} (trans_a={trans_a}, trans_b={trans_b})",
    fix="{instead}",
    why="The instruction has no place for the flag: the operand would be read as if it were K-major.",
    reference="PTX ISA 9.7.15.5.2 (imm-trans-a, imm-trans-b)",
)
WAIT_RANGE = Rule(
    id="wgmma.wait-range",
    message="wgmma.wait_group {given}: the number of groups that may stay in flight is {legal}",
    fix="use {legal}; 0 drains every committed group",
    why="The field has no more bits: ptxas silently encodes the highest number in place of a larger one.",
    reference="PTX ISA 9.7.15.7.3 (wgmma.wait_group)",
)
